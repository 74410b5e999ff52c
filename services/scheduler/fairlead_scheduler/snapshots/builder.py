"""The one snapshot builder: view, clusters and queues in, the engine's arrays out. Pure.

The live cycle, the worked cases and simulations all use it. It keeps every pool's arrays from one
snapshot to the next and applies what changed (docs/decisions/0011): the rows that the view's
journal names, those whose time has come, and what the clusters changed.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.priority_classes import PriorityClass
from fairlead_common.domain.timers import Timers
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.snapshots import node_table
from fairlead_scheduler.snapshots.class_table import Classes
from fairlead_scheduler.snapshots.node_table import AllNodes, Nodes, UnacknowledgedLeases
from fairlead_scheduler.snapshots.pool_jobs import HOLE, WAITS, PoolJobs, PoolSlots, Rows
from fairlead_scheduler.state import job_table as c
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.job_table import NodeName
from fairlead_scheduler.state.pool_rules import PLACEMENTS, Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.token_buckets import Buckets
from fairlead_scheduler.state.view import View, changed_rows

SLACK: Final = 64
"""Rows of queues and shapes without jobs that are left alone, beside as many as have jobs."""
BARE_POOLS_MAX: Final = 1_000
"""Pools without nodes that are looked at, the first that were named: nothing can start there, and
whoever submits jobs may name as many as he likes."""

_Key = tuple[int, tuple[str, ...]]


class BuiltSnapshot(NamedTuple):
    """A snapshot and what its rows stand for in the view and the clusters.

    It looks at what the builder keeps, and counts until the builder is asked again.
    """

    snapshot: Snapshot
    rows: Rows
    """[J] row of the job in the view's columns; anything where `job_node` is below -1."""
    nodes: list[NodeName]
    """[N]"""
    shapes: list[int]
    """[S] number of the shape in the view."""
    gangs: list[c.GangName]
    """[G]"""
    leaving: set[int]
    """Rows of the view, of any pool, whose run was stopped and its room given away."""


NO_ROWS: Final = np.zeros(0, np.intp)


class Builder:
    """Builds the snapshots of one scheduler; keeps between them what did not change."""

    def __init__(
        self, classes: Sequence[PriorityClass], rules: Rules, *, slack: int = SLACK
    ) -> None:
        self.rules = rules
        self._own_rules = {pool: rules.for_pool(pool) for pool in rules.pools}
        self._classes = Classes(classes)
        self._slack = slack
        self.examined_before_ms = 0
        """Jobs submitted before were examined by an earlier leader: they are never rejected."""
        self._nodes = AllNodes()
        self._amounts: dict[str, node_table.Amounts] = {}
        self._node_labels: dict[str, tuple[_Key, npt.NDArray[np.int32] | None]] = {}
        self._view: View | None = None
        self._numbering = 0
        self._forget()

    def _forget(self) -> None:
        """Drop everything that depends on the view."""
        self._place = self._gang_place = -1
        self._slots = PoolSlots()
        self._pools: tuple[tuple[int, int, int], list[str]] = ((-1, -1, -1), [])
        self._known_pools: list[str] = []
        self._pool_jobs: dict[str, PoolJobs] = {}
        self._delayed: Timers[int] = Timers()
        self._excluded: set[int] = set()
        self._node_version = -1
        self._unacknowledged = UnacknowledgedLeases()
        self._leaving: set[int] = set()

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

    # Keeping up -----------------------------------------------------------------------------------

    def update(
        self, view: View, clusters: Clusters, now_ms: int, excluded: Iterable[int] = ()
    ) -> None:
        """Take over what changed. `excluded`: rows of jobs about which others decide now."""
        if view is not self._view or view.jobs.numbering != self._numbering:
            self._reset_view(view, clusters)
        moved = self._node_version != clusters.version
        again = self._move_nodes(view, clusters)
        met = self._find_rows_of_new_pools(view, self.pools(view, clusters))
        again += self._delayed.due(now_ms)
        again += self._set_excluded(view, excluded)
        changed = changed_rows(view, self._place)
        self._place = view.jobs.journal.end
        if (again or met.size) and changed.size < view.jobs.used:  # else all are looked at anyway
            changed = np.unique(np.concatenate([changed, met, np.array(again, np.intp)]))
        if len(changed):
            self._update_rows(view, changed, now_ms)
        gangs = view.gang_journal.since(self._gang_place)
        self._gang_place = view.gang_journal.end
        if moved or len(changed) or gangs is None or gangs:
            for pool_jobs in self._pool_jobs.values():
                pool_jobs.update_gangs(view, gangs)

    def _reset_view(self, view: View, clusters: Clusters) -> None:
        """Another view, or names have other numbers: know only what pools were found to be."""
        before = self._pool_jobs if view is self._view else {}
        self._forget()
        self._view, self._numbering = view, view.jobs.numbering
        pools = self.pools(view, clusters)
        for pool in pools:
            if pool in before:
                self._of(view, pool).restore(before[pool], view)
        self._amounts = {pool: self._amounts[pool] for pool in pools if pool in self._amounts}
        labels = self._node_labels
        self._node_labels = {pool: labels[pool] for pool in pools if pool in labels}

    def _find_rows_of_new_pools(self, view: View, pools: list[str]) -> Rows:
        """Look at these pools from now on; returns rows of jobs that may have been there before."""
        if pools is self._known_pools:
            return NO_ROWS
        self._known_pools = pools
        jobs = view.jobs
        rows = [NO_ROWS]
        for pool in pools:
            known = self._pool_jobs.get(pool)
            if known is None or known.pool < 0:
                number = self._of(view, pool).pool
                rows.append(np.flatnonzero(jobs.pool[: jobs.used] == number))
        return np.concatenate(rows)

    def _set_excluded(self, view: View, rows: Iterable[int]) -> list[int]:
        """Leave these queued jobs out, and no others; returns those whose lot has changed."""
        at = np.array(list(rows), np.intp)
        out = set(at[view.jobs.state[at] == c.QUEUED].tolist())
        differ = self._excluded.symmetric_difference(out)
        self._excluded = out
        return list(differ)

    def _move_nodes(self, view: View, clusters: Clusters) -> list[int]:
        """Tell the pools of their nodes; returns rows that must be looked at again."""
        again: list[int] = []
        self._nodes.update(clusters)
        if self._node_version != clusters.version:
            self._node_version = clusters.version
            for pool, pool_jobs in self._pool_jobs.items():
                again += pool_jobs.move(view, self._nodes.of(pool)).tolist()
        return again

    def _of(self, view: View, pool: str) -> PoolJobs:
        found = self._pool_jobs.get(pool)
        if found is None:
            floating = tuple(sorted(self.rules_of(pool).floating))
            found = PoolJobs(self._slots, self._classes, floating, self._slack)
            found.examined_before_ms = self.examined_before_ms
            found.move(view, self._nodes.of(pool))
            self._pool_jobs[pool] = found
        if found.pool < 0:
            number = view.jobs.pools.find(pool)
            found.pool = -1 if number is None else number
        return found

    def _update_rows(self, view: View, rows: Rows, now_ms: int) -> None:
        """Each of these rows is where it belongs afterwards, whatever it was before."""
        jobs = view.jobs
        self._slots.grow(jobs.used)
        flags, state, pool = jobs.flags[rows], jobs.state[rows], jobs.pool[rows]
        valid = (flags & c.FREE) == 0
        may = valid & (state == c.QUEUED) & ((flags & c.NOT_READY) == 0)
        starts = np.zeros(rows.size, np.int64)
        starts[may] = jobs.start_after_ms[rows[may]]
        self._delay(rows, starts > now_ms, starts)
        may &= starts <= now_ms
        if view.stopped:
            may &= ~np.isin(jobs.partition[rows], list(view.stopped))
        if self._excluded:
            may &= ~np.isin(rows, list(self._excluded))
        live = valid & c.IS_LIVE_RUN[jobs.run_state[rows]]
        given = live & ((flags & c.CAPACITY_REASSIGNED) != 0)
        live &= ~given
        self._leaving.difference_update(rows.tolist() if self._leaving else ())
        self._leaving.update(rows[given].tolist())
        self._unacknowledged.update(view, rows, valid)
        before = self._slots.pool[rows]
        now = np.where(may | live, pool, np.int32(-1))
        for pool_jobs in self._pool_jobs.values():
            if pool_jobs.orphaned_rows:
                pool_jobs.orphaned_rows.difference_update(rows.tolist())
        moves = (before >= 0) & (now >= 0) & (now != before)
        for pool_jobs in self._pool_jobs.values() if moves.any() else ():
            gone = rows[moves & (before == pool_jobs.pool)]
            pool_jobs.change(view, gone, np.full(gone.size, HOLE, np.int32))
        concerns = np.where(now >= 0, now, before)
        for pool_jobs in self._pool_jobs.values():
            chosen = concerns == pool_jobs.pool
            if pool_jobs.pool >= 0 and chosen.any():
                self._assign_rows(view, pool_jobs, rows[chosen], may[chosen], live[chosen])

    def _assign_rows(
        self,
        view: View,
        pool_jobs: PoolJobs,
        rows: Rows,
        may: npt.NDArray[np.bool_],
        live: npt.NDArray[np.bool_],
    ) -> None:
        """Tell a pool which of these rows wait in it, which are on which of its nodes."""
        to_row = pool_jobs.node_rows.update(view.jobs.nodes)
        node = np.full(rows.size, -1, np.int32)
        runs = np.flatnonzero(live)
        node[runs] = to_row[view.jobs.node[rows[runs]]]
        waits = np.where(may, np.int32(WAITS), np.int32(HOLE))
        pool_jobs.change(view, rows, np.where(node >= 0, node, waits))
        pool_jobs.orphaned_rows.update(rows[runs[node[runs] < 0]].tolist())

    def _delay(self, rows: Rows, delayed: npt.NDArray[np.bool_], starts: Rows) -> None:
        """Look again at these rows when they may start."""
        if len(self._delayed):
            self._delayed.unset(rows[~delayed].tolist())
        if delayed.any():
            timers = zip(starts[delayed].tolist(), rows[delayed].tolist(), strict=True)
            self._delayed.set(timers)

    # What came of it ------------------------------------------------------------------------------

    def pools(self, view: View, clusters: Clusters) -> list[str]:
        """Names of the pools that have nodes, and of bare ones that jobs named, ascending."""
        self._nodes.update(clusters)
        names = view.jobs.pools.values
        key = (clusters.version, view.jobs.numbering, len(names))
        if self._pools[0] != key:
            pools = set(self._nodes.pools())
            bare = (name for name in names if name not in pools)
            self._pools = (key, sorted([*pools, *islice(bare, BARE_POOLS_MAX)]))
        return self._pools[1]

    def version(self, pool: str) -> int:
        """Grows with every change of the pool's jobs and nodes that a round could care about."""
        return self._pool_jobs[pool].version

    def find_executors_at_lease_limit(self) -> frozenset[str]:
        """L9: executors that have not taken up more leases than they may."""
        return self._unacknowledged.find_executors_above(self.rules.max_unacknowledged_leases)

    def remember_feasible(self, built: BuiltSnapshot, plan: Plan) -> None:
        """What the engine found feasible is not rejected later."""
        pool_jobs = self._pool_jobs[built.snapshot.pool]
        assert self._view is not None, "something was built"
        shapes = self._view.jobs.shapes.values
        numbers = pool_jobs.shapes.remember(plan.shape_feasible)
        pool_jobs.feasible.update(shapes[number] for number in numbers)
        if pool_jobs.gangs.present:
            pool_jobs.gangs.remember(plan.gang_feasible)

    def build(
        self,
        view: View,
        clusters: Clusters,
        queues: Queues,
        pool: str,
        *,
        now_ms: int,
        stale: frozenset[str] = frozenset(),
        buckets: Buckets | None = None,
        excluded: Iterable[int] = (),
    ) -> BuiltSnapshot:
        """The snapshot of a pool. `excluded`: rows of jobs about which others decide now."""
        self.update(view, clusters, now_ms, excluded)
        pool_jobs = self._of(view, pool)
        nodes, shapes, gangs = pool_jobs.nodes, pool_jobs.shapes, pool_jobs.gangs
        shapes.match_nodes(nodes)
        names, queue_names = shapes.names, pool_jobs.queues.names
        rules = self.rules_of(pool)
        floating = tuple(sorted(rules.floating))
        fractions, amounts = self._classes.limits(
            rules.class_limits, queues, queue_names, (*names, *floating)
        )
        avoid_job, avoid_node = pool_jobs.avoided.pairs(nodes)
        own = buckets or Buckets(Rules())
        known = [queues.get(name) for name in queue_names]
        snapshot = Snapshot(
            pool=pool,
            now_ms=now_ms,
            resources=names,
            floating=floating,
            floating_total=np.array([int(rules.floating[name]) for name in floating], np.int64),
            queue_names=queue_names,
            queue_weight=np.array([queue.weight for queue in known]),
            queue_cordoned=np.array([queue.cordoned for queue in known], np.bool_),
            queue_limit_fraction=fractions,
            queue_limit_amount=amounts,
            class_ceiling=self._classes.ceiling(rules.ceiling, (*names, *floating)),
            queue_tokens=np.array([own.queue(name).tokens(now_ms) for name in queue_names]),
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
            node_allocatable=self._amounts.setdefault(pool, node_table.Amounts()).of(nodes, names),
            node_type=shapes.node_type,
            node_flags=self._flags(nodes, stale),
            label_names=gangs.label_names if gangs.present else (),
            node_label=self._labels(pool, nodes, gangs.label_names) if gangs.present else None,
            **_jobs(pool_jobs),
            avoid_job=avoid_job,
            avoid_node=avoid_node,
            **(_gangs(pool_jobs) if gangs.present else {}),
        )
        return BuiltSnapshot(
            snapshot,
            pool_jobs.row[: pool_jobs.used],
            nodes.names,
            shapes.numbers,
            gangs.names,
            self._leaving,
        )

    def _labels(
        self, pool: str, nodes: Nodes, names: tuple[str, ...]
    ) -> npt.NDArray[np.int32] | None:
        key = (nodes.version, names)
        kept = self._node_labels.get(pool)
        if kept is None or kept[0] != key:
            kept = self._node_labels[pool] = (key, node_table.labels(nodes.nodes, names))
        return kept[1]

    def _flags(self, nodes: Nodes, stale: frozenset[str]) -> npt.NDArray[np.uint8]:
        flags = np.where(nodes.cordoned, np.uint8(engine.NodeFlag.CORDONED), np.uint8(0))
        for flag, executors in (
            (engine.NodeFlag.LOST, stale),
            (engine.NodeFlag.LAGGING, self.find_executors_at_lease_limit()),
        ):
            for executor in executors & nodes.executors.keys():
                flags[nodes.executors[executor]] |= np.uint8(flag)
        return flags


def _jobs(pool_jobs: PoolJobs) -> dict[str, Any]:
    """The columns of jobs, as the engine names them."""
    span = slice(0, pool_jobs.used)
    names = (
        *("job_queue", "job_shape", "job_priority", "job_submission", "job_node"),
        *("job_started_ms", "job_value", "job_checkpoint_interval_ms", "job_flags"),
    )
    return {
        **{name: getattr(pool_jobs, name)[span] for name in names},
        "queued_order": pool_jobs.queued_order.rows,
        "running_order": pool_jobs.running_order.rows,
        "job_totals": pool_jobs.sums,
    }


def _gangs(pool_jobs: PoolJobs) -> dict[str, Any]:
    """The columns of gangs, as the engine names them."""
    gangs = pool_jobs.gangs
    return {
        "job_gang": pool_jobs.job_gang[: pool_jobs.used],
        "gang_queue": gangs.queue,
        "gang_size": gangs.size,
        "gang_min": gangs.min_size,
        "gang_label": gangs.label,
        "gang_rest": gangs.rest,
        "gang_started": gangs.started,
        "gang_submitted_ms": gangs.submitted_ms,
        "gang_fitted": gangs.fitted,
    }
