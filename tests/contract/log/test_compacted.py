"""Topics of which only the newest value per key is kept."""

import pytest

from fairlead_common.domain.errors import PositionExpired
from fairlead_common.log.compacted_view import CompactedReader, CompactedView, read_newest
from fairlead_common.log.protocol import EventLog
from tests.contract.log.beds import Bed, a_name
from tests.contract.log.helpers import made, read_on, read_to, reader_of, record, texts


async def test_folding_gives_the_newest_value_of_every_key_without_the_deleted_ones(
    log: EventLog,
) -> None:
    topic = await made(log, partitions=2, compacted=True)
    producer = await log.producer(a_name())
    for number in range(4):
        await producer.append([record(topic, key, f"{number}") for key in "abcd"])
    await producer.append([record(topic, "a", None), record(topic, "b", "last")])
    await producer.append([record(topic, "c", None), record(topic, "c", "again")])
    values, positions = await read_newest(log, topic.name)
    assert values == {"b": b"last", "c": b"again", "d": b"3"}
    assert positions == await log.end_positions(topic.name)


async def test_folding_an_empty_topic_gives_nothing_and_its_start(log: EventLog) -> None:
    topic = await made(log, partitions=2, compacted=True)
    assert await read_newest(log, topic.name) == ({}, await log.start_positions(topic.name))


async def test_a_reader_continues_from_the_positions_of_a_fold(log: EventLog) -> None:
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    _, positions = await read_newest(log, topic.name)
    await producer.append([record(topic, "a", None)])
    reader = await log.reader(topic.name, positions)
    assert [(e.key, e.value) for e in (await reader.read(wait_s=10)).entries] == [("a", None)]


async def test_compaction_changes_no_fold(log: EventLog, bed: Bed) -> None:
    topic = await made(log, partitions=2, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, f"{n % 7}", f"{n}") for n in range(100)])
    await producer.append([record(topic, f"{n}", None) for n in range(3)])
    before = await read_newest(log, topic.name)
    assert before[0] == {"3": b"94", "4": b"95", "5": b"96", "6": b"97"}
    for _ in range(3):
        await bed.compact(topic.name)
        assert (await read_newest(log, topic.name))[0] == before[0]
    await producer.append([record(topic, "3", None), record(topic, "0", "back")])
    await bed.compact(topic.name)
    assert (await read_newest(log, topic.name))[0] == {
        "0": b"back",
        "4": b"95",
        "5": b"96",
        "6": b"97",
    }


async def test_compaction_of_large_appends_removes_some_of_their_records(
    log: EventLog, bed: Bed
) -> None:
    """Records of one append are superseded by others of the same and of later ones."""
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, f"{n}", f"first {n}") for n in range(1_000)])
    middle = await log.end_positions(topic.name)
    await producer.append([record(topic, f"{n}", None) for n in range(0, 1_000, 2)])
    await producer.append(
        [record(topic, f"{n % 300}", None if n % 3 else f"again {n}") for n in range(900)]
    )
    expected = {f"{n}": f"first {n}".encode() for n in range(1, 1_000, 2) if n >= 300}
    expected |= {f"{n}": f"again {n + 600}".encode() for n in range(0, 300, 3)}
    for _ in range(3):
        assert (await read_newest(log, topic.name))[0] == expected
        await bed.compact(topic.name)
    later = await log.reader(topic.name, middle)
    found = await read_to(later, await log.end_positions(topic.name), records_max=70)
    places = [entry.position for entry in found]
    assert places == sorted(set(places))
    assert places[0] >= middle[0]
    newest = {entry.key: entry.value for entry in found}
    again = {key: value for key, value in newest.items() if value is not None}
    assert again == {key: value for key, value in expected.items() if int(key) < 300}
    await bed.bury(topic.name)
    assert (await read_newest(log, topic.name))[0] == expected


async def test_a_reader_continues_over_a_compaction_to_the_end(log: EventLog, bed: Bed) -> None:
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", f"{n}") for n in range(10)])
    reader = await log.reader(topic.name, await log.start_positions(topic.name))
    first = await reader.read(records_max=3)
    await producer.append([record(topic, "b", "b")])
    await bed.compact(topic.name)
    values = {entry.key: entry.value for entry in first.entries}
    end = await log.end_positions(topic.name)
    positions = first.positions
    while positions[0] < end[0]:
        batch = await reader.read()
        values |= {entry.key: entry.value for entry in batch.entries}
        positions = batch.positions
    assert values == {"a": b"9", "b": b"b"}


async def test_a_reader_that_missed_a_removed_tombstone_gets_position_expired(
    log: EventLog, bed: Bed
) -> None:
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1"), record(topic, "b", "1")])
    reader = await reader_of(log, topic)
    positions = (await reader.read(wait_s=10)).positions
    await producer.append([record(topic, "a", None)])
    await bed.bury(topic.name)
    with pytest.raises(PositionExpired) as gone:
        await read_on(reader)
    assert gone.value.first == (await log.start_positions(topic.name))[0]
    resumed = await log.reader(topic.name, positions)
    with pytest.raises(PositionExpired):
        await read_on(resumed)
    fresh = await reader_of(log, topic)
    assert texts(await read_to(fresh, await log.end_positions(topic.name))) == ["1"]


async def test_a_reader_at_the_end_is_not_disturbed_when_tombstones_are_removed(
    log: EventLog, bed: Bed
) -> None:
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1"), record(topic, "a", None)])
    reader = await reader_of(log, topic)
    await read_to(reader, await log.end_positions(topic.name))
    resumed = await log.reader(topic.name, await log.end_positions(topic.name))
    await bed.bury(topic.name)
    await producer.append([record(topic, "b", "2")])
    for each in (reader, resumed):
        assert texts((await each.read(wait_s=10)).entries) == ["2"]


async def test_a_reader_that_began_before_a_compaction_must_restart(
    log: EventLog, bed: Bed
) -> None:
    if bed.name == "kafka":
        pytest.skip("the brokers compact when they like to")
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1"), record(topic, "b", "1")])
    slow = await reader_of(log, topic)
    assert [entry.key for entry in (await slow.read(records_max=1, wait_s=10)).entries] == ["a"]
    await producer.append([record(topic, "a", None)])
    await bed.compact(topic.name)
    late = await reader_of(log, topic)
    assert [entry.key for entry in (await late.read(records_max=1, wait_s=10)).entries] == ["b"]
    await bed.bury(topic.name)
    with pytest.raises(PositionExpired):
        await read_on(slow)
    # It never saw what the tombstone deletes, so it need not see the tombstone.
    assert await read_to(late, await log.end_positions(topic.name)) == []


async def test_following_a_compacted_topic_misses_no_deletion(log: EventLog, bed: Bed) -> None:
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, key, "1") for key in "abc"])
    reader = await CompactedReader.open(log, topic.name)
    first = await reader.read(wait_s=10)
    live = {entry.key: entry.value for entry in first.entries}
    resumed = await CompactedReader.open(log, topic.name, first.positions, live)
    await producer.append([record(topic, "a", None), record(topic, "b", "2")])
    await bed.bury(topic.name)
    await producer.append([record(topic, "d", "2")])
    for each in (reader, resumed):
        batch = await each.read(wait_s=10)
        found = live | {entry.key: entry.value for entry in batch.entries}
        assert found == {"a": None, "b": b"2", "c": b"1", "d": b"2"}
        assert batch.positions == await log.end_positions(topic.name)
    await producer.append([record(topic, "b", None)])
    for each in (reader, resumed):
        assert texts((await each.read(wait_s=10)).entries) == ["null"]
        await each.close()


async def test_a_view_read_again_from_the_start_loses_deleted_keys(log: EventLog, bed: Bed) -> None:
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, key, "1") for key in "abc"])
    view = CompactedView(lambda entry: entry.value)
    first = await CompactedReader.open(log, topic.name)
    view.fold((await first.read(wait_s=10)).entries)
    assert view.values == dict.fromkeys("abc", b"1")
    await first.close()
    await producer.append([record(topic, "a", None), record(topic, "b", "2")])
    await bed.bury(topic.name)
    again = await CompactedReader.open(log, topic.name, live=view.values)
    batch = await again.read(wait_s=10)
    assert batch.positions == await log.end_positions(topic.name)
    assert sorted(view.fold(batch.entries)) == ["a", "b"]
    assert view.values == {"b": b"2", "c": b"1"}
    await producer.append([record(topic, "c", None)])
    view.fold((await again.read(wait_s=10)).entries)
    assert view.values == {"b": b"2"}
    await again.close()
