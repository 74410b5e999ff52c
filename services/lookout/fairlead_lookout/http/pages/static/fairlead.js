// Actions: on the job or array of a page, or on the page of jobs on those selected or all of its
// filter.
"use strict";

const ACTIONS = {
  cancel: { title: "Cancel", past: "Cancellation", nothing: "Nothing to cancel: it has ended.", none: "Nothing to cancel: these jobs have ended.", fields: ["reason"] },
  preempt: { title: "Preempt", past: "Preemption", nothing: "Nothing to preempt: the job does not run.", none: "Nothing to preempt: none of these jobs runs.", fields: ["reason"] },
  reprioritize: { title: "Reprioritize", past: "Change of priority", nothing: "Nothing to change: it has ended.", none: "Nothing to change: these jobs have ended.", fields: ["priority", "reason"] },
  resubmit: { title: "Resubmit", past: "Resubmission", nothing: "Nothing to resubmit.", none: "Nothing to resubmit.", fields: ["jobSet", "memoryFactor"] },
};

const IDS_MAX = 10_000; // of one request
const JOBS_MAX = 100_000; // that are listed for an action

async function request(path, body, dryRun) {
  return (await requestApi(`/api/v1/${path}${dryRun ? "?dryRun=true" : ""}`, "POST", body)).answer;
}

// `signal`: aborted when the form is exchanged for another.
function setUpActions(form, signal) {
  const { job, array } = form.dataset;
  const one = job ?? array;
  const selected = new Set(job ? [job] : []);
  const queues = new Map(); // of the jobs that have been listed
  const dialog = document.getElementById("confirm");
  const ownResult = document.getElementById("result");
  const picks = () => [...document.querySelectorAll("[data-pick]")];
  const matching = () => form.elements.matching?.checked ?? false;
  const jobs = (count) => `${count} ${array ? "task" : "job"}${String(count) === "1" ? "" : "s"}`;
  const path = (kind) => (array && kind === "cancel" ? `arrays/${array}/cancel` : `jobs/${kind}`);

  // The buttons of the actions that the present state of the job or array permits.
  function showPossible() {
    const possible = document.querySelector("[data-actions]").dataset.actions.split(" ");
    const buttons = [...form.querySelectorAll("button")];
    for (const button of buttons) {
      button.hidden = !possible.includes(button.value);
    }
    form.hidden = buttons.every((button) => button.hidden);
  }

  function show() {
    if (signal.aborted) {
      return;
    }
    if (one) {
      showPossible();
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
      queues.set(box.value, box.dataset.queue);
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
    const chosen = boxes.filter((box) => selected.has(box.value));
    const possible = new Set(chosen.flatMap((box) => box.dataset.possible.split(" ")));
    for (const button of form.querySelectorAll("button")) {
      button.disabled = !matching() && !possible.has(button.value);
      button.title = button.disabled && chosen.length ? ACTIONS[button.value].none : "";
    }
  }

  function report(text, isError) {
    const result = document.getElementById("result") ?? ownResult; // of the list that is there now
    result.textContent = text;
    result.classList.toggle("wrong", isError);
    result.hidden = false;
  }

  // All jobs of a list whose filter actions do not know, from the API.
  async function listJobs() {
    const found = [];
    let cursor = "";
    do {
      const { answer } = await requestApi(`${form.dataset.list}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      found.push(...answer.jobs.map(({ id, queue }) => ({ id, queue })));
      if (found.length > JOBS_MAX) {
        throw new Error(`More than ${JOBS_MAX} jobs match. Choose a queue, or narrow the filter.`);
      }
      cursor = answer.next ?? "";
      if (cursor) {
        report(`Listing the jobs that match: ${found.length} so far.`, false);
      }
    } while (cursor);
    ownResult.hidden = true;
    return found;
  }

  // The bodies of the requests for these jobs. New jobs are of the queue of the old ones, so those of
  // each queue are resubmitted by a request of their own.
  function splitJobs(kind, chosen) {
    const bodies = [];
    const open = new Map(); // the body that still takes ids, by queue
    for (const { id, queue } of chosen) {
      const key = kind === "resubmit" ? queue : "";
      if (!open.has(key) || open.get(key).ids.length === IDS_MAX) {
        open.set(key, { ids: [] });
        bodies.push(open.get(key));
      }
      open.get(key).ids.push(id);
    }
    return bodies;
  }

  async function findTargets(kind) {
    if (array) {
      const indexes = form.elements.indexes.value.trim();
      if (kind === "cancel") {
        return [indexes ? { indexes } : {}];
      }
      if (indexes) {
        throw new Error("All tasks of an array have one priority. Remove the indexes.");
      }
      return [{ ids: [array] }];
    }
    if (!matching()) {
      return splitJobs(kind, [...selected].map((id) => ({ id, queue: queues.get(id) })));
    }
    return form.dataset.filter
      ? [{ filter: JSON.parse(form.dataset.filter) }]
      : splitJobs(kind, await listJobs());
  }

  const countOf = (answer) => answer.matched ?? answer.tasks ?? answer.total;

  // How many jobs an action changes. Undefined if the server does not know.
  async function count(kind, bodies) {
    let sum = 0;
    for (const body of bodies) {
      const counted = kind === "reprioritize" ? { ...body, priority: 0 } : body;
      sum += countOf(await request(path(kind), counted, true));
    }
    return Number.isNaN(sum) ? undefined : sum;
  }

  function describe(kind, bodies) {
    if (array) {
      return bodies[0].indexes
        ? `Of the tasks ${bodies[0].indexes}, those that have not ended.`
        : "The tasks of this array that have not ended.";
    }
    if (job) {
      return "The job of this page.";
    }
    const changed = { resubmit: "", preempt: "run", cancel: "have not ended", reprioritize: "have not ended" }[kind];
    if (matching()) {
      return `All jobs that match the filter${changed && ` and ${changed}`}, also those on other pages.`;
    }
    const chosen = "that are selected on this page";
    return changed ? `Of the ${jobs(selected.size)} ${chosen}, those that ${changed}.` : `The jobs ${chosen}.`;
  }

  async function confirm(kind, concerned, detail) {
    if (signal.aborted) {
      return false; // the list is not there any more
    }
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

  // How many jobs the user has confirmed; null for none. More can match the filter by then, and an
  // action on more of them than its dialog named is confirmed once more.
  async function askFor(kind, bodies) {
    const detail = describe(kind, bodies);
    let concerned = await count(kind, bodies);
    let news = "";
    for (;;) {
      if (concerned === 0) {
        report(one ? ACTIONS[kind].nothing : ACTIONS[kind].none, false);
        return null;
      }
      if (!(await confirm(kind, concerned ?? "all matching", news + detail))) {
        return null;
      }
      const present = matching() && form.dataset.filter ? await count(kind, bodies) : concerned;
      if (!(present > concerned)) {
        return concerned;
      }
      news = `${jobs(present - concerned)} more since you were asked. `;
      concerned = present;
    }
  }

  async function act(kind) {
    // The list is live: what was selected when the dialog opened is what the user confirms.
    const bodies = await findTargets(kind);
    const concerned = await askFor(kind, bodies);
    if (concerned === null) {
      return;
    }
    const values = {};
    for (const input of dialog.querySelectorAll("input:enabled")) {
      if (input.value !== "") {
        values[input.name] = input.type === "number" ? Number(input.value) : input.value;
      }
    }
    let requested = 0;
    for (const body of bodies) {
      try {
        requested += countOf(await request(path(kind), { ...body, ...values }, false)) ?? concerned;
      } catch (error) {
        throw requested ? new Error(`${ACTIONS[kind].past} of ${jobs(requested)} requested, then: ${error.message}`) : error;
      }
    }
    if (array) {
      form.elements.indexes.value = "";
    } else if (!job) {
      selected.clear();
    }
    if (form.elements.matching) {
      form.elements.matching.checked = false;
    }
    const nothing = one && requested === 0;
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
  }, { signal });
  let isActing = false; // from the click until the answer: a second click must not do it twice
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isActing) {
      return;
    }
    isActing = true;
    try {
      await act(event.submitter.value);
    } catch (error) {
      report(error.message, true);
    }
    isActing = false;
  });
  document.addEventListener("htmx:after:swap", show, { signal });
  show();
}

let actionsEnd = new AbortController();

function renewActions() {
  actionsEnd.abort();
  actionsEnd = new AbortController();
  const form = document.getElementById("actions");
  if (form) {
    setUpActions(form, actionsEnd.signal);
  }
}

document.addEventListener("fairlead:exchange", renewActions);
renewActions();

// Copies the text of an element, and says so on a button. Without access to the clipboard, which
// browsers permit to no page at a plain http:// address of another machine, it selects the text.
async function copyText(element, button) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(element);
    button.textContent = "Press Ctrl-C";
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy-commands]");
  if (button) {
    await copyText(button.previousElementSibling, button);
  }
});

// The browser must not show a secret again when somebody goes back to the page.
window.addEventListener("pagehide", () => {
  for (const secret of document.querySelectorAll("[data-secret]")) {
    secret.textContent = "";
  }
});
