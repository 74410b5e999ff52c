"""The order inside a queue (rule R3), made anew or kept between rounds.

Sorting a million queued jobs every round would cost more than deciding about them. The service may
keep the two orders of a snapshot, each as an `Order` that follows what changed: one pass over the
rows, no sort of what was there before.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from an array is a number, but numpy says Any)

from __future__ import annotations

from typing import Protocol

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, kernel
from fairlead_scheduler.engine.snapshot import Bool, Byte, Int32, Int64, Snapshot


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


def order_queued(snapshot: Snapshot) -> Int32:
    """`Snapshot.queued_order`: as given, else made by sorting the queued rows."""
    if snapshot.queued_order is not None:
        return snapshot.queued_order
    rows = np.flatnonzero(snapshot.job_node == -1).astype(np.int32)
    return rows[sort_rows(snapshot, rows, live=False)]


def order_running(snapshot: Snapshot) -> Int32:
    """`Snapshot.running_order`: as given, else made by sorting the rows with a live run."""
    if snapshot.running_order is not None:
        return snapshot.running_order
    rows = np.flatnonzero(snapshot.job_node >= 0).astype(np.int32)
    return rows[sort_rows(snapshot, rows, live=True)]


def sort_rows(snapshot: JobColumns, rows: Int32, *, live: bool) -> Int64:
    """The permutation that puts `rows` into the order of R3, queue by queue."""
    value = snapshot.class_value[snapshot.shape_class[snapshot.job_shape[rows]]]
    keys: list[Int64 | Int32] = [snapshot.job_submission[rows]]
    if live:
        keys.append(snapshot.job_started_ms[rows])
    keys += [-snapshot.job_priority[rows], -value, snapshot.job_queue[rows]]
    result: Int64 = np.lexsort(keys)
    return result


class JobOrder:
    """An order that is kept and follows what changes, in one array with room to grow."""

    def __init__(self) -> None:
        self._rows = np.zeros(0, np.int32)
        self._size = 0

    @property
    def rows(self) -> Int32:
        """The rows in their order, until `change` is called."""
        return self._rows[: self._size]

    def change(self, gone: Bool, new: Int32, jobs: JobColumns, *, live: bool) -> None:
        """Take out the rows marked in `gone` ([J]) and put in `new`; `jobs`: as they are now.

        Rows that changed their place (another priority) are both gone and new: `gone` refers to
        what is there. Costs one pass over it and one sort of `new`.
        """
        fresh = new[sort_rows(jobs, new, live=live)]
        left = _remove_rows(self._rows, self._size, gone)
        self._size = left + fresh.size
        if self._size > self._rows.size:
            self._rows = np.concatenate([self._rows, np.zeros(2 * self._size, np.int32)])
        _insert_rows(
            self._rows,
            left,
            fresh,
            jobs.job_queue,
            jobs.class_value[jobs.shape_class],
            jobs.job_shape,
            jobs.job_priority,
            jobs.job_started_ms if live else jobs.job_submission,
            jobs.job_submission,
        )


@inlined
def _goes_before(
    b: int,
    a: int,
    queue: Int32,
    value: Int64,
    shape: Int32,
    priority: Int64,
    started: Int64,
    submission: Int64,
) -> bool:
    """Whether job `b` stands before job `a`."""
    if queue[a] != queue[b]:
        return queue[b] < queue[a]
    if shape[a] != shape[b] and value[shape[a]] != value[shape[b]]:
        return value[shape[b]] > value[shape[a]]
    if priority[a] != priority[b]:
        return priority[b] > priority[a]
    if started[a] != started[b]:
        return started[b] < started[a]
    return submission[b] < submission[a]


@kernel
def _remove_rows(rows: Int32, size: int, gone: Bool) -> int:
    """Close the gaps that those leave who are gone; returns how many are left."""
    left = 0
    for i in range(size):
        rows[left] = rows[i]
        left += not gone[rows[i]]
    return left


@inlined
def _find_place(
    b: int,
    rows: Int32,
    end: int,
    queue: Int32,
    value: Int64,
    shape: Int32,
    priority: Int64,
    started: Int64,
    submission: Int64,
) -> int:
    """Where job `b` is to stand among the first `end` rows.

    It is looked for from the end, in steps that double, and then by halving: what is new mostly
    comes last in its queue, and so close to what was put in before it.
    """
    low = 0
    high = end
    step = 1
    while step <= end:
        before = rows[end - step]
        if not _goes_before(b, before, queue, value, shape, priority, started, submission):
            low = end - step + 1
            break
        high = end - step
        step *= 2
    while low < high:
        middle = (low + high) // 2
        if _goes_before(b, rows[middle], queue, value, shape, priority, started, submission):
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _insert_rows(
    rows: Int32,
    size: int,
    new: Int32,
    queue: Int32,
    value: Int64,
    shape: Int32,
    priority: Int64,
    started: Int64,
    submission: Int64,
) -> None:
    """Single rows are looked at where a new one is to stand; the others move, many at a time."""
    end = size
    for j in range(new.size - 1, -1, -1):
        at = _find_place(new[j], rows, end, queue, value, shape, priority, started, submission)
        if at < end:
            rows[at + j + 1 : end + j + 1] = rows[at:end]
        rows[at + j] = new[j]
        end = at


@kernel
def find_queue_bounds(order: Int32, queue: Int32, queues: int) -> Int64:
    """[Q+1] where each queue's rows begin in an order that is sorted by queue."""
    result = np.empty(queues + 1, np.int64)
    at = 0
    for q in range(queues):
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
    result[queues] = at
    return result


@kernel
def select_rows(order: Int32, chosen: Byte) -> Int32:
    """The rows of `order` that are marked in `chosen` ([J]), in that order."""
    result = np.empty(order.size, np.int32)
    n = 0
    for i in range(order.size):
        if chosen[order[i]]:
            result[n] = order[i]
            n += 1
    return result[:n]
