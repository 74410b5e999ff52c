"""The jobs that take part in a pool's rounds: index arrays over the job table, and totals.

`release_changed` and `enter` take single rows out and in, and maintain what the engine would
otherwise compute from all of them: the totals by node, queue and shape, and with `end_changes` both
orders (R3).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.preparation import job_order, job_totals
from fairlead_scheduler.engine.snapshot import JobTotals
from fairlead_scheduler.snapshots.class_table import Classes
from fairlead_scheduler.snapshots.gang_columns import AvoidedNodes, Gangs, find_rare_properties
from fairlead_scheduler.snapshots.node_table import NodeRows, Nodes
from fairlead_scheduler.snapshots.pool_rows.fair_order import FairOrder
from fairlead_scheduler.snapshots.pool_rows.order_changes import (
    ChangedRow,
    EnteringRows,
    OrderChanges,
    SortedColumns,
)
from fairlead_scheduler.snapshots.queue_rows import QueueRows
from fairlead_scheduler.snapshots.round_columns import NO_PART, WAITING, RoundColumns
from fairlead_scheduler.snapshots.row_descriptions import (
    Int32,
    Int64,
    RowDescriber,
    RowDescription,
    Rows,
    RowValues,
)
from fairlead_scheduler.snapshots.shape_table import ShapeTable
from fairlead_scheduler.state import job_table
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View

NO_ROWS: Final = np.zeros(0, np.intp)
FEW_NUMBERS: Final = 8
"""Up to this many numbers are counted one by one."""
NO_VALUES: Final = np.zeros(0, np.int64)


class PoolJobs:
    """The rows of one pool. `examined_before_ms`: jobs submitted before are never rejected."""

    def __init__(
        self,
        name: str,
        view: View,
        columns: RoundColumns,
        classes: Classes,
        nodes: Nodes,
        *,
        floating: tuple[str, ...],
        topology: tuple[str, ...] = (),
        slack: int,
        examined_before_ms: int,
    ) -> None:
        self.name = name
        self._number = -1
        self._view = view
        self._columns = columns
        self._classes = classes
        self._slack = slack
        self.count = 0
        """Rows that take part."""
        self.version = 0
        """Grows with every change that can affect a round."""
        self._feasible: set[job_table.ShapeClass] = set()
        """Shapes that were found feasible: section 6."""
        self.queues = QueueRows()
        self.shapes = ShapeTable(classes, floating)
        self._describer = RowDescriber(view, self.queues, self.shapes, examined_before_ms)
        self.gangs = Gangs(topology)
        self.avoided = AvoidedNodes()
        self.fair_order = FairOrder()
        self.nodes = nodes
        self._node_rows = NodeRows(nodes)
        self._orphaned_rows: set[int] = set()
        """Rows of live runs on a node that is not in the pool."""
        self.queued_order = job_order.JobOrder()
        self.running_order = job_order.JobOrder()
        self._order_changes = OrderChanges()
        self._counted: job_totals.PackedColumns | None = None
        self._values: dict[int, int] = {}
        """Value -> live runs at it."""
        self._used = np.zeros((0, 0), np.int64)
        self._runs = np.zeros(0, np.int64)
        self._running = np.zeros((0, 0), np.int64)
        self._queued = np.zeros((0, 0), np.int64)
        self._head = np.zeros(0, np.int32)
        self._shape_jobs = np.zeros(0, np.int64)
        self._queue_jobs = np.zeros(0, np.int64)
        self.shapes.set_offered_resources(nodes.resources)
        self._recount()

    @property
    def number(self) -> int:
        """The pool's number in the view; -1 while no job has named the pool."""
        if self._number < 0:
            found = self._view.jobs.pools.find(self.name)
            self._number = -1 if found is None else found
        return self._number

    def totals(self, used: int) -> JobTotals:
        """The totals over the jobs, of a snapshot with `used` rows."""
        return JobTotals(
            used=self._used,
            runs=self._runs,
            running=self._running,
            queued=self._queued,
            head=self._head,
            link=self._columns.link[:used],
            back=self._columns.back[:used],
            values=np.array(sorted(self._values), np.int64),
        )

    def restore(self, before: "PoolJobs") -> None:
        """Continue from the same pool under another numbering of names: what was found feasible
        remains so while a job needs it, and the version grows."""
        self.version = before.version + 1
        known = self._view.jobs.shapes.find
        self._feasible = {shape for shape in before._feasible if known(shape) is not None}
        self.gangs.restore(before.gangs)

    def remember_feasible(
        self, shape_feasible: npt.NDArray[np.bool_], gang_feasible: npt.NDArray[np.bool_]
    ) -> None:
        """What the engine found feasible is not rejected later."""
        shapes = self._view.jobs.shapes.values
        self._feasible.update(shapes[each] for each in self.shapes.remember(shape_feasible))
        if self.gangs.present:
            self.gangs.remember(gang_feasible)

    # What changed -------------------------------------------------------------------------------

    def forget_orphaned(self, rows: Rows) -> None:
        """These rows are examined again."""
        if self._orphaned_rows:
            self._orphaned_rows.difference_update(rows.tolist())

    def release_changed(
        self,
        rows: Rows,
        waits: npt.NDArray[np.bool_],
        runs: npt.NDArray[np.bool_],
        has_rare: npt.NDArray[np.bool_] | None,
    ) -> EnteringRows | None:
        """Release the rows among these whose count is outdated.

        `waits`: rows of jobs that wait in this pool; `runs`: rows of jobs that run in it, perhaps
        on a node that it does not have; the others do not belong to it. Rows are ascending.
        `has_rare`: by row of the table, None if unknown.
        Returns what enters, None if nothing changed.
        """
        columns, jobs = self._columns, self._view.jobs
        node = np.where(waits, np.int32(-1), np.int32(NO_PART))
        live = np.flatnonzero(runs)
        node[live] = self._node_rows.update(jobs.nodes)[jobs.node[rows[live]]]
        orphaned = live[node[live] < 0]
        node[orphaned] = NO_PART
        self._orphaned_rows.update(rows[orphaned].tolist())
        counted = columns.pool[rows] == self.number
        here = np.flatnonzero(node > NO_PART)
        self._add_names(rows[here])
        now = self._describer.describe(rows[here], node[here])
        fair = self.fair_order.present
        rare = find_rare_properties(self._view, now.rows, has_rare, former_runs=fair)
        same = counted[here] & columns.matches(now)
        same[[at for at, found in rare if found.avoid]] = False
        stays = np.zeros(rows.size, np.bool_)
        stays[here[same]] = True
        released = rows[counted & ~stays]
        if not released.size and same.all():
            return None
        runs_left, waiting_left = self._release(released)
        members = [(now.rows.item(at), found) for at, found in rare if not same[at]]
        return EnteringRows(now.select(~same), members, runs_left, waiting_left)

    def release_few(self, rows: Sequence[ChangedRow]) -> EnteringRows | None:
        """As `release_changed`, row by row, which takes less time while they are few."""
        columns, jobs = self._columns, self._view.jobs
        self._name_few(rows)
        node_rows, rare = self._node_rows.update(jobs.nodes), jobs.rare_properties
        released: list[int] = []
        entering: list[tuple[int, RowValues]] = []
        members: list[tuple[int, job_table.RareProperties]] = []
        for row, waits, runs in rows:
            node = WAITING if waits else NO_PART
            if runs:
                node = node_rows.item(jobs.node.item(row))
                if node < 0:
                    node = NO_PART
                    self._orphaned_rows.add(row)
            counted = columns.pool.item(row) == self.number
            if node > NO_PART:
                now, found = self._describer.describe_one(row, node), rare.get(row)
                is_avoiding = found is not None and bool(found.avoid)
                if counted and not is_avoiding and columns.is_as_described(row, now):
                    continue
                entering.append((row, now))
                if found is not None and (
                    is_avoiding
                    or found.gang is not None
                    or (self.fair_order.present and found.ran_ms)
                ):
                    members.append((row, found))
            if counted:
                released.append(row)
        if not released and not entering:
            return None
        runs_left, waiting_left = False, False
        if released:
            runs_left, waiting_left = self._release(np.array(released, np.intp))
        return EnteringRows(RowDescription.of(entering), members, runs_left, waiting_left)

    def _name_few(self, rows: Sequence[ChangedRow]) -> None:
        """Number the queues and shapes of rows that take part, if any is new in the pool."""
        jobs, queues, shapes = self._view.jobs, self.queues.row_of, self.shapes.row_of
        named = [row for row, waits, runs in rows if waits or runs]
        for row in named:
            queue, shape = jobs.queue.item(row), jobs.shape.item(row)
            if (
                queue >= queues.size
                or shape >= shapes.size
                or queues.item(queue) < 0
                or shapes.item(shape) < 0
            ):
                self._add_names(self._find_placed(named))
                return

    def _find_placed(self, rows: list[int]) -> Rows:
        """The rows without those of runs on nodes that the pool does not have."""
        jobs, node_rows = self._view.jobs, self._node_rows.update(self._view.jobs.nodes)
        queued = job_table.QUEUED
        chosen = [
            row
            for row in rows
            if jobs.state.item(row) == queued or node_rows.item(jobs.node.item(row)) >= 0
        ]
        return np.array(chosen, np.intp)

    def enter(self, entering: EnteringRows) -> None:
        """Count these rows. `end_changes` follows."""
        now = entering.now
        self._columns.fill(self.number, now)
        self.count += now.rows.size
        at = now.rows.astype(np.int32)
        self._count(at, 1)
        runs = now.node >= 0
        self._count_values(at[runs], 1)
        changes = self._order_changes
        changes.runs.append(at[runs])
        changes.waiting.append(at[~runs])
        changes.runs_left |= entering.runs_left
        changes.waiting_left |= entering.waiting_left
        for row, found in entering.rare:
            if found.gang is not None:
                self.gangs.join(row, found.gang)
            if found.avoid:
                self.avoided.join(row, found.avoid)
            if found.ran_ms and self.fair_order.present:
                self._columns.ran_ms[row] = found.ran_ms
                self._columns.ran_until_ms[row] = found.ran_until_ms

    def end_changes(self) -> None:
        """After all rows entered: bring both orders up to date."""
        changes, self._order_changes = self._order_changes, OrderChanges()
        if not changes.runs:
            return
        self._update_orders(
            np.concatenate(changes.runs),
            np.concatenate(changes.waiting),
            changes.runs_left,
            changes.waiting_left,
        )
        self._drop_unused_names()
        self.version += 1

    def update_gangs(self, changed: Iterable[job_table.GangName] | None) -> None:
        """After all changes: these gangs (None: any) may have other members, also elsewhere."""
        self.gangs.mark_changed(changed)
        if self.gangs.update(self._view, self._columns, self.queues):
            self.version += 1

    def end_freezes(self, now_ms: int, freeze_s_max: int) -> None:
        """G7: what the end of a freeze permits is a change that a round could care about."""
        if self.gangs.roles.present and self.gangs.has_thawed(now_ms, freeze_s_max):
            self.version += 1

    def set_fair_queues(self, queues: Queues, weights: Mapping[str, float], now_ms: int) -> None:
        """G9: if other queues have `order: fair` now, order the queued jobs again."""
        if self.fair_order.set_queues(self.queues, queues):
            self.version += 1
            self.fair_order.find_former_runs(self._view, self._columns, self._rows())
            self._renew_times(weights, now_ms)

    def renew_fair_order(self, weights: Mapping[str, float], now_ms: int) -> None:
        """G9: order the queued jobs of queues with `order: fair` as of now. Passing time alone does
        not change the version: it frees no capacity."""
        if self.fair_order.present:
            self._renew_times(weights, now_ms)

    def _renew_times(self, weights: Mapping[str, float], now_ms: int) -> None:
        fair, columns = self.fair_order, self._columns
        moved = fair.renew_times(
            self._view, columns, self.number, self.gangs, self.shapes, weights, now_ms
        )
        if moved.size:
            out_of_place = np.zeros(columns.node.size, np.bool_)
            out_of_place[moved] = True
            self.queued_order.change(out_of_place, moved, self.sort_columns(), live=False)

    def _release(self, rows: Rows) -> tuple[bool, bool]:
        """These rows take no part any more; says whether runs, and queued jobs, are among them."""
        at = rows.astype(np.int32)
        live = at[self._columns.node[at] >= 0]
        self._count(at, -1)
        self._count_values(live, -1)
        self.gangs.leave(at)
        self.avoided.leave(at)
        self._columns.release(rows)
        self.count -= rows.size
        return live.size > 0, live.size < at.size

    def _update_orders(
        self, runs: Int32, waiting: Int32, runs_left: bool, waiting_left: bool
    ) -> None:
        by, released = self.sort_columns(), self._columns.released
        if runs.size or runs_left:
            self.running_order.change(released, runs, by, live=True)
        if waiting.size or waiting_left:
            self.queued_order.change(released, waiting, by, live=False)

    def sort_columns(self) -> job_order.JobColumns:
        """What both orders depend on, by row of the job table."""
        columns, jobs = self._columns, self._view.jobs
        return SortedColumns(
            class_value=self._classes.value,
            shape_class=self.shapes.row_class,
            job_queue=columns.queue,
            job_shape=columns.shape,
            job_priority=jobs.priority,
            job_submission=jobs.number,
            job_started_ms=jobs.leased_ms,
            job_weighted_time=columns.weighted_time if self.fair_order.present else None,
        )

    # Names --------------------------------------------------------------------------------------

    def _rows(self) -> Rows:
        """The rows that take part, ascending."""
        return np.flatnonzero(self._columns.pool == self.number) if self.count else NO_ROWS

    def _add_names(self, rows: Rows) -> None:
        """Number the queues and shapes of these rows that are new in the pool."""
        jobs = self._view.jobs
        moved = self.queues.add(jobs.queues, jobs.queue[rows])
        if moved is not None:
            self._renumber_queues(moved)
        known = len(self.shapes.numbers)
        renamed = self.shapes.add(jobs, jobs.shape[rows], self._feasible)
        more = len(self.shapes.numbers) - known
        if more:
            self._running = np.pad(self._running, ((0, 0), (0, more)))
            self._queued = np.pad(self._queued, ((0, 0), (0, more)))
            self._shape_jobs = np.pad(self._shape_jobs, (0, more))
        if renamed:
            self._recount()

    def _renumber_queues(self, moved: Int32) -> None:
        """`moved`: old row -> new row."""
        size, mine, queue = len(self.queues.names), self._rows(), self._columns.queue
        if moved.size:
            queue[mine] = moved[queue[mine]]
        for name in ("_running", "_queued", "_queue_jobs"):
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), old.dtype)
            new[moved] = old
            setattr(self, name, new)
        self.gangs.renumber_queues(self.queues)

    def _drop_unused_names(self) -> None:
        """Drop queues and shapes that no job of the pool needs, where there are too many."""
        unused = self._shape_jobs.size - int(np.count_nonzero(self._shape_jobs))
        if unused > self._allowed(self._shape_jobs.size - unused):
            rows, mine, shape = np.flatnonzero(self._shape_jobs), self._rows(), self._columns.shape
            moved = np.zeros(self._shape_jobs.size, np.int32)
            moved[rows] = np.arange(rows.size)
            renamed = self.shapes.keep(rows)
            shape[mine] = moved[shape[mine]]
            self._running = np.ascontiguousarray(self._running[:, rows])
            self._queued = np.ascontiguousarray(self._queued[:, rows])
            self._shape_jobs = self._shape_jobs[rows]
            if renamed:
                self._recount()
        unused = self._queue_jobs.size - int(np.count_nonzero(self._queue_jobs))
        if unused > self._allowed(self._queue_jobs.size - unused):
            rows, mine, queue = np.flatnonzero(self._queue_jobs), self._rows(), self._columns.queue
            moved = np.zeros(self._queue_jobs.size, np.int32)
            moved[rows] = np.arange(rows.size)
            self.queues.keep(self._view.jobs.queues, rows)
            queue[mine] = moved[queue[mine]]
            self._running, self._queued = self._running[rows], self._queued[rows]
            self._queue_jobs = self._queue_jobs[rows]
            self.gangs.renumber_queues(self.queues)

    def _allowed(self, needed: int) -> int:
        """How many names are permitted to be unused: as many as are needed, and some."""
        return self._slack + needed if self._slack else 0

    # Totals -------------------------------------------------------------------------------------

    def _count(self, rows: Int32, sign: int) -> None:
        columns = self._columns
        self._counted = job_totals.pack_columns(
            self._counted,
            job_totals.JobColumns(columns.node, columns.queue, columns.shape),
            JobTotals(
                used=self._used,
                runs=self._runs,
                running=self._running,
                queued=self._queued,
                head=self._head,
                link=columns.link,
                back=columns.back,
                values=NO_VALUES,
            ),
        )
        counted = self._counted
        job_totals.count_rows(rows, sign, counted.jobs, self.shapes.request, counted.totals)
        _add_counts(self._shape_jobs, columns.shape[rows], sign)
        _add_counts(self._queue_jobs, columns.queue[rows], sign)

    def _count_values(self, live: Int32, sign: int) -> None:
        for value, count in Counter(self._columns.value[live].tolist()).items():
            total = self._values.get(value, 0) + sign * count
            if total:
                self._values[value] = total
            else:
                self._values.pop(value, None)

    def _recount(self) -> None:
        """All totals from all rows: nodes, queues, shapes or resources have other numbers."""
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
        self._count(self._rows().astype(np.int32), 1)

    # Nodes --------------------------------------------------------------------------------------

    def set_nodes(self, nodes: Nodes) -> Rows:
        """The pool has these nodes now. Returns rows that must be examined again."""
        before, self.nodes, self.version = self.nodes, nodes, self.version + 1
        if before.names == nodes.names:
            if self.shapes.set_offered_resources(nodes.resources):
                self._recount()
            return NO_ROWS
        moved = np.array([nodes.row_of.get(name, -1) for name in before.names], np.int32)
        mine, node = self._rows(), self._columns.node
        runs = mine[node[mine] >= 0]
        lost = runs[moved[node[runs]] < 0]
        runs_left, _ = self._release(lost)
        nobody = np.zeros(0, np.int32)
        self._update_orders(nobody, nobody, runs_left, waiting_left=False)
        self._columns.forget_released(lost)
        runs = self._rows()
        runs = runs[node[runs] >= 0]
        node[runs] = moved[node[runs]]
        self._node_rows = NodeRows(nodes)
        self.shapes.set_offered_resources(nodes.resources)
        self._recount()
        self._drop_unused_names()
        again = self._orphaned_rows.union(lost.tolist())
        self._orphaned_rows = set()
        return np.array(sorted(again), np.intp)


def _add_counts(totals: Int64, numbers: Int32, sign: int) -> None:
    """Add to `totals`, or subtract from them, how often each number occurs."""
    if numbers.size <= FEW_NUMBERS:
        for number in numbers.tolist():
            totals[number] += sign
    else:
        totals += sign * np.bincount(numbers, minlength=totals.size)
