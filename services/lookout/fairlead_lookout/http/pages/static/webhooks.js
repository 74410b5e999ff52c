// Creates a webhook of any kind through the API, and shows its secret once.
"use strict";

const webhookForm = document.getElementById("create-webhook");
const webhookResult = document.getElementById("webhook-result");
const webhookMade = document.getElementById("webhook-made");

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
  const response = await fetch("/api/v1/webhooks", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(readWebhook()),
  });
  const answer = await response.json();
  if (!response.ok) {
    const errors = (answer.errors || []).map((each) => `${each.pointer.slice(1)} ${each.detail}`);
    throw new Error(errors.join(". ") || answer.detail);
  }
  webhookMade.querySelector("[data-secret]").textContent = answer.secret || "";
  webhookMade.querySelector("[data-with-secret]").hidden = !answer.secret;
  webhookMade.querySelector("[data-open-webhook]").href = `/webhooks/${encodeURIComponent(answer.name)}`;
  webhookMade.hidden = false;
  webhookResult.hidden = true;
  webhookForm.reset();
  showKind();
  webhookMade.scrollIntoView({ block: "nearest" });
}

webhookForm.elements.kind.addEventListener("change", showKind);
showKind();
webhookForm.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = webhookForm.querySelector("button");
  button.disabled = true;
  try {
    await createWebhook();
  } catch (error) {
    webhookResult.textContent = error.message;
    webhookResult.hidden = false;
  }
  button.disabled = false;
});
webhookMade.querySelector("[data-copy]").addEventListener("click", async (event) => {
  const secret = webhookMade.querySelector("[data-secret]");
  try {
    await navigator.clipboard.writeText(secret.textContent);
    event.target.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(secret); // the browser permits no access to the clipboard
  }
});
