"""The totals over the jobs of a pool: by node, queue and shape (`engine.JobTotals`)."""

from collections import Counter
from typing import Final

import numpy as np

from fairlead_scheduler.engine.preparation import job_totals
from fairlead_scheduler.engine.snapshot import JobTotals
from fairlead_scheduler.snapshots.round_columns import RoundColumns
from fairlead_scheduler.snapshots.row_descriptions import Int32, Int64, Rows

FEW_NUMBERS: Final = 8
"""Up to this many numbers are counted one by one."""
_NO_VALUES: Final = np.zeros(0, np.int64)


class PoolTotals:
    """What `count` has counted. Rows are rows of the job table, as `columns` describes them."""

    def __init__(self, columns: RoundColumns) -> None:
        self._columns = columns
        self._packed: job_totals.PackedColumns | None = None
        self._values: dict[int, int] = {}
        """Value -> live runs at it."""
        self._sorted_values = _NO_VALUES
        self._used = np.zeros((0, 0), np.int64)
        self._runs = np.zeros(0, np.int64)
        self._running = np.zeros((0, 0), np.int64)
        self._queued = np.zeros((0, 0), np.int64)
        self._head = np.zeros(0, np.int32)
        self.shape_jobs = np.zeros(0, np.int64)
        """[S] jobs of each shape."""
        self.queue_jobs = np.zeros(0, np.int64)
        """[Q] jobs of each queue."""

    def up_to(self, used: int) -> JobTotals:
        """The totals of a snapshot with `used` rows."""
        return self._collect()._replace(
            link=self._columns.link[:used],
            back=self._columns.back[:used],
            values=self._sorted_values,
        )

    def _collect(self) -> JobTotals:
        return JobTotals(
            used=self._used,
            runs=self._runs,
            running=self._running,
            queued=self._queued,
            head=self._head,
            link=self._columns.link,
            back=self._columns.back,
            values=_NO_VALUES,
        )

    def count(self, rows: Int32, sign: int, request: Int64) -> None:
        """Count these rows (sign 1), or count them no longer (sign -1); `request`: [S, R]."""
        columns = self._columns
        jobs = job_totals.JobColumns(columns.node, columns.queue, columns.shape)
        self._packed = job_totals.pack_columns(self._packed, jobs, self._collect())
        job_totals.count_rows(rows, sign, self._packed.jobs, request, self._packed.totals)
        _add_counts(self.shape_jobs, columns.shape[rows], sign)
        _add_counts(self.queue_jobs, columns.queue[rows], sign)

    def count_values(self, live: Int32, sign: int) -> None:
        """Count the values of these live runs, or count them no longer."""
        if not live.size:
            return
        known = len(self._values)
        for value, count in Counter(self._columns.value[live].tolist()).items():
            total = self._values.get(value, 0) + sign * count
            if total:
                self._values[value] = total
            else:
                self._values.pop(value, None)
        if len(self._values) != known or self._sorted_values.size != known:
            self._sorted_values = np.array(sorted(self._values), np.int64)

    def add_shapes(self, more: int) -> None:
        """There are this many new shapes, the last ones."""
        self._running = np.pad(self._running, ((0, 0), (0, more)))
        self._queued = np.pad(self._queued, ((0, 0), (0, more)))
        self.shape_jobs = np.pad(self.shape_jobs, (0, more))

    def renumber_queues(self, size: int, moved: Int32) -> None:
        """There are `size` queues; `moved`: old row -> new row."""
        for name in ("_running", "_queued", "queue_jobs"):
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), old.dtype)
            new[moved] = old
            setattr(self, name, new)

    def keep_shapes(self, rows: Rows) -> None:
        """Only these shapes are left."""
        self._running = np.ascontiguousarray(self._running[:, rows])
        self._queued = np.ascontiguousarray(self._queued[:, rows])
        self.shape_jobs = self.shape_jobs[rows]

    def keep_queues(self, rows: Rows) -> None:
        """Only these queues are left."""
        self._running, self._queued = self._running[rows], self._queued[rows]
        self.queue_jobs = self.queue_jobs[rows]

    def recount(self, nodes: int, queues: int, rows: Int32, request: Int64) -> None:
        """All totals from these rows: nodes, queues, shapes or resources have other numbers."""
        shapes, resources = request.shape
        made = job_totals.empty_totals(nodes, resources, queues, shapes, 0, _NO_VALUES)
        self._used, self._runs, self._head = made.used, made.runs, made.head
        self._running, self._queued = made.running, made.queued
        self.shape_jobs = np.zeros(shapes, np.int64)
        self.queue_jobs = np.zeros(queues, np.int64)
        self.count(rows, 1, request)


def _add_counts(totals: Int64, numbers: Int32, sign: int) -> None:
    """Add to `totals`, or subtract from them, how often each number occurs."""
    if numbers.size <= FEW_NUMBERS:
        for number in numbers.tolist():
            totals[number] += sign
    else:
        totals += sign * np.bincount(numbers, minlength=totals.size)
