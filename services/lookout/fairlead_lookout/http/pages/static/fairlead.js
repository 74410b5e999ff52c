// Updates "12 s ago": the server writes the time, the browser computes the difference.
"use strict";

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

function ago(then, now) {
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  if (seconds < 2) {
    return "just now";
  }
  const [size, unit] = UNITS.find(([size]) => seconds >= size);
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

function refresh() {
  for (const element of document.querySelectorAll("time[data-ago]")) {
    const text = ago(Date.parse(element.dateTime), Date.now());
    if (element.textContent !== text) {
      element.textContent = text;
    }
  }
}

refresh();
setInterval(refresh, 1000);
document.addEventListener("htmx:after:swap", refresh);

// Shows a message while the event stream is disconnected.
function connected(yes) {
  document.documentElement.toggleAttribute("data-disconnected", !yes);
}
document.addEventListener("htmx:sse:after:connection", () => connected(true));
document.addEventListener("htmx:sse:error", () => connected(false));
