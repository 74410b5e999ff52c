// Saves the list of jobs that is open under a name, and deletes saved views, through the API.
"use strict";

const VIEWS = "/api/v1/saved-views";

async function callViews(path, options) {
  const response = await fetch(path, options);
  if (response.status === 204) {
    return null;
  }
  const answer = await response.json();
  if (!response.ok) {
    const errors = (answer.errors || []).map((each) => `${each.pointer.slice(1)} ${each.detail}`);
    throw new Error(errors.join(". ") || answer.detail);
  }
  return answer;
}

function showViewResult(text, isError) {
  const result = document.getElementById("view-result");
  result.textContent = text;
  result.classList.toggle("wrong", isError);
  result.hidden = false;
}

// The address of the list that is open, from its first page on. `within`: a time before the view is
// opened, instead of a fixed one.
function viewAddress(within) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of [...query]) {
    if (value === "" || name === "cursor") {
      query.delete(name);
    }
  }
  if (within) {
    query.delete("submittedAfter");
    query.set("submittedWithin", within);
  }
  const path = within ? "/jobs/filter" : "/jobs";
  return query.size ? `${path}?${query}` : path;
}

function addViewLink(view) {
  const link = document.createElement("a");
  link.href = view.address;
  link.textContent = view.name;
  const item = document.createElement("li");
  item.append(link);
  document.querySelector("#saved-views .scripted").before(item);
}

const saveDialog = document.getElementById("save-view");
if (saveDialog) {
  const form = saveDialog.querySelector("form");
  const error = saveDialog.querySelector("[data-error]");
  document.querySelector("[data-save-view]").addEventListener("click", () => {
    error.hidden = true;
    saveDialog.showModal();
  });
  saveDialog.querySelector("[data-close]").addEventListener("click", () => saveDialog.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const shared = form.elements.shared?.checked ?? false;
    try {
      const view = await callViews(VIEWS, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ name: form.elements.name.value, address: viewAddress(form.elements.within?.value), shared }),
      });
      addViewLink(view);
      showViewResult(`View ${view.name} was saved.`, false);
      form.reset();
      saveDialog.close();
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
    }
  });
}

const deleteDialog = document.getElementById("delete-view");
if (deleteDialog) {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-delete-view]");
    if (!button) {
      return;
    }
    deleteDialog.querySelector("h2").textContent = `Delete view ${button.dataset.name}?`;
    deleteDialog.returnValue = "";
    deleteDialog.showModal();
    await new Promise((resolve) => deleteDialog.addEventListener("close", resolve, { once: true }));
    if (deleteDialog.returnValue !== "confirm") {
      return;
    }
    try {
      await callViews(`${VIEWS}/${button.dataset.deleteView}`, { method: "DELETE" });
      button.closest("tr").remove();
      showViewResult(`View ${button.dataset.name} was deleted.`, false);
    } catch (problem) {
      showViewResult(problem.message, true);
    }
  });
}
