// Keys and the command palette. Everything that they do works with links and forms too.
"use strict";

const SETTING = "fairlead.singleKeys";
const palette = document.getElementById("palette");
const keys = document.getElementById("keys");
const singleKeys = keys.querySelector("[data-single-keys]");

singleKeys.checked = localStorage.getItem(SETTING) !== "off";
singleKeys.addEventListener("change", () => {
  localStorage.setItem(SETTING, singleKeys.checked ? "on" : "off");
});

function isTyping(target) {
  return target.closest?.("input, textarea, select, [contenteditable]") != null;
}

// Moves the focus to the next (1) or previous (-1) of some links.
function moveFocus(links, step) {
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step;
  links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
}

// The first link of each row of the list: Enter opens it.
function rowLinks() {
  const rows = document.querySelectorAll("main tbody tr, main .found li");
  return [...rows].map((row) => row.querySelector("a[href]")).filter((link) => link !== null);
}

function focusFilter() {
  const filter = document.querySelector("main form[role=search] input:not([type=hidden])");
  if (filter) {
    filter.focus();
    filter.select();
  } else {
    openPalette();
  }
}

// The palette shows the results of the page /find.
const input = palette.querySelector("input");
const found = palette.querySelector("[data-found]");
const matches = palette.querySelector("[data-matches]");
const results = () => [...found.querySelectorAll("li a")];
let searching = new AbortController();

async function search() {
  searching.abort();
  searching = new AbortController();
  try {
    const address = `/find/results?q=${encodeURIComponent(input.value)}`;
    const response = await fetch(address, { signal: searching.signal });
    if (!response.ok) {
      throw new Error(describeFailure(response, null));
    }
    found.innerHTML = await response.text();
    const count = results().length;
    matches.textContent = count === 1 ? "1 result." : `${count} results.`;
    palette.dataset.query = input.value;
  } catch (error) {
    if (error.name !== "AbortError") {
      matches.textContent = error instanceof TypeError ? UNREACHABLE : error.message;
    }
  }
}

function openPalette() {
  if (!palette.open) {
    keys.close();
    palette.showModal();
    input.select();
    search();
  }
}

input.addEventListener("input", search);
palette.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (palette.dataset.query !== input.value) {
    await search();
  }
  results()[0]?.click();
});
palette.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (event.key === "ArrowUp" && document.activeElement === results()[0]) {
      input.focus();
    } else if (event.key === "ArrowDown" || document.activeElement !== input) {
      moveFocus(results(), event.key === "ArrowDown" ? 1 : -1);
    }
  }
});
for (const link of document.querySelectorAll("[data-open]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    link.dataset.open === "palette" ? openPalette() : keys.showModal();
  });
}

const KEYS = {
  "?": () => keys.showModal(),
  "/": focusFilter,
  j: () => moveFocus(rowLinks(), 1),
  k: () => moveFocus(rowLinks(), -1),
  p: togglePause,
};
let afterG = false;

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    palette.open ? palette.close() : openPalette();
    return;
  }
  const isFree = !document.querySelector("dialog[open]") && !isTyping(event.target);
  if (!isFree || !singleKeys.checked || event.ctrlKey || event.metaKey || event.altKey) {
    afterG = false;
    return;
  }
  if (event.key === "Shift") {
    return;
  }
  const page = afterG && document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  const act = page ? () => page.click() : !afterG && KEYS[event.key];
  afterG = !afterG && event.key === "g";
  if (act) {
    event.preventDefault();
    act();
  }
});
