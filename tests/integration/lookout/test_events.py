"""The history of a job set: complete, in order, resumed exactly, with and without Redis."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import msgspec

from fairlead_common.db import open_pool
from fairlead_lookout.store import expired_rows
from tests.conftest import Server
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import cancel, leased, submitted, succeeded
from tests.unit.lookout.builders import running as started

PATH = "/jobsets/q/s/events"


async def sse(
    harness: LookoutHarness, last_event_id: str | None = None, **query: Any
) -> AsyncGenerator[dict[str, Any], None]:
    """The events of an SSE answer as they come; `reset` has that as its type."""
    headers = {"Accept": "text/event-stream"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    async with harness.client.stream(
        "GET", f"/api/v1{PATH}", headers=headers, params=query
    ) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield msgspec.json.decode(line.removeprefix("data: "))


async def take(stream: AsyncIterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The next events, within a bound."""
    async with asyncio.timeout(120):
        return [await anext(stream) for _ in range(count)]


async def test_history_is_complete_and_ends(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(
            submitted("a"), leased("a"), started("a"), *succeeded("a")
        )
        received = await harness.lines(PATH, after)
        assert [event["type"] for event in received] == [
            "submitted",
            "leased",
            "running",
            "succeeded",
            "finished",
        ]
        assert received[-1]["counts"] == {"SUCCEEDED": 1}
        assert {event["queue"] for event in received} == {"q"}


async def test_a_long_history_is_complete_and_in_order(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        jobs = [submitted(f"j{number}") for number in range(4_000)]
        for start in range(0, len(jobs), 100):
            after = await harness.append_events(*jobs[start : start + 100])
        received = await harness.lines(PATH, after)
        assert [event["clientId"] for event in received] == [job.client_id for job in jobs]


async def test_a_live_stream_resumes_exactly(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read(
            "/jobsets/q/s", await harness.append_events(submitted("a"), submitted("b"))
        )
        stream = sse(harness)
        first = await take(stream, 2)
        await harness.append_events(leased("a"))
        await harness.append_events(leased("b"))
        live = await take(stream, 2)
        assert [event["type"] for event in first + live] == ["submitted"] * 2 + ["leased"] * 2
        await stream.aclose()
        for place, event in enumerate(first + live):
            again = sse(harness, event["id"])
            rest = await take(again, 3 - place)
            assert [each["id"] for each in rest] == [
                each["id"] for each in (first + live)[place + 1 :]
            ]
            await again.aclose()


async def test_a_stream_with_until_finished_ends(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets/q/s", await harness.append_events(submitted("a")))

        async def whole() -> list[dict[str, Any]]:
            return [event async for event in sse(harness, until="finished")]

        async with asyncio.timeout(120):
            waiting = asyncio.create_task(whole())
            await harness.append_events(cancel("a"))
            received = await waiting
            assert [event["type"] for event in received] == ["submitted", "cancelled", "finished"]
            last = received[-1]["id"]
            assert [event async for event in sse(harness, last, until="finished")] == []


async def test_an_event_id_that_is_too_old_resets_the_stream(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        first = (await harness.lines(PATH, await harness.append_events(submitted("a"))))[0]
        await harness.lines(PATH, await harness.append_events(submitted("b")))
        pool = await open_pool(fresh_database, size_max=1)
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
        assert await expired_rows.drop_old_days(pool, tomorrow)
        await pool.close()
        stream = sse(harness, first["id"])
        assert (await take(stream, 1))[0]["type"] == "reset"
        await stream.aclose()


async def test_without_redis_the_fold_continues_and_streams_poll(
    fresh_database: str, valkey_url: str, valkey_server: Server
) -> None:
    _ = valkey_server.pid
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets/q/s", await harness.append_events(submitted("a")))
        stream = sse(harness)
        await take(stream, 1)
        valkey_server.kill()
        await harness.read("/jobsets/q/s", await harness.append_events(leased("a")))
        assert (await take(stream, 1))[0]["type"] == "leased"
        valkey_server.restart()
        await harness.append_events(started("a"))
        assert (await take(stream, 1))[0]["type"] == "running"
        await stream.aclose()


async def test_chunks_folded_again_are_not_published_again(
    fresh_database: str, valkey_url: str
) -> None:
    """A view that is behind its streams, as after a crash between the two, tells nothing twice."""
    async with running(fresh_database, valkey_url) as harness:
        core = harness.log.core
        received = await harness.lines(
            PATH, await harness.append_events(submitted("a"), leased("a"))
        )
    connection = await asyncpg.connect(fresh_database)
    await connection.execute("DROP SCHEMA fairlead_lookout CASCADE")
    await connection.close()
    async with running(fresh_database, valkey_url, core) as harness:
        assert await harness.lines(PATH, await harness.append_events(started("a"))) == [
            *received,
            *(await harness.lines(PATH, lastEventId=received[-1]["id"])),
        ]
        stream = sse(harness)
        ids = [event["id"] for event in await take(stream, 3)]
        assert len(set(ids)) == 3
        await stream.aclose()
