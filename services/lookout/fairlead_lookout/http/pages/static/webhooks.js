// Creates a webhook through the API, and shows its secret once.
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
  return {
    name: values.get("name"),
    url: values.get("url"),
    filter,
    format: values.get("format"),
    ordered: values.has("ordered"),
  };
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
  webhookMade.querySelector("[data-secret]").textContent = answer.secret;
  webhookMade.querySelector("[data-open-webhook]").href = `/webhooks/${encodeURIComponent(answer.name)}`;
  webhookMade.hidden = false;
  webhookResult.hidden = true;
  webhookForm.reset();
  webhookMade.scrollIntoView({ block: "nearest" });
}

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
