"""The jobs that take part in a pool's rounds, as columns that follow what changes.

Each has a slot from when it may start (or holds room) until it may not any more; slots that are
free are holes. `change` takes single jobs in and out and keeps what the engine would else have to
make of all of them: both orders (R3) and the sums by node, queue and shape.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.preparation import job_order, job_totals
from fairlead_scheduler.engine.snapshot import JobTotals
from fairlead_scheduler.snapshots.class_table import Classes
from fairlead_scheduler.snapshots.gang_columns import Avoided, Gangs, rare_rows
from fairlead_scheduler.snapshots.node_table import NodeRows, Nodes, no_nodes
from fairlead_scheduler.snapshots.queue_rows import QueueRows
from fairlead_scheduler.snapshots.shape_table import ShapeTable
from fairlead_scheduler.state import job_table as c
from fairlead_scheduler.state.arrays import grow_array
from fairlead_scheduler.state.view import View

Rows = npt.NDArray[np.intp]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

HOLE: Final = -2
WAITS: Final = -1

_PLAIN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "job_priority": "priority",
        "job_submission": "number",
        "job_started_ms": "leased_ms",
        "job_checkpoint_interval_ms": "checkpoint_ms",
        "submitted_ms": "submitted_ms",
    }
)
"""Columns that are those of the view."""

_COLUMNS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **dict.fromkeys(_PLAIN, np.int64),
        "row": np.intp,
        "at": np.int32,
        "job_queue": np.int32,
        "job_shape": np.int32,
        "job_node": np.int32,
        "job_value": np.int64,
        "job_flags": np.uint8,
    }
)
_TELLING: Final = ("job_node", *sorted(_COLUMNS.keys() - {"job_node"}))
"""What changes most often first."""
_KEPT: Final[Mapping[str, Any]] = MappingProxyType(
    {"job_gang": np.int32, "link": np.int32, "back": np.int32, "gone": np.bool_}
)


class PoolSlots:
    """Row of the view -> its pool's number and its slot there, -1 where it takes no part."""

    def __init__(self) -> None:
        self.pool = np.zeros(0, np.int32)
        self.slot = np.zeros(0, np.int32)

    def grow(self, rows: int) -> None:
        """Have room for that many rows."""
        self.pool = grow_array(self.pool, rows, -1)
        self.slot = grow_array(self.slot, rows, -1)


class PoolJobs:
    """The slots of one pool. The columns are named as in `Snapshot`, and longer than `used`."""

    row: Rows
    """Row in the view."""
    at: Int32
    """Number of the run's node in the view, -1 for a queued job."""
    job_queue: Int32
    job_shape: Int32
    job_node: Int32
    job_priority: Int64
    job_submission: Int64
    job_started_ms: Int64
    job_value: Int64
    job_checkpoint_interval_ms: Int64
    job_flags: npt.NDArray[np.uint8]
    job_gang: Int32
    submitted_ms: Int64
    link: Int32
    back: Int32
    gone: npt.NDArray[np.bool_]

    def __init__(
        self, pool_slots: PoolSlots, classes: Classes, floating: tuple[str, ...], slack: int
    ) -> None:
        self.pool = -1
        """The pool's number in the view; -1 while no job has named it."""
        self._slots = pool_slots
        self._classes = classes
        self._slack = slack
        for name, dtype in {**_COLUMNS, **_KEPT}.items():
            setattr(self, name, np.zeros(0, dtype))
        self.used = 0
        self._free = np.zeros(0, np.int32)
        self.version = 0
        """Grows with every change that a round could care about."""
        self.feasible: set[c.ShapeClass] = set()
        """Shapes that were found feasible: section 6."""
        self.examined_before_ms = 0
        self.queues = QueueRows()
        self.shapes = ShapeTable(classes, floating)
        self.gangs = Gangs()
        self.avoided = Avoided()
        self.nodes = no_nodes()
        self.node_rows = NodeRows(self.nodes)
        self.orphaned_rows: set[int] = set()
        """Rows of the view whose run is on a node that is not in the pool."""
        self.queued_order = job_order.JobOrder()
        self.running_order = job_order.JobOrder()
        self._values: dict[int, int] = {}
        self._used = np.zeros((0, 0), np.int64)
        self._runs = np.zeros(0, np.int64)
        self._running = np.zeros((0, 0), np.int64)
        self._queued = np.zeros((0, 0), np.int64)
        self._head = np.zeros(0, np.int32)
        self._shape_jobs = np.zeros(0, np.int64)
        self._queue_jobs = np.zeros(0, np.int64)

    @property
    def class_value(self) -> Int64:
        """[C]"""
        return self._classes.value

    @property
    def shape_class(self) -> Int32:
        """[S]"""
        return self.shapes.row_class

    @property
    def sums(self) -> JobTotals:
        """What the jobs come to."""
        return JobTotals(
            used=self._used,
            runs=self._runs,
            running=self._running,
            queued=self._queued,
            head=self._head,
            link=self.link[: self.used],
            back=self.back[: self.used],
            values=np.array(sorted(self._values), np.int64),
        )

    def restore(self, before: "PoolJobs", view: View) -> None:
        """Go on from the same pool under another numbering of names: what was found feasible stays
        so while a job needs it, and the version grows."""
        self.version = before.version + 1
        known = view.jobs.shapes.find
        self.feasible = {shape for shape in before.feasible if known(shape) is not None}
        self.gangs.restore(before.gangs)

    # What changed -------------------------------------------------------------------------------

    def change(self, view: View, rows: Rows, nodes: Int32) -> None:
        """These rows changed: each is on its node of `nodes`, or `WAITS`, or has no part (`HOLE`).

        Rows that are as they were cost nothing further.
        """
        pool_slots = self._slots
        slots = np.where(pool_slots.pool[rows] == self.pool, pool_slots.slot[rows], np.int32(-1))
        there = nodes > HOLE
        away = slots[~there]
        pool_slots.pool[rows[~there & (slots >= 0)]] = -1
        rows, nodes, slots = rows[there], nodes[there], slots[there]
        self._register(view, rows)
        now = self._describe(view, rows, nodes)
        rare = rare_rows(view, rows)
        same = self._are_as_they_were(slots, now)
        for at, found in rare:
            if found.avoid:
                same[at] = False
        leaving = np.sort(np.concatenate([away[away >= 0], slots[~same & (slots >= 0)]]))
        coming = np.flatnonzero(~same)
        if leaving.size or coming.size:
            left = self._leave(leaving)
            self._come(rows, now, coming, leaving, left)
            for at, found in rare:
                if not same[at]:
                    self._join(int(pool_slots.slot[rows[at]]), found)
            self._tidy(view)
            self.version += 1

    def _are_as_they_were(
        self, slots: Int32, now: Mapping[str, npt.NDArray[Any]]
    ) -> npt.NDArray[np.bool_]:
        """Whether the job of each slot (-1: it has none) is what its slot says already."""
        at = np.flatnonzero(slots >= 0)
        for name in _TELLING:
            at = at[getattr(self, name)[slots[at]] == now[name][at]]
        same = np.zeros(slots.size, np.bool_)
        same[at] = True
        return same

    def update_gangs(self, view: View, changed: Iterable[c.GangName] | None) -> None:
        """After all changes: these gangs (None: any) may have other members, also elsewhere."""
        self.gangs.mark_changed(changed)
        if self.gangs.update(view, self.job_gang, self.submitted_ms, self.queues):
            self.version += 1

    def _describe(self, view: View, rows: Rows, nodes: Int32) -> dict[str, npt.NDArray[Any]]:
        jobs = view.jobs
        flags = jobs.flags[rows]
        stopping = ((flags & c.STOPPING) != 0) | c.IS_ENDED[jobs.state[rows]]
        if view.stopped:  # what becomes of these runs cannot be decided either
            stopping |= np.isin(jobs.partition[rows], list(view.stopped))
        waits = (flags & c.INFEASIBLE_WAITS) != 0
        waits |= jobs.submitted_ms[rows] < self.examined_before_ms
        runs = nodes >= 0
        return {
            **{name: getattr(jobs, of)[rows] for name, of in _PLAIN.items()},
            "row": rows,
            "at": np.where(runs, jobs.node[rows], np.int32(-1)),
            "job_queue": self.queues.row_of[jobs.queue[rows]],
            "job_shape": self.shapes.row_of[jobs.shape[rows]],
            "job_node": nodes,
            "job_value": np.where(runs, jobs.value[rows], 0),
            "job_flags": stopping * np.uint8(engine.JobFlag.STOPPING)
            + waits * np.uint8(engine.JobFlag.WAITS_IF_INFEASIBLE),
        }

    def _register(self, view: View, rows: Rows) -> None:
        """Rows for queues and shapes that are new."""
        jobs = view.jobs
        moved = self.queues.add(jobs.queues, np.unique(jobs.queue[rows]).tolist())
        if moved is not None:
            self._renumber_queues(moved)
        known = len(self.shapes.numbers)
        renamed = self.shapes.add(jobs, np.unique(jobs.shape[rows]).tolist(), self.feasible)
        more = len(self.shapes.numbers) - known
        if more:
            self._running = np.pad(self._running, ((0, 0), (0, more)))
            self._queued = np.pad(self._queued, ((0, 0), (0, more)))
            self._shape_jobs = np.pad(self._shape_jobs, (0, more))
        if renamed:
            self._recount()

    def _renumber_queues(self, moved: Int32) -> None:
        """`moved`: old row -> new row."""
        size = len(self.queues.names)
        if moved.size:
            self.job_queue[: self.used] = moved[self.job_queue[: self.used]]
        for name in ("_running", "_queued", "_queue_jobs"):
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), old.dtype)
            new[moved] = old
            setattr(self, name, new)
        self.gangs.renumber_queues(self.queues)

    def _leave(self, slots: Int32) -> tuple[bool, bool]:
        """These slots become holes; says whether runs, and queued jobs, are among them."""
        live = slots[self.job_node[slots] >= 0]
        self._shift(slots, -1)
        self._count_values(live, -1)
        self.gangs.leave(slots)
        self.avoided.leave(slots)
        self.gone[slots] = True
        self.job_node[slots] = HOLE
        self._free = np.concatenate([self._free, slots])
        return live.size > 0, live.size < slots.size

    def _come(
        self,
        rows: Rows,
        now: Mapping[str, npt.NDArray[Any]],
        coming: Rows,
        gone: Int32,
        left: tuple[bool, bool],
    ) -> None:
        """The rows at these places get slots; then both orders are brought up to date."""
        slots = self._allocate(coming.size)
        every = coming.size == rows.size
        for name in _COLUMNS:
            getattr(self, name)[slots] = now[name] if every else now[name][coming]
        self.job_gang[slots] = -1
        self._slots.pool[rows[coming]] = self.pool
        self._slots.slot[rows[coming]] = slots
        self._shift(slots, 1)
        runs = self.job_node[slots] >= 0
        live, waiting = slots[runs], slots[~runs]
        self._count_values(live, 1)
        had_live, had_waiting = left
        if live.size or had_live:
            self.running_order.change(self.gone, live, self, live=True)
        if waiting.size or had_waiting:
            self.queued_order.change(self.gone, waiting, self, live=False)
        self.gone[gone] = False
        holes = gone[self.job_node[gone] == HOLE]
        self.job_queue[holes] = 0
        self.job_shape[holes] = 0

    def _allocate(self, count: int) -> Int32:
        waits = max(0, len(self._free) - count)
        self._free, reused = self._free[:waits], self._free[waits:]
        first = self.used
        self.used += count - reused.size
        if self.used > len(self.gone):
            for name in (*_COLUMNS, *_KEPT):
                setattr(self, name, grow_array(getattr(self, name), max(1024, self.used)))
        return np.concatenate([np.sort(reused), np.arange(first, self.used, dtype=np.int32)])

    def _join(self, slot: int, found: c.Rare) -> None:
        if found.gang is not None:
            self.gangs.join(slot, found.gang)
        if found.avoid:
            self.avoided.join(slot, found.avoid)

    # What jobs come to --------------------------------------------------------------------------

    def _shift(self, slots: Int32, sign: int) -> None:
        job_totals.count_rows(
            slots,
            sign,
            self.job_node,
            self.job_queue,
            self.job_shape,
            self.shapes.request,
            self._used,
            self._runs,
            self._running,
            self._queued,
            self._head,
            self.link,
            self.back,
        )
        there = slots[self.job_node[slots] > HOLE]
        count = np.bincount(self.job_shape[there], minlength=self._shape_jobs.size)
        self._shape_jobs += sign * count
        count = np.bincount(self.job_queue[there], minlength=self._queue_jobs.size)
        self._queue_jobs += sign * count

    def _count_values(self, live: Int32, sign: int) -> None:
        values, counts = np.unique(self.job_value[live], return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            total = self._values.get(value, 0) + sign * count
            if total:
                self._values[value] = total
            else:
                self._values.pop(value, None)

    def _recount(self) -> None:
        """All sums from all slots: rows of nodes, queues or shapes, or resources, have changed."""
        queues, shapes = len(self.queues.names), len(self.shapes.numbers)
        made = job_totals.empty_totals(
            len(self.nodes.names),
            len(self.shapes.names),
            queues,
            shapes,
            0,
            np.zeros(0, np.int64),
        )
        self._used, self._runs, self._head = made.used, made.runs, made.head
        self._running, self._queued = made.running, made.queued
        self._shape_jobs = np.zeros(shapes, np.int64)
        self._queue_jobs = np.zeros(queues, np.int64)
        self._shift(np.arange(self.used, dtype=np.int32), 1)

    def _tidy(self, view: View) -> None:
        """Give up rows of queues and shapes that no job needs, where there are too many."""
        unused = int((self._shape_jobs == 0).sum())
        if unused > self._allowed(self._shape_jobs.size - unused):
            rows = np.flatnonzero(self._shape_jobs > 0)
            moved = np.zeros(self._shape_jobs.size, np.int32)
            moved[rows] = np.arange(rows.size)
            renamed = self.shapes.keep(rows)
            self.job_shape[: self.used] = moved[self.job_shape[: self.used]]
            self._running = np.ascontiguousarray(self._running[:, rows])
            self._queued = np.ascontiguousarray(self._queued[:, rows])
            self._shape_jobs = self._shape_jobs[rows]
            if renamed:
                self._recount()
        unused = int((self._queue_jobs == 0).sum())
        if unused > self._allowed(self._queue_jobs.size - unused):
            rows = np.flatnonzero(self._queue_jobs > 0)
            moved = np.zeros(self._queue_jobs.size, np.int32)
            moved[rows] = np.arange(rows.size)
            self.queues.keep(view.jobs.queues, rows)
            self.job_queue[: self.used] = moved[self.job_queue[: self.used]]
            self._running, self._queued = self._running[rows], self._queued[rows]
            self._queue_jobs = self._queue_jobs[rows]
            self.gangs.renumber_queues(self.queues)

    def _allowed(self, needed: int) -> int:
        """How many rows may be unused: as many as are needed, and some."""
        return self._slack + needed if self._slack else 0

    # Nodes --------------------------------------------------------------------------------------

    def move(self, view: View, nodes: Nodes) -> Rows:
        """The pool has these nodes now. Returns rows of the view that must be looked at again."""
        before, self.version = self.nodes, self.version + 1
        again: set[int] = set()
        if before.names == nodes.names:
            self.nodes = nodes
            if self.shapes.offered(nodes.resources):
                self._recount()
            return np.zeros(0, np.intp)
        fresh = NodeRows(nodes)
        to_row = np.append(fresh.update(view.jobs.nodes), np.int32(-1))
        runs = np.flatnonzero(self.job_node[: self.used] >= 0)
        to = to_row[self.at[runs]]
        lost = self.row[runs[to < 0]]
        self.change(view, lost, np.full(lost.size, HOLE, np.int32))
        again = self.orphaned_rows.union(lost.tolist())
        self.orphaned_rows = set()
        self.nodes, self.node_rows = nodes, fresh
        self.job_node[runs[to >= 0]] = to[to >= 0]
        self.shapes.offered(nodes.resources)
        self._recount()
        return np.array(sorted(again), np.intp)
