// Creates, changes, tests and deletes webhooks through the API, and shows a new secret once.
"use strict";

const WEBHOOKS = "/api/v1/webhooks";
const webhookForm = document.getElementById("create-webhook");
const webhookActions = document.getElementById("webhook-actions");
const webhookMade = document.getElementById("webhook-made");

function showSecret(secret) {
  webhookMade.querySelector("[data-secret]").textContent = secret;
  webhookMade.querySelector("[data-with-secret]").hidden = !secret;
  webhookMade.querySelector("[data-copy]").textContent = "Copy";
  webhookMade.hidden = false;
  webhookMade.scrollIntoView({ block: "nearest" });
  webhookMade.querySelector(secret ? "[data-copy]" : "[data-open-webhook]").focus();
}

function readWebhook() {
  const values = new FormData(webhookForm);
  const filter = {};
  for (const name of ["queue", "jobSet"]) {
    if (values.get(name)) {
      filter[name] = values.get(name);
    }
  }
  const types = values.getAll("types");
  if (types.length > 0) {
    filter.types = types;
  }
  const webhook = { kind: values.get("kind"), name: values.get("name"), filter, ordered: values.has("ordered") };
  for (const name of ["url", "format"]) {
    if (values.has(name)) {
      webhook[name] = values.get(name);
    }
  }
  if (values.has("recipients")) {
    webhook.recipients = values.get("recipients").split(/[\s,;]+/).filter(Boolean);
  }
  const groups = { template: ["subject", "text"], airflow: ["dag", "asset", "username", "password"] };
  for (const [group, names] of Object.entries(groups)) {
    const given = names.filter((name) => values.get(name));
    if (given.length > 0) {
      webhook[group] = Object.fromEntries(given.map((name) => [name, values.get(name)]));
    }
  }
  return webhook;
}

// Shows the fields of the chosen kind; hidden ones are not sent.
function showKind() {
  const kind = webhookForm.elements.kind.value;
  for (const part of webhookForm.querySelectorAll("[data-kinds]")) {
    part.hidden = !part.dataset.kinds.split(" ").includes(kind);
    for (const input of part.querySelectorAll("input, select, textarea")) {
      input.disabled = part.hidden;
    }
  }
}

async function createWebhook() {
  const result = document.getElementById("webhook-result");
  try {
    const { answer } = await requestApi(WEBHOOKS, "POST", readWebhook());
    const link = webhookMade.querySelector("[data-open-webhook]");
    link.href = `/webhooks/${encodeURIComponent(answer.name)}`;
    link.hidden = false;
    result.hidden = true;
    webhookForm.reset();
    showKind();
    showSecret(answer.secret || "");
  } catch (error) {
    result.textContent = error.message;
    result.hidden = false;
  }
}

// Waits until the user has closed a dialog; whether it was confirmed.
async function confirmWebhook(dialog) {
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return dialog.returnValue === "confirm";
}

// A replacement of the configuration as it is, but for this; secrets stay.
async function setEnabled(path, enabled) {
  const { answer: known, etag } = await requestApi(path, "GET");
  const { kind, url, filter, format, ordered, concurrency, template, recipients, airflow } = known;
  const body = { kind, filter, ordered, concurrency, template, airflow, enabled };
  if (url) {
    body.url = url;
  }
  if (kind === "webhook") {
    body.format = format;
  }
  if (recipients.length > 0) {
    body.recipients = recipients;
  }
  await requestApi(path, "PUT", body, { "If-Match": etag });
  return enabled ? "The webhook is enabled." : "The webhook is disabled.";
}

async function rotateSecret(path) {
  const dialog = document.getElementById("rotate-secret");
  if (!(await confirmWebhook(dialog))) {
    return "";
  }
  const overlapSeconds = Number(dialog.querySelector("select").value);
  const { answer } = await requestApi(`${path}/rotate`, "POST", { overlapSeconds });
  showSecret(answer.secret);
  return "";
}

async function deleteWebhook(path) {
  if (await confirmWebhook(document.getElementById("delete-webhook"))) {
    await requestApi(path, "DELETE");
    location.replace("/webhooks");
    return "The webhook is deleted.";
  }
  return "";
}

// A test or a replay.
async function sendAgain(path) {
  const { answer } = await requestApi(path, "POST");
  if (answer.replayed === undefined) {
    return answer.error || `Delivery ${answer.id}: ${answer.state.toLowerCase()}.`;
  }
  return answer.replay ? `Replay ${answer.replay.number} has started.` : `Deliveries that are sent again: ${answer.replayed}.`;
}

async function actOnWebhook({ post, enable, rotate }) {
  const path = `${WEBHOOKS}/${encodeURIComponent(webhookActions.dataset.name)}`;
  if (post !== undefined) {
    return sendAgain(post);
  }
  if (enable !== undefined) {
    return setEnabled(path, enable === "true");
  }
  return rotate === undefined ? deleteWebhook(path) : rotateSecret(path);
}

if (webhookForm) {
  webhookForm.elements.kind.addEventListener("change", showKind);
  showKind();
  webhookForm.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = webhookForm.querySelector("button");
    button.disabled = true;
    await createWebhook();
    button.disabled = false;
  });
}
if (webhookActions) {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button:is([data-post], [data-enable], [data-rotate], [data-delete])");
    if (!button) {
      return;
    }
    const outcome = document.getElementById("outcome");
    button.disabled = true;
    outcome.textContent = "post" in button.dataset ? "Sending…" : "";
    try {
      outcome.textContent = await actOnWebhook(button.dataset);
      document.getElementById("live").dispatchEvent(new Event("changed"));
    } catch (error) {
      outcome.textContent = error.message;
    }
    button.disabled = false;
  });
}
webhookMade.querySelector("[data-copy]").addEventListener("click", async (event) => {
  await copyText(webhookMade.querySelector("[data-secret]"), event.target);
});
