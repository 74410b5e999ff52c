// Cordons and uncordons nodes. Only operators see the buttons; the server checks their rights.
"use strict";

const cordonDialog = document.getElementById("cordon");

async function confirmCordon(name, isCordon) {
  const title = `${isCordon ? "Cordon" : "Uncordon"} ${name}`;
  cordonDialog.querySelector("h2").textContent = `${title}?`;
  cordonDialog.querySelector("[data-detail]").textContent = isCordon
    ? "No new runs are started on this node. Its present runs continue."
    : "New runs can be started on this node again.";
  cordonDialog.querySelector("[data-reason]").hidden = !isCordon;
  cordonDialog.querySelector(".main").textContent = title;
  cordonDialog.returnValue = "";
  cordonDialog.showModal();
  await new Promise((resolve) => cordonDialog.addEventListener("close", resolve, { once: true }));
  return cordonDialog.returnValue === "confirm";
}

async function setCordon({ path, name, cordon }) {
  const isCordon = cordon === "true";
  if (!(await confirmCordon(name, isCordon))) {
    return;
  }
  const reason = isCordon ? cordonDialog.querySelector("input").value : "";
  const result = document.getElementById("cordon-result");
  try {
    const response = await fetch(path, {
      method: "PUT",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ cordoned: isCordon, ...(reason && { reason }) }),
    });
    const answer = await response.json();
    if (!response.ok) {
      throw new Error(answer.detail);
    }
    result.textContent = `${name} was ${isCordon ? "cordoned" : "uncordoned"}.`;
    result.classList.remove("wrong");
  } catch (error) {
    result.textContent = error.message;
    result.classList.add("wrong");
  }
  result.hidden = false;
}

if (cordonDialog) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-cordon]");
    if (button) {
      setCordon(button.dataset);
    }
  });
}
