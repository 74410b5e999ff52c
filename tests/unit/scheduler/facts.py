"""Short ways to say what happened, and to compare views by what they know."""

from collections.abc import Sequence

import msgspec

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View

SHAPE = shapes.encode(shapes.Shape(requests={"cpu": 1000}))


def submitted(name: str, **fields: object) -> ev.JobSubmitted:
    """A one-core job; `fields` are those of the event."""
    job = ev.JobSubmitted(
        job_id=JobId(name), shape=SHAPE, spec=msgspec.Raw(b"{}"), digest="d", client_id=name
    )
    return msgspec.structs.replace(job, **fields)


def leased(name: str, run: int = 1, node: str = "n0") -> ev.JobRunLeased:
    """The n-th run of a job is given a node of executor `e0`."""
    return ev.JobRunLeased(job_id=JobId(name), run=run, executor="e0", node=node)


def message(
    position: int, *events: ev.AnyEvent, queue: str = "q", time_ms: int | None = None
) -> job_fold.Message:
    """One message of partition 0, a second after the one before it."""
    sequence = ev.EventSequence(queue=queue, job_set="s", by="test", events=list(events))
    return job_fold.Message(0, position, 1000 * position if time_ms is None else time_ms, sequence)


def fold(*batches: Sequence[ev.AnyEvent], known: job_fold.EndedJobs | None = None) -> View:
    """A view after these messages."""
    view = View()
    for position, events in enumerate(batches):
        job_fold.fold_messages(view, [message(position, *events)], known or {})
    return view


def known_of(view: View) -> dict[str, tuple[object, ...]]:
    """Everything a view says about each job, by id: equal for views that know the same."""
    jobs = view.jobs
    known: dict[str, tuple[object, ...]] = {}
    for row in view.live_rows().tolist():
        node = int(jobs.node[row])
        rare = jobs.rare_properties.get(row)
        known[jobs.rows.id_at(row)] = (
            job_table.JOB_STATES[int(jobs.state[row])].value,
            int(jobs.run_state[row]),
            int(jobs.flags[row]),
            int(jobs.run[row]),
            int(jobs.retries[row]),
            int(jobs.priority[row]),
            int(jobs.number[row]),
            jobs.nodes.values[node] if node >= 0 else None,
            jobs.queues.values[int(jobs.queue[row])],
            tuple(sorted(rare.after)) if rare else (),
        )
    for job_id, ended in view.ended.items():
        known.setdefault(job_id, (ended.state.value,))
    return known


def state(view: View, name: str) -> str | None:
    """The state of a job."""
    found = view.state_of(JobId(name))
    return None if found is None else found.value
