// Updates "12 s ago": the server writes the time, the browser computes the difference.
"use strict";

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

function ago(then, now) {
  const seconds = Math.abs(Math.round((now - then) / 1000));
  if (seconds < 2) {
    return "just now";
  }
  const [size, unit] = UNITS.find(([size]) => seconds >= size);
  const length = `${Math.floor(seconds / size)} ${unit}`;
  return then > now ? `in ${length}` : `${length} ago`;
}

function refresh() {
  for (const element of document.querySelectorAll("time[data-ago]")) {
    const text = ago(Date.parse(element.dateTime), Date.now());
    if (element.textContent !== text) {
      element.textContent = text;
    }
  }
}

refresh();
setInterval(refresh, 1000);
document.addEventListener("htmx:after:swap", refresh);

// Actions: on the job or array of a page, or on the page of jobs on those selected or all of its
// filter.
const ACTIONS = {
  cancel: { title: "Cancel", past: "Cancellation", nothing: "Nothing to cancel: it has ended.", fields: ["reason"] },
  preempt: { title: "Preempt", past: "Preemption", nothing: "Nothing to preempt: the job does not run.", fields: ["reason"] },
  reprioritize: { title: "Reprioritize", past: "Change of priority", nothing: "Nothing to change: it has ended.", fields: ["priority", "reason"] },
  resubmit: { title: "Resubmit", past: "Resubmission", nothing: "Nothing to resubmit.", fields: ["jobSet", "memoryFactor"] },
};

const IDS_MAX = 10_000;

async function request(path, body, dryRun) {
  const response = await fetch(`/api/v1/${path}${dryRun ? "?dryRun=true" : ""}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (response.ok) {
    return answer;
  }
  const errors = (answer.errors || []).map((error) => `${error.pointer.slice(1)} ${error.detail}`);
  throw new Error(errors.join(". ") || answer.detail);
}

function setUpActions(form) {
  const { job, array } = form.dataset;
  const one = job ?? array;
  const selected = new Set(job ? [job] : []);
  const dialog = document.getElementById("confirm");
  const result = document.getElementById("result");
  const picks = () => [...document.querySelectorAll("[data-pick]")];
  const matching = () => form.elements.matching?.checked ?? false;
  const jobs = (count) => `${count} ${array ? "task" : "job"}${String(count) === "1" ? "" : "s"}`;
  const path = (kind) => (array && kind === "cancel" ? `arrays/${array}/cancel` : `jobs/${kind}`);

  function show() {
    if (one) {
      form.hidden = false;
      return;
    }
    const boxes = picks();
    const listed = new Set(boxes.map((box) => box.value));
    for (const id of selected) {
      if (!listed.has(id)) {
        selected.delete(id);
      }
    }
    for (const box of boxes) {
      box.hidden = false;
      box.disabled = matching();
      box.checked = matching() || selected.has(box.value);
    }
    form.hidden = boxes.length === 0 && !matching();
    form.elements.all.disabled = matching();
    form.elements.all.checked = boxes.length > 0 && boxes.every((box) => box.checked);
    form.querySelector("[data-chosen]").textContent = selected.size
      ? `${jobs(selected.size)} selected`
      : "Select all on this page";
    for (const button of form.querySelectorAll("button")) {
      button.disabled = selected.size === 0 && !matching();
    }
  }

  function report(text, isError) {
    result.textContent = text;
    result.classList.toggle("wrong", isError);
    result.hidden = false;
  }

  // The ids of all jobs of a list whose filter actions do not know, from the API.
  async function listIds() {
    const ids = [];
    let cursor = "";
    do {
      const response = await fetch(`${form.dataset.list}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      const answer = await response.json();
      if (!response.ok) {
        throw new Error(answer.detail);
      }
      ids.push(...answer.jobs.map((each) => each.id));
      cursor = answer.next ?? "";
    } while (cursor && ids.length <= IDS_MAX);
    if (ids.length > IDS_MAX) {
      throw new Error(`More than ${IDS_MAX} jobs match. Narrow the filter.`);
    }
    return ids;
  }

  async function target(kind) {
    if (array) {
      const indexes = form.elements.indexes.value.trim();
      if (kind === "cancel") {
        return indexes ? { indexes } : {};
      }
      if (indexes) {
        throw new Error("All tasks of an array have one priority. Remove the indexes.");
      }
      return { ids: [array] };
    }
    if (!matching()) {
      return { ids: [...selected] };
    }
    return form.dataset.filter
      ? { filter: JSON.parse(form.dataset.filter) }
      : { ids: await listIds() };
  }

  // How many jobs an action concerns. Resubmissions have no dry run.
  async function count(kind, body) {
    if (body.ids && !array) {
      return body.ids.length;
    }
    if (kind === "resubmit") {
      return document.querySelector("[data-jobs]").textContent;
    }
    const counted = kind === "reprioritize" ? { ...body, priority: 0 } : body;
    const answer = await request(path(kind), counted, true);
    return answer.matched ?? answer.tasks ?? "all matching";
  }

  function describe(body) {
    if (array) {
      return body.indexes
        ? `Of the tasks ${body.indexes}, those that have not ended.`
        : "The tasks of this array that have not ended.";
    }
    if (matching()) {
      return "All jobs that match the filter, also those on other pages.";
    }
    return job ? "The job of this page." : "The jobs that are selected on this page.";
  }

  async function confirm(kind, concerned, detail) {
    const { title, fields } = ACTIONS[kind];
    const what = `${title} ${jobs(concerned)}`;
    dialog.querySelector("h2").textContent = `${what}?`;
    dialog.querySelector("[data-detail]").textContent = detail;
    dialog.querySelector(".main").textContent = what;
    for (const label of dialog.querySelectorAll("[data-field]")) {
      label.hidden = !fields.includes(label.dataset.field);
      label.querySelector("input").disabled = label.hidden;
    }
    dialog.returnValue = "";
    dialog.showModal();
    await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
    return dialog.returnValue === "confirm";
  }

  async function act(kind) {
    // The list is live: what was selected when the dialog opened is what the user confirms.
    const body = await target(kind);
    const concerned = await count(kind, body);
    if (!(await confirm(kind, concerned, describe(body)))) {
      return;
    }
    for (const input of dialog.querySelectorAll("input:enabled")) {
      if (input.value !== "") {
        body[input.name] = input.type === "number" ? Number(input.value) : input.value;
      }
    }
    const answer = await request(path(kind), body, false);
    const requested = answer.matched ?? answer.tasks ?? answer.total ?? concerned;
    if (array) {
      form.elements.indexes.value = "";
    } else if (!job) {
      selected.clear();
    }
    if (form.elements.matching) {
      form.elements.matching.checked = false;
    }
    const nothing = one && (requested === 0 || answer.position === null);
    report(nothing ? ACTIONS[kind].nothing : `${ACTIONS[kind].past} of ${jobs(requested)} requested.`, false);
    show();
  }

  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box === form.elements.all) {
      picks().forEach((each) => (box.checked ? selected.add(each.value) : selected.delete(each.value)));
    } else if (box.matches("[data-pick]")) {
      box.checked ? selected.add(box.value) : selected.delete(box.value);
    } else if (box !== form.elements.matching) {
      return;
    }
    show();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await act(event.submitter.value);
    } catch (error) {
      report(error.message, true);
    }
  });
  document.addEventListener("htmx:after:swap", show);
  show();
}

const actions = document.getElementById("actions");
if (actions) {
  setUpActions(actions);
}

// Buttons that send a request of the API and show its result (pages of webhooks).
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-post]");
  if (!button) return;
  const outcome = document.getElementById("outcome");
  button.disabled = true;
  outcome.textContent = "Sending…";
  try {
    const response = await fetch(button.dataset.post, { method: "POST" });
    const answer = await response.json();
    outcome.textContent = response.ok
      ? answer.error || (answer.replayed === undefined ? `Delivery ${answer.id}: ${answer.state.toLowerCase()}.` : `Deliveries that are sent again: ${answer.replayed}.`)
      : answer.detail;
  } catch {
    outcome.textContent = "The server cannot be reached. Try again.";
  }
  button.disabled = false;
});

// Copies the commands beside a button; without access to the clipboard it selects them.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy-commands]");
  if (!button) return;
  const commands = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(commands.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(commands);
    button.textContent = "Press Ctrl-C";
  }
});
