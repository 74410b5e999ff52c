"""The JSON that the API returns about arrays."""

from typing import Any, Final

import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.records import index_sets
from fairlead_common.service import clock
from fairlead_lookout.domain.transitions import ENDED
from fairlead_lookout.http.responses.job_responses import (
    JobResponse,
    WaitingReasonResponse,
    describe_job,
)
from fairlead_lookout.http.responses.response_base import ResponseBody, format_time
from fairlead_lookout.http.responses.waiting_reasons import explain_dependencies
from fairlead_lookout.store.queries.array_lists import ArrayPage, ArrayRecord
from fairlead_lookout.store.queries.task_lists import TaskPage
from fairlead_lookout.store.topic_caches import ClusterCache

INDEXES_LENGTH_MAX: Final = 1_000
"""Longest text of indexes in a response."""


class ArrayResponse(ResponseBody, frozen=True, kw_only=True):
    """An array. `tasks`: how many it has; `states`: tasks by state; `live`: that have not ended.

    `waiting`: tasks that the scheduler has not released, which are no jobs yet. `indexes`: of all
    tasks, below `count`. `after`: the jobs and arrays for which it waits; `afterCorresponding`: the
    array whose tasks these follow. `priority`: of the tasks that are not released. `why`: why these
    wait.
    """

    id: str
    queue: str
    job_set: str
    client_id: str | None = None
    count: int
    indexes: str
    tasks: int
    waiting: int
    live: int
    states: dict[str, int]
    max_running: int | None = None
    after: tuple[str, ...] = ()
    after_corresponding: str | None = None
    priority: int
    priority_class: str
    pool: str
    labels: dict[str, str]
    submitted: str
    submitted_by: str
    ended: str | None = None
    cancelled_by: str | None = None
    reason: str | None = None
    why: WaitingReasonResponse | None = None


class ArraysResponse(ResponseBody, frozen=True, kw_only=True):
    """A page of arrays, newest first; `next` is the cursor of the next page."""

    arrays: list[ArrayResponse]
    next: str | None = None


class TaskResponse(JobResponse, frozen=True, kw_only=True):
    """A task as a job. `released`: whether it is one; else it waits, or was cancelled before."""

    index: int
    released: bool


class TasksResponse(ResponseBody, frozen=True, kw_only=True):
    """A page of tasks by index; `next` is the cursor of the next page."""

    tasks: list[TaskResponse]
    next: str | None = None


def describe_tasks(page: TaskPage, clusters: ClusterCache) -> TasksResponse:
    """The response of a list of tasks."""
    now_ms, jobs = clock.now_ms(), page.jobs
    tasks = []
    for task in page.tasks:
        waits = task.row["id"] in jobs.waiting_for_others
        job = describe_job(task.row, now_ms, waits, jobs.client_ids, clusters)
        fields = msgspec.structs.asdict(job)
        tasks.append(TaskResponse(index=task.index, released=task.released, **fields))
    return TasksResponse(tasks=tasks, next=page.next)


def describe_arrays(page: ArrayPage) -> ArraysResponse:
    """The response of a list."""
    return ArraysResponse(arrays=[describe_array(each) for each in page.arrays], next=page.next)


def describe_array(array: ArrayRecord) -> ArrayResponse:
    """The response for an array."""
    row, submitted, template = array.row, array.submitted, array.submitted.template
    return ArrayResponse(
        id=row["id"],
        queue=row["queue"],
        job_set=row["job_set"],
        client_id=row["client_id"],
        count=submitted.count,
        indexes=shorten_indexes(submitted.indexes),
        tasks=row["tasks"],
        waiting=row["waiting"],
        live=_count_live(array),
        states=array.counts,
        max_running=submitted.running_max,
        after=template.after,
        after_corresponding=submitted.after,
        priority=row["priority"],
        priority_class=template.priority_class,
        pool=template.pool,
        labels=template.labels,
        submitted=timestamps.rfc3339(row["submitted_ms"]),
        submitted_by=row["submitted_by"],
        ended=format_time(row["ended_ms"]),
        cancelled_by=row["cancelled_by"],
        reason=row["cancel_reason"],
        why=explain_waiting_tasks(array),
    )


def explain_waiting_tasks(array: ArrayRecord) -> WaitingReasonResponse | None:
    """Why tasks wait that are not released; None without any."""
    waiting: Any = array.row["waiting"]
    if not waiting:
        return None
    if array.dependencies.are_open:
        return explain_dependencies("The array waits", array.dependencies)
    released = _count_live(array) - waiting
    running_max = array.submitted.running_max
    if running_max is not None and released >= running_max:
        return WaitingReasonResponse(
            code="max-running",
            sentence=(
                f"The array runs at most {running_max} tasks at a time (`maxRunning`), and"
                f" {released} have not ended."
            ),
        )
    return WaitingReasonResponse(
        code="scheduling",
        sentence=(
            f"{waiting} tasks of the array wait behind {released} earlier ones; the scheduler"
            " releases them when they can soon start."
        ),
    )


def shorten_indexes(text: str) -> str:
    """The indexes, or their extent if there are many ranges."""
    if len(text) <= INDEXES_LENGTH_MAX:
        return text
    ranges = index_sets.parse(text).ranges
    return f"{len(ranges)} ranges from {ranges[0][0]} to {ranges[-1][1]}"


def _count_live(array: ArrayRecord) -> int:
    return sum(tasks for state, tasks in array.counts.items() if state not in ENDED)
