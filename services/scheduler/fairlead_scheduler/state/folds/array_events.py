"""The fold of arrays: submitted, tasks released, cancellation requested and done, ended."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from fairlead_common.domain.ids import (
    ArrayId,
    JobId,
    array_id,
    parse_task_id,
    partition_of_job,
    submission_number,
    task_ids,
)
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import index_sets
from fairlead_common.domain.records.index_sets import IndexSet
from fairlead_scheduler.state.folds import dependencies
from fairlead_scheduler.state.folds.input.messages import EndedJobs, Message
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.task_arrays import (
    ArrayState,
    CancelRequest,
    mark_indexes,
    parse_indexes,
)
from fairlead_scheduler.state.view import View


def fold_submitted(
    view: View,
    message: Message,
    batch: Sequence[ev.ArraySubmitted],
    first: int,
    ended_jobs: EndedJobs,
) -> None:
    """Add arrays whose id is not known."""
    sequence = message.sequence
    for index, event in enumerate(batch, first):
        known = JobId(event.array)
        if event.array in view.arrays or known in ended_jobs or view.state_of(known) is not None:
            continue
        indexes = parse_indexes(event.indexes)
        place = (message.time_ms, message.partition, message.position, index)
        state = ArrayState(
            array=event.array,
            job_set=job_table.JobSet(sequence.queue, sequence.job_set),
            template=msgspec.structs.replace(event.template, after=()),
            count=event.count,
            indexes=indexes,
            waiting=indexes,
            number=submission_number(*place),
            running_max=event.running_max,
            after=event.after,
        )
        view.add_array(state)
        dependencies.add_to_array(view, state, event.template.after, ended_jobs)
        view.mark_array_changed(event.array, message.position)


def add_tasks(view: View, tasks: Iterable[tuple[int, ev.JobSubmitted]]) -> None:
    """Note that these tasks, in these rows, were released."""
    released: dict[ArrayId, list[int]] = {}
    positions: dict[ArrayId, int] = {}
    jobs = view.jobs
    for row, event in tasks:
        task = event.array
        if task is None or parse_task_id(event.job_id) != (task.array, task.index):
            continue  # a task that was submitted again is a job of its own
        jobs.number[row] = task.number
        slot = view.array_slots.slot(task.array)
        if slot:
            jobs.array[row] = slot
            released.setdefault(task.array, []).append(task.index)
            positions[task.array] = jobs.position.item(row)
            state = view.arrays[task.array]
            if event.priority != state.template.priority:
                state.outdated.add(task.index)
    for array, indexes in released.items():
        view.mark_array_changed(array, positions[array])
        state, those = view.arrays[array], index_sets.collect(indexes)
        state.waiting = state.waiting.minus(those)
        state.cancel_requests = [
            msgspec.structs.replace(request, waiting=request.waiting.minus(those))
            for request in state.cancel_requests
        ]


def fold_cancel_requested(
    view: View,
    message: Message,
    batch: Sequence[ev.ArrayCancelRequested],
    _i: int,
    _ended: EndedJobs,
) -> None:
    """No waiting task among these is released any more; housekeeping decides the rest."""
    for event in batch:
        state = view.arrays.get(event.array)
        if state is not None and not state.is_ended:
            indexes = parse_indexes(event.indexes) or state.indexes
            _request(view, state, indexes, event.reason, message)


def fold_priorities(view: View, batch: Iterable[ev.JobReprioritized], message: Message) -> None:
    """Change the priority of arrays that events name, and note who gave one to a released task."""
    changed = []
    for event in batch:
        array, index = parse_task_id(event.job_id)
        state = view.arrays.get(array)
        if state is None or state.is_ended:
            continue
        if index < 0:
            state.template = msgspec.structs.replace(state.template, priority=event.priority)
            changed.append(array)
        elif index in state.outdated and not _is_overtaken(state, event, message):
            state.outdated.remove(index)
            view.mark_array_changed(array, message.position)
    if changed:
        _mark_outdated(view, changed, message)


def _is_overtaken(state: ArrayState, event: ev.JobReprioritized, message: Message) -> bool:
    """Whether the array got another priority after the leader requested this one for a task."""
    by_leader = message.sequence.by == job_table.BY_SCHEDULER
    return by_leader and event.priority != state.template.priority


def _mark_outdated(view: View, arrays: Sequence[ArrayId], message: Message) -> None:
    """Let the leader give the priority of these arrays to their released tasks."""
    jobs = view.jobs
    slots = [view.array_slots.slot(array) for array in arrays]
    rows = np.flatnonzero(np.isin(jobs.array[: jobs.used], slots))
    is_live = ((jobs.flags[rows] & job_table.FREE) == 0) & ~job_table.IS_ENDED[jobs.state[rows]]
    for job_id in jobs.rows.ids_at(rows[is_live]):
        array, index = parse_task_id(job_id)
        view.arrays[array].outdated.add(index)
    for array in arrays:
        view.mark_array_changed(array, message.position)


def cancel_tasks(view: View, batch: Iterable[ev.JobCancelRequested], message: Message) -> None:
    """Cancel what the ids of jobs without a row name: waiting tasks, or whole arrays.

    The tasks of an array are one request, because each request costs as much as the array has
    ranges.
    """
    named: dict[tuple[ArrayId, str], list[int]] = {}
    for event in batch:
        array, index = parse_task_id(event.job_id)
        if array in view.arrays and not view.arrays[array].is_ended:
            named.setdefault((array, event.reason), []).append(index)
    for (array, reason), indexes in named.items():
        state = view.arrays[array]
        if min(indexes) < 0:
            _request(view, state, state.indexes, reason, message)
        elif waiting := index_sets.collect([each for each in indexes if each in state.waiting]):
            _request(view, state, waiting, reason, message)


def _request(
    view: View, state: ArrayState, indexes: IndexSet, reason: str, message: Message
) -> None:
    try:
        waiting = state.waiting.common(indexes)
        left = state.waiting.minus(indexes)
    except ValueError:
        return  # submit has refused what would divide the set too often
    state.waiting = left
    state.cancel_requests = [
        *state.cancel_requests,
        CancelRequest(indexes=indexes, waiting=waiting, reason=reason, by=message.sequence.by),
    ]
    view.mark_array_changed(state.array, message.position)


def fold_tasks_cancelled(
    view: View,
    message: Message,
    batch: Sequence[ev.ArrayTasksCancelled],
    _i: int,
    _ended: EndedJobs,
) -> None:
    """The oldest request is done, or a part of it: it ends with the last of its waiting tasks."""
    for event in batch:
        state = view.arrays.get(event.array)
        if state is not None:
            cancelled = parse_indexes(event.indexes)
            oldest, others = state.cancel_requests[:1], state.cancel_requests[1:]
            left = [
                msgspec.structs.replace(request, waiting=request.waiting.minus(cancelled))
                for request in oldest
            ]
            state.cancel_requests = [request for request in left if request.waiting] + others
            if cancelled:
                mark_indexes(state.unsuccessful, cancelled)
                _cancel_followers(view, state, cancelled, message)
            view.mark_array_changed(event.array, message.position)


def _cancel_followers(view: View, state: ArrayState, cancelled: IndexSet, message: Message) -> None:
    """What waits for these tasks, or for the array, cannot start."""
    waited_for = view.dependents
    why = f"cannot succeed: {len(cancelled)} of its tasks were cancelled"
    failed = dependencies.Result(JobState.FAILED, why)
    dependencies.update_dependents(view, JobId(state.array), failed, message)
    if len(cancelled) < len(waited_for):
        found = [job_id for job_id in task_ids(state.array, cancelled) if job_id in waited_for]
    else:
        found = [
            job_id
            for job_id in waited_for
            if array_id(job_id) == state.array and parse_task_id(job_id)[1] in cancelled
        ]
    result = dependencies.make_result(JobState.CANCELLED)
    for job_id in found:
        dependencies.update_dependents(view, job_id, result, message)


def fold_ended(
    view: View, message: Message, batch: Sequence[ev.ArrayEnded], _i: int, _ended: EndedJobs
) -> None:
    """Forget arrays that no other one follows; their ids stay among the ids of ended jobs."""
    of_jobs = view.jobs.array[: view.jobs.used]
    slots = [view.array_slots.slot(event.array) for event in batch]
    of_jobs[np.isin(of_jobs, slots)] = 0
    for event in batch:
        state = view.arrays.get(event.array)
        if state is None or state.is_ended:
            continue
        state.is_ended = True
        array = JobId(event.array)
        result = JobState.FAILED if state.unsuccessful else JobState.SUCCEEDED
        view.ended[array] = job_table.EndedJob(
            result, state.template.digest, message.time_ms, message.position
        )
        dependencies.remove(view, array, state.waits_for)
        state.waits_for = set()
        dependencies.update_dependents(view, array, dependencies.make_result(result), message)
        view.mark_array_changed(event.array, message.position)
        _forget_ended(view, state, message)


def _forget_ended(view: View, state: ArrayState, message: Message) -> None:
    """Forget an array that has ended, unless others follow it, and what only it followed."""
    if state.array in view.array_followers:
        return
    view.remove_array(state)
    view.mark_array_changed(state.array, message.position)
    followed = None if state.after is None else view.arrays.get(state.after)
    if followed is not None and followed.is_ended:
        _forget_ended(view, followed, message)


def apply_bulk_request(
    view: View, message: Message, event: ev.JobsCancelRequested | ev.JobsReprioritized
) -> None:
    """Apply a request to the waiting tasks that its filter matches."""
    for state in view.arrays.values():
        if partition_of_job(state.array) != message.partition:
            continue
        if state.is_ended or not _matches(state, event.filter):
            continue
        if isinstance(event, ev.JobsCancelRequested):
            if state.waiting:
                _request(view, state, state.waiting, event.reason, message)
        else:
            state.template = msgspec.structs.replace(state.template, priority=event.priority)
            view.mark_array_changed(state.array, message.position)


def _matches(state: ArrayState, wanted: ev.JobFilter) -> bool:
    """Whether a filter matches the waiting tasks of an array."""
    template = state.template
    return (
        wanted.queue == state.job_set.queue
        and wanted.job_set in (None, state.job_set.name)
        and (not wanted.states or JobState.QUEUED in wanted.states)
        and (not wanted.classes or template.priority_class in wanted.classes)
        and all(template.labels.get(name) == value for name, value in wanted.labels.items())
        and wanted.executor is None
        and wanted.node is None
    )
