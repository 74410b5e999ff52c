"""Postgres goes away under load: refusals say so, and a client that repeats loses nothing."""

import asyncio
from typing import Protocol

from fairlead_common.domain.records import events
from tests.full_disk import full_disk
from tests.integration.submit.submit_server import Served, served

RUN = {"command": ["true"]}
CLIENTS, BATCHES, JOBS = 8, 12, 20
READY_S_MAX = 60


class Server(Protocol):
    """The fixture `postgres_server`."""

    def kill(self) -> None: ...

    def restart(self) -> None: ...


async def ask_for_jobs(submit: Served, client: int, some: asyncio.Event) -> int:
    """Submit batch after batch, each until it is taken, as our clients do; counts refusals."""
    refused = 0
    for batch in range(BATCHES):
        jobs = [{**RUN, "clientId": f"{client}-{batch}-{index}"} for index in range(JOBS)]
        while (answer := await submit.submit(jobs, job_set=f"set-{client % 5}")).status_code != 200:
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["retry-after"]) >= 1
            refused += 1
            await asyncio.sleep(0.1)
        if batch == 1:
            some.set()
    return refused


async def test_repeating_refused_requests_creates_each_job_once(
    fresh_database: str, postgres_server: Server
) -> None:
    async with served(fresh_database) as submit:
        some = asyncio.Event()
        client_tasks = [asyncio.create_task(ask_for_jobs(submit, n, some)) for n in range(CLIENTS)]
        await some.wait()
        postgres_server.kill()
        # What was killed may have had children that finish what they are at.
        while (answer := await submit.submit([RUN])).status_code == 200:
            pass
        assert answer.status_code == 503
        assert (await submit.client.get("/healthz")).status_code == 200
        assert (await submit.client.get("/readyz")).status_code == 503
        # In this thread: a server that another thread started would end with that thread.
        postgres_server.restart()
        async with asyncio.timeout(READY_S_MAX):
            while (await submit.client.get("/readyz")).status_code != 200:
                pass
        refused = await asyncio.gather(*client_tasks)
        assert sum(refused) > 0
        submitted = [e for e in await submit.events() if isinstance(e, events.JobSubmitted)]
        taken = [event.job_id for event in submitted if event.client_id is not None]
        assert len(set(taken)) == CLIENTS * BATCHES * JOBS
        made = await submit.post("/queues", {"name": "after"})
        assert made.status_code == 201


async def test_a_full_disk_is_a_503_with_the_reason(fresh_database: str) -> None:
    async with served(fresh_database) as submit:
        token = {"name": "robot", "roles": ["viewer"]}
        async with full_disk(
            fresh_database,
            "fairlead_log.batches",
            "fairlead_submit.queues",
            "fairlead_submit.tokens",
        ):
            for answer in (
                await submit.submit([RUN]),
                await submit.post("/queues", {"name": "one"}),
                await submit.post("/tokens", token),
            ):
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"] == "10"
                assert answer.json()["detail"].startswith("The disk of Postgres is full")
            assert (await submit.client.get("/api/v1/queues")).status_code == 200
            assert (await submit.client.get("/readyz")).status_code == 200
        assert (await submit.submit([RUN])).status_code == 200
        assert (await submit.post("/queues", {"name": "one"})).status_code == 201
        assert (await submit.post("/tokens", token)).status_code == 201
