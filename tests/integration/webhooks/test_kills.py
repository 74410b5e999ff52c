"""`kill -9` of the process that makes and sends deliveries loses none of them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from fairlead_common.domain.records import configuration, events
from fairlead_common.log import EventLog, topics
from fairlead_common.log.opening import open_log
from fairlead_common.service.disk import Disk
from fairlead_standalone.servers.addresses import free_port
from tests.integration.webhooks.receiver import receiving
from tests.unit.lookout.builders import job_id, submitted

JOBS = 600
KILLS = 3
WAIT_S = 120.0


class Lookout:
    """A lookout in a process of its own, that can be killed and started again."""

    def __init__(self, database: str, redis: str) -> None:
        self.port = free_port()
        self._settings = {
            "FAIRLEAD_LOG_URL": database,
            "FAIRLEAD_DATABASE_URL": database,
            "FAIRLEAD_REDIS_URL": redis,
            "FAIRLEAD_HTTP_PORT": str(self.port),
            "FAIRLEAD_ANONYMOUS": "true",
            "FAIRLEAD_SECRETS_KEY": "a key of tests",
            "FAIRLEAD_WEBHOOK_NETWORKS": json.dumps(["127.0.0.0/8"]),
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fairlead_lookout"),
            env={**os.environ, **self._settings},
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def started(database: str, redis: str) -> AsyncIterator[tuple[Lookout, EventLog]]:
    log = await open_log(database, Disk(""), wait_s=WAIT_S)
    lookout = Lookout(database, redis)
    for topic in (topics.jobs(), topics.config()):
        await log.create(topic)
    await lookout.start()
    try:
        yield lookout, log
    finally:
        await lookout.kill()
        await log.close()


async def call_until_answered(
    client: httpx2.AsyncClient, method: str, path: str, body: object = None
) -> httpx2.Response:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                answer = await client.request(method, path, json=body)
            except httpx2.TransportError:
                answer = None
            if answer is not None and answer.status_code < 500:
                return answer
            await asyncio.sleep(0.1)


async def test_killed_workers_lose_no_delivery(fresh_database: str, valkey_url: str) -> None:
    async with (
        receiving() as receiver,
        started(fresh_database, valkey_url) as (lookout, log),
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{lookout.port}/api/v1") as client,
    ):
        producer = await log.producer("test")
        await producer.append([configuration.record(configuration.Queue(name="q", version=1))])
        webhook = {"name": "hook", "url": receiver.url, "filter": {"queue": "q"}}
        made = await call_until_answered(client, "POST", "/webhooks", webhook)
        assert made.status_code == 201, made.text
        for kill in range(KILLS):
            jobs = [f"j{kill}-{number}" for number in range(JOBS // KILLS)]
            await producer.append(
                events.records("q", "s", "anna", [submitted(name) for name in jobs])
            )
            await receiver.wait_for(len(receiver.received) + 20)
            await lookout.kill()
            await lookout.start()
        wanted = {
            job_id(f"j{kill}-{number}") for kill in range(KILLS) for number in range(JOBS // KILLS)
        }
        received = await receiver.wait_until(
            lambda found: wanted <= {each.message["data"]["jobId"] for each in found}
        )
        ids = {each.message["data"]["jobId"]: each.id for each in received}
        assert all(ids[each.message["data"]["jobId"]] == each.id for each in received)
        assert len(received) > KILLS * 20
