"""The jobs that take part in a pool's rounds: index arrays over the job table.

`release_changed` and `enter` take rows out and in, `release_few` and `enter_few` do so row by row.
They maintain what the engine would otherwise compute from all rows: the totals by node, queue and
shape (`pool_totals.py`), and with `end_changes` both orders (`pool_orders.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.snapshot import JobTotals
from fairlead_scheduler.snapshots.gangs.gang_columns import (
    AvoidedNodes,
    Gangs,
    find_rare_properties,
)
from fairlead_scheduler.snapshots.pool_rows.changed_rows import (
    ChangedRow,
    EnteringRow,
    EnteringRows,
)
from fairlead_scheduler.snapshots.pool_rows.fair_order import FairOrder
from fairlead_scheduler.snapshots.pool_rows.pool_orders import PoolOrders, SortedColumns
from fairlead_scheduler.snapshots.pool_rows.pool_totals import PoolTotals
from fairlead_scheduler.snapshots.round_columns import NO_PART, WAITING, RoundColumns
from fairlead_scheduler.snapshots.row_descriptions import (
    Int32,
    RowDescriber,
    Rows,
)
from fairlead_scheduler.snapshots.tables.class_table import Classes
from fairlead_scheduler.snapshots.tables.node_table import NodeRows, Nodes
from fairlead_scheduler.snapshots.tables.queue_rows import QueueRows
from fairlead_scheduler.snapshots.tables.shape_table import ShapeTable
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View

NO_ROWS: Final = np.zeros(0, np.intp)


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
        self.orders = PoolOrders()
        self._totals = PoolTotals(columns)
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
        return self._totals.up_to(used)

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
        if fresh := self.shapes.remember(shape_feasible):
            shapes = self._view.jobs.shapes.values
            self._feasible.update(shapes[each] for each in fresh)
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
        self._release(released)
        members = [(now.rows.item(at), found) for at, found in rare if not same[at]]
        return EnteringRows(now.select(~same), members)

    def release_few(self, rows: Sequence[ChangedRow]) -> list[EnteringRow] | None:
        """As `release_changed`, row by row, which takes less time while they are few."""
        columns, jobs = self._columns, self._view.jobs
        self._name_few(rows)
        node_rows, rare = self._node_rows.update(jobs.nodes), jobs.rare_properties
        released: list[int] = []
        entering: list[EnteringRow] = []
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
                is_rare = found is not None and (
                    is_avoiding
                    or found.gang is not None
                    or (self.fair_order.present and found.ran_ms > 0)
                )
                entering.append(EnteringRow(row, now, found if is_rare else None))
            if counted:
                released.append(row)
        if not released and not entering:
            return None
        if released:
            self._count_left(np.array(released, np.int32))
            for row in released:
                columns.release_one(row)
        return entering

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
        self._count_entered(now.rows.astype(np.int32), now.node >= 0)
        for row, found in entering.rare:
            self._enter_rare(row, found)

    def enter_few(self, entering: Sequence[EnteringRow]) -> None:
        """As `enter`, row by row."""
        if not entering:
            return
        for row, now, _ in entering:
            self._columns.fill_one(self.number, row, now)
        at = np.array([row for row, _, _ in entering], np.int32)
        self._count_entered(at, np.array([now[0] >= 0 for _, now, _ in entering], np.bool_))
        for row, _, found in entering:
            if found is not None:
                self._enter_rare(row, found)

    def _count_entered(self, at: Int32, runs: npt.NDArray[np.bool_]) -> None:
        self.count += at.size
        self._totals.count(at, 1, self.shapes.request)
        self._totals.count_values(at[runs], 1)
        self.orders.add(at, runs)

    def _enter_rare(self, row: int, found: job_table.RareProperties) -> None:
        if found.gang is not None:
            self.gangs.join(row, found.gang)
        if found.avoid:
            self.avoided.join(row, found.avoid)
        if found.ran_ms and self.fair_order.present:
            self._columns.ran_ms[row] = found.ran_ms
            self._columns.ran_until_ms[row] = found.ran_until_ms

    def end_changes(self) -> None:
        """After all rows entered: bring both orders up to date."""
        if not self.orders.changed:
            return
        self._update_orders()
        self._drop_unused_names()
        self.version += 1

    def update_gangs(self, changed: Iterable[job_table.GangName] | None) -> None:
        """After all changes: these gangs (None: any) may have other members, also elsewhere."""
        self.gangs.mark_changed(changed)
        if self.gangs.update(self._view, self._columns):
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
            self.orders.move_queued(moved, self.sort_columns())

    def _release(self, rows: Rows) -> None:
        """These rows take no part any more. The orders are updated later."""
        self._count_left(rows.astype(np.int32))
        self._columns.release(rows)

    def _count_left(self, at: Int32) -> None:
        live = at[self._columns.node[at] >= 0]
        self._totals.count(at, -1, self.shapes.request)
        self._totals.count_values(live, -1)
        self.gangs.leave(at)
        self.avoided.leave(at)
        self.count -= at.size
        self.orders.remove(runs=live.size > 0, waiting=live.size < at.size)

    def _update_orders(self) -> None:
        self.orders.update(self._columns.released, self.sort_columns())

    def sort_columns(self) -> SortedColumns:
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
            self._totals.add_shapes(more)
        if renamed:
            self._recount()

    def _renumber_queues(self, moved: Int32) -> None:
        """`moved`: old row -> new row."""
        size, mine, queue = len(self.queues.names), self._rows(), self._columns.queue
        if moved.size:
            queue[mine] = moved[queue[mine]]
        self._totals.renumber_queues(size, moved)

    def _drop_unused_names(self) -> None:
        """Drop queues and shapes that no job of the pool needs, where there are too many."""
        if len(self.shapes.numbers) > self._slack:
            self._drop_unused_shapes()
        if len(self.queues.names) > self._slack:
            self._drop_unused_queues()

    def _drop_unused_shapes(self) -> None:
        of_shapes = self._totals.shape_jobs()
        unused = of_shapes.size - int(np.count_nonzero(of_shapes))
        if unused > self._allowed(of_shapes.size - unused):
            rows, mine, shape = np.flatnonzero(of_shapes), self._rows(), self._columns.shape
            moved = np.zeros(of_shapes.size, np.int32)
            moved[rows] = np.arange(rows.size)
            renamed = self.shapes.keep(rows)
            shape[mine] = moved[shape[mine]]
            self._totals.keep_shapes(rows)
            if renamed:
                self._recount()

    def _drop_unused_queues(self) -> None:
        of_queues = self._totals.queue_jobs()
        unused = of_queues.size - int(np.count_nonzero(of_queues))
        if unused > self._allowed(of_queues.size - unused):
            rows, mine, queue = np.flatnonzero(of_queues), self._rows(), self._columns.queue
            moved = np.zeros(of_queues.size, np.int32)
            moved[rows] = np.arange(rows.size)
            self.queues.keep(self._view.jobs.queues, rows)
            queue[mine] = moved[queue[mine]]
            self._totals.keep_queues(rows)

    def _allowed(self, needed: int) -> int:
        """How many names are permitted to be unused: as many as are needed, and some."""
        return self._slack + needed if self._slack else 0

    def _recount(self) -> None:
        """All totals from all rows: nodes, queues, shapes or resources have other numbers."""
        rows = self._rows().astype(np.int32)
        self._totals.recount(
            len(self.nodes.names), len(self.queues.names), rows, self.shapes.request
        )

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
        self._release(lost)
        self._update_orders()
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
