"""What one caller can take of lookout: streams, and the time of the database."""

import asyncio

import pytest

from fairlead_common.domain.problems import Problem
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import submitted


async def test_streams_are_limited_per_caller(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url, streams_per_caller_max=2) as harness:
        await harness.read("/jobsets/q/s", await harness.append_events(submitted("a")))
        path = "/api/v1/jobsets/q/s/events?follow=true"
        async with (
            harness.client.stream("GET", path),
            harness.client.stream("GET", "/live/jobsets"),
        ):
            async with asyncio.timeout(60):
                while harness.service.deps.open_streams.taken < 2:  # noqa: ASYNC110 (of the server)
                    await asyncio.sleep(0.01)
            refused = await harness.client.get("/live/jobsets")
            assert refused.status_code == 429
            assert "anonymous has 2 streams open" in refused.json()["detail"]
            assert "streamsPerCallerMax" in refused.json()["detail"]
            assert (await harness.get("/jobs")).status_code == 200


async def test_a_slow_statement_is_cancelled_by_the_database(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url, query_s=0.1) as harness:
        with pytest.raises(Problem, match="took too long") as refused:
            await harness.service.deps.view.fetch_text("SELECT pg_sleep(600)")
        assert refused.value.slug == "unavailable"


async def test_exports_of_a_caller_take_turns_and_are_complete(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        history = [submitted(f"j{number}") for number in range(1_200)]
        await harness.read("/jobsets/q/s", await harness.append_events(*history))
        paths = ["/api/v1/jobs/export.csv?format=ndjson"] * 6
        answers = await asyncio.gather(*(harness.client.get(path) for path in paths))
        assert [len(answer.text.splitlines()) for answer in answers] == [1_200] * 6
