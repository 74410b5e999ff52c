"""The fold of the ends of jobs: their dependents, their gang, and the release of their row."""

from collections import deque
from collections.abc import Sequence
from typing import Final, cast

from fairlead_common.domain.ids import JobId, parse_task_id
from fairlead_common.domain.lifecycle import JOB_STEPS, JobState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.folds import dependencies, gang_membership
from fairlead_scheduler.state.folds.input.messages import EndedJobs, Message
from fairlead_scheduler.state.jobs import job_table, task_arrays
from fairlead_scheduler.state.jobs.job_index import FEW
from fairlead_scheduler.state.jobs.job_table import Rows
from fairlead_scheduler.state.view import View

ROW_RELEASE_DELAY_MS: Final = 30_000
"""How long the row of a job that ended while queued is retained: a lease can already be on its
way."""

_Decision = ev.JobSucceeded | ev.JobFailed | ev.JobCancelled | ev.JobPreempted | ev.JobRejected


def fold_decision(
    view: View, message: Message, batch: Sequence[_Decision], _i: int, _ended: EndedJobs
) -> None:
    """Fold the scheduler's decisions that end jobs."""
    tag = cast(str, batch[0].__struct_config__.tag)
    states = view.jobs.state
    ids = [event.job_id for event in batch]
    found = view.jobs.rows.find(ids)
    if len(batch) > FEW and _is_usual(view, ids, found):
        to = JOB_STEPS.get((job_table.JOB_STATES[states.item(found[0])], tag))
        if to is None:  # all of these jobs have a run, and the same effect
            view.note_ignored(states.item(found[0]), tag)
        else:
            _end_jobs(view, ids, found, to, message)
        return
    for row, event in zip(found.tolist(), batch, strict=True):
        if row < 0:
            continue
        to = JOB_STEPS.get((job_table.JOB_STATES[states.item(row)], tag))
        if to is not None:
            end_job(view, row, to, message, event.reason)
        else:
            view.note_ignored(states.item(row), tag)


def _is_usual(view: View, ids: Sequence[JobId], rows: Rows) -> bool:
    """Whether these are distinct jobs whose run has ended, without a gang and without
    dependents."""
    jobs = view.jobs
    if rows.min() < 0 or len(set(ids)) < len(ids):
        return False
    if not (
        job_table.IS_WITH_RUN[jobs.state[rows]] & ~job_table.IS_LIVE_RUN[jobs.run_state[rows]]
    ).all():
        return False
    if view.gangs and any(
        jobs.rare_properties[row].gang for row in rows.tolist() if row in jobs.rare_properties
    ):
        return False
    return view.dependents.keys().isdisjoint(ids)


def _end_jobs(
    view: View, ids: Sequence[JobId], rows: Rows, state: JobState, message: Message
) -> None:
    """`end_job` of each of these jobs, for which `_is_usual` holds."""
    jobs = view.jobs
    for job_id, digest in zip(ids, jobs.digests_of(rows), strict=True):
        view.ended[job_id] = job_table.EndedJob(state, digest, message.time_ms, message.position)
    view.specs.drop(ids)
    jobs.state[rows] = job_table.STATE_CODE[state]
    if state is not JobState.SUCCEEDED:
        for row in rows[jobs.array[rows] > 0].tolist():
            _note_task(view, jobs.rows.id_at(row), state, message)
    view.mark_all_changed(rows, message.position)
    view.rows_to_examine.difference_update(rows.tolist())
    jobs.release_all(rows)


def end_job(view: View, row: int, state: JobState, message: Message, reason: str = "") -> None:
    """End a job and release its row, unless a run of it may still exist."""
    jobs = view.jobs
    job_id = jobs.rows.id_at(row)
    was = jobs.state.item(row)
    jobs.state[row] = job_table.STATE_CODE[state]
    digest = jobs.digest_of(row)
    view.ended[job_id] = job_table.EndedJob(state, digest, message.time_ms, message.position)
    if state is not JobState.SUCCEEDED and jobs.array[row]:
        _note_task(view, job_id, state, message)
    view.mark_changed(row, message.position)
    view.rows_to_examine.discard(row)
    view.specs.drop((job_id,))
    if row in jobs.rare_properties:
        dependencies.remove(view, job_id, jobs.rare_properties[row].after)
        started = state is JobState.SUCCEEDED or was == job_table.RUNNING
        gang_membership.remove_member(view, row, message, had_started=started, reason=reason)
    if job_id in view.dependents:
        dependencies.update_dependents(view, job_id, dependencies.make_result(state), message)
    if was == job_table.QUEUED:
        queue = view.lingering.setdefault(message.partition, deque())
        queue.append((message.time_ms, job_id))
    elif not job_table.LIVE_RUN[jobs.run_state.item(row)]:
        jobs.release(row)
    else:
        view.rows_to_examine.add(row)


def _note_task(view: View, job_id: JobId, state: JobState, message: Message) -> None:
    """Note at its array, and at what waits for that, that a task did not succeed."""
    array, index = parse_task_id(job_id)
    task_arrays.mark_index(view.arrays[array].unsuccessful, index)
    view.mark_array_changed(array, message.position)
    why = f"cannot succeed: its task {index} ended {state.value}"
    failed = dependencies.Result(JobState.FAILED, why)
    dependencies.update_dependents(view, JobId(array), failed, message)


def release_expired_rows(view: View, partition: int, time_ms: int) -> None:
    """Release rows of jobs that ended while queued, by the time of their own partition: another
    partition can be read far ahead."""
    lingering = view.lingering.get(partition)
    while lingering and lingering[0][0] + ROW_RELEASE_DELAY_MS <= time_ms:
        _, job_id = lingering.popleft()
        row = view.jobs.rows.get(job_id)
        if row is not None and _is_releasable(view, row):
            release_row(view, row)


def _is_releasable(view: View, row: int) -> bool:
    jobs = view.jobs
    return (
        bool(job_table.IS_ENDED[jobs.state[row]]) and not job_table.IS_LIVE_RUN[jobs.run_state[row]]
    )


def release_row(view: View, row: int) -> None:
    """Release the row of an ended job. Its state is retained in `View.recent`."""
    jobs = view.jobs
    state = job_table.JOB_STATES[int(jobs.state[row])]
    view.recent.setdefault(jobs.rows.id_at(row), state)
    view.rows_to_examine.discard(row)
    jobs.release(row)
