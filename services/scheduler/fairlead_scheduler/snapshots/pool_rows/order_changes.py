"""The rows that enter and leave the rounds of a pool, and the columns by which they are ordered."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.snapshots.row_descriptions import Int32, Int64, RowDescription
from fairlead_scheduler.state import job_table


class ChangedRow(NamedTuple):
    """A row that changed, and whether its job waits or runs in the pool."""

    row: int
    waits: bool
    runs: bool


class EnteringRows(NamedTuple):
    """Rows that enter the rounds of the pool once every pool has released the rows that changed."""

    now: RowDescription
    rare: list[tuple[int, job_table.RareProperties]]
    """(Row, properties) of rows among these that are in a gang, avoid nodes or, in pools with
    `order: fair`, ran before."""
    runs_left: bool
    """Whether runs were released; `waiting_left`: whether queued jobs were."""
    waiting_left: bool


class OrderChanges:
    """Rows that entered and left the orders since these were last updated."""

    def __init__(self) -> None:
        self.runs: list[Int32] = []
        self.waiting: list[Int32] = []
        self.runs_left = False
        self.waiting_left = False


class SortedColumns(NamedTuple):
    """The columns by which jobs are ordered, by row of the job table (`job_order.JobColumns`)."""

    class_value: Int64
    shape_class: Int32
    job_queue: Int32
    job_shape: Int32
    job_priority: Int64
    job_submission: Int64
    job_started_ms: Int64
    job_weighted_time: npt.NDArray[np.float64] | None
