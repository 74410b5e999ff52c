// Saves the page that is open with its filters under a name, renames and deletes saved views, through the API.
"use strict";

const VIEWS = "/api/v1/saved-views";

function showViewResult(text, isError) {
  const result = document.getElementById("view-result");
  result.textContent = text;
  result.classList.toggle("wrong", isError);
  result.hidden = false;
}

// The address of the page that is open, from the first rows of its list on. `choice`: the field for a
// number of hours before the view is opened, instead of a fixed time.
function viewAddress(choice) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of [...query]) {
    if (value === "" || name === "cursor" || name === "offset") {
      query.delete(name);
    }
  }
  let path = location.pathname;
  if (choice?.value) {
    query.delete(choice.dataset.after);
    query.set(choice.dataset.within, choice.value);
    path += "/filter";
  }
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

function setUpSaving() {
  const saveDialog = document.getElementById("save-view");
  if (!saveDialog) {
    return;
  }
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
      const body = { name: form.elements.name.value, address: viewAddress(form.elements.within), shared };
      const { answer: view } = await requestApi(VIEWS, "POST", body);
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

document.addEventListener("fairlead:exchange", setUpSaving);
setUpSaving();

// Waits until the user has closed a dialog; whether it was confirmed.
async function ask(dialog, title) {
  dialog.querySelector("h2").textContent = title;
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return dialog.returnValue === "confirm";
}

async function renameView({ renameView: id, name }) {
  const dialog = document.getElementById("rename-view");
  const input = dialog.querySelector("input");
  input.value = name;
  if (!(await ask(dialog, `Rename view ${name}?`))) {
    return;
  }
  const { answer: view } = await requestApi(`${VIEWS}/${id}`, "PUT", { name: input.value });
  const row = document.getElementById(`view-${id}`);
  row.querySelector("a").textContent = view.name;
  for (const button of row.querySelectorAll("button")) {
    button.setAttribute("aria-label", button.getAttribute("aria-label").replace(name, () => view.name));
    button.dataset.name = view.name;
  }
  showViewResult(`View ${name} is now ${view.name}.`, false);
}

async function deleteView({ deleteView: id, name }) {
  if (await ask(document.getElementById("delete-view"), `Delete view ${name}?`)) {
    await requestApi(`${VIEWS}/${id}`, "DELETE");
    document.getElementById(`view-${id}`).remove();
    showViewResult(`View ${name} was deleted.`, false);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-rename-view], [data-delete-view]");
  if (!button) {
    return;
  }
  try {
    await ("renameView" in button.dataset ? renameView : deleteView)(button.dataset);
  } catch (problem) {
    showViewResult(problem.message, true);
  }
});
