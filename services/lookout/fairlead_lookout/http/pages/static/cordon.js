// Cordons and uncordons a cluster, a node, or the selected nodes. Only operators see the buttons; the
// server checks their rights.
"use strict";

const selectedNodes = new Set();

function describeEffect(kind, isCordon) {
  const place = { cluster: "on this cluster", node: "on this node" }[kind] ?? "on these nodes";
  return isCordon
    ? `No new runs are started ${place}. Present runs continue.`
    : `New runs can be started ${place} again.`;
}

async function confirmCordon(cordonDialog, name, kind, isCordon) {
  const title = `${isCordon ? "Cordon" : "Uncordon"} ${name}`;
  cordonDialog.querySelector("h2").textContent = `${title}?`;
  cordonDialog.querySelector("[data-detail]").textContent = describeEffect(kind, isCordon);
  cordonDialog.querySelector("[data-reason]").hidden = !isCordon;
  cordonDialog.querySelector(".main").textContent = title;
  cordonDialog.returnValue = "";
  cordonDialog.showModal();
  await new Promise((resolve) => cordonDialog.addEventListener("close", resolve, { once: true }));
  return cordonDialog.returnValue === "confirm";
}

async function putCordon(path, isCordon, reason) {
  await requestApi(path, "PUT", { cordoned: isCordon, ...(reason && { reason }) });
}

// `targets`: the path and name of each; `kind`: cluster, node or nodes.
async function setCordons(targets, name, kind, isCordon) {
  const cordonDialog = document.getElementById("cordon");
  if (!(await confirmCordon(cordonDialog, name, kind, isCordon))) {
    return;
  }
  const reason = isCordon ? cordonDialog.querySelector("input").value : "";
  const findResult = () => document.getElementById("cordon-result"); // of the list that is there now
  const failures = [];
  for (const [at, target] of targets.entries()) {
    try {
      await putCordon(target.path, isCordon, reason);
    } catch (error) {
      failures.push(targets.length === 1 ? error.message : `${target.name}: ${error.message}`);
    }
    if (targets.length > 1) {
      findResult().textContent = `${at + 1} of ${targets.length} nodes`;
      findResult().hidden = false;
    }
  }
  const past = isCordon ? "cordoned" : "uncordoned";
  const done = targets.length - failures.length;
  const result = findResult();
  if (failures.length === 0) {
    result.textContent = `${name} ${targets.length === 1 ? "was" : "were"} ${past}.`;
  } else if (targets.length === 1) {
    result.textContent = failures[0];
  } else {
    result.textContent = `${done} of ${name} were ${past}. ${failures.join(" ")}`;
  }
  result.classList.toggle("wrong", failures.length > 0);
  result.hidden = false;
}

const nodeBoxes = () => [...document.querySelectorAll("[data-pick-node]")];

function showSelectedNodes() {
  const form = document.getElementById("node-actions");
  if (!form) {
    return;
  }
  const boxes = nodeBoxes();
  const listed = new Set(boxes.map((box) => box.value));
  for (const node of selectedNodes) {
    if (!listed.has(node)) {
      selectedNodes.delete(node);
    }
  }
  for (const box of boxes) {
    box.checked = selectedNodes.has(box.value);
  }
  const count = selectedNodes.size;
  form.elements.all.checked = count > 0 && count === boxes.length;
  form.querySelector("[data-chosen]").textContent = count
    ? `${count} node${count === 1 ? "" : "s"} selected`
    : "Select all listed nodes";
  for (const button of form.querySelectorAll("button")) {
    button.disabled = count === 0;
  }
}

if (document.getElementById("cordon")) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-cordon]");
    if (button) {
      const { path, name, kind, cordon } = button.dataset;
      setCordons([{ path, name }], name, kind ?? "node", cordon === "true");
    }
  });
  document.addEventListener("change", ({ target: box }) => {
    if (box.closest("#node-actions")) {
      nodeBoxes().forEach((each) => (box.checked ? selectedNodes.add(each.value) : selectedNodes.delete(each.value)));
    } else if (box.matches("[data-pick-node]")) {
      box.checked ? selectedNodes.add(box.value) : selectedNodes.delete(box.value);
    } else {
      return;
    }
    showSelectedNodes();
  });
  document.addEventListener("submit", async (event) => {
    if (event.target.id !== "node-actions") {
      return;
    }
    event.preventDefault();
    const targets = nodeBoxes()
      .filter((box) => selectedNodes.has(box.value))
      .map((box) => ({ path: box.dataset.path, name: box.value }));
    const name = targets.length === 1 ? targets[0].name : `${targets.length} nodes`;
    const kind = targets.length === 1 ? "node" : "nodes";
    await setCordons(targets, name, kind, event.submitter.value === "true");
  });
  document.addEventListener("htmx:after:swap", showSelectedNodes);
  showSelectedNodes();
}
