"""One cycle of the leader: decide, append, and wait until the decisions are folded.

The view is read while `State.fold_lock` is held. Once the lock is released, events can give a row
to another job, so everything that is used after that names jobs by their ids. Rounds run in a
thread, so every task that changes the view, the clusters or the queues holds the lock.

A pool whose round raises is logged, counted, reported and tried again later; the others continue.
Failures outside of the pure decisions (log, database) end the process.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from fairlead_common.db import Pool
from fairlead_common.log import Producer, Record
from fairlead_common.log.topics import JOBS
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk, Space
from fairlead_scheduler.rules.append_batches import AppendBatch, group_into_appends
from fairlead_scheduler.rules.decider import DecidedRound, Decider
from fairlead_scheduler.rules.housekeeping import Housekeeping
from fairlead_scheduler.service import metrics
from fairlead_scheduler.service.follower import State, load_specs
from fairlead_scheduler.service.full_disk import FullDisk
from fairlead_scheduler.service.reporter import Reporter

T = TypeVar("T")
_logger = logging.getLogger("fairlead.scheduler")

REPORT_S_MIN: Final = 1.0
"""Reports of a pool are written at most this often."""


class Offload(Protocol):
    """Runs a function without blocking the event loop."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """The result of `work`; raises what it raises."""
        ...


async def in_thread(work: Callable[[], T]) -> T:
    """Run a function in a thread. Kernels release the interpreter's lock, so a long round delays
    neither the lock session nor heartbeats nor requests."""
    return await asyncio.to_thread(work)


class CycleDecisions(NamedTuple):
    """What a cycle appends, in this order; nothing in it refers to rows of the view."""

    housekeeping: Housekeeping
    rounds: list[list[AppendBatch]]
    reports: list[list[Record]]


class Cycle:
    """The cycles of a leader. `written`: the positions after its own decisions."""

    def __init__(
        self,
        decider: Decider,
        state: State,
        producer: Producer,
        pool: Pool,
        reporter: Reporter,
        *,
        fold_configuration: Callable[[], Awaitable[None]],
        full_disk: FullDisk | None = None,
        now_ms: Callable[[], int] = clock.now_ms,
        monotonic_s: Callable[[], float] = clock.monotonic_s,
        offload: Offload = in_thread,
    ) -> None:
        """`fold_configuration` waits until everything is folded that `fairlead.config` has now."""
        self._decider = decider
        self._state = state
        self._producer = producer
        self._database = pool
        self._reporter = reporter
        self._fold_configuration = fold_configuration
        self._full_disk = full_disk or FullDisk(Disk())
        self._reported_s: dict[str, float] = {}
        self.written: dict[int, int] = {}
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._offload = offload

    async def run_once(self) -> None:
        """Decide everything that is due now, append it, and wait until it is folded."""
        begun_s = self._monotonic_s()
        await self.decide_and_append()
        await self._state.wait_until_folded(JOBS, self.written)
        metrics.CYCLE_SECONDS.labels("all").observe(self._monotonic_s() - begun_s)

    async def decide_and_append(self) -> None:
        """Decide everything that is due now, and append it."""
        begun_s = self._monotonic_s()
        async with self._state.lookup_lock:
            # No job is folded meanwhile. So a job is decided with every change of a queue or a
            # cordon that preceded its submission in the log (decision 0118).
            await self._fold_configuration()
            await self._state.fold_lock.acquire()
        try:
            decided = await self._decide(begun_s)
        finally:
            self._state.fold_lock.release()
        decided_s = self._monotonic_s()
        await self._append(decided.housekeeping.batches())
        for batches in decided.rounds:
            await self._append(batches)
        appended_s = self._monotonic_s()
        for records in decided.reports:
            await self._append_records(records)
        metrics.CYCLE_SECONDS.labels("decide").observe(decided_s - begun_s)
        metrics.CYCLE_SECONDS.labels("append").observe(appended_s - decided_s)

    async def _decide(self, begun_s: float) -> CycleDecisions:
        """Decide everything that is due now. `State.fold_lock` is held."""
        now_ms = self._now_ms()
        # While the disk is nearly full, housekeeping continues; no job is started and no task of
        # an array becomes a job.
        has_space = self._full_disk.disk.space is Space.ENOUGH
        housekeeping = self._decider.decide_housekeeping(now_ms, release_tasks=has_space)
        metrics.DECIDED.inc(housekeeping.decisions)
        pools = self._decider.pools()
        failures = self._state.pool_failures
        for pool in failures.forget_other_pools(pools):
            metrics.POOL_FAILING.labels(pool).set(0)
        rounds, reports = [], []
        for pool in pools if has_space else ():
            if failures.must_wait(pool, begun_s):
                continue
            found = await self._decide_round(pool, housekeeping, now_ms)
            if found is not None:
                decided, batches = found
                rounds.append(batches)
                reports.append(self._report(decided, housekeeping.unconfirmed, now_ms))
        reports += [self._report_failure(pool, now_ms) for pool in failures.by_pool]
        reports.append(self._forget_pools(pools))
        return CycleDecisions(housekeeping, rounds, [records for records in reports if records])

    async def _decide_round(
        self, pool: str, housekeeping: Housekeeping, now_ms: int
    ) -> tuple[DecidedRound, list[AppendBatch]] | None:
        try:
            decided = await self._offload(
                lambda: self._decider.decide_round(pool, housekeeping, now_ms, self._monotonic_s)
            )
        except Exception as error:
            self._record_failure(pool, error)
            return None
        if decided is None:
            return None
        await load_specs(self._database, self._state.view, decided.placed_ids)
        batches = self._try_for_pool(pool, lambda: self._decider.make_batches(decided))
        if batches is None:
            return None
        for step, seconds in decided.steps_s.items():
            metrics.ROUND_SECONDS.labels(pool, step).observe(seconds)
        metrics.LEASED.labels(pool).inc(len(decided.plan.placed_job))
        metrics.PREEMPTED.labels(pool).inc(len(decided.plan.preempted_job))
        return decided, batches

    def _try_for_pool(self, pool: str, work: Callable[[], T]) -> T | None:
        """The result of a pure part of a pool's round; None if it raised."""
        try:
            return work()
        except Exception as error:
            self._record_failure(pool, error)
            return None

    def _record_failure(self, pool: str, error: Exception) -> None:
        """Record that the round of this pool raised; the pool is tried again later."""
        failure = self._state.pool_failures.record_failure(pool, error, self._monotonic_s())
        metrics.POOL_FAILURES.labels(pool).inc()
        metrics.POOL_FAILING.labels(pool).set(1)
        _logger.error(
            "the round of pool %s failed (failures in a row: %d)",
            pool,
            failure.times,
            exc_info=error,
        )

    async def _append(self, batches: Iterable[AppendBatch]) -> None:
        for append in group_into_appends(batches):
            await self._append_records(append.records)
            self._decider.leases.apply(append.leases)
            self._decider.leases.groups.apply(append.group_records)

    async def _append_records(self, records: list[Record]) -> None:
        appended = await self._full_disk.retry_until_space(partial(self._producer.append, records))
        for (topic, partition), position in appended.items():
            if topic == JOBS:
                self.written[partition] = position

    def _report(
        self, decided: DecidedRound, unconfirmed: Collection[int], now_ms: int
    ) -> list[Record]:
        """The changed reports of this pool, at most as many as the reporter writes after one
        round."""
        pool = decided.plan.pool
        now_s = self._monotonic_s()
        if not self._can_report(pool, now_s):
            self._decider.request_round(pool)
            return []
        self._reported_s[pool] = now_s
        steps_ms = {step: round(1000 * s, 3) for step, s in decided.steps_s.items()}
        state = self._state
        records = self._try_for_pool(
            pool,
            lambda: self._reporter.report_round(
                state.view,
                decided.built,
                decided.plan,
                state.queues,
                unconfirmed,
                now_ms=now_ms,
                steps_ms=steps_ms,
            ),
        )
        if records is None:
            self._decider.request_round(pool)
            return []
        if self._state.pool_failures.record_success(pool):
            _logger.info("pool %s has recovered", pool)
            metrics.POOL_FAILING.labels(pool).set(0)
        if self._reporter.has_more(pool):
            self._decider.request_round(pool)
        return records

    def _forget_pools(self, pools: Sequence[str]) -> list[Record]:
        """Records that retract the reports of pools without nodes and jobs."""
        for pool in self._reported_s.keys() - set(pools):
            del self._reported_s[pool]
            metrics.forget_pool(pool)
        return self._reporter.retract_pools(pools)

    def _can_report(self, pool: str, now_s: float) -> bool:
        """Whether the reports of the previous leader are restored, and the last report of the pool
        is at least `REPORT_S_MIN` old."""
        reported_s = self._reported_s.get(pool, -REPORT_S_MIN)
        return self._reporter.is_ready and now_s - reported_s >= REPORT_S_MIN

    def _report_failure(self, pool: str, now_ms: int) -> list[Record]:
        now_s = self._monotonic_s()
        if not self._can_report(pool, now_s):
            return []
        self._reported_s[pool] = now_s
        why = self._state.pool_failures.by_pool[pool].why
        return self._reporter.report_failure(self._state.view, pool, why, now_ms=now_ms)
