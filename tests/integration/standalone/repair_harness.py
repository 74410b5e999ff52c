"""An installation for tests of `fairlead repair`: a log, a scheduler, lookout's fold.

`world` (of the scheduler's tests) writes as submit and as the executor does.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from fairlead_common import db
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.repair_events import Knowledge
from fairlead_common.log import topics
from fairlead_common.log.kafka import kafka_clients
from fairlead_common.log.kafka.event_log import KafkaLog
from fairlead_common.log.postgres.event_log import PostgresLog
from fairlead_common.service import clock
from fairlead_lookout.service.recovery import Recovery as Lookout
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_scheduler.service.follower import CHECKPOINT
from fairlead_scheduler.service.service import Service
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_standalone.repair.repair_steps import Findings, Repair
from tests.integration.scheduler.world import World, job_id

MONTHS_MS = 90 * 86_400_000


class Installation:
    """A log, and one database with all views of it."""

    def __init__(self, log_url: str, url: str, redis_url: str, world: World) -> None:
        self.world = world
        self.url = url
        self._scheduler = SchedulerSettings(
            log_url=log_url, database_url=url, redis_url=redis_url, checkpoint_s=0.05
        )
        self._lookout = LookoutSettings(
            log_url=log_url, database_url=url, redis_url=redis_url, signing_key="key"
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, log_url: str, url: str, redis_url: str) -> AsyncIterator["Installation"]:
        async with World.open(log_url) as world:
            yield cls(log_url, url, redis_url, world)

    @asynccontextmanager
    async def scheduler(self, *, saves: bool = True) -> AsyncIterator[Service]:
        """A scheduler that runs while the block does; its checkpoint is complete afterwards."""
        async with Service.open(self._scheduler) as service:
            running = asyncio.create_task(service.run())
            try:
                yield service
                if saves and service.unusable is None:
                    end = await self.world.log.end_positions(topics.JOBS)
                    await service.state.wait_until_folded(CHECKPOINT, end)
            finally:
                running.cancel()
                results = await asyncio.gather(running, return_exceptions=True)
                assert all(isinstance(r, asyncio.CancelledError) for r in results), results

    @asynccontextmanager
    async def lookout(self) -> AsyncIterator[Lookout]:
        pool = await db.open_pool(self.url, size_max=2)
        try:
            yield await Lookout.load(self.world.log, pool, self._lookout)
        finally:
            await pool.close()

    async def fold_lookout(self) -> None:
        """Lookout folds all that is in the log."""
        async with self.lookout() as lookout:
            await lookout.fold(await self.world.log.end_positions(topics.JOBS))

    async def shown(self, *names: str) -> dict[str, Knowledge]:
        """What lookout shows of these jobs, once it has folded all that is in the log."""
        await self.fold_lookout()
        async with self.lookout() as lookout:
            found = await lookout.find([job_id(name) for name in names])
        ids = {job_id(name): name for name in names}
        return {ids[JobId(each)]: job.knowledge for each, job in found.items()}

    async def states(self, *names: str) -> dict[str, str]:
        """Their states there."""
        return {name: str(known.state) for name, known in (await self.shown(*names)).items()}

    async def repair(self) -> Findings:
        async with Repair.open(self._scheduler, self._lookout) as repair:
            return await repair.run(lambda _: None)

    async def examine(self) -> Findings:
        async with Repair.open(self._scheduler, self._lookout) as repair:
            return await repair.examine()

    async def expire(self) -> None:
        """The retention of the log passes."""
        log = self.world.log
        ends = await log.end_positions(topics.JOBS)
        match log:
            case PostgresLog():
                await log.maintain(clock.now_ms() + MONTHS_MS)
            case KafkaLog():
                places = {TopicPartition(topics.JOBS, part): end for part, end in ends.items()}
                async with kafka_clients.open_admin_client(log.address, log.timeout_s) as admin:
                    await admin.delete_records(
                        {place: RecordsToDelete(end) for place, end in places.items()}
                    )
            case _:
                raise AssertionError(f"no retention of {log!r} can pass here")
        assert await log.start_positions(topics.JOBS) == ends

    async def restore_log(self) -> None:
        """The log in Postgres is restored from a backup with one record of each partition."""
        await self.execute(
            "UPDATE fairlead_log.parts SET next = 1 WHERE topic = 'fairlead.jobs' AND next > 0;"
            " DELETE FROM fairlead_log.batches b USING fairlead_log.parts p"
            " WHERE p.part = b.part AND p.topic = 'fairlead.jobs' AND b.next > p.next"
        )

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
