// Exchanges the list of a page for that of another filter, order or part of it, without a new page:
// it fetches the address as the browser would, and takes the content of <main> from it. The address
// names the list that is there at all times. In doubt the browser opens the address itself.
"use strict";

const main = document.getElementById("main");
const exchangeNote = document.getElementById("exchange");
const BUSY_MS = 400; // until the page says that it is loading
const ANSWER_MS_MAX = 30_000;
const CONNECT = "hx-sse:connect";
const PLACES = ["form.filters", "ul.tabs", "thead"]; // where focus stays when the list is exchanged
const FOCUSABLE = "a[href], button, input:not([type=hidden]), select, summary";

const readAddress = () => location.pathname + location.search;
let listAddress = readAddress();
let exchange = new AbortController();

function canExchange(url) {
  return (
    main.dataset.exchange !== undefined &&
    window.htmx !== undefined && // it is loaded after the first paint
    url.origin === location.origin &&
    [location.pathname, `${location.pathname}/filter`].includes(url.pathname) &&
    url.hash === ""
  );
}

// `mode`: busy or failed, or none for what only screen readers read.
function noteExchange(text, mode = "", address = "") {
  exchangeNote.dataset.mode = mode;
  exchangeNote.querySelector("[data-text]").textContent = text;
  exchangeNote.querySelector("a").href = address;
}

function setBusy(isBusy) {
  main.setAttribute("aria-busy", String(isBusy));
  if (!isBusy && exchangeNote.dataset.mode === "busy") {
    noteExchange("");
  }
}

// The styles and scripts of the page, and its user: a list that was made for others is a new page.
function isOfThisPage(text) {
  const parts = document.querySelectorAll("link[rel=stylesheet], script[data-htmx], header .who");
  const isSameUser = parts.length === 3 || !text.includes('class="who"');
  return isSameUser && [...parts].every((part) => text.includes(part.outerHTML));
}

function describeList() {
  const list = document.getElementById("live");
  const empty = list.querySelector(".empty strong");
  const table = list.querySelector("table");
  const rows = table?.tBodies[0].rows.length;
  const summary = list.querySelector(":scope > p.sub")?.textContent.trim() ?? "";
  const what = empty?.textContent ?? (table?.caption && `${table.caption.textContent}: ${rows} row${rows === 1 ? "" : "s"}.`);
  return [summary, what].filter(Boolean).join(" ");
}

const nameOf = (element) => element.name || element.textContent.trim();

// Where the focus is, as a function that puts it there in the list that is exchanged for this one: on
// the same field or link, for a filter that was removed on the next one, or else on the list.
function findFocus() {
  const focused = document.activeElement;
  if (!main.contains(focused)) {
    return () => {};
  }
  const kind = PLACES.find((place) => focused.closest(place)) ?? "#live";
  const place = [...main.querySelectorAll(kind)].indexOf(focused.closest(kind));
  const listParts = (selector) => [...(main.querySelectorAll(kind)[place]?.querySelectorAll(selector) ?? [])];
  const listEqual = () => listParts(FOCUSABLE).filter((each) => nameOf(each) === nameOf(focused));
  const number = listEqual().indexOf(focused);
  const chip = listParts(".chip").indexOf(focused);
  return () => {
    const chips = chip < 0 ? [] : listParts(".chip");
    const same = kind === "#live" ? undefined : listEqual()[number];
    const next = same ?? chips[Math.min(chip, chips.length - 1)] ?? document.getElementById("live");
    next.closest("details")?.setAttribute("open", "");
    if (next.id === "live") {
      next.tabIndex = -1;
      next.addEventListener("blur", () => next.removeAttribute("tabindex"), { once: true });
    }
    next.focus({ preventScroll: true });
  };
}

// The new list begins in the window, whichever part of the old one was there.
function scrollToList(top) {
  window.scrollTo({ top, behavior: "instant" });
  const list = document.getElementById("live");
  if (list.getBoundingClientRect().top < 0) {
    list.scrollIntoView({ behavior: "instant" });
  }
}

// The stream of the new list begins when the list has been painted, as that of a new page does.
// htmx ends the one before, unless the server has not answered to it yet.
let laterStream = null;

document.addEventListener("htmx:before:swap", ({ detail: { ctx, tasks } }) => {
  if (ctx.target === main) {
    htmx.trigger("#live", "htmx:abort");
    const list = tasks[0].fragment.querySelector("#live");
    laterStream = list.getAttribute(CONNECT);
    list.removeAttribute(CONNECT);
  }
});

function beginStream(list, address) {
  requestAnimationFrame(() =>
    setTimeout(() => {
      list.setAttribute(CONNECT, address);
      htmx.process(list);
    }),
  );
}

async function swapList(text) {
  const putFocus = findFocus();
  const isMore = main.querySelector("details.more")?.open ?? false;
  await htmx.swap({ text, sourceElement: main, target: main, select: "#main", swap: "innerHTML strip:true settle:0" });
  main.querySelector("details.more")?.toggleAttribute("open", isMore);
  putFocus();
  beginStream(document.getElementById("live"), laterStream);
  document.dispatchEvent(new CustomEvent("fairlead:exchange"));
}

async function showList(text, address, isTraversal) {
  const top = window.scrollY;
  if (!isTraversal) {
    // Otherwise the browser scrolls when it goes back, before the list is there.
    history.scrollRestoration = "manual";
    keepScrollPosition();
    history[address === readAddress() ? "replaceState" : "pushState"](null, "", address);
  }
  listAddress = address;
  await swapList(text);
  if (isTraversal) {
    restoreScrollPosition();
  } else {
    scrollToList(top);
    keepScrollPosition();
  }
  setBusy(false);
  noteExchange(describeList());
}

// The page of an address; `failure` says why it cannot be read now.
async function fetchPage(address, signal) {
  try {
    const response = await fetch(address, {
      headers: { Accept: "text/html" },
      signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS_MAX)]),
    });
    const text = await response.text();
    const isBroken = response.status >= 500 || response.status === 429;
    return { response, text, failure: isBroken ? describeFailure(response, null) : "" };
  } catch {
    return { failure: UNREACHABLE };
  }
}

// `isTraversal`: back or forward, so the address is that of the new list already.
async function exchangeList(address, isTraversal = false) {
  exchange.abort();
  exchange = new AbortController();
  const { signal } = exchange;
  setBusy(true);
  noteExchange("");
  const timer = setTimeout(() => noteExchange("Loading…", "busy"), BUSY_MS);
  signal.addEventListener("abort", () => clearTimeout(timer));
  const { response, text, failure } = await fetchPage(address, signal);
  clearTimeout(timer);
  if (signal.aborted) {
    return;
  }
  if (failure && readAddress() === listAddress) {
    setBusy(false);
    noteExchange(`The list was not changed. ${failure}`, "failed", address);
    return;
  }
  const { pathname, search } = new URL(response?.url ?? address, location.origin);
  if (!response?.ok || pathname !== location.pathname || !isOfThisPage(text)) {
    openPage(address, isTraversal); // such as the page to sign in
    return;
  }
  try {
    await showList(text, pathname + search, isTraversal);
  } catch (error) {
    reportError(error);
    location.reload();
  }
}

function openPage(address, isTraversal) {
  if (isTraversal) {
    location.reload();
  } else {
    location.assign(address);
  }
}

function abortExchange() {
  exchange.abort();
  setBusy(false);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const isPlain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!link || !isPlain || event.defaultPrevented || link.target || link.hasAttribute("download")) {
    return;
  }
  if (main.contains(link) && canExchange(new URL(link.href))) {
    event.preventDefault();
    exchangeList(link.href);
  }
});
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || !main.contains(form) || !form.matches("[role=search]")) {
    return;
  }
  const url = new URL(form.action);
  url.search = new URLSearchParams(new FormData(form, event.submitter));
  if (canExchange(url)) {
    event.preventDefault();
    exchangeList(url.href);
  }
});
window.addEventListener("popstate", () => {
  abortExchange();
  if (readAddress() === listAddress) {
    restoreScrollPosition(); // only the fragment differs, or the list was not exchanged yet
    return;
  }
  for (const dialog of document.querySelectorAll("dialog[open]")) {
    dialog.close();
  }
  if (canExchange(new URL(readAddress(), location.origin))) {
    exchangeList(readAddress(), true);
  } else {
    location.reload();
  }
});
exchangeNote.querySelector("button").addEventListener("click", () => noteExchange(""));
// Another page is about to be opened, which a late answer must not prevent. After back and forward the
// list has to become that of the address, in case that the browser stays, as for a download.
window.addEventListener("beforeunload", () => {
  if (readAddress() === listAddress) {
    abortExchange();
  }
});

// Where the page is scrolled to is part of its entry in the browser's history, as soon as scrolling is
// not left to the browser.
function keepScrollPosition() {
  if (history.scrollRestoration === "manual" && readAddress() === listAddress) {
    history.replaceState({ top: window.scrollY }, "");
  }
}

function restoreScrollPosition() {
  if (history.scrollRestoration === "manual" && history.state) {
    window.scrollTo({ top: history.state.top, behavior: "instant" });
  }
}

window.addEventListener("scrollend", keepScrollPosition);
window.addEventListener("pagehide", keepScrollPosition);
restoreScrollPosition();
// The browser went to another list while the page was being loaded, or was left.
window.addEventListener("pageshow", () => {
  if (readAddress() !== listAddress) {
    location.reload();
  }
});
