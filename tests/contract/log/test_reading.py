"""What a reader may rely on."""

import asyncio

import pytest

from fairlead_common.domain.errors import PositionExpired, TopicMismatch
from fairlead_common.log.protocol import Entry, EventLog, Topic, caught_up
from tests.contract.log.beds import Bed, a_name
from tests.contract.log.helpers import everything, made, read_on, read_to, reader_of, record, texts


async def test_a_reader_continues_at_its_stored_position(log: EventLog, bed: Bed) -> None:
    topic = await made(log, partitions=2)
    producer = await log.producer(a_name())
    for number in range(10):
        await producer.append([record(topic, f"{n}", f"{number}-{n}") for n in range(5)])
    whole = await everything(log, topic)
    positions = await log.start_positions(topic.name)
    end = await log.end_positions(topic.name)
    pieces = []
    while not caught_up(positions, end):
        elsewhere = await bed.open()
        reader = await elsewhere.reader(topic.name, positions)
        batch = await reader.read(records_max=7, wait_s=0.2)
        assert len(batch.entries) <= 7
        pieces += batch.entries
        positions = batch.positions
        await elsewhere.close()
    assert sorted(pieces, key=lambda e: (e.partition, e.position)) == sorted(
        whole, key=lambda e: (e.partition, e.position)
    )


async def test_positions_increase_and_no_record_is_missed(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    for number in range(5):
        await producer.append([record(topic, "a", f"{number}")])
    places = [entry.position for entry in await everything(log, topic)]
    assert places == sorted(set(places))
    for index in range(4):
        for position in range(places[index] + 1, places[index + 1] + 1):
            reader = await log.reader(topic.name, {0: position})
            found = (await reader.read()).entries
            assert [entry.position for entry in found] == places[index + 1 :]
            await reader.close()


async def test_reading_from_an_old_position_delivers_the_same_entries_again(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", f"{n}") for n in range(3)])
    assert await everything(log, topic) == await everything(log, topic)


async def test_a_new_topic_is_empty(log: EventLog) -> None:
    topic = await made(log, partitions=3)
    start, end = await log.start_positions(topic.name), await log.end_positions(topic.name)
    assert start == end
    assert start.keys() == {0, 1, 2}
    reader = await log.reader(topic.name, start)
    batch = await reader.read(wait_s=0)
    assert batch.entries == []
    assert caught_up(batch.positions, end)


async def test_a_reader_passes_the_end_despite_internal_records(log: EventLog) -> None:
    topic = await made(log, partitions=3)
    producer = await log.producer(a_name())
    for _ in range(3):
        await producer.append([record(topic, "a", "1", partition=0)])
        await producer.append([record(topic, "a", "1", partition=1)])
    reader = await reader_of(log, topic)
    entries = await read_to(reader, await log.end_positions(topic.name))
    assert len(entries) == 6
    batch = await reader.read(wait_s=0)
    assert batch.entries == []
    assert caught_up(batch.positions, await log.end_positions(topic.name))


async def test_a_reader_from_the_end_gets_only_later_records(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "before")])
    reader = await log.reader(topic.name, await log.end_positions(topic.name))
    await producer.append([record(topic, "a", "after")])
    assert texts((await reader.read(wait_s=10)).entries) == ["after"]


async def test_a_reader_reads_only_its_partitions_and_returns_their_positions(
    log: EventLog,
) -> None:
    topic = await made(log, partitions=4)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", f"{n}", partition=n) for n in range(4)])
    start = await log.start_positions(topic.name)
    reader = await log.reader(topic.name, {1: start[1], 3: start[3]})
    entries = await read_to(
        reader, {n: p for n, p in (await log.end_positions(topic.name)).items() if n in (1, 3)}
    )
    assert sorted(texts(entries)) == ["1", "3"]
    assert (await reader.read(wait_s=0)).positions.keys() == {1, 3}


async def test_a_reader_at_the_end_wakes_when_something_is_committed_elsewhere(
    log: EventLog, bed: Bed
) -> None:
    topic = await made(log, partitions=2)
    elsewhere = await bed.open()
    producer = await elsewhere.producer(a_name())
    reader = await reader_of(log, topic)
    for number in range(3):
        waiting = asyncio.create_task(reader.read(wait_s=60))
        await asyncio.sleep(0)
        await producer.append([record(topic, "a", f"{number}")])
        batch = await waiting
        while not batch.entries:
            batch = await reader.read(wait_s=60)
        assert texts(batch.entries) == [f"{number}"]
    await elsewhere.close()


async def test_a_read_without_records_times_out(log: EventLog) -> None:
    topic = await made(log)
    other = await made(log)
    reader = await reader_of(log, topic)
    producer = await log.producer(a_name())
    waiting = asyncio.create_task(reader.read(wait_s=0.3))
    await producer.append([record(other, "a", "not for this reader")])
    batch = await waiting
    assert batch.entries == []
    assert batch.positions == await log.end_positions(topic.name)


async def test_a_cancelled_read_loses_nothing(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    reader = await reader_of(log, topic)
    seen: list[str] = []
    for number in range(10):
        reading = asyncio.create_task(reader.read(wait_s=60))
        for _ in range(number):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        if not reading.cancelled():
            seen += texts(reading.result().entries)
        await producer.append([record(topic, "a", f"{number}")])
    seen += texts(await read_to(reader, await log.end_positions(topic.name)))
    assert seen == [f"{number}" for number in range(10)]


async def test_a_read_is_bounded_in_records(log: EventLog) -> None:
    topic = await made(log, partitions=3)
    producer = await log.producer(a_name())
    await producer.append([record(topic, f"{n}", f"{n}") for n in range(100)])
    reader = await reader_of(log, topic)
    entries: list[Entry] = []
    while len(entries) < 100:
        batch = await reader.read(records_max=9)
        assert 0 <= len(batch.entries) <= 9
        entries += batch.entries
    assert sorted(map(int, texts(entries))) == list(range(100))


async def test_a_read_is_bounded_in_bytes_but_gives_at_least_one_record(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", bytes(10_000)) for _ in range(20)])
    reader = await reader_of(log, topic)
    total = 0
    while total < 20:
        batch = await reader.read(bytes_max=35_000)
        assert sum(len(entry.value or b"") for entry in batch.entries) <= 35_000
        total += len(batch.entries)
    small = await reader_of(log, topic)
    for _ in range(20):
        assert len((await small.read(bytes_max=1, wait_s=10)).entries) == 1


async def test_no_partition_starves_because_of_a_full_one(log: EventLog) -> None:
    topic = await made(log, partitions=3)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "much", partition=0) for _ in range(1000)])
    await producer.append([record(topic, "a", f"{n}", partition=n) for n in (1, 2)])
    reader = await reader_of(log, topic)
    seen: set[int] = set()
    for _ in range(60):
        batch = await reader.read(records_max=10)
        seen |= {entry.partition for entry in batch.entries}
        if seen == {0, 1, 2}:
            break
    assert seen == {0, 1, 2}


async def test_every_partition_is_read_before_one_is_read_again(log: EventLog) -> None:
    partitions, limit = 16, 16
    topic = await made(log, partitions=partitions)
    producer = await log.producer(a_name())
    more = {n: [record(topic, "a", f"{n}", partition=n)] * 4 for n in range(partitions)}
    await producer.append([each for some in more.values() for each in some])
    reader = await reader_of(log, topic)
    seen: set[int] = set()
    total = 0
    while len(seen) < partitions:
        batch = await reader.read(records_max=limit)
        found = {entry.partition for entry in batch.entries}
        seen |= found
        total += len(batch.entries)
        assert total <= 8 * limit, (seen, total)
        await producer.append([each for number in found for each in more[number]])


async def test_an_expired_position_raises_position_expired(log: EventLog, bed: Bed) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", f"{n}") for n in range(3)])
    await bed.expire(topic.name)
    old = await log.reader(topic.name, {0: 0})
    with pytest.raises(PositionExpired) as gone:
        await read_on(old)
    first = (await log.start_positions(topic.name))[0]
    assert first > 2
    assert (gone.value.topic, gone.value.partition, gone.value.position, gone.value.first) == (
        topic.name,
        0,
        0,
        first,
    )
    await producer.append([record(topic, "a", "after")])
    reader = await log.reader(topic.name, {0: first})
    assert texts(await read_to(reader, await log.end_positions(topic.name))) == ["after"]


async def test_a_position_beyond_the_end_is_refused(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    reader = await log.reader(topic.name, {0: 1_000_000})
    with pytest.raises(PositionExpired) as gone:
        await read_on(reader)
    assert gone.value.position == 1_000_000


async def test_a_topic_can_be_created_again_only_with_equal_settings(
    log: EventLog, bed: Bed
) -> None:
    topic = await made(log, partitions=3)
    elsewhere = await bed.open()
    await elsewhere.create(topic)
    for changed in (
        Topic(topic.name, partitions=4),
        Topic(topic.name, partitions=2),
        Topic(topic.name, partitions=3, compacted=True),
    ):
        with pytest.raises(TopicMismatch, match=topic.name):
            await elsewhere.create(changed)
    assert (await log.end_positions(topic.name)).keys() == {0, 1, 2}
    await elsewhere.close()


async def test_a_new_topic_is_visible_to_all_clients_at_once(log: EventLog, bed: Bed) -> None:
    elsewhere = await bed.open()

    async def make_and_look() -> None:
        topic = await made(log, partitions=2)
        assert await elsewhere.start_positions(topic.name) == {0: 0, 1: 0}
        assert await log.end_positions(topic.name) == {0: 0, 1: 0}

    for _ in range(5):
        await asyncio.gather(*(make_and_look() for _ in range(4)))
    await elsewhere.close()


@pytest.mark.parametrize("name", ["", "two words", "a/b", "x" * 201, "schlüssel"])
async def test_an_invalid_topic_name_is_refused(log: EventLog, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a topic"):
        await log.create(Topic(name))


async def test_reading_a_missing_topic_is_refused(log: EventLog) -> None:
    with pytest.raises(TopicMismatch, match="no-such-topic"):
        await log.reader("no-such-topic", {0: 0})
    with pytest.raises(TopicMismatch, match="no-such-topic"):
        await log.end_positions("no-such-topic")
    with pytest.raises(TopicMismatch, match="no-such-topic"):
        await log.start_positions("no-such-topic")


async def test_reading_a_missing_partition_is_refused(log: EventLog) -> None:
    topic = await made(log, partitions=2)
    with pytest.raises(TopicMismatch, match="no partition 2"):
        await log.reader(topic.name, {2: 0})


async def test_a_log_keeps_its_identity(log: EventLog, bed: Bed) -> None:
    elsewhere = await bed.open()
    assert await log.identity() == await elsewhere.identity() != ""
    await elsewhere.close()


async def test_everything_can_be_closed_twice(log: EventLog, bed: Bed) -> None:
    topic = await made(log)
    elsewhere = await bed.open()
    reader = await elsewhere.reader(topic.name, {0: 0})
    await elsewhere.producer(a_name())
    await reader.read(wait_s=0)
    await reader.close()
    await reader.close()
    await elsewhere.close()
    await elsewhere.close()
