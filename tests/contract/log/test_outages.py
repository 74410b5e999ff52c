"""What happens when the log's server is away, or is killed and comes back."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress

import pytest

from fairlead_common.domain.errors import AppendRefused, AppendUnknown, LogUnavailable
from fairlead_common.log.protocol import Topic
from tests.contract.log.beds import Bed, a_name
from tests.contract.log.helpers import (
    append_on,
    everything,
    made,
    read_on,
    reader_of,
    record,
    texts,
)
from tests.contract.log.load import Load

TIMEOUT_S = 3.0
"""Enough for whatever is asked of a server that is there, on a busy machine too."""


@pytest.fixture(autouse=True)
def ours(bed: Bed) -> None:
    """All tests here kill the server."""
    bed.check_ours()


@pytest.fixture
def kill(bed: Bed) -> Iterator[Callable[[], None]]:
    """Kills the server; it is there again after the test."""
    yield bed.kill
    bed.restart()


async def fails(work: Coroutine[object, object, object], *errors: type[Exception]) -> None:
    """Wait until the work has failed in one of these ways."""
    with pytest.raises(errors):
        await work


async def test_an_unavailable_log_raises_in_time_without_partial_appends(
    bed: Bed, kill: Callable[[], None]
) -> None:
    log = await bed.open(timeout_s=TIMEOUT_S)
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "before")])
    reader = await reader_of(log, topic)
    assert texts((await reader.read(wait_s=10)).entries) == ["before"]
    kill()
    with pytest.raises(LogUnavailable):
        await read_on(reader)
    await asyncio.gather(
        # What was killed may have had children that finish what they are at.
        fails(append_on(producer, record(topic, "a", "late")), AppendRefused, AppendUnknown),
        fails(log.end_positions(topic.name), LogUnavailable),
        fails(log.producer(a_name()), LogUnavailable),
    )
    bed.restart()
    patient = await bed.open()
    again = await patient.producer(producer.name)
    await again.append([record(topic, "a", "after")])
    seen: list[str] = []
    while "after" not in seen:
        with suppress(LogUnavailable):
            seen += texts((await reader.read(wait_s=10)).entries)
    assert seen[-1] == "after"
    assert set(seen[:-1]) <= {"late"}
    assert texts(await everything(patient, topic)) == ["before", *seen]
    await patient.close()
    await log.close()


async def test_an_idle_producer_continues_after_a_restart(bed: Bed) -> None:
    log = await bed.open()
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    bed.kill()
    bed.restart()
    try:
        await producer.append([record(topic, "a", "2")])
    except AppendUnknown:
        producer = await log.producer(producer.name)
        if texts(await everything(log, topic)) == ["1"]:
            await producer.append([record(topic, "a", "2")])
    assert texts(await everything(log, topic)) == ["1", "2"]
    await log.close()


async def test_a_waiting_reader_wakes_after_a_restart(bed: Bed) -> None:
    log = await bed.open()
    topic = await made(log)
    reader = await reader_of(log, topic)
    waiting = asyncio.create_task(reader.read(wait_s=60))
    await asyncio.sleep(0)
    bed.kill()
    bed.restart()
    elsewhere = await bed.open()
    producer = await elsewhere.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    batch = await waiting
    while not batch.entries:
        batch = await reader.read(wait_s=60)
    assert texts(batch.entries) == ["1"]
    await elsewhere.close()
    await log.close()


def test_a_restart_under_load_loses_and_duplicates_nothing(bed: Bed) -> None:
    one, other = asyncio.run(_two_topics(bed))
    load = Load(bed, one, other)
    for _ in range(2):
        load.wait_for(20)
        bed.kill()
        bed.restart()
    load.wait_for(20)
    written = load.stop()
    numbers = [f"{number}" for number in range(written)]
    assert asyncio.run(_contents(bed, one)) == numbers
    assert asyncio.run(_contents(bed, other)) == numbers
    assert load.read == numbers


async def _two_topics(bed: Bed) -> tuple[Topic, Topic]:
    log = await bed.open()
    topics = await made(log), await made(log)
    await log.close()
    return topics


async def _contents(bed: Bed, topic: Topic) -> list[str]:
    log = await bed.open()
    values = texts(await everything(log, topic))
    await log.close()
    return values
