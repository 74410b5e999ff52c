"""What one caller can take of lookout: streams, and the time of the database."""

import asyncio

import pytest

from fairlead_common.domain.problems import Problem
from tests.integration.lookout.world import running
from tests.unit.lookout.builders import submitted


async def test_streams_are_limited_per_caller(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url, streams_per_caller_max=2) as world:
        await world.read("/jobsets/q/s", await world.tell(submitted("a")))
        path = "/api/v1/jobsets/q/s/events?follow=true"
        async with world.client.stream("GET", path), world.client.stream("GET", "/live/jobsets"):
            async with asyncio.timeout(60):
                while world.service.deps.open_streams.taken < 2:  # noqa: ASYNC110 (of the server)
                    await asyncio.sleep(0.01)
            refused = await world.client.get("/live/jobsets")
            assert refused.status_code == 429
            assert "anonymous has 2 streams open" in refused.json()["detail"]
            assert "streamsPerCallerMax" in refused.json()["detail"]
            assert (await world.get("/jobs")).status_code == 200


async def test_a_slow_statement_is_cancelled_by_the_database(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url, query_s=0.1) as world:
        with pytest.raises(Problem, match="took too long") as refused:
            await world.service.deps.view.fetch_text("SELECT pg_sleep(600)")
        assert refused.value.slug == "unavailable"


async def test_exports_of_a_caller_take_turns_and_are_complete(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as world:
        told = [submitted(f"j{number}") for number in range(1_200)]
        await world.read("/jobsets/q/s", await world.tell(*told))
        paths = ["/api/v1/jobs/export.csv?format=ndjson"] * 6
        answers = await asyncio.gather(*(world.client.get(path) for path in paths))
        assert [len(answer.text.splitlines()) for answer in answers] == [1_200] * 6
