"""A submit service with a lookout beside it that folds the same log."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fairlead_common.domain import position_tokens
from fairlead_common.domain.records import events
from fairlead_common.log.opening import open_log
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import JOBS
from fairlead_lookout.service.service import Service as Lookout
from fairlead_lookout.service.settings import Settings
from tests.integration.submit.submit_server import Served, served


class Watched(Served):
    """`seen(position)` waits until lookout's view has come so far."""

    async def seen(self, position: str) -> None:
        """Until what was written there is in the view."""
        wanted = position_tokens.decode(position).jobs
        async with asyncio.timeout(120):
            while True:
                rows = await self.pool.fetch("SELECT * FROM fairlead_lookout.progress")
                place = {row["partition"]: row["position"] for row in rows}
                if all(place.get(number, 0) >= at for number, at in wanted.items()):
                    return
                await asyncio.sleep(0.02)

    async def happened(self, job_set: str, *events_: events.AnyEvent) -> None:
        """Let the log say this of jobs of a job set, as scheduler and executors would."""
        producer = await self.log.producer(f"test-{id(events_)}")
        records: list[Record] = events.records(self.queue, job_set, "test", events_)
        appended = await producer.append(records)
        await producer.close()
        await self.seen(
            position_tokens.encode({n: at for (topic, n), at in appended.items() if topic == JOBS})
        )


@asynccontextmanager
async def watched(
    url: str,
    redis: str,
    *,
    roles: tuple[str, ...] = ("admin",),
    submit_settings: Mapping[str, object] | None = None,
) -> AsyncIterator[Watched]:
    """Both, until the end of the block."""
    settings = Settings(
        database_url=url,
        log_url=url,
        redis_url=redis,
        signing_key="k",
        fold_interval_s=0.0,
    )
    log = await open_log(url)
    try:
        async with (
            await Lookout.open(settings, log) as lookout,
            served(url, roles=roles, settings=submit_settings) as submit,
        ):
            tasks = [asyncio.create_task(task) for task in lookout.tasks()]
            submit.__class__ = Watched
            assert isinstance(submit, Watched)
            try:
                yield submit
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await log.close()
