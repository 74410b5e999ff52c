"""One cycle of the leader: look, decide, append, fold back. The shell around the pure parts."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fairlead_common import clock
from fairlead_common.db import Pool
from fairlead_common.events import JobSubmitted
from fairlead_common.log import Producer, Record
from fairlead_common.log.topics import JOBS
from fairlead_scheduler import housekeeping, metrics, planning, snapshots
from fairlead_scheduler.buckets import Buckets
from fairlead_scheduler.engine import Plan, schedule
from fairlead_scheduler.follower import State, load_specs
from fairlead_scheduler.housekeeping import Housekeeping
from fairlead_scheduler.leasing import Leases
from fairlead_scheduler.reporting import Reporter
from fairlead_scheduler.settings import SchedulerSettings
from fairlead_scheduler.snapshots import Builder, Built
from fairlead_scheduler.units import Unit, appends

_decoder = msgspec.json.Decoder(JobSubmitted)
REPORT_S_MIN = 1.0
"""Reports of a pool are written at most this often."""


class _Pool(msgspec.Struct):
    """What is kept of a pool from cycle to cycle."""

    buckets: Buckets
    settled: object = None
    """What the last round looked at, if that round left nothing to do."""
    due_ms: int = 0
    """When the next delayed job may start."""
    reported_s: float = 0.0


class _Decided(NamedTuple):
    built: Built
    plan: Plan
    units: list[Unit]
    steps: dict[str, float]


class Cycle:
    """What the leader keeps from cycle to cycle."""

    def __init__(
        self,
        settings: SchedulerSettings,
        state: State,
        producer: Producer,
        pool: Pool,
        leases: Leases,
        reporter: Reporter,
    ) -> None:
        self._settings = settings
        self._state = state
        self._producer = producer
        self._database = pool
        self._leases = leases
        self._reporter = reporter
        self._builder = Builder(settings.priority_classes, settings.rules)
        self._builder.kept_before_ms = clock.now_ms() - 60_000
        self._engine = self._builder.engine_settings()
        self._pools: dict[str, _Pool] = {}
        self._written: dict[int, int] = {}

    async def turn(self) -> None:
        """Decide everything that is due now, append it, and wait until it is folded back."""
        begun_s = clock.monotonic_s()
        now_ms = clock.now_ms()
        async with self._state.folding:
            kept = self._housekeeping(now_ms)
            rounds = [
                decided
                for pool in snapshots.pools(self._state.view, self._state.clusters)
                if (decided := await self._round(pool, kept, now_ms)) is not None
            ]
        decided_s = clock.monotonic_s()
        await self._append(kept.units)
        for decided in rounds:
            await self._append(decided.units)
        appended_s = clock.monotonic_s()
        for decided in rounds:
            await self._report(decided, now_ms)
        await self._state.reached(JOBS, self._written)
        metrics.CYCLE_SECONDS.labels("decide").observe(decided_s - begun_s)
        metrics.CYCLE_SECONDS.labels("append").observe(appended_s - decided_s)
        metrics.CYCLE_SECONDS.labels("all").observe(clock.monotonic_s() - begun_s)

    def _housekeeping(self, now_ms: int) -> Housekeeping:
        state, settings = self._state, self._settings
        kept = housekeeping.decide(
            state.view,
            self._leases,
            state.clusters.silent(settings.executor_timeout_s),
            now_ms=now_ms,
            unstarted_max=settings.retries_unstarted_max,
        )
        state.view.loose_runs.clear()
        metrics.DECIDED.inc(len(kept.units))
        return kept

    async def _round(self, name: str, kept: Housekeeping, now_ms: int) -> _Decided | None:
        """A round of one pool, None when nothing changed since one that left nothing to do."""
        state, settings = self._state, self._settings
        rules = settings.rules
        pool = self._pools.get(name)
        if pool is None:
            buckets = Buckets(rules.rate, rules.queue_rate, rules.preemption_rate)
            pool = self._pools[name] = _Pool(buckets)
        stale = state.clusters.silent(settings.executor_stale_s)
        key = (state.view.version, state.clusters.version, stale)
        if pool.settled == key and now_ms < pool.due_ms and not kept.units:
            return None
        begun_s = clock.monotonic_s()
        built = self._builder.build(
            state.view,
            state.clusters,
            state.queues,
            name,
            now_ms=now_ms,
            stale=stale,
            buckets=pool.buckets,
            left_out=kept.left_out,
        )
        built_s = clock.monotonic_s()
        plan = schedule(
            built.snapshot,
            self._engine,
            expired=lambda: clock.monotonic_s() - built_s > settings.round_s_max,
        )
        steps = {"build": built_s - begun_s, "plan": clock.monotonic_s() - built_s}
        self._builder.remember_feasible(built, plan.shape_feasible)
        units = await self._units(built, plan)
        _use_up(pool.buckets, built, plan)
        pool.settled = None if plan.limited or units else key
        pool.due_ms = snapshots.next_start_ms(state.view, now_ms)
        for step, seconds in steps.items():
            metrics.CYCLE_SECONDS.labels(step).observe(seconds)
        metrics.LEASED.labels(name).inc(len(plan.placed_job))
        metrics.PREEMPTED.labels(name).inc(len(plan.preempted_job))
        return _Decided(built, plan, units, steps)

    async def _units(self, built: Built, plan: Plan) -> list[Unit]:
        view = self._state.view
        ids = planning.placed_ids(view, built, plan)
        await load_specs(self._database, view, ids)
        specs = {job_id: _decoder.decode(view.specs[job_id]) for job_id in ids}
        return planning.units(view, built, plan, specs)

    async def _append(self, units: Sequence[Unit]) -> None:
        for records in appends(units):
            await self._append_records(records)

    async def _append_records(self, records: list[Record]) -> None:
        appended = await self._producer.append(records)
        self._leases.noted(records)
        for (topic, partition), position in appended.items():
            if topic == JOBS:
                self._written[partition] = position

    async def _report(self, decided: _Decided, now_ms: int) -> None:
        pool = self._pools[decided.plan.pool]
        now_s = clock.monotonic_s()
        if now_s - pool.reported_s < REPORT_S_MIN:
            pool.settled = None
            return
        pool.reported_s = now_s
        records = self._reporter.changed(
            self._state.view,
            decided.built,
            decided.plan,
            self._state.queues,
            now_ms=now_ms,
            steps_ms={step: round(1000 * seconds, 3) for step, seconds in decided.steps.items()},
        )
        if records:
            await self._append_records(records)


def _use_up(buckets: Buckets, built: Built, plan: Plan) -> None:
    buckets.all.take(plan.tokens_used)
    buckets.preemptions.take(plan.preemption_tokens_used)
    counts = plan.queue_scheduled.tolist()
    for name, count in zip(built.snapshot.queue_names, counts, strict=True):
        buckets.queue(name).take(count)
