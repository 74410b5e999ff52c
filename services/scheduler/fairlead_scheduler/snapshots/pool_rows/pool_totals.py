"""The totals over the jobs of a pool: by node, queue and shape (`engine.JobTotals`)."""

from collections import Counter
from collections.abc import Callable
from itertools import repeat
from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import is_compiled, pack_for_kernels
from fairlead_scheduler.engine.preparation.pool import job_totals
from fairlead_scheduler.engine.snapshot import JobTotals
from fairlead_scheduler.snapshots.round_columns import RoundColumns
from fairlead_scheduler.snapshots.row_descriptions import Int32, Int64, Rows
from fairlead_scheduler.state.jobs.change_journal import FEW

_NO_VALUES: Final = np.zeros(0, np.int64)


class PoolTotals:
    """What `count` has counted. Rows are rows of the job table, as `columns` describes them."""

    def __init__(self, columns: RoundColumns) -> None:
        self._columns = columns
        self._totals = job_totals.empty_totals(0, 0, 0, 0, 0, _NO_VALUES)
        self._packed: tuple[JobTotals, bool, job_totals.JobColumns, JobTotals] | None = None
        """The totals that are packed, `is_compiled()` at that time, and the columns of jobs and
        these totals packed."""
        self._values: dict[int, int] = {}
        """Value -> live runs at it."""
        self._sorted_values = _NO_VALUES
        self._cut = self._totals, self._totals
        """The totals that `up_to` was given last, and what it returned."""

    def _current(self) -> JobTotals:
        """The totals; another object when any of their arrays is another one."""
        if self._totals.link is not self._columns.link:
            self._totals = self._totals._replace(link=self._columns.link, back=self._columns.back)
        return self._totals

    def up_to(self, used: int) -> JobTotals:
        """The totals of a snapshot with `used` rows."""
        totals, (whole, cut) = self._current(), self._cut
        if whole is not totals or cut.link.size != used or cut.values is not self._sorted_values:
            cut = totals._replace(
                link=totals.link[:used], back=totals.back[:used], values=self._sorted_values
            )
            self._cut = totals, cut
        return cut

    def count(self, rows: Int32, sign: int, request: Int64) -> None:
        """Count these rows (sign 1), or count them no longer (sign -1); `request`: [S, R]."""
        totals, compiled, packed = self._current(), is_compiled(), self._packed
        if packed is None or packed[0] is not totals or packed[1] != compiled:
            columns = self._columns
            jobs = job_totals.JobColumns(columns.node, columns.queue, columns.shape)
            packed = totals, compiled, pack_for_kernels(jobs), pack_for_kernels(totals)
            self._packed = packed
        job_totals.count_rows(rows, sign, packed[2], request, packed[3])

    def shape_jobs(self) -> Int64:
        """[S] jobs of each shape."""
        jobs: Int64 = (self._totals.running + self._totals.queued).sum(axis=0)
        return jobs

    def queue_jobs(self) -> Int64:
        """[Q] jobs of each queue."""
        jobs: Int64 = (self._totals.running + self._totals.queued).sum(axis=1)
        return jobs

    def count_values(self, live: Int32, sign: int) -> None:
        """Count the values of these live runs, or count them no longer."""
        if not live.size:
            return
        known, values = len(self._values), self._columns.value[live].tolist()
        for value, count in zip(values, repeat(1)) if live.size <= FEW else Counter(values).items():
            total = self._values.get(value, 0) + sign * count
            if total:
                self._values[value] = total
            else:
                self._values.pop(value, None)
        if len(self._values) != known or self._sorted_values.size != known:
            self._sorted_values = np.array(sorted(self._values), np.int64)

    def add_shapes(self, more: int) -> None:
        """There are this many new shapes, the last ones."""
        self._replace_pairs(lambda pairs: np.pad(pairs, ((0, 0), (0, more))))

    def renumber_queues(self, size: int, moved: Int32) -> None:
        """There are `size` queues; `moved`: old row -> new row."""

        def move(pairs: Int64) -> Int64:
            made = np.zeros((size, pairs.shape[1]), pairs.dtype)
            made[moved] = pairs
            return made

        self._replace_pairs(move)

    def keep_shapes(self, rows: Rows) -> None:
        """Only these shapes are left."""
        self._replace_pairs(lambda pairs: np.ascontiguousarray(pairs[:, rows]))

    def keep_queues(self, rows: Rows) -> None:
        """Only these queues are left."""
        self._replace_pairs(lambda pairs: pairs[rows])

    def _replace_pairs(self, change: Callable[[Int64], Int64]) -> None:
        """Change the totals by queue and shape."""
        self._totals = self._totals._replace(
            running=change(self._totals.running), queued=change(self._totals.queued)
        )

    def recount(self, nodes: int, queues: int, rows: Int32, request: Int64) -> None:
        """All totals from these rows: nodes, queues, shapes or resources have other numbers."""
        shapes, resources = request.shape
        self._totals = job_totals.empty_totals(nodes, resources, queues, shapes, 0, _NO_VALUES)
        self.count(rows, 1, request)
