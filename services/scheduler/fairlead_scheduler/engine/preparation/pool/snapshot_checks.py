"""Checks of a snapshot, because kernels do not check bounds: a wrong row would read other memory.

`check_static_columns` checks the columns of queues, classes, shapes and nodes when they change;
`check_varying_columns` checks tokens and gangs in every round. `list_problems` also examines the
jobs, for tests and for code that builds snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from fairlead_scheduler.engine.snapshot import Int32, Int64, Snapshot

COUNTED_SPAN: Final = 16
"""Duplicates of numbers below this multiple of their count are found by counting, not by
sorting."""


class InvalidSnapshotError(ValueError):
    """The snapshot breaks a rule of its columns; the message names the column and the problem."""


def check_static_columns(snapshot: Snapshot) -> None:
    """Raise `InvalidSnapshotError` for the first problem of queues, classes, shapes and nodes."""
    _raise_first(snapshot, _list_static_problems(snapshot))


def check_varying_columns(snapshot: Snapshot) -> None:
    """Raise `InvalidSnapshotError` for the first problem of tokens and gangs."""
    _raise_first(snapshot, _list_varying_problems(snapshot))


def _raise_first(snapshot: Snapshot, problems: Iterator[str]) -> None:
    for problem in problems:
        raise InvalidSnapshotError(f"snapshot of pool {snapshot.pool}: {problem}")


def list_problems(snapshot: Snapshot) -> list[str]:
    """Everything that is wrong with a snapshot, in words; empty for a valid one."""
    return [
        *_list_static_problems(snapshot),
        *_list_varying_problems(snapshot),
        *_list_job_problems(snapshot),
    ]


def _list_static_problems(snapshot: Snapshot) -> Iterator[str]:
    names = snapshot.queue_names
    if list(names) != sorted(set(names)):
        yield "queue_names are not ascending, each once"
    for name, weight in zip(names, snapshot.queue_weight.tolist(), strict=True):
        if not 0 < weight < np.inf:
            yield f"queue_weight of {name!r} is {weight}; it must be a number above 0"
    for column in ("node_allocatable", "shape_request", "shape_floating", "floating_total"):
        amounts = getattr(snapshot, column)
        if amounts is not None and amounts.size and int(amounts.min()) < 0:
            yield f"{column} has a negative amount ({int(amounts.min())})"
    for column in ("queue_limit_fraction", "queue_limit_amount", "class_ceiling"):
        numbers = getattr(snapshot, column)
        if numbers is not None and np.isnan(numbers).any():
            yield f"{column} has a value that is not a number"
    yield from _check_bounds("shape_class", snapshot.shape_class, snapshot.class_value.size)
    yield from _check_bounds("node_type", snapshot.node_type, snapshot.shape_match.shape[2])
    if (snapshot.class_preemption > 2).any():
        yield "class_preemption has a value that is not a Preemption"
    if _has_duplicates(snapshot.node_number):
        yield "node_number has the same number twice"


def _list_varying_problems(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.queue_tokens is not None and np.count_nonzero(np.isnan(snapshot.queue_tokens)):
        yield "queue_tokens has a value that is not a number"
    if snapshot.gang_min is not None:
        least = np.ones(snapshot.gang_min.size, np.int64)
        if snapshot.role_gang is not None and snapshot.role_min is not None:
            used = snapshot.role_gang >= 0
            least[snapshot.role_gang[used]] = 0
            together = np.zeros(least.size, np.int64)
            np.add.at(together, snapshot.role_gang[used], snapshot.role_min[used])
            if ((together != snapshot.gang_min) & (least == 0)).any():
                yield "gang_min of a group is not the sum of its role_min"
        if (snapshot.gang_min < least).any():
            yield "gang_min is below 1 for a gang; at least one member must run"


def _list_job_problems(snapshot: Snapshot) -> Iterator[str]:
    valid = snapshot.job_node >= -1
    yield from _check_bounds("job_queue", snapshot.job_queue[valid], len(snapshot.queue_names))
    yield from _check_bounds("job_shape", snapshot.job_shape[valid], snapshot.shape_class.size)
    yield from _check_bounds("job_node", snapshot.job_node, snapshot.node_type.size, -2)
    if snapshot.job_gang is not None:
        gangs = 0 if snapshot.gang_min is None else snapshot.gang_min.size
        yield from _check_bounds("job_gang", snapshot.job_gang[valid], gangs, -1)
    if snapshot.job_role is not None:
        roles = 0 if snapshot.role_min is None else snapshot.role_min.size
        yield from _check_bounds("job_role", snapshot.job_role[valid], roles, -1)
    if _has_duplicates(snapshot.job_submission[valid]):
        yield "job_submission has the same number twice"


def _has_duplicates(numbers: Int64) -> bool:
    """Whether any number occurs twice. Counting small numbers takes a tenth of the time of
    sorting."""
    if (
        numbers.size
        and int(numbers.min()) >= 0
        and int(numbers.max()) < COUNTED_SPAN * numbers.size
    ):
        return bool((np.bincount(numbers) > 1).any())
    ascending = np.sort(numbers)
    return bool((ascending[1:] == ascending[:-1]).any())


def _check_bounds(column: str, rows: Int32, size: int, least: int = 0) -> Iterator[str]:
    if rows.size and not (least <= int(rows.min()) and int(rows.max()) < size):
        low, high = int(rows.min()), int(rows.max())
        yield f"{column} has rows from {low} to {high}, but there are only {size}"
