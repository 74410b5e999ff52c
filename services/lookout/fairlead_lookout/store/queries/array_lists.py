"""Reads arrays, and tasks that are not released yet."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.domain.records import index_sets
from fairlead_common.domain.records.events import ArraySubmitted, ArrayTask
from fairlead_lookout.domain.model import JobRequest
from fairlead_lookout.store import table_rows
from fairlead_lookout.store.queries import list_cursors
from fairlead_lookout.store.queries.view_reader import Dependencies, JobRecord, ViewReader

_decode_submitted: Final = msgspec.json.Decoder(ArraySubmitted).decode
_decode_counts: Final = msgspec.json.Decoder(dict[str, int]).decode


class ArrayFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which arrays a list contains; an absent field does not restrict it."""

    visible_queues: QueueScope = ALL_QUEUES
    queue: str | None = None
    job_set: str | None = None
    client_id: str | None = None
    active: bool = False


class ArrayRecord(msgspec.Struct, frozen=True):
    """An array: its row, the event that submitted it, its tasks by state, and what it waits for
    while tasks of it are not released.

    In a list, the template of the event has only what lists show.
    """

    row: Any
    submitted: ArraySubmitted
    counts: dict[str, int]
    dependencies: Dependencies = Dependencies()


class ArrayPage(msgspec.Struct, frozen=True):
    """Arrays of a page, newest first, and the cursor of the next page."""

    arrays: list[ArrayRecord]
    next: str | None


async def read_arrays(
    view: ViewReader, wanted: ArrayFilter, limit: int, cursor: str | None
) -> ArrayPage:
    """A page of arrays. Raises a 400 `Problem` for an invalid cursor."""
    query = ("arrays", wanted.queue, wanted.job_set, wanted.client_id, str(wanted.active))
    place = list_cursors.decode(query, cursor)
    rows = await view.fetch(
        "arrays",
        *wanted.visible_queues.arguments(),
        wanted.queue,
        wanted.job_set,
        wanted.client_id,
        wanted.active,
        None if place is None else place[0],
        None if place is None else place[1],
        limit + 1,
    )
    arrays = await _decode(view, rows[:limit])
    if len(rows) <= limit:
        return ArrayPage(arrays, None)
    last = rows[limit - 1]
    return ArrayPage(arrays, list_cursors.encode(query, last["submitted_ms"], last["id"]))


async def read_named_arrays(view: ViewReader, arrays: Sequence[str]) -> list[ArrayRecord]:
    """The arrays with these ids, in this order; those that do not exist are left out."""
    return await _decode(view, await view.fetch("arrays_by_id", list(arrays)))


async def find_arrays(
    view: ViewReader, visible: QueueScope, text: str, limit: int
) -> list[ArrayRecord]:
    """The newest arrays with this id or with the text in their client id; the id of a task finds
    its array."""
    wanted = ids.array_id(text) if ids.is_job_id(text) else text
    return await read_named_arrays(view, await view.find_ids("arrays", visible, wanted, limit))


async def _decode(view: ViewReader, rows: Sequence[Any]) -> list[ArrayRecord]:
    submitted = [_decode_submitted(row["submitted"]) for row in rows]
    after = [
        event.template.after if row["waiting"] else ()
        for row, event in zip(rows, submitted, strict=True)
    ]
    known = await view.read_dependencies(list(dict.fromkeys(chain.from_iterable(after))))
    return [
        ArrayRecord(row, event, _decode_counts(row["counts"] or "{}"), known.select(others))
        for row, event, others in zip(rows, submitted, after, strict=True)
    ]


async def read_waiting_task(view: ViewReader, job_id: str) -> JobRecord | None:
    """A task that was never released, as a job: QUEUED, or CANCELLED.

    None if the id is not that of a task, or the task can have had a row that was removed since.
    """
    array, index = ids.parse_task_id(job_id)
    arrays = await read_named_arrays(view, [array]) if index >= 0 else []
    if not arrays or index not in index_sets.parse(arrays[0].submitted.indexes):
        return None
    (found,) = arrays
    row, template = found.row, found.submitted.template
    cancelled = bool(await view.fetch("cancelled_task", array, index))
    if not cancelled and row["ended_ms"] is not None:
        return None
    task = ArrayTask(found.submitted.array, index, found.submitted.count, 0)
    return JobRecord(
        row=make_task_row(found, job_id, cancelled=cancelled),
        submitted=msgspec.structs.replace(template, job_id=ids.JobId(job_id), array=task),
        runs=[],
        dependencies=Dependencies(),
        preempted_runs=[],
        waits_in_array=not cancelled,
    )


_NO_VALUE: Final = dict.fromkeys(
    (
        "client_id",
        "stopping",
        "start_after_ms",
        "run_pool",
        "started_ms",
        "run_executor",
        "run_node",
        "exit_code",
        "category",
        "superseded_by",
        "after",
    )
)


def make_task_row(array: ArrayRecord, job_id: str, *, cancelled: bool) -> dict[str, Any]:
    """The row that a task which is not released would have in the table of jobs."""
    row, template = array.row, array.submitted.template
    return _NO_VALUE | {
        "id": job_id,
        "queue": row["queue"],
        "job_set": row["job_set"],
        "state": "CANCELLED" if cancelled else "QUEUED",
        "held": False,
        "priority": row["priority"],
        "class": template.priority_class,
        "pool": template.pool,
        "submitted_ms": row["submitted_ms"],
        "submitted_by": row["submitted_by"],
        "user_requests": _encode_cancellation(row) if cancelled else None,
        "changed_ms": row["submitted_ms"],
        "ended_ms": row["ended_ms"] if cancelled else None,
        "run": 0,
        "reason": row["cancel_reason"] if cancelled else None,
    }


def _encode_cancellation(row: Any) -> str | None:
    """The newest request to cancel tasks of an array, as a job's column `user_requests`; None if
    its time is not known, as before version 105 of the view."""
    if row["cancelled_ms"] is None:
        return None
    request = JobRequest(row["cancelled_ms"], "cancel", row["cancelled_by"], row["cancel_reason"])
    return table_rows.encode_requests((request,))
