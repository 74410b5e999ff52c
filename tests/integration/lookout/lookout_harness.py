"""A whole lookout on a port of its own, over a log in memory that the test writes to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec

from fairlead_common.domain import position_tokens
from fairlead_common.domain.records import events
from fairlead_common.log import Record, topics
from fairlead_common.log.memory_log import MemoryCore, MemoryLog
from fairlead_common.service import clock
from fairlead_common.web import server
from fairlead_lookout.service.service import Service
from fairlead_lookout.service.settings import Settings
from fairlead_standalone.servers.addresses import free_port
from tests.conftest import NO_TLS

WAIT_S = 60.0


class LookoutHarness:
    """The running service, a client of it, and a writer to its log."""

    def __init__(self, service: Service, client: httpx2.AsyncClient, log: MemoryLog) -> None:
        self.service = service
        self.client = client
        self.log = log

    async def append_events(
        self, *appended: events.AnyEvent, queue: str = "q", job_set: str = "s", by: str = "anna"
    ) -> str:
        """Append events of a job set; returns the position to read after."""
        return await self.append(events.records(queue, job_set, by, appended))

    async def append(self, records: Sequence[Record]) -> str:
        """Append records; returns the position to read after."""
        producer = await self.log.producer("test")
        appended = await producer.append(records)
        return position_tokens.encode(
            {number: at for (topic, number), at in appended.items() if topic == topics.JOBS}
        )

    async def get(self, path: str, after: str | None = None, **query: Any) -> httpx2.Response:
        """What the API answers."""
        if after is not None:
            query |= {"after": after, "wait": query.get("wait", f"{WAIT_S}s")}
        return await self.client.get(f"/api/v1{path}", params=query)

    async def read(self, path: str, after: str | None = None, **query: Any) -> Any:
        """The JSON of a 200 answer."""
        answer = await self.get(path, after, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def lines(self, path: str, after: str | None = None, **query: Any) -> list[Any]:
        """The objects of an NDJSON answer."""
        answer = await self.get(path, after, **query)
        assert answer.status_code == 200, answer.text
        return [msgspec.json.decode(line) for line in answer.text.splitlines()]


@asynccontextmanager
async def running(
    database: str,
    redis: str,
    core: MemoryCore | None = None,
    log_now_ms: Callable[[], int] = clock.now_ms,
    **settings: Any,
) -> AsyncIterator[LookoutHarness]:
    """A service that serves and folds until the end of the block; its tasks' failures come out.

    `log_now_ms`: the time at which the log appends.
    """
    port = settings.get("http_port") or free_port()
    own = Settings(
        **{
            "database_url": database,
            "redis_url": redis,
            "http_port": port,
            "anonymous": True,
            "signing_key": "key",
            "fold_interval_s": 0.0,
            **settings,
        }
    )
    log = MemoryLog(log_now_ms, core)
    async with (
        await Service.open(own, log) as service,
        httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=WAIT_S * 2, verify=NO_TLS
        ) as client,
        asyncio.TaskGroup() as group,
    ):
        app = server.build_app(
            "test",
            service.routers(),
            service.checks(),
            own,
            identify=service.identify,
            error_page=service.error_page,
        )
        tasks = [group.create_task(each) for each in service.tasks()]
        tasks.append(group.create_task(server.serve(app, "127.0.0.1", port)))
        await _answering(client)
        yield LookoutHarness(service, client, log)
        for task in tasks:
            task.cancel()
    await log.close()


async def said_of_the_view(harness: LookoutHarness) -> str:
    """What `/readyz` says of a view that is not well, as soon as it does; it is ready meanwhile."""
    async with asyncio.timeout(WAIT_S):
        while True:
            answer = await harness.client.get("/readyz")
            said: str = answer.json()["checks"]["lookout view"]
            if said != "ok" and answer.status_code == 200:
                return said
            await asyncio.sleep(0.02)


async def _answering(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(WAIT_S * 2):
        while True:
            try:
                await client.get("/healthz")
            except httpx2.ConnectError:
                await asyncio.sleep(0.02)
            else:
                return
