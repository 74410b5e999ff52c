"""The orders of a pool's queued jobs and runs (R3), and what enters and leaves them."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.snapshots.row_descriptions import Int32, Int64


class SortedColumns(NamedTuple):
    """What the orders depend on, by row of the job table (`job_order.JobColumns`)."""

    class_value: Int64
    shape_class: Int32
    job_queue: Int32
    job_shape: Int32
    job_priority: Int64
    job_submission: Int64
    job_started_ms: Int64
    job_weighted_time: npt.NDArray[np.float64] | None


class PoolOrders:
    """Both orders of one pool."""

    def __init__(self) -> None:
        self.queued = job_order.JobOrder()
        self.running = job_order.JobOrder()
        self._begin()

    def _begin(self) -> None:
        self._runs: list[Int32] = []
        self._waiting: list[Int32] = []
        self._runs_left = self._waiting_left = False

    def add(self, rows: Int32, runs: npt.NDArray[np.bool_]) -> None:
        """These rows enter the orders; `runs` says which of them have a run."""
        self._runs.append(rows[runs])
        self._waiting.append(rows[~runs])

    def remove(self, *, runs: bool, waiting: bool) -> None:
        """Rows that are marked as released leave the orders: runs, and queued jobs."""
        self._runs_left |= runs
        self._waiting_left |= waiting

    @property
    def changed(self) -> bool:
        """Whether anything entered or left since the last `update`."""
        return bool(self._runs or self._waiting or self._runs_left or self._waiting_left)

    def update(self, released: npt.NDArray[np.bool_], by: SortedColumns) -> None:
        """Bring both orders up to date; `released`: the rows that left, by row."""
        if self._runs_left or self._runs:
            self.running.change(released, _join(self._runs), by, live=True)
        if self._waiting_left or self._waiting:
            self.queued.change(released, _join(self._waiting), by, live=False)
        self._begin()

    def move_queued(self, rows: Int32, by: SortedColumns) -> None:
        """These queued rows have another place."""
        out_of_place = np.zeros(by.job_queue.size, np.bool_)
        out_of_place[rows] = True
        self.queued.change(out_of_place, rows, by, live=False)


def _join(parts: list[Int32]) -> Int32:
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)
