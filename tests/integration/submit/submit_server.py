"""A submit service in this process, on a real Postgres, and a client that may call it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import msgspec

from fairlead_common import db
from fairlead_common.domain.records import events
from fairlead_common.log import topics
from fairlead_common.log.opening import open_log
from fairlead_common.log.protocol import EventLog, caught_up
from fairlead_common.web import server
from fairlead_submit.http import api
from fairlead_submit.service.service import POOL_SIZE, Service
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.store import configuration_store, schema, token_store

Answer = httpx2.Response


class Served:
    """The service under test. `queue` exists."""

    def __init__(
        self, client: httpx2.AsyncClient, pool: db.Pool, log: EventLog, queue: str, url: str
    ) -> None:
        self.url = url
        self.client = client
        self.pool = pool
        self.log = log
        self.queue = queue

    async def post(self, path: str, body: object) -> Answer:
        """POST this as JSON; bytes go as they are."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"}
        return await self.client.post(f"/api/v1{path}", content=content, headers=headers)

    async def submit(self, jobs: list[Any], job_set: str = "set", **more: object) -> Answer:
        """Submit these jobs to `queue`. `Any`: whatever JSON a test wants to send."""
        body = {"queue": self.queue, "jobSet": job_set, "jobs": jobs, **more}
        return await self.post("/jobs", body)

    async def logged(self, topic: str = topics.JOBS) -> list[bytes]:
        """Every value in the topic."""
        end = await self.log.end_positions(topic)
        place = await self.log.start_positions(topic)
        reader = await self.log.reader(topic, place)
        values: list[bytes] = []
        while not caught_up(place, end):
            batch = await reader.read(wait_s=0.1)
            values += [entry.value for entry in batch.entries if entry.value is not None]
            place = batch.positions
        await reader.close()
        return values

    async def events(self) -> list[events.AnyEvent]:
        """Every event that concerns `queue` or a job of it."""
        found: list[events.AnyEvent] = []
        jobs: set[str] = set()
        for sequence in [events.decode(value) for value in await self.logged()]:
            if sequence.queue == self.queue:
                found += sequence.events
                jobs.update(e.job_id for e in sequence.events if isinstance(e, events.JobEvent))
            elif not sequence.queue:
                found += [e for e in sequence.events if getattr(e, "job_id", None) in jobs]
        return found


@asynccontextmanager
async def served(
    url: str,
    log: EventLog | None = None,
    *,
    roles: tuple[str, ...] = ("admin",),
    settings: Mapping[str, object] | None = None,
) -> AsyncIterator[Served]:
    """A running service with a queue of its own; `log`: another one than that in the database."""
    given = SubmitSettings(
        database_url=url,
        log_url=url,
        hosts=("test",),
        instance=secrets.token_hex(4),
        **(settings or {}),  # type: ignore[arg-type]  # settings by name
    )
    async with AsyncExitStack() as stack:
        pool = await db.open_pool(url, size_max=POOL_SIZE)
        stack.push_async_callback(pool.close)
        await schema.migrate(pool)
        used = await open_log(url) if log is None else log
        stack.push_async_callback(used.close)
        await used.create(topics.jobs())
        await used.create(topics.config())
        await used.create(topics.clusters())
        service = Service(given, pool, used)
        app = server.build_app(
            "test", api.routers(service), service.checks(), given, identify=service.identify
        )
        tasks = [asyncio.create_task(task) for task in service.tasks()]
        stack.push_async_callback(_ended, tasks)
        token = await token_store.make_token(pool, "tester", roles)
        client = await stack.enter_async_context(
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=app, raise_app_exceptions=False),
                base_url="http://test",
                headers={"Authorization": f"Bearer {token}"},
                timeout=30,
            )
        )
        queue = f"q-{secrets.token_hex(4)}"
        await pool.execute("DELETE FROM fairlead_submit.outbox")
        made = Served(client, pool, used, queue, url)
        assert await configuration_store.ensure_queue(pool, queue)
        yield made


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
