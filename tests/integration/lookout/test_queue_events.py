"""Events of whole queues: everything once, in order per job set, resumed exactly wherever cut."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest

from fairlead_common.domain.ids import job_set_partition
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import JobFilter
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import cancel, leased, submitted

Event = tuple[str, dict[str, Any]]


async def stream(
    harness: LookoutHarness, last: str | None = None, queue: str = "q"
) -> AsyncIterator[Event]:
    """(SSE id, event) as they come; a reset has that as its type."""
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
    async with harness.client.stream(
        "GET", "/api/v1/events", headers=headers, params={"queue": queue}
    ) as answer:
        assert answer.status_code == 200
        id_ = ""
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                id_ = line.removeprefix("id: ")
            if line.startswith("data: "):
                yield id_, msgspec.json.decode(line.removeprefix("data: "))


async def take(reading: AsyncIterator[Event], count: int) -> list[Event]:
    """The next events, within a bound."""
    async with asyncio.timeout(120):
        return [await anext(reading) for _ in range(count)]


async def some_history(harness: LookoutHarness) -> str:
    """Jobs of many job sets in two queues, and one action on all of a queue."""
    for number in range(12):
        name, queue = f"set-{number}", "q" if number % 4 else "other"
        jobs = [submitted(f"j{each}", name) for each in range(5)]
        after = await harness.append_events(*jobs, job_set=name, queue=queue)
        if number % 3 == 0:
            await harness.read("/jobsets", after)
    asked = events.JobsCancelRequested(filter=JobFilter(queue="q"), reason="enough")
    records = [
        record
        for number in sorted({job_set_partition("q", f"set-{each}") for each in range(12)})
        for record in events.records("q", "", "anna", [asked], partition=number)
    ]
    return await harness.append(records)


async def test_a_queue_has_the_events_of_its_job_sets(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url, fold_events_max=7) as harness:
        after = await some_history(harness)
        received = await harness.lines("/events", after, queue="q")
        assert {event["queue"] for event in received} == {"q"}
        assert len({event["id"] for event in received}) == len(received)
        for name in {event["jobSet"] for event in received}:
            own = await harness.lines(f"/jobsets/q/{name}/events")
            assert [event for event in received if event["jobSet"] == name] == own
        assert sum(event["type"] == "cancelled" for event in received) == 5 * 9
        assert sum(event["type"] == "finished" for event in received) == 9
        assert (await harness.get("/events", queue="nobody")).status_code == 404


@pytest.mark.parametrize("seed", range(3))
async def test_an_interrupted_stream_resumes_with_the_next_event(
    fresh_database: str, valkey_url: str, seed: int
) -> None:
    chance = random.Random(seed)
    async with running(fresh_database, valkey_url, fold_events_max=9) as harness:
        after = await some_history(harness)
        whole = await harness.lines("/events", after, queue="q")
        seen: list[dict[str, Any]] = []
        last: str | None = None
        while len(seen) < len(whole):
            part = await take(stream(harness, last), chance.randint(1, len(whole) - len(seen)))
            last = part[-1][0]
            seen += [event for _, event in part]
        assert seen == whole


async def test_a_stream_receives_later_events(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("a")))
        reading = stream(harness)
        first = await take(reading, 1)
        await harness.append_events(leased("a"))
        await harness.append_events(submitted("b", "t"), job_set="t")
        later = await take(reading, 2)
        assert sorted(event["type"] for _, event in [*first, *later]) == [
            "leased",
            "submitted",
            "submitted",
        ]
        await harness.append_events(cancel("b"))


async def test_only_a_reader_that_can_have_missed_events_gets_a_reset(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("a"), submitted("b")))
        connection = await asyncpg.connect(fresh_database)
        other = (job_set_partition("q", "s") + 1) % 32
        drop = "INSERT INTO fairlead_lookout.queue_events_dropped VALUES ('q', $1, $2)"
        await connection.execute(drop, other, 7)
        ((id_, _),) = await take(stream(harness), 1)
        assert [event["type"] for _, event in await take(stream(harness, id_), 1)] == ["submitted"]
        await connection.execute("UPDATE fairlead_lookout.queue_events_dropped SET position = 9")
        assert [event["type"] for _, event in await take(stream(harness, id_), 1)] == ["reset"]
        await connection.close()


async def test_an_event_id_of_another_view_resets_the_stream(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("a"), submitted("b")))
        ((id_, _),) = await take(stream(harness), 1)
        connection = await asyncpg.connect(fresh_database)
        await connection.execute("UPDATE fairlead_lookout.source SET view = 'another'")
        await connection.close()
        again = await take(stream(harness, id_), 3)
        assert [event["type"] for _, event in again] == ["reset", "submitted", "submitted"]
        for wrong in ("x", "1-2-3", "%%", "A" * 50):
            answer = await harness.get("/events", queue="q", lastEventId=wrong)
            assert answer.status_code == 400
        assert (await harness.get("/events")).status_code == 422
