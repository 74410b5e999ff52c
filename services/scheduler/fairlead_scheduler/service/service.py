"""The wiring of the scheduler: what it opens, its health checks, and the tasks that it runs."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Final

from fairlead_common.db import Pool, check_database, migrate, open_pool
from fairlead_common.db.connection_pool import CONNECT_S_MAX
from fairlead_common.log import topics
from fairlead_common.log.coverage import ViewUnusable
from fairlead_common.log.opening import maintain_log, open_log
from fairlead_common.log.protocol import EventLog
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk
from fairlead_common.service.health import Check, Degraded
from fairlead_scheduler.engine import schedule
from fairlead_scheduler.kernels import compilation, warm_up
from fairlead_scheduler.rules.decider import Engine
from fairlead_scheduler.service import follower, leader, metrics
from fairlead_scheduler.service.follower import State
from fairlead_scheduler.service.full_disk import FullDisk
from fairlead_scheduler.service.settings import DAY_S, SchedulerSettings
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.token_buckets import PoolBuckets
from fairlead_scheduler.state.view import View
from fairlead_scheduler.store import checkpoint

LISTED_RECORDS_MAX: Final = 20
"""The largest number of undecodable records that `/readyz` names."""
SETTLE_S_MAX: Final = 5.0
"""The longest time from loading the checkpoint until health is served."""
REPAIR_CHECK_S: Final = 1.0
"""How often a scheduler with an unusable checkpoint checks whether it was repaired."""
_logger: Final = logging.getLogger("fairlead.scheduler")


class Service:
    """One scheduler process: a standby until it leads."""

    def __init__(
        self,
        settings: SchedulerSettings,
        log: ValidatingLog,
        pool: Pool,
        state: State,
        engine: Engine,
        full_disk: FullDisk | None = None,
    ) -> None:
        self.settings = settings
        self.state = state
        self._log = log
        self._pool = pool
        self._engine = engine
        self._full_disk = full_disk or FullDisk(Disk())
        self.unusable: ViewUnusable | None = None
        """Why this process waits for a repair, if it does."""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, settings: SchedulerSettings, engine: Engine = schedule
    ) -> AsyncIterator["Service"]:
        """Connect, bring the schema up to date, make the topics, load the saved view."""
        settings.check()
        _logger.info("loading the checkpoint")
        pool = await open_pool(settings.database_url, name=leader.APPLICATION)
        quarantine = Quarantine("scheduler", settings.skip_records)
        disk = Disk(settings.disk)
        log = ValidatingLog(
            await open_log(settings.log_url, disk, wait_s=CONNECT_S_MAX), quarantine
        )
        try:
            await migrate(pool, "fairlead_scheduler", "fairlead_scheduler.store")
            jobs = topics.jobs(settings.log_retention_days * DAY_S)
            for topic in (jobs, topics.clusters(), topics.config(), topics.reports()):
                await log.create(topic)
            unusable = None
            try:
                _, state = await asyncio.gather(
                    asyncio.to_thread(warm_up.run_warm_up_rounds),
                    load_state(log, pool, settings.rules),
                )
            except ViewUnusable as error:
                state, unusable = State(View(), Clusters(), Queues()), error
            service = cls(settings, log, pool, state, engine, FullDisk(disk))
            service.unusable = unusable
            yield service
        finally:
            await log.close()
            await pool.close()

    def checks(self) -> Mapping[str, Check]:
        """The checks of `/readyz`."""

        async def checkpoint_usable() -> str | None:
            # Degraded, not failed: starting the process again would change nothing.
            return None if self.unusable is None else Degraded(str(self.unusable))

        async def pools() -> str | None:
            failures = self.state.pool_failures.describe()
            return None if failures is None else Degraded(failures)

        async def records() -> str | None:
            invalid = {**self.state.queues.invalid_records, **self.state.clusters.invalid_records}
            listed = sorted(invalid.items())[:LISTED_RECORDS_MAX]
            return Degraded("; ".join(f"{key}: {why}" for key, why in listed)) if invalid else None

        async def writing() -> str | None:
            problem = self._full_disk.problem
            return None if problem is None else Degraded(problem)

        return {
            "database": partial(check_database, self._pool),
            "scheduler view": checkpoint_usable,
            "pools": pools,
            "records": records,
            "quarantine": self._log.quarantine.check(),
            "writing": writing,
        }

    async def run(self) -> None:
        """Follow, stand by, lead; ends only by failure or cancellation."""
        await self._await_repair()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follower.follow_jobs(self._log, self._pool, self.state))
            tasks.create_task(follower.follow_clusters(self._log, self.state))
            tasks.create_task(follower.follow_config(self._log, self.state))
            tasks.create_task(self._load_ended_filter())
            tasks.create_task(self._mirror())
            tasks.create_task(maintain_log(self._log.inner, clock.now_ms))
            tasks.create_task(self._log.quarantine.run(self._log.inner))
            if not compilation.are_ready():
                tasks.create_task(self._compile_kernels())
            tasks.create_task(self._lead())

    async def settled(self) -> None:
        """Wait until this process has led for one cycle, stands by, or waits for a repair, at most
        `SETTLE_S_MAX`. What the first lease does not need starts after that."""
        if self.unusable is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S_MAX):
                    await self.state.settled.wait()

    async def _load_ended_filter(self) -> None:
        """Spare look-ups of jobs that ended; the first lease does not wait for it."""
        await self.settled()
        await checkpoint.load_ended_filter(self._pool, self.state.view.saved_ends)

    async def _mirror(self) -> None:
        await self.settled()
        from fairlead_scheduler.service.cluster_mirror import (
            mirror_clusters,  # the client of Redis takes long to import
        )

        await mirror_clusters(self._log, self.settings.redis_url)

    async def _compile_kernels(self) -> None:
        """Compile the kernels in a child process, and use them from the next round on."""
        if await compilation.compile_in_child():
            async with self.state.fold_lock:
                await asyncio.to_thread(compilation.load_kernels)
            _logger.info("the engine's kernels are compiled and used from now on")

    async def _await_repair(self) -> None:
        """Return once the log can continue the checkpoint, with the view loaded."""
        if self.unusable is None:
            return
        _logger.error("waiting for `fairlead repair`: %s", self.unusable)
        metrics.VIEW_UNUSABLE.set(1)
        while self.unusable is not None:
            await asyncio.sleep(REPAIR_CHECK_S)
            try:
                self.state = await load_state(self._log, self._pool, self.settings.rules)
                self.unusable = None
            except ViewUnusable as error:
                self.unusable = error
        metrics.VIEW_UNUSABLE.set(0)
        _logger.info("the checkpoint was repaired; continuing")

    async def _lead(self) -> None:
        await leader.stand_by_and_lead(
            self.settings, self._log, self._pool, self.state, self._engine, self._full_disk
        )


async def load_state(log: EventLog, pool: Pool, rules: Rules) -> State:
    """The saved view, or an empty one at the start of the log. Raises `ViewUnusable`."""
    await checkpoint.require_usable(log, pool)
    view = await checkpoint.load_view(pool, await log.identity(), topics.JOB_PARTITIONS, rules)
    if view is None:
        view = View(PoolBuckets(rules))
        view.positions = await log.start_positions(topics.JOBS)
    return State(view, Clusters(await checkpoint.read_nodes(pool)), Queues())
