// Lists, creates and revokes the caller's own tokens through the API.
"use strict";

const PATH = "/api/v1/tokens";
const element = (id) => document.getElementById(id);
let next = null;

function show(text, isError) {
  const result = element("token-result");
  result.textContent = text;
  result.classList.toggle("wrong", isError);
  result.hidden = false;
}

function addRow(token) {
  const row = element("token-row").content.firstElementChild.cloneNode(true);
  const set = (name, text) =>
    row.querySelectorAll(`[data-${name}]`).forEach((each) => (each.textContent = text));
  const setDay = (name, time) => {
    const element = row.querySelector(`[data-${name}]`);
    if (time) {
      element.dateTime = time;
    } else {
      element.replaceWith(element.textContent);
    }
  };
  const title = token.label || (token.kind === "session" ? "Browser session" : `Token ${token.id}`);
  set("title", title);
  set("kind", `${token.kind} ${token.id}`);
  set("roles", token.roles.join(", "));
  set("queues", token.queues ? token.queues.join(", ") : "all");
  setDay("created", token.createdAt);
  setDay("expires", token.expiresAt);
  const button = row.querySelector("button");
  button.setAttribute("aria-label", `Revoke ${title}`);
  button.addEventListener("click", () => revoke(token, title).catch((error) => show(error.message, true)));
  element("tokens").append(row);
}

async function list(cursor) {
  const { answer: page } = await requestApi(cursor ? `${PATH}?cursor=${encodeURIComponent(cursor)}` : PATH);
  if (!cursor) {
    element("tokens").replaceChildren();
  }
  page.tokens.forEach(addRow);
  showTimes();
  next = page.next;
  element("more-tokens").hidden = next === null;
  element("no-tokens").hidden = element("tokens").children.length > 0;
}

async function revoke(token, title) {
  const dialog = element("revoke");
  element("revoke-title").textContent = `Revoke ${title}?`;
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  if (dialog.returnValue === "confirm") {
    await requestApi(`${PATH}/${token.id}`, "DELETE");
    show(`${title} was revoked.`, false);
    await list(null);
  }
}

async function create(form) {
  const data = new FormData(form);
  const queues = data.get("queues").split(",").map((name) => name.trim()).filter(Boolean);
  const body = {
    roles: data.getAll("roles"),
    expiresInSeconds: Number(data.get("days")) * 86400,
    ...(data.get("label") && { label: data.get("label") }),
    ...(queues.length && { queues }),
  };
  const { answer: made } = await requestApi(PATH, "POST", body);
  element("token-result").hidden = true;
  const section = element("token-made");
  section.querySelector("[data-secret]").textContent = made.token;
  section.hidden = false;
  section.querySelector("[data-copy]").focus();
  form.reset();
  await list(null);
}

element("create-token").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.submitter;
  button.disabled = true; // a second click would create another token
  await create(event.target).catch((error) => show(error.message, true));
  button.disabled = false;
});
element("more-tokens").addEventListener("click", () => {
  list(next).catch((error) => show(error.message, true));
});
element("token-made").querySelector("[data-copy]").addEventListener("click", async (event) => {
  await copyText(element("token-made").querySelector("[data-secret]"), event.target);
});
list(null).catch((error) => show(error.message, true));
