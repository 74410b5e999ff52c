"""`kill -9` of the server under fire: who repeats gets exactly what he asked for."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Self

import httpx2
import pytest

from fairlead_common import db
from fairlead_common.domain import position_tokens
from fairlead_common.domain.records import events
from fairlead_common.log.opening import open_log
from fairlead_lookout.service.service import Service as Lookout
from fairlead_lookout.service.settings import Settings
from fairlead_standalone.servers.addresses import free_port
from fairlead_submit.store import configuration_store, schema, token_store
from tests.integration.submit.submit_server import Served

RUN = {"command": ["true"]}
CLIENTS, BATCHES, JOBS = 6, 8, 25
REPEATS_MAX = 3
TAKEN_BETWEEN_KILLS = 14


class Killed(Served):
    """`python -m fairlead_submit`, which is killed and started again; clients that repeat."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.port = free_port()
        self.up = asyncio.Event()
        self.taken: asyncio.Queue[None] = asyncio.Queue()
        self.kills = 0
        self.repeats: Counter[int] = Counter()
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        pool = await db.open_pool(self.database, size_max=2)
        self._stack.push_async_callback(pool.close)
        await schema.migrate(pool)
        assert await configuration_store.ensure_queue(pool, "fire")
        token = await token_store.make_token(pool, "client", ["submitter"])
        log = await open_log(self.database)
        self._stack.push_async_callback(log.close)
        client = await self._stack.enter_async_context(
            httpx2.AsyncClient(
                base_url=f"http://127.0.0.1:{self.port}",
                headers={"Authorization": f"Bearer {token}"},
                timeout=30,
            )
        )
        super().__init__(client, pool, log, "fire", self.database)
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()
        await self._stack.aclose()

    async def start(self) -> None:
        """Start it, and return when it answers."""
        environment = {
            **os.environ,
            "FAIRLEAD_LOG_URL": self.database,
            "FAIRLEAD_DATABASE_URL": self.database,
            "FAIRLEAD_HTTP_PORT": str(self.port),
            "FAIRLEAD_LOG_LEVEL": "ERROR",
        }
        words = [sys.executable, "-m", "fairlead_submit"]
        self._process = subprocess.Popen(words, env=environment)  # noqa: ASYNC220 (it is killed)
        async with asyncio.timeout(60):
            while True:
                try:
                    await self.client.get("/healthz")
                except httpx2.TransportError:
                    assert self._process.poll() is None, "submit ended by itself"
                    await asyncio.sleep(0.05)
                else:
                    break
        self.up.set()

    async def kill(self) -> None:
        """`kill -9`, and start it again."""
        self.up.clear()
        self._end()
        self.kills += 1
        await self.start()

    def _end(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    async def insist(self, path: str, body: object) -> Any:
        """Send the request, repeating it where nobody knows what became of it (`Any`: JSON)."""
        repeats = 0
        while True:
            await self.up.wait()
            answer = None
            with contextlib.suppress(httpx2.TransportError):
                answer = await self.post(path, body)
            if answer is not None and answer.status_code != 503:
                break
            repeats += 1
        self.repeats[repeats] += 1
        assert answer.status_code in (200, 202), answer.text
        self.taken.put_nowait(None)
        return answer.json()

    async def killing(self) -> None:
        """Kill whenever some more requests were taken, until cancelled."""
        while True:
            for _ in range(TAKEN_BETWEEN_KILLS):
                await self.taken.get()
            await self.kill()


@pytest.fixture
async def killed(fresh_database: str) -> AsyncIterator[Killed]:
    async with Killed(fresh_database) as made:
        yield made


async def asking(killed: Killed, client: int) -> list[str]:
    """Submit batch after batch as our clients do: each with client ids. The ids answered."""
    answered: list[str] = []
    for batch in range(BATCHES):
        names = [f"{client}-{batch}-{index}" for index in range(JOBS)]
        body = {
            "queue": "fire",
            "jobSet": f"set-{client % 3}",
            "jobs": [{**RUN, "clientId": name} for name in names],
        }
        said = await killed.insist("/jobs", body)
        assert [job["clientId"] for job in said["jobs"]] == names
        answered += [job["id"] for job in said["jobs"]]
    return answered


async def test_repeated_requests_create_each_job_once_despite_kills(
    killed: Killed,
) -> None:
    killing = asyncio.create_task(killed.killing())
    answered = await asyncio.gather(*(asking(killed, client) for client in range(CLIENTS)))
    killing.cancel()
    await asyncio.gather(killing, return_exceptions=True)
    assert killed.kills >= 2
    assert max(killed.repeats) <= REPEATS_MAX, killed.repeats
    ids = [job_id for some in answered for job_id in some]
    assert len(set(ids)) == CLIENTS * BATCHES * JOBS
    taken = {e.job_id for e in await killed.events() if isinstance(e, events.JobSubmitted)}
    assert taken == set(ids)


async def test_jobs_are_resubmitted_once_despite_kills(
    killed: Killed, fresh_database: str, valkey_url: str
) -> None:
    jobs = 4_000
    settings = Settings(
        database_url=fresh_database,
        log_url=fresh_database,
        redis_url=valkey_url,
        signing_key="k",
        fold_interval_s=0.0,
    )
    log = await open_log(fresh_database)
    async with await Lookout.open(settings, log) as lookout, asyncio.TaskGroup() as tasks:
        folding = [tasks.create_task(task) for task in lookout.tasks()]
        body = {"queue": "fire", "jobSet": "old", "jobs": [RUN] * jobs}
        said = await killed.insist("/jobs", body)
        known = {job["id"] for job in said["jobs"]}
        assert await lookout.deps.progress.wait_for(
            position_tokens.decode(said["position"]).jobs, 60
        )
        chosen = {"queue": "fire", "jobSet": "old"}
        again = {"filter": chosen, "jobSet": "new", "clientId": "again"}
        first = await killed.insist("/jobs/resubmit", again)
        assert first["total"] == jobs
        action = f"/api/v1/actions/{first['action']}"
        action_state: Any = {"state": "RUNNING"}
        seen: set[int] = set()
        while action_state["state"] == "RUNNING":
            if action_state.get("done", 0) not in (*seen, jobs):
                seen.add(action_state.get("done", 0))
                if killed.kills < 3:
                    await killed.kill()
                    assert await killed.insist("/jobs/resubmit", again) == first
            action_state = (await killed.client.get(action)).json()
        assert (action_state["total"], action_state["done"], action_state["made"]) == (
            jobs,
            jobs,
            jobs,
        )
        assert killed.kills >= 1
        made: dict[str, set[str]] = {}
        for event in await killed.events():
            if (
                isinstance(event, events.JobSubmitted)
                and events.RESUBMITTED_FROM in event.annotations
            ):
                made.setdefault(event.annotations[events.RESUBMITTED_FROM], set()).add(event.job_id)
        assert made.keys() == known
        assert {len(ids) for ids in made.values()} == {1}
        for task in folding:
            task.cancel()
    await log.close()
