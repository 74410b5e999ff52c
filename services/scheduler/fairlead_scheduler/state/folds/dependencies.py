"""The fold of dependencies: which jobs and arrays wait for which, and how that ends.

A job waits for jobs and arrays by their ids (`RareProperties.after`), and an array does so as a
whole (`ArrayState.waits_for`). `View.dependents` is the inverse of both. What waits for an array
waits for the success of all its tasks; the first task that does not succeed decides.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from fairlead_common.domain import lifecycle
from fairlead_common.domain.ids import ArrayId, JobId, array_id, is_array_id, parse_task_id
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.folds import flag_changes
from fairlead_scheduler.state.folds.input.messages import EndedJobs, Message
from fairlead_scheduler.state.jobs import job_table, task_arrays
from fairlead_scheduler.state.jobs.task_arrays import ArrayState
from fairlead_scheduler.state.view import View

_TASK_FAILED: Final = "did not succeed, or its result is not stored any more"
_NO_TASK: Final = "does not exist: its array has no task of this index"
_ARRAY_FAILED: Final = "cannot succeed: a task of it did not"


class Result(NamedTuple):
    """How a job or an array ended; `why` continues a sentence about it."""

    state: JobState
    why: str


def make_result(state: JobState) -> Result:
    """The result of a job or an array that ended in this state."""
    return Result(state, f"ended {state.value}")


def add_to_job(view: View, row: int, event: ev.JobSubmitted, ended_jobs: EndedJobs) -> None:
    """Note what a new job waits for, or why it can never start."""
    rare = view.jobs.rare_properties_of(row)
    for other in event.after:
        result = _find_result(view, other, ended_jobs) or _find_lost_result(view, event, other)
        if result is None:
            rare.after.add(other)
            view.dependents.setdefault(other, set()).add(event.job_id)
        elif result.state is not JobState.SUCCEEDED:
            _mark_cannot_start(view, row, other, result)
    if rare.after:
        flag_changes.apply(view.jobs, row, lifecycle.SUBMIT_DEPENDENT)


def add_to_array(
    view: View, state: ArrayState, after: Iterable[JobId], ended_jobs: EndedJobs
) -> None:
    """The same for a new array."""
    for other in after:
        result = _find_result(view, other, ended_jobs)
        if result is None:
            state.waits_for.add(other)
            view.dependents.setdefault(other, set()).add(JobId(state.array))
        elif result.state is not JobState.SUCCEEDED:
            state.cannot_start_reason = _explain(other, result)


def remove(view: View, dependent: JobId, after: Iterable[JobId]) -> None:
    """Forget what a job or an array waited for that has ended."""
    for other in after:
        waiting = view.dependents.get(other)
        if waiting is not None:
            waiting.discard(dependent)
            if not waiting:
                del view.dependents[other]


def update_dependents(view: View, other: JobId, result: Result, message: Message) -> None:
    """Note at what depends on a job or an array how it ended."""
    for dependent in view.dependents.pop(other, ()):
        row = view.jobs.rows.get(dependent)
        if row is not None:
            _update_job(view, row, other, result, message)
        elif (state := view.arrays.get(ArrayId(dependent))) is not None:
            state.waits_for.discard(other)
            if result.state is not JobState.SUCCEEDED:
                state.cannot_start_reason = _explain(other, result)
            view.mark_array_changed(state.array, message.position)


def _update_job(view: View, row: int, other: JobId, result: Result, message: Message) -> None:
    if job_table.IS_ENDED[view.jobs.state[row]]:
        return
    rare = view.jobs.rare_properties_of(row)
    rare.after.discard(other)
    if result.state is not JobState.SUCCEEDED:
        _mark_cannot_start(view, row, other, result)
    elif not rare.after:
        flag_changes.apply(view.jobs, row, lifecycle.DEPENDENCY_SUCCEEDED)
    view.mark_changed(row, message.position)


def _mark_cannot_start(view: View, row: int, other: JobId, result: Result) -> None:
    """Note that a job on which this one depends ended without success."""
    view.jobs.rare_properties_of(row).cannot_start_reason = _explain(other, result)
    flag_changes.apply(view.jobs, row, lifecycle.DEPENDENCY_FAILED)
    view.rows_to_examine.add(row)


def _explain(other: JobId, result: Result) -> str:
    """Why something that waits for this job or array can never start."""
    return f"{'array' if is_array_id(other) else 'job'} {other}, which it waits for, {result.why}"


def _find_result(view: View, other: JobId, ended_jobs: EndedJobs) -> Result | None:
    """How a job, a task or an array ended; None if it has not, or is not known."""
    ended = ended_jobs.get(other)
    state = ended.state if ended is not None else view.state_of(other)
    if state is not None:
        return make_result(state) if state in JOB_ENDED else None
    array = view.arrays.get(array_id(other))
    if array is None:
        return None
    index = parse_task_id(other)[1]
    if index < 0:
        state = task_arrays.find_array_result(array)
        return None if state is None else Result(state, _ARRAY_FAILED)
    if index not in array.indexes:
        return Result(JobState.CANCELLED, _NO_TASK)
    state = task_arrays.find_result(array, index)
    return None if state is None else Result(state, _TASK_FAILED)


def _find_lost_result(view: View, event: ev.JobSubmitted, other: JobId) -> Result | None:
    """The result of a task of another array that this task follows, if that array is not known any
    more; None if this is not such a task.
    """
    own = None if event.array is None else view.arrays.get(event.array.array)
    if own is None or own.after is None or own.after in view.arrays:
        return None
    return Result(JobState.CANCELLED, _TASK_FAILED) if array_id(other) == own.after else None
