"""The order inside a queue (rule R3), made anew or kept between rounds.

Sorting a million queued jobs every round would cost more than deciding about them. The service may
keep the two orders of a snapshot and let `merged` apply what changed: one pass over the rows, no
sort of what was there before.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from an array is a number, but numpy says Any)

from __future__ import annotations

from typing import Protocol

import numpy as np

from .compiled import kernel, part
from .snapshot import Bool, Byte, Int32, Int64, Snapshot


class Jobs(Protocol):
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


def queued(snapshot: Snapshot) -> Int32:
    """`Snapshot.queued_order`: as given, else made by sorting the queued rows."""
    if snapshot.queued_order is not None:
        return snapshot.queued_order
    rows = np.flatnonzero(snapshot.job_node == -1).astype(np.int32)
    return rows[sort_keys(snapshot, rows, live=False)]


def running(snapshot: Snapshot) -> Int32:
    """`Snapshot.running_order`: as given, else made by sorting the rows with a live run."""
    if snapshot.running_order is not None:
        return snapshot.running_order
    rows = np.flatnonzero(snapshot.job_node >= 0).astype(np.int32)
    return rows[sort_keys(snapshot, rows, live=True)]


def sort_keys(snapshot: Jobs, rows: Int32, *, live: bool) -> Int64:
    """The permutation that puts `rows` into the order of R3, queue by queue."""
    value = snapshot.class_value[snapshot.shape_class[snapshot.job_shape[rows]]]
    keys: list[Int64 | Int32] = [snapshot.job_submission[rows]]
    if live:
        keys.append(snapshot.job_started_ms[rows])
    keys += [-snapshot.job_priority[rows], -value, snapshot.job_queue[rows]]
    result: Int64 = np.lexsort(keys)
    return result


def merged(old: Int32, gone: Bool, new: Int32, snapshot: Jobs, *, live: bool) -> Int32:
    """The order after a change: `old` without the rows marked in `gone` ([J]), with `new` put in.

    `snapshot` is the one after the change; rows that changed their place (another priority) are
    both gone and new, so `gone` refers to `old` only. Costs one pass over `old` and one sort of
    `new`.
    """
    fresh = new[sort_keys(snapshot, new, live=live)]
    value = snapshot.class_value[snapshot.shape_class]
    started = snapshot.job_started_ms if live else snapshot.job_submission
    return _merge(
        old,
        gone,
        fresh,
        snapshot.job_queue,
        value,
        snapshot.job_shape,
        snapshot.job_priority,
        started,
        snapshot.job_submission,
    )


@part
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
def _merge(
    old: Int32,
    gone: Bool,
    new: Int32,
    queue: Int32,
    value: Int64,
    shape: Int32,
    priority: Int64,
    started: Int64,
    submission: Int64,
) -> Int32:
    """Single jobs of `old` are looked at where a new one is to stand, by halving; others move."""
    left = np.empty(old.size, np.int32)
    size = 0
    for i in range(old.size):
        left[size] = old[i]
        size += not gone[old[i]]
    result = np.empty(size + new.size, np.int32)
    at = 0
    for j in range(new.size):
        b = new[j]
        low = at
        high = size
        while low < high:
            middle = (low + high) // 2
            if _goes_before(b, left[middle], queue, value, shape, priority, started, submission):
                high = middle
            else:
                low = middle + 1
        for i in range(at, low):
            result[i + j] = left[i]
        at = low
        result[at + j] = b
    for i in range(at, size):
        result[i + new.size] = left[i]
    return result


@kernel
def bounds(order: Int32, queue: Int32, queues: int) -> Int64:
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
def only(order: Int32, chosen: Byte) -> Int32:
    """The rows of `order` that are marked in `chosen` ([J]), in that order."""
    result = np.empty(order.size, np.int32)
    n = 0
    for i in range(order.size):
        if chosen[order[i]]:
            result[n] = order[i]
            n += 1
    return result[:n]
