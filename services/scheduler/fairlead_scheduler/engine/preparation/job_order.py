"""The order inside a queue (rules R3 and G9), computed by sorting or updated between rounds.

Sorting a million queued jobs every round would cost more than deciding about them. The service
retains the two orders of a snapshot, each as a `JobOrder` that is updated when jobs change: with
one pass over the rows, without sorting them again.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from an array is a number, but numpy says Any)

from __future__ import annotations

from operator import is_
from typing import Final, NamedTuple, Protocol

import numpy as np

from fairlead_scheduler.domain.surplus_priority import PRIORITY_MIN, SURPLUS_STEP
from fairlead_scheduler.engine.compiler.decorators import (
    by_address,
    entry_point,
    inlined,
    is_compiled,
    pack_for_kernels,
)
from fairlead_scheduler.engine.snapshot import Bool, Float, Int32, Int64, Snapshot

_NO_TIMES: Final = np.zeros(0)


class JobColumns(Protocol):
    """The columns of a `Snapshot` that the order depends on."""

    @property
    def class_value(self) -> Int64: ...
    @property
    def shape_class(self) -> Int32: ...
    @property
    def job_queue(self) -> Int32: ...
    @property
    def job_shape(self) -> Int32: ...
    @property
    def job_priority(self) -> Int64: ...
    @property
    def job_submission(self) -> Int64: ...
    @property
    def job_started_ms(self) -> Int64: ...
    @property
    def job_weighted_time(self) -> Float | None: ...


@by_address
class SortColumns(NamedTuple):
    """What `_is_earlier` compares."""

    queue: Int32
    value: Int64
    """[S] class value"""
    shape: Int32
    weighted_time: Float
    """[J] G9; [0] where no queue has `order: fair`, and for live runs"""
    priority: Int64
    started: Int64
    """[J] for queued jobs the submission"""
    submission: Int64


def order_queued(snapshot: Snapshot) -> Int32:
    """`Snapshot.queued_order`; if the snapshot has none, the queued rows are sorted."""
    if snapshot.queued_order is not None:
        return snapshot.queued_order
    rows = np.flatnonzero(snapshot.job_node == -1).astype(np.int32)
    return rows[sort_rows(snapshot, rows, live=False)]


def order_running(snapshot: Snapshot) -> Int32:
    """`Snapshot.running_order`; if the snapshot has none, the rows with a live run are sorted."""
    if snapshot.running_order is not None:
        return snapshot.running_order
    rows = np.flatnonzero(snapshot.job_node >= 0).astype(np.int32)
    return rows[sort_rows(snapshot, rows, live=True)]


def sort_rows(snapshot: JobColumns, rows: Int32, *, live: bool) -> Int64:
    """The permutation that puts `rows` into the order of R3, queue by queue."""
    value = snapshot.class_value[snapshot.shape_class[snapshot.job_shape[rows]]]
    keys: list[Int64 | Int32 | Float] = [snapshot.job_submission[rows]]
    if live:
        keys.append(snapshot.job_started_ms[rows])
    keys.append(-snapshot.job_priority[rows])
    if snapshot.job_weighted_time is not None and not live:
        surplus_rank = -((snapshot.job_priority[rows] - PRIORITY_MIN) // SURPLUS_STEP)
        keys += [snapshot.job_weighted_time[rows], surplus_rank]
    keys += [-value, snapshot.job_queue[rows]]
    result: Int64 = np.lexsort(keys)
    return result


class JobOrder:
    """An order that is updated as jobs change, in one array with spare capacity."""

    def __init__(self) -> None:
        self._rows = np.zeros(0, np.int32)
        self._size = 0
        self._sources: tuple[object, ...] = ()
        self._packed: SortColumns | None = None
        """The columns of `_sources` as kernels accept them."""

    @property
    def rows(self) -> Int32:
        """The rows in their order, until `change` is called."""
        return self._rows[: self._size]

    def change(self, removed: Bool, new: Int32, jobs: JobColumns, *, live: bool) -> None:
        """Remove the rows marked in `removed` ([J]) and insert `new`; `jobs` describes them as they
        are now.

        A row that changes its place (another priority) is in both: `removed` refers to the order
        before the change. It costs one pass over the order and one sort of `new`.
        """
        fresh = new[sort_rows(jobs, new, live=live)] if new.size > 1 else new
        if self._size + fresh.size > self._rows.size:
            more = np.zeros(2 * (self._size + fresh.size), np.int32)
            self._rows = np.concatenate([self._rows, more])
        columns = self._pack_columns(jobs, live=live)
        self._size = _change_rows(self._rows, self._size, removed, fresh, columns)

    def _pack_columns(self, jobs: JobColumns, *, live: bool) -> SortColumns:
        """The columns of the jobs as kernels accept them; those of the last change if they are the
        same, because packing them takes longer than inserting a few rows."""
        times = None if live else jobs.job_weighted_time
        sources = (
            jobs.job_queue,
            jobs.class_value,
            jobs.shape_class,
            jobs.job_shape,
            _NO_TIMES if times is None else times,
            jobs.job_priority,
            jobs.job_started_ms if live else jobs.job_submission,
            jobs.job_submission,
            is_compiled(),
        )
        if self._packed is None or not all(map(is_, sources, self._sources)):
            queue, value, shape_class, shape, weighted, priority, started, submission, _ = sources
            self._sources = sources
            self._packed = pack_for_kernels(
                SortColumns(
                    queue, value[shape_class], shape, weighted, priority, started, submission
                )
            )
        return self._packed


@inlined
def _is_earlier(
    a: int,
    b: int,
    columns: SortColumns,
) -> bool:
    """Whether job `a` comes before job `b`."""
    if columns.queue[a] != columns.queue[b]:
        return columns.queue[a] < columns.queue[b]
    value_a, value_b = columns.value[columns.shape[a]], columns.value[columns.shape[b]]
    if value_a != value_b:
        return value_a > value_b
    if columns.weighted_time.size > 0:
        surplus_a = (columns.priority[a] - PRIORITY_MIN) // SURPLUS_STEP
        surplus_b = (columns.priority[b] - PRIORITY_MIN) // SURPLUS_STEP
        if surplus_a != surplus_b:
            return surplus_a > surplus_b
        if columns.weighted_time[a] != columns.weighted_time[b]:
            return columns.weighted_time[a] < columns.weighted_time[b]
    if columns.priority[a] != columns.priority[b]:
        return columns.priority[a] > columns.priority[b]
    if columns.started[a] != columns.started[b]:
        return columns.started[a] < columns.started[b]
    return columns.submission[a] < columns.submission[b]


@entry_point
def _change_rows(rows: Int32, size: int, removed: Bool, new: Int32, columns: SortColumns) -> int:
    """Remove the rows marked in `removed`, and insert `new`, sorted; returns how many there are."""
    left = remove_rows(rows, size, removed)
    insert_rows(rows, left, new, columns)
    return left + new.size


@inlined
def remove_rows(rows: Int32, size: int, removed: Bool) -> int:
    """Remove the rows marked in `removed`; returns how many are left."""
    left = 0
    for i in range(size):
        rows[left] = rows[i]
        left += not removed[rows[i]]
    return left


@inlined
def _find_place(
    j: int,
    rows: Int32,
    end: int,
    columns: SortColumns,
) -> int:
    """The place of job `j` among the first `end` rows.

    The search goes backwards from the end in steps that double, then by halves: new jobs are mostly
    the last of their queue, so their place is close to that of the job inserted before.
    """
    low = 0
    high = end
    step = 1
    while step <= end:
        before = rows[end - step]
        if not _is_earlier(j, before, columns):
            low = end - step + 1
            break
        high = end - step
        step *= 2
    while low < high:
        middle = (low + high) // 2
        if _is_earlier(j, rows[middle], columns):
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def insert_rows(
    rows: Int32,
    size: int,
    new: Int32,
    columns: SortColumns,
) -> None:
    """Insert `new`, sorted, into the first `size` rows; the rows between move in blocks."""
    end = size
    for n in range(new.size - 1, -1, -1):
        at = _find_place(new[n], rows, end, columns)
        for i in range(end - 1, at - 1, -1):
            rows[i + n + 1] = rows[i]
        rows[at + n] = new[n]
        end = at


def find_queue_bounds(order: Int32, queue: Int32, queues: int) -> Int64:
    """[Q+1] where each queue's rows begin in an order that is sorted by queue."""
    result = np.empty(queues + 1, np.int64)
    _find_bounds(order, queue, result)
    return result


@entry_point
def _find_bounds(order: Int32, queue: Int32, result: Int64) -> None:
    at = 0
    for q in range(result.size - 1):
        result[q] = at
        low = at
        high = order.size
        while low < high:
            middle = (low + high) // 2
            if queue[order[middle]] <= q:
                low = middle + 1
            else:
                high = middle
        at = low
    result[result.size - 1] = at


def find_first_waiting(order: Int32, first: Int64, ended: Bool, waiting: Int64) -> Int64:
    """[Q] the place, in each queue's order, of its first job that waits; -1 without one.

    `ended` ([J]): the jobs that the round starts, fails or rejects.
    """
    result = np.full(waiting.size, -1, np.int64)
    _find_first(order, first, ended, waiting, result)
    return result


@entry_point
def _find_first(order: Int32, first: Int64, ended: Bool, waiting: Int64, result: Int64) -> None:
    for q in range(waiting.size):
        if waiting[q] == 0:
            continue
        for i in range(first[q], first[q + 1]):
            if not ended[order[i]]:
                result[q] = i - first[q]
                break
