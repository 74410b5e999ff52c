"""Describes how rows of the job table are counted in the rounds of their pool.

Many rows are described as columns. A few rows are described one by one, because most of the time of
a numpy call does not depend on the number of rows.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.snapshots.tables.queue_rows import QueueRows
from fairlead_scheduler.snapshots.tables.shape_table import ShapeTable
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_table import JobTable
from fairlead_scheduler.state.view import View

Rows = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
RowValues = tuple[int, int, int, int, int, int]
"""Node, queue, shape, value, flags and fingerprint of one row, as in `RowDescription`."""

_MULTIPLIER: Final = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT: Final = np.uint64(31)
_BITS: Final = (1 << 64) - 1
_MULTIPLIER_BITS: Final = int(_MULTIPLIER)
_STOPPING: Final = int(engine.SchedulingFlag.STOPPING)
_WAITS_IF_INFEASIBLE: Final = int(engine.SchedulingFlag.WAITS_IF_INFEASIBLE)


class RowDescription(NamedTuple):
    """How these rows are counted: columns as in `RoundColumns`, but not `link` and `back`."""

    rows: Rows
    node: Int32
    queue: Int32
    shape: Int32
    value: Int64
    flags: npt.NDArray[np.uint8]
    fingerprint: npt.NDArray[np.uint64]

    def select(self, chosen: Bool) -> "RowDescription":
        """The description of the chosen rows."""
        if chosen.all():
            return self
        return RowDescription._make(column[chosen] for column in self)


class RowDescriber:
    """Describes the rows of one pool. `examined_before_ms`: jobs submitted before that time are
    never rejected."""

    def __init__(
        self, view: View, queues: QueueRows, shapes: ShapeTable, examined_before_ms: int
    ) -> None:
        self._view = view
        self._queues = queues
        self._shapes = shapes
        self._examined_before_ms = examined_before_ms

    def describe(self, rows: Rows, node: Int32) -> RowDescription:
        """These rows, with the node of each; their queues and shapes have rows in the pool."""
        view, jobs = self._view, self._view.jobs
        flags = jobs.flags[rows]
        stopping = ((flags & job_table.STOPPING) != 0) | job_table.IS_ENDED[jobs.state[rows]]
        if view.stopped:  # nothing can be decided about these runs
            stopping |= np.isin(jobs.partition[rows], list(view.stopped))
        waits = (flags & job_table.WAITS_IF_INFEASIBLE) != 0
        waits |= jobs.submitted_ms[rows] < self._examined_before_ms
        return RowDescription(
            rows=rows,
            node=node,
            queue=self._queues.row_of[jobs.queue[rows]],
            shape=self._shapes.row_of[jobs.shape[rows]],
            value=np.where(node >= 0, jobs.value[rows], 0),
            flags=stopping * np.uint8(_STOPPING) + waits * np.uint8(_WAITS_IF_INFEASIBLE),
            fingerprint=fingerprints(jobs, rows),
        )

    def describe_one(self, row: int, node: int) -> RowValues:
        """`describe` of one row."""
        view, jobs = self._view, self._view.jobs
        flags = jobs.flags.item(row)
        marks = 0
        if (
            flags & job_table.STOPPING
            or job_table.ENDED[jobs.state.item(row)]
            or (view.stopped and jobs.partition.item(row) in view.stopped)
        ):
            marks |= _STOPPING
        if (
            flags & job_table.WAITS_IF_INFEASIBLE
            or jobs.submitted_ms.item(row) < self._examined_before_ms
        ):
            marks |= _WAITS_IF_INFEASIBLE
        return (
            node,
            self._queues.row_of.item(jobs.queue.item(row)),
            self._shapes.row_of.item(jobs.shape.item(row)),
            jobs.value.item(row) if node >= 0 else 0,
            marks,
            _find_fingerprint(jobs, row),
        )


def _list_fingerprinted_columns(jobs: JobTable) -> tuple[Int64, ...]:
    """The columns of the job table that rounds read directly."""
    return jobs.number, jobs.priority, jobs.leased_ms, jobs.checkpoint_ms, jobs.submitted_ms


def fingerprints(jobs: JobTable, rows: Rows) -> npt.NDArray[np.uint64]:
    """A hash of what rounds read directly from the job table, by which changes are detected.

    It mixes 64 bits as splitmix64 does (Steele et al. 2014), so the probability that a change does
    not change it is 2**-64. Copies of these columns would take 40 bytes per job instead of 8.
    """
    mixed = np.zeros(rows.size, np.uint64)
    for column in _list_fingerprinted_columns(jobs):
        mixed ^= column[rows].view(np.uint64)
        mixed *= _MULTIPLIER
        mixed ^= mixed >> _SHIFT
    return mixed


def _find_fingerprint(jobs: JobTable, row: int) -> int:
    """`fingerprints` of one row."""
    mixed = 0
    for column in _list_fingerprinted_columns(jobs):
        mixed = ((mixed ^ column.item(row) & _BITS) * _MULTIPLIER_BITS) & _BITS
        mixed ^= mixed >> 31
    return mixed
