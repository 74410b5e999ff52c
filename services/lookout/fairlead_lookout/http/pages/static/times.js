// Writes times as "12 s ago", and in the time zone that the user chose: UTC, or that of the browser.
"use strict";

const ZONE_SETTING = "fairlead.timeZone";
const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];
const DATE = { year: "numeric", month: "2-digit", day: "2-digit" };
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const FORMATS = {
  clock: CLOCK,
  seconds: { ...CLOCK, second: "2-digit" },
  minute: { ...DATE, ...CLOCK },
  day: DATE,
  time: { ...DATE, ...CLOCK, second: "2-digit", timeZoneName: "short" },
};
const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
let zone = localStorage.getItem(ZONE_SETTING) === "browser" ? ownZone : "UTC";

function describeAge(then, now) {
  const seconds = Math.abs(Math.round((now - then) / 1000));
  if (seconds < 2) {
    return "just now";
  }
  const [size, unit] = UNITS.find(([size]) => seconds >= size);
  const length = `${Math.floor(seconds / size)} ${unit}`;
  return then > now ? `in ${length}` : `${length} ago`;
}

const formatters = new Map(); // making one takes longer than using it

// Swedish dates are written as in ISO 8601.
function formatInZone(time, format) {
  const key = `${format} ${zone}`;
  if (!formatters.has(key)) {
    formatters.set(key, new Intl.DateTimeFormat("sv-SE", { ...FORMATS[format], timeZone: zone }));
  }
  return formatters.get(key).format(time);
}

function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

function showAges() {
  for (const element of document.querySelectorAll("time[data-ago]")) {
    setText(element, describeAge(Date.parse(element.dateTime), Date.now()));
  }
}

function showTimes() {
  showAges();
  for (const element of document.querySelectorAll("time")) {
    const time = Date.parse(element.dateTime);
    if ("ago" in element.dataset) {
      element.title = formatInZone(time, "time");
    } else {
      setText(element, formatInZone(time, element.dataset.format ?? "time"));
    }
  }
  for (const element of document.querySelectorAll("[data-zone]")) {
    setText(element, `Times in ${zone}.`);
  }
}

const zoneButton = document.querySelector("[data-choose-zone]");

function showZone() {
  zoneButton.textContent = `Times: ${zone}`;
  zoneButton.hidden = ownZone === "UTC";
  showTimes();
}

zoneButton.addEventListener("click", () => {
  zone = zone === "UTC" ? ownZone : "UTC";
  localStorage.setItem(ZONE_SETTING, zone === "UTC" ? "utc" : "browser");
  showZone();
});
showZone();
setInterval(showAges, 1000);
document.addEventListener("htmx:after:swap", showTimes);
