"""Lists the tasks of an array by index, also tasks that are not released yet.

A task that is a job has a row. Of the others, bits say which were cancelled. The rest waits, from
the newest released task on, because tasks are released in the order of their indexes.
"""

from itertools import islice
from typing import Any, Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import index_marks, index_sets
from fairlead_common.domain.records.index_marks import CHUNK_TASKS
from fairlead_common.domain.records.index_sets import INDEX_MAX
from fairlead_lookout.store.queries import array_lists, list_cursors
from fairlead_lookout.store.queries.array_lists import ArrayRecord
from fairlead_lookout.store.queries.view_reader import JobRows, ViewReader

_NOTHING: Final = JobRows([], set(), {})


class TaskRow(msgspec.Struct, frozen=True):
    """A task, as a row of a job. `released`: whether it is one."""

    index: int
    row: Any
    released: bool


class TaskPage(msgspec.Struct, frozen=True):
    """Tasks by index. `jobs`: those that are jobs; `next`: the cursor of the next page."""

    tasks: list[TaskRow]
    jobs: JobRows = _NOTHING
    next: str | None = None


async def read_tasks(
    view: ViewReader, array: ArrayRecord, state: str | None, limit: int, cursor: str | None
) -> TaskPage:
    """A page of the tasks in a state (None: any). Raises a 400 `Problem` for an invalid cursor."""
    name = array.row["id"]
    query = ("tasks", name, state)
    place = list_cursors.decode(query, cursor, INDEX_MAX)
    after = -1 if place is None else place[0]
    newest = await view.fetch("newest_task", name, _last_id(name))
    rows = await view.fetch("cancelled_tasks", name, max(after, 0) // CHUNK_TASKS)
    cancelled = index_marks.decode({row["chunk"]: row["bits"].bytes for row in rows})
    released_to = ids.parse_task_id(newest[0]["id"])[1] if newest else -1
    if array.row["ended_ms"] is not None or not array.row["waiting"]:
        released_to = INDEX_MAX
    found = await _find_released(view, newest[0], state, after, limit + 1) if newest else []
    if state in (None, JobState.CANCELLED):
        found += islice(index_marks.list_marked(cancelled, after), limit + 1)
    if state in (None, JobState.QUEUED):
        every = index_sets.parse(array.submitted.indexes).as_ranges()
        waiting = index_marks.list_unmarked(every, cancelled, max(after, released_to))
        found += islice(waiting, limit + 1)
    found.sort()
    chosen = found[:limit]
    jobs = await view.read_jobs(ids.task_ids(name, chosen))
    by_id = {row["id"]: row for row in jobs.rows}
    tasks = []
    for index, job_id in zip(chosen, ids.task_ids(name, chosen), strict=True):
        row, is_cancelled = by_id.get(job_id), index_marks.is_marked(cancelled, index)
        made = row or array_lists.make_task_row(array, job_id, cancelled=is_cancelled)
        tasks.append(TaskRow(index, made, released=row is not None))
    following = list_cursors.encode(query, chosen[-1]) if len(found) > limit else None
    return TaskPage(tasks, jobs, following)


async def _find_released(
    view: ViewReader, newest: Any, state: str | None, after: int, limit: int
) -> list[int]:
    """The indexes of released tasks in a state, ascending; `newest`: one of them in any state."""
    name, index = ids.parse_task_id(newest["id"])
    if state is None:
        first = ids.task_id(name, after) if after >= 0 else name
        rows = await view.fetch("released_tasks", first, _last_id(name), limit)
    else:
        begin = newest["number"] - ids.TASK_NUMBER_STEP * (index - after)
        prefix = name[: -ids.TASK_CHARACTERS]
        rows = await view.fetch(
            "tasks_in_state", newest["set_number"], state, begin, newest["number"], prefix, limit
        )
    return [ids.parse_task_id(row["id"])[1] for row in rows]


def _last_id(array: str) -> str:
    """The greatest id that a task of this array can have."""
    return ids.task_id(array, ids.TASK_NUMBERS - 2)
