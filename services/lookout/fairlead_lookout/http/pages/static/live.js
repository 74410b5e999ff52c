// The live mark (connecting, live, reconnecting, paused), and updates that move no row under the pointer.
"use strict";

// htmx, which connects the page to its stream, begins when the page has been painted: the user does
// not wait for its script, nor for the server's second answer.
const { htmx: htmxAddress } = document.currentScript.dataset;
requestAnimationFrame(() => setTimeout(loadHtmx));

function loadHtmx() {
  const script = document.createElement("script");
  script.src = htmxAddress;
  script.addEventListener("load", () => {
    if (document.querySelector(STREAM) === null) {
      noteStatus(200); // of the page itself: from now on its parts are read every 2 s
    }
  });
  script.addEventListener("error", () => {
    noteStatus(0);
    setTimeout(loadHtmx, CONNECT_AGAIN_MS);
  });
  document.body.append(script);
}

const liveMark = document.getElementById("live-mark");
const READ_PARTS = "[hx-trigger*='every']";
const STREAM = "[hx-sse\\:connect]";
const LIVE_PARTS = `${STREAM}, ${READ_PARTS}`;
const CONNECT_AGAIN_MS = 3000;
const SILENCE_MS_MAX = 40_000; // the server sends something every 15 s
const LISTEN_MS = 5000;
const SHORT_MS = 1000; // an exchanged list has its stream sooner: the mark does not flicker
let isPaused = false;
let lost = "connecting"; // or "", or why there are no updates: a key of MODES
let connection = null; // of the event stream
let heardAt = 0; // when it last sent something
let hasMissed = false; // an update, while paused

const MODES = {
  connecting: "Connecting",
  live: "Live",
  paused: "Paused",
  reconnecting: "Reconnecting",
  "signed-out": "Signed out",
  gone: "Gone",
};
// A page continues to request its updates, as each of these can end.
const LOST_BY_STATUS = { 401: "signed-out", 403: "gone", 404: "gone" };

function noteStatus(status) {
  const isAnswer = status >= 200 && status < 400;
  lost = isAnswer ? "" : (LOST_BY_STATUS[status] ?? "reconnecting");
  showLiveMark();
}

function showLiveMark() {
  const mode = isPaused ? "paused" : lost || "live";
  liveMark.dataset.mode = mode;
  liveMark.querySelector("[data-text]").textContent = MODES[mode];
  liveMark.title = isPaused ? "Continue updates (p)" : "Pause updates (p)";
  liveMark.setAttribute("aria-pressed", String(isPaused));
  liveMark.hidden = document.querySelector(LIVE_PARTS) === null;
  document.documentElement.toggleAttribute(
    "data-disconnected",
    !["", "connecting"].includes(lost) && !isPaused,
  );
  for (const text of document.querySelectorAll("[data-lost]")) {
    text.hidden = text.dataset.lost !== lost;
  }
}

function togglePause() {
  if (liveMark.hidden) {
    return;
  }
  isPaused = !isPaused;
  if (!isPaused && hasMissed) {
    hasMissed = false;
    connection?.reader?.cancel(); // it connects again, and gets the present state
  }
  showLiveMark();
}

liveMark.addEventListener("click", togglePause);
document.addEventListener("htmx:sse:after:connection", ({ detail }) => {
  connection = detail.connection;
  heardAt = Date.now();
  noteStatus(200);
});
document.addEventListener("htmx:sse:close", ({ detail }) => {
  if (detail.connection === connection) {
    connection = null; // its list was exchanged for another, whose stream begins
    lost = "connecting";
    setTimeout(showLiveMark, SHORT_MS);
  }
});
document.addEventListener("htmx:sse:error", ({ detail }) => noteStatus(detail.status ?? 0));
document.addEventListener("htmx:sse:before:message", (event) => {
  heardAt = Date.now();
  const isUpdate = !event.detail.message.event; // or the server says only that it is there
  if (isPaused && isUpdate) {
    hasMissed = true;
    event.preventDefault();
  }
});
// A server that hangs, and a network that is gone, end no connection.
setInterval(() => {
  if (connection?.reader && !document.hidden && Date.now() - heardAt > SILENCE_MS_MAX) {
    noteStatus(0);
    connection.reader.cancel(); // it connects again
  }
}, LISTEN_MS);
// Without a connection, the mark says how the last request ended: of a stream that has never begun,
// which the extension does not try again, or on a page without a stream of a part that is read every
// 2 s, where an error is not put in its place (`noSwap`).
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  const part = ctx.sourceElement;
  const parts = document.querySelector(STREAM) === null ? READ_PARTS : STREAM;
  if (connection !== null || !part.isConnected || !part.matches(parts)) {
    return;
  }
  noteStatus(ctx.response?.status ?? 0);
  const address = part.getAttribute("hx-sse:connect");
  if (address) {
    setTimeout(() => htmx.ajax("GET", address, { source: part }), CONNECT_AGAIN_MS);
  }
});
// A stream begins also while paused, but its messages are only noted as missed.
document.addEventListener("htmx:before:request", (event) => {
  if (isPaused && event.target.matches(READ_PARTS)) {
    event.preventDefault();
  }
});
showLiveMark();

// The row under the pointer, or else the focused one, stays where it is when rows above it come and
// go: the page scrolls by as much, or gets space.
let pointer = null;
let pinned = null;

function trackPointer(event) {
  pointer = event?.pointerType === "mouse" ? { x: event.clientX, y: event.clientY } : null;
  // Otherwise the browser scrolls as well.
  document.documentElement.style.overflowAnchor = pointer ? "none" : "";
}

function findPinnedRow() {
  const under = pointer && document.elementFromPoint(pointer.x, pointer.y);
  return (under ?? document.activeElement)?.closest("#live tr[id]");
}

function movedBy() {
  const row = document.getElementById(pinned.id);
  return row ? Math.round(row.getBoundingClientRect().top - pinned.top) : 0;
}

function keepPinnedRow() {
  const live = document.getElementById("live");
  window.scrollBy({ top: movedBy(), behavior: "instant" });
  const rest = movedBy();
  if (rest > 0) {
    live.style.paddingBottom = `${(parseFloat(live.style.paddingBottom) || 0) + rest}px`;
    window.scrollBy({ top: rest, behavior: "instant" });
  } else if (rest < 0) {
    live.style.paddingTop = `${(parseFloat(live.style.paddingTop) || 0) - rest}px`;
  }
}

// What the user has opened stays open.
let opened = [];

document.addEventListener("htmx:before:swap", () => {
  opened = [...document.querySelectorAll("#live details[open]")].map((details) => details.id);
});
document.addEventListener("htmx:after:swap", () => {
  for (const id of opened) {
    document.getElementById(id)?.setAttribute("open", "");
  }
});

document.addEventListener("pointermove", trackPointer, { passive: true });
document.documentElement.addEventListener("pointerleave", () => trackPointer(null));
document.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
  const row = ctx.target.id === "live" ? findPinnedRow() : null; // not of an exchanged list
  pinned = row ? { id: row.id, top: row.getBoundingClientRect().top } : null;
});
document.addEventListener("htmx:after:swap", () => {
  if (pinned) {
    keepPinnedRow();
  }
});
document.addEventListener(
  "pointerleave",
  ({ target }) => {
    if (target.id === "live") {
      target.style.paddingTop = target.style.paddingBottom = "";
    }
  },
  true,
);
