"""The fold of submissions: new jobs get rows, many at once."""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from fairlead_common import events as ev
from fairlead_common.ids import JobId, submission_number
from fairlead_common.lifecycle import JOB_ENDED, JobState
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view import ending, gangs
from fairlead_scheduler.view.columns import View
from fairlead_scheduler.view.messages import Known, Message

_encoder: Final = msgspec.json.Encoder()


def submitted(
    view: View, message: Message, batch: Sequence[ev.JobSubmitted], index: int, known: Known
) -> None:
    """Jobs are new, unless their id is known."""
    events, places = _fresh(view, batch, index, known)
    if not events:
        return
    jobs = view.jobs
    rows = jobs.allocate(len(events))
    _fill(view, message, rows, places, events)
    ids = [event.job_id for event in events]
    for row, job_id, event in zip(rows, ids, events, strict=True):
        jobs.ids[row] = job_id
        jobs.digests[row] = event.digest
    jobs.rows.update(zip(ids, rows, strict=True))
    view.specs.update(zip(ids, map(_encoder.encode, events), strict=True))
    view.unsaved_specs.update(ids)
    view.touch_all(rows, message.position)
    for row, event in zip(rows, events, strict=True):
        if event.after:
            _depend(view, row, event, known)
        if event.retry is not None:
            jobs.rare_of(row).retry = event.retry
        if event.gang is not None:
            gangs.join(view, row, message.sequence, event.gang)


def _fresh(
    view: View, batch: Sequence[ev.JobSubmitted], index: int, known: Known
) -> tuple[Sequence[ev.JobSubmitted], Sequence[int]]:
    """The submissions whose ids nobody has seen, and their places in the message."""
    ids = {event.job_id for event in batch}
    seen = ids - ids.difference(view.jobs.rows).difference(view.ended).difference(view.recent)
    seen |= ids & known.keys()
    if not seen and len(ids) == len(batch):
        return batch, range(index, index + len(batch))
    first: dict[JobId, tuple[int, ev.JobSubmitted]] = {}
    for place, event in enumerate(batch, index):
        if event.job_id not in seen:
            first.setdefault(event.job_id, (place, event))
    return [event for _, event in first.values()], [place for place, _ in first.values()]


def _fill(
    view: View,
    message: Message,
    rows: list[int],
    places: Sequence[int],
    batch: Sequence[ev.JobSubmitted],
) -> None:
    jobs, sequence, at_ms = view.jobs, message.sequence, message.time_ms
    at = np.array(rows, np.intp)
    jobs.state[at] = c.QUEUED
    jobs.run_state[at] = c.NO_RUN
    jobs.flags[at] = [
        0
        if event.on_preemption == "requeue" and event.when_infeasible == "reject" and not event.hold
        else _first_flags(event)
        for event in batch
    ]
    jobs.partition[at] = message.partition
    pools = [event.pool for event in batch]
    number_of_pool = {pool: jobs.pools.number(pool) for pool in dict.fromkeys(pools)}
    jobs.pool[at] = [number_of_pool[pool] for pool in pools]
    jobs.queue[at] = jobs.queues.number(sequence.queue)
    jobs.job_set[at] = jobs.job_sets.number(c.JobSet(sequence.queue, sequence.job_set))
    kinds = [(bytes(event.shape), event.priority_class) for event in batch]
    number_of = {kind: jobs.shapes.number(c.ShapeClass(*kind)) for kind in dict.fromkeys(kinds)}
    jobs.shape[at] = [number_of[kind] for kind in kinds]
    jobs.node[at] = -1
    jobs.run[at] = 0
    jobs.retries[at] = 0
    jobs.grace_s[at] = [event.grace_s for event in batch]
    jobs.priority[at] = [event.priority for event in batch]
    first = submission_number(at_ms, message.partition, message.position, 0)
    jobs.number[at] = first + (np.array(places, np.int64) & 1023) * 32
    jobs.submitted_ms[at] = at_ms
    jobs.leased_ms[at] = 0
    jobs.running_ms[at] = 0
    jobs.value[at] = 0
    starts = [event.start_after_ms for event in batch]
    jobs.start_after_ms[at] = [ms or 0 for ms in starts] if any(starts) else 0
    waits = [event.queue_s_max for event in batch]
    jobs.queue_until_ms[at] = c.NEVER_MS
    if waits.count(None) < len(waits):
        jobs.queue_until_ms[at] = [
            c.NEVER_MS if seconds is None else at_ms + 1000 * seconds for seconds in waits
        ]
    jobs.runtime_ms_max[at] = _milliseconds([event.runtime_s_max for event in batch])
    jobs.checkpoint_ms[at] = _milliseconds([event.checkpoint_s for event in batch])


def _milliseconds(seconds: list[int | None]) -> list[int] | int:
    return [1000 * (s or 0) for s in seconds] if any(seconds) else 0


def _first_flags(event: ev.JobSubmitted) -> int:
    return (
        c.HOLD * event.hold
        | c.INFEASIBLE_WAITS * (event.when_infeasible == "wait")
        | c.PREEMPTED_IS_FINAL * (event.on_preemption == "fail")
    )


def _depend(view: View, row: int, event: ev.JobSubmitted, known: Known) -> None:
    rare = view.jobs.rare_of(row)
    for other in event.after:
        ended = known.get(other)
        state = ended.state if ended is not None else view.state_of(other)
        if state is JobState.SUCCEEDED:
            continue
        if state is not None and state in JOB_ENDED:
            ending.doom(view, row, other, state)
            continue
        rare.after.add(other)
        view.dependents.setdefault(other, set()).add(event.job_id)
    if rare.after:
        view.jobs.flags[row] |= c.DEPENDS
