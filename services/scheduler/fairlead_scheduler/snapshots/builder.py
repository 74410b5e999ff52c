"""The one snapshot builder: view, clusters and queues in, the engine's arrays out. Pure.

The live cycle, the worked cases and simulations all use it. The jobs of a snapshot are the rows of
the job table (docs/decisions/0045). What is derived from them is retained from one snapshot to the
next, and what changed is applied (docs/decisions/0011): the rows that the view's journal names,
those whose start time has come, and what the clusters changed.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_common.domain.timers import Timers
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot
from fairlead_scheduler.snapshots.built_snapshot import BuiltSnapshot
from fairlead_scheduler.snapshots.gangs.gang_columns import Gangs, mark_rare_properties
from fairlead_scheduler.snapshots.gangs.topology_columns import NO_LABELS, TopologyColumns
from fairlead_scheduler.snapshots.pool_rows import pool_validation
from fairlead_scheduler.snapshots.pool_rows.changed_rows import (
    ChangedRow,
    EnteringRow,
    EnteringRows,
)
from fairlead_scheduler.snapshots.pool_rows.pool_jobs import NO_ROWS, PoolJobs
from fairlead_scheduler.snapshots.pool_rows.waiting_tasks import WaitingTasks, count_waiting_tasks
from fairlead_scheduler.snapshots.round_columns import RetainedSlices, RoundColumns
from fairlead_scheduler.snapshots.row_descriptions import Rows
from fairlead_scheduler.snapshots.static_columns import StaticColumns
from fairlead_scheduler.snapshots.tables import node_table
from fairlead_scheduler.snapshots.tables.class_table import Classes
from fairlead_scheduler.snapshots.tables.node_table import AllNodes, UnacknowledgedLeases
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_index import FEW
from fairlead_scheduler.state.pool_rules import PLACEMENTS, Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.token_buckets import Buckets
from fairlead_scheduler.state.view import View, changed_rows

SLACK: Final = 64
"""Queues and shapes without jobs that a pool retains, beside as many as have jobs."""
ROWS_AT_ONCE: Final = 1 << 14
"""Rows of each pool that are updated together."""
ROWS_STEP: Final = 64
ROWS_BITS: Final = 6
"""A snapshot has a multiple of `ROWS_STEP` rows; a large one is rounded to `ROWS_BITS` bits."""
BARE_POOLS_MAX: Final = 1_000
"""Pools without nodes that are examined, the first that were named: users can name any number."""


class Builder:
    """Builds the snapshots of one scheduler; retains between them what did not change.

    `examined_before_ms`: jobs submitted before were examined by an earlier leader and are never
    rejected. `update` applies what changed; `build` returns the snapshot of one pool.
    """

    def __init__(
        self,
        classes: Sequence[PriorityClass],
        rules: Rules,
        view: View,
        clusters: Clusters,
        queues: Queues,
        *,
        examined_before_ms: int = 0,
        slack: int = SLACK,
        few: int = FEW,
    ) -> None:
        """`few`: up to this many changed rows are updated one by one."""
        self.rules = rules
        self._view = view
        self._clusters = clusters
        self._queues = queues
        self._own_rules = {pool: rules.for_pool(pool) for pool in rules.pools}
        self._classes = Classes(classes)
        self._slack = slack
        self._few = few
        self._examined_before_ms = examined_before_ms
        self._nodes = AllNodes()
        self._amounts: dict[str, node_table.Amounts] = {}
        self._node_labels: dict[str, TopologyColumns] = {}
        self._static: dict[str, StaticColumns] = {}
        self._start()

    def _start(self) -> None:
        """Start with no row examined, under the view's present numbering of names."""
        self._numbering = self._view.jobs.numbering
        self._place = self._gang_place = -1
        self._columns = RoundColumns()
        self._slices = RetainedSlices()
        self._pools: tuple[tuple[int, int, int], list[str]] = ((-1, -1, -1), [])
        self._known_pools: list[str] = []
        self._pool_jobs: dict[str, PoolJobs] = {}
        self._by_number: dict[int, PoolJobs] = {}
        """The pools that a job has named, by their number in the view."""
        self._delayed: Timers[int] = Timers()
        self._excluded: set[int] = set()
        self._node_version = -1
        self._unacknowledged = UnacknowledgedLeases()
        self._ending_rows: set[int] = set()

    @property
    def classes(self) -> list[PriorityClass]:
        """The classes by row."""
        return self._classes.rows

    def rules_of(self, pool: str) -> Rules:
        """The rules of a pool."""
        return self._own_rules.get(pool, self.rules)

    def engine_settings(self, pool: str = "") -> EngineSettings:
        """The rules of a pool as the engine takes them."""
        rules = self.rules_of(pool)
        assert rules.placement in PLACEMENTS
        return EngineSettings(
            protected_fraction=rules.protected_fraction_of_fair_share,
            round_limit=rules.round_limit,
            cost_multipliers=rules.cost_multipliers,
            lookback=rules.lookback,
            placement=rules.placement,  # type: ignore[arg-type]
            gang_assembly_timeout_ms=1000 * rules.gang_assembly_timeout_s,
        )

    # What changed ---------------------------------------------------------------------------------

    def update(self, now_ms: int, excluded: Iterable[int] = ()) -> None:
        """Apply what changed. `excluded`: rows of jobs about which housekeeping decides now."""
        view = self._view
        if view.jobs.numbering != self._numbering:
            self._restart()
        moved = self._node_version != self._clusters.version
        again = self._set_nodes()
        new = self._find_rows_of_new_pools(self.pools())
        again += self._delayed.due(now_ms)
        again += self._set_excluded(excluded)
        changed = changed_rows(view, self._place)
        self._place = view.jobs.journal.end
        if (again or new.size) and changed.size < view.jobs.used:  # else all are examined anyway
            changed = np.unique(np.concatenate([changed, new, np.array(again, np.intp)]))
        if len(changed):
            self._update_rows(changed, now_ms)
        gangs = view.gang_journal.since(self._gang_place)
        self._gang_place = view.gang_journal.end
        if moved or len(changed) or gangs is None or gangs:
            for pool_jobs in self._pool_jobs.values():
                pool_jobs.update_gangs(gangs)
        for pool, pool_jobs in self._pool_jobs.items():
            rules = self.rules_of(pool)
            pool_jobs.end_freezes(now_ms, rules.group_freeze_s_max)
            pool_jobs.set_fair_queues(self._queues, rules.score_weights, now_ms)

    def _restart(self) -> None:
        """Names have other numbers: retain only what was found feasible in each pool."""
        before = self._pool_jobs
        self._start()
        pools = self.pools()
        for pool in pools:
            if pool in before:
                self._jobs_of(pool).restore(before[pool])
        self._amounts = {pool: self._amounts[pool] for pool in pools if pool in self._amounts}
        self._static = {pool: self._static[pool] for pool in pools if pool in self._static}
        labels = self._node_labels
        self._node_labels = {pool: labels[pool] for pool in pools if pool in labels}

    def _find_rows_of_new_pools(self, pools: list[str]) -> Rows:
        """Include these pools from now on; returns the rows of those that were not included."""
        if pools is self._known_pools:
            return NO_ROWS
        self._known_pools = pools
        jobs = self._view.jobs
        rows = [NO_ROWS]
        for pool in pools:
            number = self._jobs_of(pool).number
            if number >= 0 and number not in self._by_number:
                self._by_number[number] = self._pool_jobs[pool]
                rows.append(np.flatnonzero(jobs.pool[: jobs.used] == number))
        return np.concatenate(rows)

    def _set_excluded(self, rows: Iterable[int]) -> list[int]:
        """Exclude these queued jobs, and no others; returns those for which that changed."""
        at = np.array(list(rows), np.intp)
        if not at.size and not self._excluded:
            return []
        excluded = set(at[self._view.jobs.state[at] == job_table.QUEUED].tolist())
        differ = self._excluded.symmetric_difference(excluded)
        self._excluded = excluded
        return list(differ)

    def _set_nodes(self) -> list[int]:
        """Give the pools their nodes; returns rows that must be examined again."""
        again: list[int] = []
        self._nodes.update(self._clusters)
        if self._node_version != self._clusters.version:
            self._node_version = self._clusters.version
            for pool, pool_jobs in self._pool_jobs.items():
                again += pool_jobs.set_nodes(self._nodes.of(pool)).tolist()
        return again

    def _jobs_of(self, pool: str) -> PoolJobs:
        found = self._pool_jobs.get(pool)
        if found is None:
            found = self._pool_jobs[pool] = PoolJobs(
                pool,
                self._view,
                self._columns,
                self._classes,
                self._nodes.of(pool),
                floating=tuple(sorted(self.rules_of(pool).floating)),
                topology=self.rules_of(pool).topology,
                slack=self._slack,
                examined_before_ms=self._examined_before_ms,
            )
        return found

    def _update_rows(self, rows: Rows, now_ms: int) -> None:
        """Each of these rows is counted as it is now afterwards, whatever it was before.

        Many rows are updated block by block: what is computed of a block stays in the caches.
        """
        self._columns.grow(self._view.jobs.used)
        if rows.size <= self._few:
            self._update_few(rows, now_ms)
        else:
            self._update_blocks(rows, now_ms)
        for pool_jobs in self._pool_jobs.values():
            pool_jobs.end_changes()
        self._columns.forget_released(rows)

    def _update_blocks(self, rows: Rows, now_ms: int) -> None:
        has_rare = mark_rare_properties(self._view) if rows.size > ROWS_AT_ONCE else None
        at_once = ROWS_AT_ONCE * max(1, len(self._by_number))
        for first in range(0, rows.size, at_once):
            self._update_block(rows[first : first + at_once], has_rare, now_ms)

    def _update_few(self, rows: Rows, now_ms: int) -> None:
        """As `_update_block`, row by row."""
        view, jobs, columns = self._view, self._view.jobs, self._columns
        by_pool: dict[int, list[ChangedRow]] = {}
        if len(self._delayed):
            self._delayed.unset(rows.tolist())
        for row in rows.tolist():
            flags = jobs.flags.item(row)
            valid = not flags & job_table.FREE
            waits = valid and self._waits(row, flags, now_ms)
            runs = valid and job_table.LIVE_RUN[jobs.run_state.item(row)]
            if runs and flags & job_table.CAPACITY_REASSIGNED:
                runs = False
                self._ending_rows.add(row)
            elif self._ending_rows:
                self._ending_rows.discard(row)
            before = columns.pool.item(row)
            now = jobs.pool.item(row) if waits or runs else -1
            if before >= 0 and before != now:
                by_pool.setdefault(before, []).append(ChangedRow(row, False, False))
            if now >= 0:
                by_pool.setdefault(now, []).append(ChangedRow(row, waits, runs))
        self._unacknowledged.update_few(view, rows.tolist())
        for pool_jobs in self._pool_jobs.values():
            pool_jobs.forget_orphaned(rows)
        entering: list[tuple[PoolJobs, list[EnteringRow]]] = []
        for number in sorted(by_pool):
            known = self._by_number.get(number)
            if known is not None and (found := known.release_few(by_pool[number])) is not None:
                entering.append((known, found))
        for pool_jobs, found in entering:
            pool_jobs.enter_few(found)

    def _waits(self, row: int, flags: int, now_ms: int) -> bool:
        """Whether the job of this row waits in the rounds of its pool; if its start time has not
        come, the row is examined again then."""
        jobs = self._view.jobs
        queued = jobs.state.item(row) == job_table.QUEUED and not flags & job_table.NOT_READY
        start_ms = jobs.start_after_ms.item(row) if queued else 0
        if start_ms > now_ms:
            self._delayed.set([(start_ms, row)])
            return False
        stopped = self._view.stopped
        return queued and row not in self._excluded and jobs.partition.item(row) not in stopped

    def _update_block(
        self, rows: Rows, has_rare: npt.NDArray[np.bool_] | None, now_ms: int
    ) -> None:
        view, jobs = self._view, self._view.jobs
        flags, state = jobs.flags[rows], jobs.state[rows]
        valid = (flags & job_table.FREE) == 0
        waits = valid & (state == job_table.QUEUED) & ((flags & job_table.NOT_READY) == 0)
        starts = np.zeros(rows.size, np.int64)
        starts[waits] = jobs.start_after_ms[rows[waits]]
        self._delay(rows, starts > now_ms, starts)
        waits &= starts <= now_ms
        if view.stopped:
            waits &= ~np.isin(jobs.partition[rows], list(view.stopped))
        if self._excluded:
            waits &= ~np.isin(rows, list(self._excluded))
        live = valid & job_table.IS_LIVE_RUN[jobs.run_state[rows]]
        reassigned = live & ((flags & job_table.CAPACITY_REASSIGNED) != 0)
        live &= ~reassigned
        self._ending_rows.difference_update(rows.tolist() if self._ending_rows else ())
        self._ending_rows.update(rows[reassigned].tolist())
        self._unacknowledged.update(view, rows, valid)
        for pool_jobs in self._pool_jobs.values():
            pool_jobs.forget_orphaned(rows)
        self._assign_rows(rows, waits, live, has_rare)

    def _assign_rows(
        self,
        rows: Rows,
        waits: npt.NDArray[np.bool_],
        live: npt.NDArray[np.bool_],
        has_rare: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Release what changed from all pools first: a row can have a job of another pool now."""
        before = self._columns.pool[rows]
        now = np.where(waits | live, self._view.jobs.pool[rows], np.int32(-1))
        entering: list[tuple[PoolJobs, EnteringRows]] = []
        numbers = np.flatnonzero(np.bincount(np.concatenate([before, now]) + 1)[1:])
        for number in numbers.tolist():
            pool_jobs = self._by_number.get(number)
            if pool_jobs is None:
                continue
            here = now == number
            chosen = here | (before == number)
            found = pool_jobs.release_changed(
                rows[chosen], (waits & here)[chosen], (live & here)[chosen], has_rare
            )
            if found is not None:
                entering.append((pool_jobs, found))
        for pool_jobs, found in entering:
            pool_jobs.enter(found)

    def _delay(self, rows: Rows, delayed: npt.NDArray[np.bool_], starts: Rows) -> None:
        """Examine these rows again when their start time has come."""
        if len(self._delayed):
            self._delayed.unset(rows[~delayed].tolist())
        if delayed.any():
            timers = zip(starts[delayed].tolist(), rows[delayed].tolist(), strict=True)
            self._delayed.set(timers)

    # Results --------------------------------------------------------------------------------------

    def pools(self) -> list[str]:
        """Names of the pools that have nodes, and of bare ones that jobs named, ascending."""
        self._nodes.update(self._clusters)
        jobs = self._view.jobs
        names = jobs.pools.values
        key = (self._clusters.version, jobs.numbering, len(names))
        if self._pools[0] != key:
            pools = set(self._nodes.pools())
            bare = (name for name in names if name not in pools)
            self._pools = (key, sorted([*pools, *islice(bare, BARE_POOLS_MAX)]))
        return self._pools[1]

    def list_violations(self) -> list[str]:
        """What the pools' index arrays contradict, as of the last `update`."""
        jobs = self._view.jobs
        if self._place != jobs.journal.end or self._numbering != jobs.numbering:
            return []  # what changed since is applied by the next update
        pools = self._pool_jobs.values()
        found = pool_validation.list_pool_violations(self._view, self._columns, pools)
        return [*found, *pool_validation.list_timer_violations(self._view, self._delayed.keys)]

    def version(self, pool: str) -> int:
        """Grows with every change of the pool's jobs and nodes that a round could care about."""
        return self._pool_jobs[pool].version

    def find_executors_at_lease_limit(self) -> frozenset[str]:
        """L9: executors that have not taken up more leases than they may."""
        return self._unacknowledged.find_executors_above(self.rules.max_unacknowledged_leases)

    def remember_feasible(self, built: BuiltSnapshot, plan: Plan) -> None:
        """What the engine found feasible is not rejected later."""
        pool_jobs = self._pool_jobs[built.snapshot.pool]
        pool_jobs.remember_feasible(plan.shape_feasible, plan.gang_feasible)

    def build(
        self,
        pool: str,
        *,
        now_ms: int,
        stale: frozenset[str] = frozenset(),
        buckets: Buckets | None = None,
        waiting_tasks: WaitingTasks | None = None,
    ) -> BuiltSnapshot:
        """The snapshot of a pool as of the last `update`.

        `waiting_tasks`: tasks of arrays that have not been released.
        """
        pool_jobs = self._jobs_of(pool)
        pool_jobs.renew_fair_order(self.rules_of(pool).score_weights, now_ms)
        nodes, shapes, gangs = pool_jobs.nodes, pool_jobs.shapes, pool_jobs.gangs
        shapes.match_nodes(nodes)
        names, queue_names = shapes.names, pool_jobs.queues.names
        static = self._static.get(pool)
        if static is None:
            static = self._static[pool] = StaticColumns()
            self._amounts[pool] = node_table.Amounts()
        labels = self._labels_of(pool).build(nodes, gangs) if gangs.present else NO_LABELS
        avoid_job, avoid_node = pool_jobs.avoided.pairs(nodes)
        own = buckets or Buckets(Rules())
        snapshot = Snapshot(
            pool=pool,
            now_ms=now_ms,
            **static.of_queues(
                queue_names, names, self.rules_of(pool), self._queues, self._classes
            ),
            queue_tokens=np.array([own.queue(name).tokens(now_ms) for name in queue_names])
            if own.limits_queues
            else static.unlimited_tokens(len(queue_names)),
            queue_burst=own.queue("").burst,
            tokens=own.all.tokens(now_ms),
            burst=own.all.burst,
            preemption_tokens=own.preemptions.tokens(now_ms),
            class_names=self._classes.names,
            class_value=self._classes.value,
            class_preemption=self._classes.preemption,
            class_away_value=self._classes.away_value,
            shape_request=shapes.request,
            shape_floating=shapes.floating,
            shape_class=shapes.row_class,
            shape_match=shapes.match,
            shape_rank=shapes.rank,
            shape_fitted=shapes.fitted,
            node_number=nodes.number,
            node_allocatable=self._amounts[pool].of(nodes, names),
            node_type=shapes.node_type,
            node_flags=static.flags(nodes, stale, self.find_executors_at_lease_limit()),
            label_names=labels.names,
            node_label=labels.value,
            topology=labels.topology,
            **self._job_columns(pool_jobs),
            queued_beside=count_waiting_tasks(self._view, pool_jobs, waiting_tasks),
            avoid_job=avoid_job,
            avoid_node=avoid_node,
            **(self._gang_columns(gangs, pool, now_ms) if gangs.present else {}),
        )
        return BuiltSnapshot(
            snapshot=snapshot,
            nodes=nodes.names,
            shapes=shapes.numbers,
            gangs=gangs.names,
            ending_rows=self._ending_rows,
            levels=self.rules_of(pool).topology,
        )

    def _job_columns(self, pool_jobs: PoolJobs) -> dict[str, Any]:
        """The columns of jobs, as the engine names them."""
        columns, jobs = self._columns, self._view.jobs
        used = self._count_rows()
        fair = pool_jobs.fair_order.present
        return {
            **self._slices.up_to(
                used,
                {
                    "job_queue": columns.queue,
                    "job_shape": columns.shape,
                    "job_value": columns.value,
                    "job_flags": columns.flags,
                    "job_priority": jobs.priority,
                    "job_submission": jobs.number,
                    "job_started_ms": jobs.leased_ms,
                    "job_checkpoint_interval_ms": jobs.checkpoint_ms,
                },
            ),
            "job_weighted_time": columns.weighted_time[:used] if fair else None,
            "job_node": columns.nodes_of(pool_jobs.number, pool_jobs.count, used),
            "queued_order": pool_jobs.orders.queued.rows,
            "running_order": pool_jobs.orders.running.rows,
            "job_totals": pool_jobs.totals(used),
        }

    def _count_rows(self) -> int:
        """How many rows of the job table a snapshot has: some without a job as well, so that the
        engine does not need longer tables for each new job."""
        jobs = self._view.jobs
        step = max(ROWS_STEP, 1 << max(0, jobs.used.bit_length() - ROWS_BITS))
        rows = -(-jobs.used // step) * step
        return min(rows, self._columns.node.size, jobs.flags.size)

    def _gang_columns(self, gangs: Gangs, pool: str, now_ms: int) -> dict[str, Any]:
        """The columns of gangs and roles, as the engine names them."""
        used, freeze_s_max = self._count_rows(), self.rules_of(pool).group_freeze_s_max
        of_roles = {"job_role": self._columns.role[:used]} if gangs.roles.present else {}
        return {
            "job_gang": self._columns.gang[:used],
            **of_roles,
            **gangs.columns(now_ms, freeze_s_max),
        }

    def _labels_of(self, pool: str) -> TopologyColumns:
        found = self._node_labels.get(pool)
        if found is None:
            levels = self.rules_of(pool).topology
            found = self._node_labels[pool] = TopologyColumns(levels)
        return found
