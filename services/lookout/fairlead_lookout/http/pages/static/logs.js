// A log shows its end, unless its reader has scrolled away from there.
"use strict";

const END_PX = 30;
let atLogEnd = true;

document.addEventListener(
  "scroll",
  ({ target: log }) => {
    if (log.matches?.("pre.log")) {
      atLogEnd = log.scrollHeight - log.scrollTop - log.clientHeight < END_PX;
    }
  },
  true,
);

function showLogEnd() {
  const log = document.querySelector("pre.log");
  if (log && atLogEnd) {
    log.scrollTop = log.scrollHeight;
  }
}

showLogEnd();
document.addEventListener("htmx:after:swap", showLogEnd);
