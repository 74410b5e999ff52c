"""The decisions of one cycle, without I/O: housekeeping, then a round for each pool.

The service and simulations use the same decider. Time is an argument; the only clock is the one
passed for the soft limit of a round.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.engine.preparation.pool.static_pool import StaticPool, renew_static_pool
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.rules import array_tasks, group_life_cycle, housekeeping, plan_batches
from fairlead_scheduler.rules.append_batches import AppendBatch
from fairlead_scheduler.rules.housekeeping import Housekeeping, HousekeepingLimits
from fairlead_scheduler.rules.lease_changes import Leases
from fairlead_scheduler.snapshots import Builder, BuiltSnapshot
from fairlead_scheduler.snapshots.builder import SLACK
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.deadlines import Deadlines
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View, forget_names
from fairlead_scheduler.state.view_validation import list_view_violations

EXAMINED_MS = 60_000
"""Jobs submitted this long before a leader started were examined by an earlier leader."""


class DecidedRound(NamedTuple):
    """The snapshot and the plan of a round, and the duration of its steps (s)."""

    built: BuiltSnapshot
    plan: Plan
    steps_s: dict[str, float]
    placed_ids: list[JobId]
    """The jobs that start. Their specs must be in `View.specs` before `Decider.make_batches`."""


class DeciderSettings(Protocol):
    """The settings of the scheduler that the decider reads; `SchedulerSettings` explains them."""

    @property
    def priority_classes(self) -> tuple[PriorityClass, ...]: ...

    @property
    def rules(self) -> Rules: ...

    @property
    def executor_stale_s(self) -> float: ...

    @property
    def executor_timeout_s(self) -> float: ...

    @property
    def node_gone_s(self) -> float: ...

    @property
    def deadline_grace_s(self) -> float: ...

    @property
    def round_s_max(self) -> float: ...

    @property
    def retries_unstarted_max(self) -> int: ...


class Engine(Protocol):
    """A function that decides a round, as `engine.schedule`."""

    def __call__(
        self,
        snapshot: Snapshot,
        settings: EngineSettings,
        *,
        static: StaticPool | None = None,
        explain: bool,
        expired: Callable[[], bool],
        clock_s: Callable[[], float],
    ) -> Plan:
        """What to start and to stop in this pool."""
        ...


class _Pool(msgspec.Struct):
    """What the decider remembers of a pool between cycles."""

    settled: object = None
    """The versions of the input of the last round, if that round left nothing to do."""
    due_ms: int = 0
    """When the assembly timeout of the next gang ends."""
    static: StaticPool | None = None
    """The static part of the pool of the last round."""


def _find_next_assembly_timeout_ms(snapshot: Snapshot, settings: EngineSettings) -> int:
    """When the assembly timeout of the next gang ends (N9); `NEVER_MS` without such a gang."""
    since_ms, limit_ms = snapshot.gang_submitted_ms, settings.gang_assembly_timeout_ms
    if since_ms is None or limit_ms <= 0:
        return job_table.NEVER_MS
    open_ms = since_ms[(since_ms < job_table.NEVER_MS) & (since_ms + limit_ms >= snapshot.now_ms)]
    return int(open_ms.min()) + limit_ms + 1 if len(open_ms) else job_table.NEVER_MS


class Decider:
    """Decides the cycles of one leader, and retains what it needs between them."""

    def __init__(
        self,
        settings: DeciderSettings,
        view: View,
        clusters: Clusters,
        queues: Queues,
        leases: Leases,
        *,
        began_ms: int,
        engine: Engine = schedule,
        slack: int = SLACK,
    ) -> None:
        """`slack`: as the `Builder` has it."""
        self.view = view
        self.clusters = clusters
        self.queues = queues
        self.leases = leases
        self._settings = settings
        self._builder = Builder(
            settings.priority_classes,
            settings.rules,
            view,
            clusters,
            queues,
            examined_before_ms=began_ms - EXAMINED_MS,
            slack=slack,
        )
        self._schedule = engine
        self._engine_settings = self._builder.engine_settings()
        self._engine_settings_by_pool = {
            pool: self._builder.engine_settings(pool) for pool in settings.rules.pools
        }
        self._pools: dict[str, _Pool] = {}
        self._limits = HousekeepingLimits(
            stale_s=settings.executor_stale_s,
            lost_s=settings.executor_timeout_s,
            node_gone_s=settings.node_gone_s,
            deadline_s=settings.deadline_grace_s,
            unstarted=settings.retries_unstarted_max,
        )
        self._deadlines = Deadlines(round(1000 * settings.deadline_grace_s))
        self._deadlines.update(view)
        self._task_counts = array_tasks.TaskCounts()
        clusters.expect_nodes(self._deadlines.find_nodes_with_runs(view))

    def decide_housekeeping(self, now_ms: int, *, release_tasks: bool = True) -> Housekeeping:
        """Decide run ends, stops, deadlines and lost executors, before anything is scheduled.

        `release_tasks`: whether tasks of arrays can become jobs. A cycle starts here, so names can
        be renumbered: no numbers of an earlier cycle are in use.
        """
        forget_names(self.view)
        decided = housekeeping.decide_housekeeping(
            self.view,
            self._deadlines,
            self.leases,
            self.queues,
            self.clusters,
            self._limits,
            now_ms=now_ms,
        )
        counts = self._task_counts
        decided.others.extend(array_tasks.decide_arrays(self.view, counts, release=release_tasks))
        self.view.orphaned_runs.clear()
        missing = self.clusters.find_missing_nodes(self._limits.node_gone_s, self._limits.stale_s)
        self.clusters.forget_missing(missing)
        return decided

    def validate(self) -> None:
        """Raise `AssertionError` naming every violated invariant of the scheduler's state."""
        found = list_view_violations(self.view)
        found = found or [
            *self._builder.list_violations(),
            *self._deadlines.list_violations(self.view),
            *self.leases.list_violations(),
        ]
        assert not found, "; ".join(found)

    def pools(self) -> list[str]:
        """The pools to schedule, in order. Drops what is retained of other pools."""
        found = self._builder.pools()
        if len(self._pools) > len(found):
            self._pools = {name: self._pools[name] for name in found if name in self._pools}
        return found

    def decide_round(
        self,
        name: str,
        decided: Housekeeping,
        now_ms: int,
        timer_s: Callable[[], float],
        *,
        explain: bool = True,
    ) -> DecidedRound | None:
        """Run a round of a pool; None if nothing changed since a round that left nothing to do.
        Without `explain` it does not find the reasons of waiting jobs."""
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = _Pool()
        if self.view.short_groups:
            group_life_cycle.note_round(self.view)
        begun_s = timer_s()
        self._builder.update(now_ms, decided.excluded)
        stale = self.clusters.find_silent_executors(self._settings.executor_stale_s)
        key = (
            self._builder.version(name),
            self.queues.version,
            stale,
            self._builder.find_executors_at_lease_limit(),
            self._task_counts.waiting_version,
            explain,
        )
        if pool.settled == key and now_ms < pool.due_ms:
            return None
        buckets = self.view.buckets.pool(name)
        buckets.follow_clock(now_ms)
        built = self._builder.build(
            name,
            now_ms=now_ms,
            stale=stale,
            buckets=buckets,
            waiting_tasks=self._task_counts.waiting,
        )
        built_s = timer_s()
        settings = self._engine_settings_by_pool.get(name, self._engine_settings)

        until_s = built_s + self._settings.round_s_max

        def expired() -> bool:
            return timer_s() > until_s

        clock = RoundClock(expired, settings)
        pool.static = renew_static_pool(pool.static, built.snapshot, settings, clock)
        plan = self._schedule(
            built.snapshot,
            settings,
            static=pool.static,
            explain=explain,
            expired=expired,
            clock_s=timer_s,
        )
        steps = {"build": built_s - begun_s, "plan": timer_s() - built_s}
        self._builder.remember_feasible(built, plan)
        idle = not plan.limited and not len(plan.placed_job) and not len(plan.preempted_job)
        pool.settled = key if idle else None
        pool.due_ms = _find_next_assembly_timeout_ms(built.snapshot, settings)
        return DecidedRound(built, plan, steps, self.view.jobs.rows.ids_at(plan.placed_job))

    def request_round(self, name: str) -> None:
        """Run a round of this pool in the next cycle even if nothing changes."""
        self._pools[name].settled = None

    def make_batches(self, decided: DecidedRound) -> list[AppendBatch]:
        """The append batches of a round."""
        specs = self.view.specs.get_all(decided.placed_ids)
        submitted = list(specs.values())
        return plan_batches.make_batches(self.view, decided.built, decided.plan, submitted)
