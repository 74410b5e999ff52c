"""Columns by row of the job table that rounds read beside the columns of the table.

A job takes part in the rounds of at most one pool, so one set of columns serves all pools; nodes,
queues, shapes and gangs are numbered per pool. The values of a row are those with which its job is
counted in the pool, until the row is released.
"""

from collections.abc import Mapping
from operator import is_
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.snapshots.row_descriptions import (
    Int32,
    Int64,
    RowDescription,
    Rows,
    RowValues,
)
from fairlead_scheduler.state.jobs.growing_columns import grow_array

Bool = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]

NO_PART: Final = -2
"""`node` of a row that takes no part in any round."""
WAITING: Final = -1
"""`node` of a queued job that takes part."""


class RetainedSlices:
    """The first rows of columns: the same objects until a column or their number is another one,
    because the engine describes each new object to its kernels."""

    def __init__(self) -> None:
        self._used = -1
        self._columns: list[Column] = []
        self._slices: dict[str, Column] = {}

    def up_to(self, used: int, columns: Mapping[str, Column]) -> dict[str, Column]:
        """The first `used` rows of these columns, by name."""
        if self._used != used or not all(map(is_, columns.values(), self._columns)):
            self._used, self._columns = used, list(columns.values())
            self._slices = {name: column[:used] for name, column in columns.items()}
        return self._slices


class RoundColumns:
    """Columns by row of the job table, as long as the table or longer."""

    def __init__(self) -> None:
        self.pool: Int32 = np.zeros(0, np.int32)
        """Number of the pool in whose rounds the row takes part; -1 for none."""
        self.node: Int32 = np.zeros(0, np.int32)
        """Row of the node of its run, `WAITING` or `NO_PART`."""
        self.queue: Int32 = np.zeros(0, np.int32)
        self.shape: Int32 = np.zeros(0, np.int32)
        self.value: Int64 = np.zeros(0, np.int64)
        """Value that its run runs at; 0 for a queued job."""
        self.flags: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
        """`engine.SchedulingFlag`."""
        self.fingerprint: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        """Of the columns of the job table that rounds read: see `row_descriptions.fingerprints`."""
        self.gang: Int32 = np.zeros(0, np.int32)
        """Row of its gang; -1 for none."""
        self.role: Int32 = np.zeros(0, np.int32)
        """Row of its role; -1 for none."""
        self.weighted_time: npt.NDArray[np.float64] = np.zeros(0)
        """Weighted running time of its job or gang, 0 in queues without `order: fair` (G9)."""
        self.ran_ms: Int64 = np.zeros(0, np.int64)
        """How long its former runs took; 0 in pools without a queue with `order: fair` (G9)."""
        self.ran_until_ms: Int64 = np.zeros(0, np.int64)
        """When the last of these runs ended."""
        self.link: Int32 = np.zeros(0, np.int32)
        self.back: Int32 = np.zeros(0, np.int32)
        """As in `engine.JobTotals`."""
        self.released: Bool = np.zeros(0, np.bool_)
        """Whether a released row is still in the orders of its pool and has to be removed."""
        self.rows_taking_part = 0

    def grow(self, rows: int) -> None:
        """Extend the columns to this many rows."""
        if rows <= self.pool.size:
            return
        self.pool = grow_array(self.pool, rows, -1)
        self.node = grow_array(self.node, rows, NO_PART)
        self.queue = grow_array(self.queue, rows)
        self.shape = grow_array(self.shape, rows)
        self.value = grow_array(self.value, rows)
        self.flags = grow_array(self.flags, rows)
        self.fingerprint = grow_array(self.fingerprint, rows)
        self.gang = grow_array(self.gang, rows, -1)
        self.role = grow_array(self.role, rows, -1)
        self.weighted_time = grow_array(self.weighted_time, rows)
        self.ran_ms = grow_array(self.ran_ms, rows)
        self.ran_until_ms = grow_array(self.ran_until_ms, rows)
        self.link = grow_array(self.link, rows)
        self.back = grow_array(self.back, rows)
        self.released = grow_array(self.released, rows)

    def matches(self, now: RowDescription) -> Bool:
        """[rows] whether each row is counted as described. Columns that change most often are
        compared first."""
        at = np.arange(now.rows.size)
        for column, described in (
            (self.node, now.node),
            (self.fingerprint, now.fingerprint),
            (self.flags, now.flags),
            (self.shape, now.shape),
            (self.queue, now.queue),
            (self.value, now.value),
        ):
            at = at[column[now.rows[at]] == described[at]]
        same = np.zeros(now.rows.size, np.bool_)
        same[at] = True
        return same

    def is_as_described(self, row: int, now: RowValues) -> bool:
        """Whether a row is counted as described."""
        return now == (
            self.node.item(row),
            self.queue.item(row),
            self.shape.item(row),
            self.value.item(row),
            self.flags.item(row),
            self.fingerprint.item(row),
        )

    def fill(self, pool: int, now: RowDescription) -> None:
        """Count these rows in a pool, as described."""
        rows = now.rows
        self.pool[rows] = pool
        self.node[rows] = now.node
        self.queue[rows] = now.queue
        self.shape[rows] = now.shape
        self.value[rows] = now.value
        self.flags[rows] = now.flags
        self.fingerprint[rows] = now.fingerprint
        self.rows_taking_part += rows.size

    def fill_one(self, pool: int, row: int, now: RowValues) -> None:
        """As `fill` of one row."""
        self.pool[row] = pool
        (
            self.node[row],
            self.queue[row],
            self.shape[row],
            self.value[row],
            self.flags[row],
            self.fingerprint[row],
        ) = now
        self.rows_taking_part += 1

    def release_one(self, row: int) -> None:
        """As `release` of one row."""
        self.pool[row] = -1
        self.node[row] = NO_PART
        self.gang[row] = -1
        self.role[row] = -1
        self.weighted_time[row] = 0.0
        self.ran_ms[row] = 0
        self.released[row] = True
        self.rows_taking_part -= 1

    def release(self, rows: Rows) -> None:
        """Stop counting these rows. `forget_released` must follow once no order contains them."""
        self.pool[rows] = -1
        self.node[rows] = NO_PART
        self.gang[rows] = -1
        self.role[rows] = -1
        self.weighted_time[rows] = 0.0
        self.ran_ms[rows] = 0
        self.released[rows] = True
        self.rows_taking_part -= rows.size

    def forget_released(self, rows: Rows) -> None:
        """Note that no order contains released rows among these any more."""
        self.released[rows] = False

    def nodes_of(self, pool: int, count: int, used: int) -> Int32:
        """`Snapshot.job_node` of a pool with `count` rows. If other pools have rows, it is a copy
        in which these take no part."""
        node = self.node[:used]
        if count == self.rows_taking_part:
            return node
        return np.where(self.pool[:used] == pool, node, np.int32(NO_PART))
