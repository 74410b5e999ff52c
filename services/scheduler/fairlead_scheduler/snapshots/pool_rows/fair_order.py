"""The order of queues with `order: fair`: the weighted running time of their jobs (rule G9).

It is the sum of resource score x running seconds over all runs, divided by the priority. The
members of a gang or group count together. While nothing of it runs, each second since its last run
ended subtracts what a second of its minimal set would add. It changes as time passes, so each round
of a pool measures it, for members of gangs and for single jobs that ran before. For other jobs it
is 0.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.domain import surplus_priority
from fairlead_scheduler.snapshots import resource_scores
from fairlead_scheduler.snapshots.gangs.gang_columns import Gangs
from fairlead_scheduler.snapshots.round_columns import RoundColumns
from fairlead_scheduler.snapshots.row_descriptions import Int32, Int64, Rows
from fairlead_scheduler.snapshots.tables.queue_rows import QueueRows
from fairlead_scheduler.snapshots.tables.shape_table import ShapeTable
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

RUN_MAX: Final = float(1 << 48)
"""The most that a job adds to the weighted running time of its gang (90 years of a GPU), so that
sums of whole numbers are exact in any order."""
DIVISOR_MIN: Final = 1
"""The running time is divided by the priority, at least by this."""


class RunTimes(NamedTuple):
    """How long the former runs of some jobs took."""

    rows: Rows
    """ascending"""
    ran_ms: Int64
    until_ms: Int64
    """when the last of them ended"""


class FairOrder:
    """Which queues of a pool have `order: fair`, and how their jobs are measured."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._version = -1
        self._fair: Bool = np.zeros(0, np.bool_)
        self.present = False
        """Whether any queue of the pool has `order: fair`."""
        self._fair_names: set[str] = set()
        self._requests: tuple[Int64, Int64, Mapping[str, float]] | None = None
        self._score: Float = np.zeros(0)

    def set_queues(self, rows: QueueRows, queues: Queues) -> bool:
        """Find the queues with `order: fair`. Returns whether they are other queues than before."""
        if self._names is rows.names and self._version == queues.version:
            return False
        before = self._fair_names
        self._names, self._version = rows.names, queues.version
        self._fair = np.array([queues.is_fair(name) for name in rows.names], np.bool_)
        self.present = bool(self._fair.any())
        self._fair_names = {name for name in rows.names if queues.is_fair(name)}
        return before != self._fair_names

    def find_former_runs(self, view: View, columns: RoundColumns, rows: Rows) -> None:
        """Copy the times of former runs to the columns, for the rows of the pool, after other
        queues got `order: fair`."""
        columns.ran_ms[rows] = 0
        if self.present:
            rare = view.jobs.rare_properties
            for row in rows[np.isin(rows, np.fromiter(rare, np.intp, len(rare)))].tolist():
                if rare[row].ran_ms:
                    columns.ran_ms[row] = rare[row].ran_ms
                    columns.ran_until_ms[row] = rare[row].ran_until_ms

    def renew_times(
        self,
        view: View,
        columns: RoundColumns,
        number: int,
        gangs: Gangs,
        shapes: ShapeTable,
        weights: Mapping[str, float],
        now_ms: int,
    ) -> Int32:
        """Measure the jobs of the pool with this number. Returns the rows of queued jobs whose
        weighted running time changed."""
        rows, times = self.measure(view, columns, number, gangs, shapes, weights, now_ms)
        marks = (columns.weighted_time > 0) & (columns.pool == number)
        marks[rows] = False
        left = np.flatnonzero(marks)
        rows, times = np.concatenate([rows, left]), np.concatenate([times, np.zeros(left.size)])
        differs = columns.weighted_time[rows] != times
        rows = rows[differs]
        columns.weighted_time[rows] = times[differs]
        moved: Int32 = rows[columns.node[rows] < 0].astype(np.int32)
        return moved

    def measure(
        self,
        view: View,
        columns: RoundColumns,
        number: int,
        gangs: Gangs,
        shapes: ShapeTable,
        weights: Mapping[str, float],
        now_ms: int,
    ) -> tuple[Rows, Float]:
        """The rows of the pool with this number whose weighted running time can be above 0, and
        that time in thousandths of score x seconds."""
        score = self._score_shapes(shapes, weights)
        ran = np.flatnonzero((columns.ran_ms > 0) & (columns.pool == number))
        former = RunTimes(ran, columns.ran_ms[ran], columns.ran_until_ms[ran])
        single = (columns.gang[former.rows] < 0) & self._fair[columns.queue[former.rows]]
        alone = RunTimes(*(column[single] for column in former))
        used = min(view.jobs.used, columns.gang.size)
        members = np.flatnonzero((columns.gang[:used] >= 0) & (columns.pool[:used] == number))
        members = members[self._fair[columns.queue[members]]]
        times = [_measure_single_jobs(view, columns, alone, score, now_ms)]
        if members.size:
            total = gangs.score_former_runs(weights)
            until = gangs.ran_until_ms.copy()
            times.append(
                _measure_members(view, columns, members, former, (total, until), score, now_ms)
            )
        return np.concatenate([alone.rows, members]), np.concatenate(times)

    def _score_shapes(self, shapes: ShapeTable, weights: Mapping[str, float]) -> Float:
        known = self._requests
        if (
            known is None
            or known[0] is not shapes.request
            or known[1] is not shapes.floating
            or known[2] is not weights
        ):
            self._requests = shapes.request, shapes.floating, weights
            self._score = resource_scores.score_shapes(shapes.names, shapes.request, weights)
            self._score = self._score + resource_scores.score_shapes(
                shapes.floating_names, shapes.floating, weights
            )
        return self._score


def _find_divisors(view: View, rows: Rows) -> Int64:
    return np.maximum(surplus_priority.given_priority(view.jobs.priority[rows]), DIVISOR_MIN)


def _whole_seconds(ms: Int64) -> Int64:
    return np.maximum(ms, 0) // 1000


def _measure_single_jobs(
    view: View, columns: RoundColumns, former: RunTimes, score: Float, now_ms: int
) -> Float:
    """The weighted running time of jobs without a gang; 0 for jobs that run, which are not ordered
    by it."""
    rows = former.rows
    left_s = _whole_seconds(former.ran_ms) - _whole_seconds(now_ms - former.until_ms)
    added = np.minimum(score[columns.shape[rows]] * np.maximum(left_s, 0), RUN_MAX)
    return np.where(columns.node[rows] < 0, added, 0.0) / _find_divisors(view, rows)


def _measure_members(
    view: View,
    columns: RoundColumns,
    rows: Rows,
    former: RunTimes,
    of_groups: tuple[Int64, Int64],
    score: Float,
    now_ms: int,
) -> Float:
    """The weighted running time of the gangs of these members, for each member.

    `of_groups`: what the former runs of groups add, [G], and when the last of them ended, [G].
    """
    gang, live = columns.gang[rows], columns.node[rows] >= 0
    ran_ms = np.zeros(rows.size, np.int64)
    until_ms = np.zeros(rows.size, np.int64)
    has_run = np.flatnonzero(np.isin(rows, former.rows))
    at = np.searchsorted(former.rows, rows[has_run])
    ran_ms[has_run], until_ms[has_run] = former.ran_ms[at], former.until_ms[at]
    ran_ms[live] += np.maximum(now_ms - view.jobs.leased_ms[rows[live]], 0)
    own = score[columns.shape[rows]]
    total, until = of_groups
    np.add.at(total, gang, np.minimum(own * _whole_seconds(ran_ms), RUN_MAX).astype(np.int64))
    np.maximum.at(until, gang, until_ms)
    pace = np.zeros(total.size, np.int64)
    needed = ~live & (view.jobs.priority[rows] >= surplus_priority.PRIORITY_MIN)
    np.add.at(pace, gang[needed], own[needed].astype(np.int64))
    runs = np.zeros(total.size, np.bool_)
    runs[gang[live]] = True
    waited = np.where(runs, 0, _whole_seconds(now_ms - until))
    paid = np.minimum(pace.astype(np.float64) * waited, total.astype(np.float64))
    divisor = np.ones(total.size, np.int64)
    np.maximum.at(divisor, gang, _find_divisors(view, rows))
    time: Float = np.maximum(total - paid.astype(np.int64), 0) / divisor
    return time[gang]
