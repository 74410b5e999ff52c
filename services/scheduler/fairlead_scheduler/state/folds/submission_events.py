"""The fold of submissions: new jobs get rows, many in one step."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairlead_common.domain import lifecycle
from fairlead_common.domain.ids import JobId, submission_number
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state import job_index
from fairlead_scheduler.state import job_table as c
from fairlead_scheduler.state.folds import end_events, flag_changes, gang_membership
from fairlead_scheduler.state.folds.event_batches import MessagePart, SubmissionBatch
from fairlead_scheduler.state.folds.messages import Known, Message
from fairlead_scheduler.state.view import View

Rows = npt.NDArray[np.intp]


def fold_submitted(
    view: View, message: Message, batch: Sequence[ev.JobSubmitted], index: int, known: Known
) -> None:
    """Add jobs whose id is not known; of equal ids in one batch the first counts."""
    said = _make_batch(message, index, batch)
    if not add_jobs(view, said, known):
        fresh: dict[JobId, tuple[int, ev.JobSubmitted]] = {}
        for place, event in enumerate(batch, index):
            if event.job_id not in known and view.state_of(event.job_id) is None:
                fresh.setdefault(event.job_id, (place, event))
        for place, event in fresh.values():
            add_jobs(view, _make_batch(message, place, [event]), known)


def _make_batch(message: Message, first: int, events: Sequence[ev.JobSubmitted]) -> SubmissionBatch:
    """The columns of consecutive submissions of a message."""
    said = SubmissionBatch()
    job_set = c.JobSet(message.sequence.queue, message.sequence.job_set)
    place = (message.partition, message.position, message.time_ms)
    said.add_part(MessagePart(*place, job_set, first, len(events)), events, events)
    said.close()
    return said


def add_jobs(view: View, said: SubmissionBatch, known: Known) -> bool:
    """Add jobs; return False, without any change, if an id is known or occurs twice."""
    jobs = view.jobs
    specs = dict(zip(said.ids, said.specs, strict=True))
    ids = job_index.hash_ids(said.ids)
    if len(specs) < len(said.ids) or not _are_new(view, ids, known):
        return False
    at = jobs.allocate(len(said.ids))
    jobs.rows.add(ids, at)
    sizes = [part.size for part in said.parts]
    _fill_positions(view, at, said.parts, sizes)
    _fill_terms(view, at, said)
    view.specs.unsaved.update(specs)
    view.mark_all_changed(at, _repeat([part.position for part in said.parts], sizes))
    for number, event in said.rare:
        row = at.item(number)
        if event.after:
            _add_dependencies(view, row, event, known)
        if event.retry is not None:
            jobs.rare_properties_of(row).retry = event.retry
        if event.gang is not None:
            gang_membership.add_member(view, row, event.gang)
    return True


def _are_new(view: View, ids: job_index.Hashed, known: Known) -> bool:
    """Whether all of these ids are new."""
    gone = (known, view.ended, view.recent)
    if any(not those.keys().isdisjoint(ids.ids) for those in gone if those):
        return False
    return not (view.jobs.rows.find(ids) >= 0).any()


def _fill_positions(
    view: View, at: Rows, parts: Sequence[MessagePart], sizes: Sequence[int]
) -> None:
    """Fill what follows from the position of the message, and the initial state."""
    jobs = view.jobs
    numbers = [submission_number(p.time_ms, p.partition, p.position, 0) for p in parts]
    places = [np.arange(part.first, part.first + part.size) for part in parts]
    jobs.partition[at] = _repeat([part.partition for part in parts], sizes)
    jobs.queue[at] = _repeat([jobs.queues.number(part.job_set.queue) for part in parts], sizes)
    jobs.job_set[at] = _repeat([jobs.job_sets.number(part.job_set) for part in parts], sizes)
    jobs.number[at] = _repeat(numbers, sizes) + (np.concatenate(places) & 1023) * 32
    jobs.submitted_ms[at] = _repeat([part.time_ms for part in parts], sizes)
    jobs.state[at] = c.QUEUED
    jobs.run_state[at] = c.NO_RUN
    jobs.node[at] = -1
    for name in ("run", "retries", "leased_ms", "running_ms", "value"):
        getattr(jobs, name)[at] = 0


def _repeat(values: list[int], sizes: Sequence[int]) -> int | npt.NDArray[np.int64]:
    """The value of each message, repeated for each of its events."""
    return values[0] if len(values) == 1 else np.repeat(np.array(values, np.int64), sizes)


def _fill_terms(view: View, at: Rows, said: SubmissionBatch) -> None:
    """Fill the columns that the events define."""
    jobs = view.jobs
    jobs.digest[at] = np.concatenate(said.digests)
    jobs.flags[at] = said.flags.column(int)
    jobs.pool[at] = said.pool.column(jobs.pools.number)
    shapes = np.array([jobs.shapes.number(c.ShapeClass(*kind)) for kind in said.shapes])
    jobs.shape[at] = shapes[said.shape]
    jobs.grace_s[at] = said.grace_s.column(int)
    jobs.priority[at] = said.priority.column(int)
    jobs.start_after_ms[at] = said.start_after_ms.column(lambda ms: ms or 0)
    waits_ms = said.queue_s_max.column(lambda s: c.NEVER_MS if s is None else 1000 * s)
    until_ms = np.where(waits_ms == c.NEVER_MS, c.NEVER_MS, jobs.submitted_ms[at] + waits_ms)
    jobs.queue_until_ms[at] = until_ms
    jobs.runtime_ms_max[at] = said.runtime_s_max.column(_milliseconds)
    jobs.checkpoint_ms[at] = said.checkpoint_s.column(_milliseconds)


def _milliseconds(seconds: int | None) -> int:
    return 1000 * (seconds or 0)


def _add_dependencies(view: View, row: int, event: ev.JobSubmitted, known: Known) -> None:
    rare = view.jobs.rare_properties_of(row)
    for other in event.after:
        ended = known.get(other)
        state = ended.state if ended is not None else view.state_of(other)
        if state is JobState.SUCCEEDED:
            continue
        if state is not None and state in JOB_ENDED:
            end_events.mark_cannot_start(view, row, other, state)
            continue
        rare.after.add(other)
        view.dependents.setdefault(other, set()).add(event.job_id)
    if rare.after:
        flag_changes.apply(view.jobs, row, lifecycle.SUBMIT_DEPENDENT)
