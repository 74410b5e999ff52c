"""The fold of submissions: new jobs get rows, many in one step."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import JobId, submission_number
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.folds import (
    array_events,
    dependencies,
    gang_membership,
)
from fairlead_scheduler.state.folds.input.event_batches import (
    MessagePart,
    SubmissionBatch,
    find_first_flags,
)
from fairlead_scheduler.state.folds.input.messages import EndedJobs, Message
from fairlead_scheduler.state.jobs import job_index, job_table
from fairlead_scheduler.state.view import View

Rows = npt.NDArray[np.intp]


def fold_submitted(
    view: View,
    message: Message,
    events: Sequence[ev.JobSubmitted],
    index: int,
    ended_jobs: EndedJobs,
) -> None:
    """Add jobs whose id is not known; of equal ids in one batch the first counts.

    A standby can be behind the checkpoint, which then names jobs as ended whose end this view has
    not folded yet. Such a job is added nevertheless: its end follows in the log.
    """
    if len(events) == 1:
        (event,) = events
        if event.job_id in ended_jobs:
            ended_jobs = _select_ended(ended_jobs, message)
        if event.job_id not in ended_jobs and view.state_of(event.job_id) is None:
            _add_job(view, message, index, event, ended_jobs)
        return
    batch = _make_batch(message, index, events)
    if not add_jobs(view, batch, ended_jobs):
        ended_jobs = _select_ended(ended_jobs, message)
        fresh: dict[JobId, tuple[int, ev.JobSubmitted]] = {}
        for place, event in enumerate(events, index):
            if event.job_id not in ended_jobs and view.state_of(event.job_id) is None:
                fresh.setdefault(event.job_id, (place, event))
        for place, event in fresh.values():
            add_jobs(view, _make_batch(message, place, [event]), ended_jobs)


def _select_ended(ended_jobs: EndedJobs, message: Message) -> EndedJobs:
    """The jobs that had ended when this message was appended."""
    return {job_id: job for job_id, job in ended_jobs.items() if job.at_ms <= message.time_ms}


def _make_batch(message: Message, first: int, events: Sequence[ev.JobSubmitted]) -> SubmissionBatch:
    """The columns of consecutive submissions of a message."""
    batch = SubmissionBatch()
    job_set = job_table.JobSet(message.sequence.queue, message.sequence.job_set)
    place = (message.partition, message.position, message.time_ms)
    batch.add_part(MessagePart(*place, job_set, first, len(events)), events, events)
    batch.close()
    return batch


def add_jobs(view: View, batch: SubmissionBatch, ended_jobs: EndedJobs) -> bool:
    """Add jobs; return False, without any change, if an id is known or occurs twice."""
    jobs = view.jobs
    specs = dict(zip(batch.ids, batch.specs, strict=True))
    ids = job_index.hash_ids(batch.ids)
    if len(specs) < len(batch.ids) or not _are_new(view, ids, ended_jobs):
        return False
    at = jobs.allocate(len(batch.ids))
    jobs.rows.add(ids, at)
    sizes = [part.size for part in batch.parts]
    _fill_positions(view, at, batch.parts, sizes)
    _fill_terms(view, at, batch)
    view.specs.add_messages(specs, batch.messages)
    view.mark_all_changed(at, _repeat([part.position for part in batch.parts], sizes))
    tasks = [(at.item(number), event) for number, event in batch.rare if event.array is not None]
    if tasks:
        array_events.add_tasks(view, tasks)
    for number, event in batch.rare:
        _add_rare_properties(view, at.item(number), event, ended_jobs)
    return True


def _add_rare_properties(
    view: View, row: int, event: ev.JobSubmitted, ended_jobs: EndedJobs
) -> None:
    if event.after:
        dependencies.add_to_job(view, row, event, ended_jobs)
    if event.retry is not None:
        view.jobs.rare_properties_of(row).retry = event.retry
    if event.gang is not None:
        gang_membership.add_member(view, row, event.gang)
    if event.group is not None:
        gang_membership.add_group_member(view, row, event.group)


def _add_job(
    view: View, message: Message, place: int, event: ev.JobSubmitted, ended_jobs: EndedJobs
) -> None:
    """`add_jobs` of one job whose id is not known, without columns: making them takes more time
    than adding one job."""
    jobs, sequence, submitted_ms = view.jobs, message.sequence, message.time_ms
    row = jobs.allocate_one()
    jobs.rows.add_one(event.job_id, row)
    first = submission_number(submitted_ms, message.partition, message.position, 0)
    waits_s, lasts_s = event.queue_s_max, event.runtime_s_max
    jobs.partition[row] = message.partition
    jobs.queue[row] = jobs.queues.number(sequence.queue)
    jobs.job_set[row] = jobs.job_sets.number(job_table.JobSet(sequence.queue, sequence.job_set))
    jobs.number[row] = first + (place & 1023) * 32
    jobs.submitted_ms[row] = submitted_ms
    jobs.state[row] = job_table.QUEUED
    jobs.run_state[row] = job_table.NO_RUN
    jobs.node[row] = -1
    jobs.run[row] = jobs.retries[row] = jobs.value[row] = 0
    jobs.leased_ms[row] = jobs.running_ms[row] = jobs.array[row] = 0
    jobs.digest[row] = event.digest.encode()
    jobs.flags[row] = find_first_flags(event)
    jobs.pool[row] = jobs.pools.number(event.pool)
    shape = job_table.ShapeClass(bytes(event.shape), event.priority_class)
    jobs.shape[row] = jobs.shapes.number(shape)
    jobs.grace_s[row] = event.grace_s
    jobs.priority[row] = event.priority
    jobs.start_after_ms[row] = event.start_after_ms or 0
    jobs.queue_until_ms[row] = (
        job_table.NEVER_MS if waits_s is None else submitted_ms + 1000 * waits_s
    )
    jobs.runtime_ms_max[row] = _milliseconds(lasts_s)
    jobs.checkpoint_ms[row] = _milliseconds(event.checkpoint_s)
    view.specs.unsaved[event.job_id] = event
    view.mark_changed(row, message.position)
    if event.array is not None:
        array_events.add_tasks(view, [(row, event)])
    _add_rare_properties(view, row, event, ended_jobs)


def _are_new(view: View, ids: job_index.HashedIds, ended_jobs: EndedJobs) -> bool:
    """Whether all of these ids are new."""
    ended = (ended_jobs, view.ended, view.recent)
    if any(not found.keys().isdisjoint(ids.ids) for found in ended if found):
        return False
    return not (view.jobs.rows.find(ids) >= 0).any()


def _fill_positions(
    view: View, at: Rows, parts: Sequence[MessagePart], sizes: Sequence[int]
) -> None:
    """Fill the columns that follow from the positions of the messages, and the initial state."""
    jobs = view.jobs
    numbers = [submission_number(p.time_ms, p.partition, p.position, 0) for p in parts]
    places = [np.arange(part.first, part.first + part.size) for part in parts]
    jobs.partition[at] = _repeat([part.partition for part in parts], sizes)
    jobs.queue[at] = _repeat([jobs.queues.number(part.job_set.queue) for part in parts], sizes)
    jobs.job_set[at] = _repeat([jobs.job_sets.number(part.job_set) for part in parts], sizes)
    jobs.number[at] = _repeat(numbers, sizes) + (np.concatenate(places) & 1023) * 32
    jobs.submitted_ms[at] = _repeat([part.time_ms for part in parts], sizes)
    jobs.state[at] = job_table.QUEUED
    jobs.run_state[at] = job_table.NO_RUN
    jobs.node[at] = -1
    for name in ("run", "retries", "leased_ms", "running_ms", "value", "array"):
        getattr(jobs, name)[at] = 0


def _repeat(values: list[int], sizes: Sequence[int]) -> int | npt.NDArray[np.int64]:
    """The value of each message, repeated for each of its events."""
    return values[0] if len(values) == 1 else np.repeat(np.array(values, np.int64), sizes)


def _fill_terms(view: View, at: Rows, batch: SubmissionBatch) -> None:
    """Fill the columns that the events define."""
    jobs = view.jobs
    jobs.digest[at] = np.concatenate(batch.digests)
    jobs.flags[at] = batch.flags.column(int)
    jobs.pool[at] = batch.pool.column(jobs.pools.number)
    shapes = np.array([jobs.shapes.number(job_table.ShapeClass(*kind)) for kind in batch.shapes])
    jobs.shape[at] = shapes[batch.shape]
    jobs.grace_s[at] = batch.grace_s.column(int)
    jobs.priority[at] = batch.priority.column(int)
    jobs.start_after_ms[at] = batch.start_after_ms.column(lambda ms: ms or 0)
    waits_ms = batch.queue_s_max.column(lambda s: job_table.NEVER_MS if s is None else 1000 * s)
    until_ms = np.where(
        waits_ms == job_table.NEVER_MS, job_table.NEVER_MS, jobs.submitted_ms[at] + waits_ms
    )
    jobs.queue_until_ms[at] = until_ms
    jobs.runtime_ms_max[at] = batch.runtime_s_max.column(_milliseconds)
    jobs.checkpoint_ms[at] = batch.checkpoint_s.column(_milliseconds)


def _milliseconds(seconds: int | None) -> int:
    return 1000 * (seconds or 0)
