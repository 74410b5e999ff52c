"""What a writer may rely on."""

import asyncio

import pytest

from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    ProducerFenced,
    RecordTooLarge,
)
from fairlead_common.log.protocol import (
    RECORD_BYTES_MAX,
    EventLog,
    Record,
    caught_up,
    partition_of,
)
from fairlead_common.service import clock
from tests.contract.log.beds import Bed, a_name
from tests.contract.log.helpers import everything, made, reader_of, record, texts


async def test_records_of_a_key_are_read_in_the_order_in_which_they_were_appended(
    log: EventLog,
) -> None:
    topic = await made(log, partitions=3)
    producer = await log.producer(a_name())
    for number in range(20):
        await producer.append([record(topic, key, f"{number}") for key in "abcdef"])
    entries = await everything(log, topic)
    for key in "abcdef":
        mine = [entry for entry in entries if entry.key == key]
        assert texts(mine) == [f"{number}" for number in range(20)]
        assert [entry.position for entry in mine] == sorted({entry.position for entry in mine})


async def test_the_records_of_one_append_keep_their_order(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, f"k{n % 3}", f"{n}") for n in range(500)])
    assert texts(await everything(log, topic)) == [f"{n}" for n in range(500)]


async def test_an_append_to_several_topics_is_seen_in_none_until_it_is_committed(
    log: EventLog, bed: Bed
) -> None:
    one, other = await made(log), await made(log, compacted=True)
    readers = [await reader_of(log, one), await reader_of(log, other)]
    before = [await log.end_positions(one.name), await log.end_positions(other.name)]
    async with bed.open_append([record(one, "a", "1"), record(other, "b", "2")]):
        for reader in readers:
            assert (await reader.read(wait_s=0.05)).entries == []
        now = [await log.end_positions(one.name), await log.end_positions(other.name)]
        assert now == before
    assert [texts((await reader.read(wait_s=10)).entries) for reader in readers] == [["1"], ["2"]]


async def test_an_append_returns_the_positions_of_readers_that_have_read_it(
    log: EventLog,
) -> None:
    one, other = await made(log, partitions=4), await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(one, f"{n}", "x") for n in range(10)])
    appended = await producer.append([record(one, "a", "a"), record(other, "b", "b")])
    assert appended.keys() == {(one.name, partition_of("a", 4)), (other.name, 0)}
    reader = await reader_of(log, one)
    seen: list[str] = []
    positions: dict[int, int] = {}
    wanted = {part: place for (name, part), place in appended.items() if name == one.name}
    while not positions or not caught_up(positions, wanted):
        batch = await reader.read()
        seen += texts(batch.entries)
        positions = batch.positions
    assert "a" in seen


async def test_a_reader_before_an_append_has_not_passed_its_positions(
    log: EventLog,
) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    reader = await reader_of(log, topic)
    for number in range(5):
        before = (await reader.read(wait_s=0)).positions
        appended = await producer.append([record(topic, "a", f"{number}")])
        assert before[0] < appended[topic.name, 0]
        assert texts((await reader.read(wait_s=10)).entries) == [f"{number}"]


async def test_the_log_assigns_the_time_of_each_record(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    before = clock.now_ms()
    await producer.append([record(topic, "a", "1"), record(topic, "b", "2")])
    after = clock.now_ms()
    for entry in await everything(log, topic):
        assert before - 50 <= entry.time_ms <= after + 50


async def test_all_logs_assign_a_key_to_the_same_partition(log: EventLog) -> None:
    topic = await made(log, partitions=7)
    producer = await log.producer(a_name())
    keys = [f"queue/set-{n}" for n in range(50)] + ["", "Ünïcödé/键"]
    await producer.append([record(topic, key, "x") for key in keys])
    entries = await everything(log, topic)
    assert {entry.key: entry.partition for entry in entries} == {
        key: partition_of(key, 7) for key in keys
    }


async def test_an_explicit_partition_overrides_the_key(log: EventLog) -> None:
    topic = await made(log, partitions=3)
    producer = await log.producer(a_name())
    appended = await producer.append([record(topic, "same", f"{n}", partition=n) for n in range(3)])
    assert appended.keys() == {(topic.name, n) for n in range(3)}
    entries = await everything(log, topic)
    assert sorted((entry.partition, entry.value) for entry in entries) == [
        (0, b"0"),
        (1, b"1"),
        (2, b"2"),
    ]


async def test_a_second_producer_fences_the_first_whose_append_is_invisible(
    log: EventLog, bed: Bed
) -> None:
    topic, other = await made(log), await made(log)
    name = a_name()
    first = await log.producer(name)
    await first.append([record(topic, "a", "first")])
    elsewhere = await bed.open()
    second = await elsewhere.producer(name)
    for _ in range(2):
        with pytest.raises(ProducerFenced):
            await first.append([record(topic, "a", "late"), record(other, "a", "late")])
    await second.append([record(topic, "a", "second")])
    with pytest.raises(ProducerFenced):
        await first.append([record(topic, "a", "late")])
    assert texts(await everything(log, topic)) == ["first", "second"]
    assert await everything(log, other) == []
    await elsewhere.close()


async def test_what_was_appended_before_the_fence_is_below_the_end_read_after_it(
    log: EventLog, bed: Bed
) -> None:
    topic = await made(log)
    name = a_name()
    first = await log.producer(name)
    written = 0

    async def write() -> None:
        nonlocal written
        while True:
            await first.append([record(topic, "a", f"{written}")])
            written += 1

    writing = asyncio.create_task(write())
    elsewhere = await bed.open()
    reader = await reader_of(elsewhere, topic)
    while not (await reader.read()).entries:
        pass
    await elsewhere.producer(name)
    fenced_at = len(await everything(elsewhere, topic))
    # The append that was under way may be one of which nobody knows; the next is certainly fenced.
    with pytest.raises((ProducerFenced, AppendUnknown)):
        await writing
    with pytest.raises(ProducerFenced):
        await first.append([record(topic, "a", "late")])
    assert len(await everything(elsewhere, topic)) == fenced_at
    assert fenced_at >= written
    await elsewhere.close()


async def test_producers_of_other_names_write_side_by_side(log: EventLog) -> None:
    topic = await made(log, partitions=2)
    producers = [await log.producer(a_name()) for _ in range(3)]

    async def write(index: int) -> None:
        for number in range(20):
            await producers[index].append(
                [record(topic, f"{index}", f"{number}", partition=p) for p in (1, 0)]
            )

    await asyncio.gather(*(write(index) for index in range(3)))
    entries = await everything(log, topic)
    for index in range(3):
        for partition in range(2):
            mine = [e for e in entries if (e.key, e.partition) == (f"{index}", partition)]
            assert texts(mine) == [f"{number}" for number in range(20)]


async def test_concurrent_appends_are_serialized(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await asyncio.gather(*(producer.append([record(topic, "a", f"{n}")]) for n in range(10)))
    assert texts(await everything(log, topic)) == [f"{n}" for n in range(10)]


async def test_a_record_of_one_mebibyte_is_accepted(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    large = bytes(range(256)) * (RECORD_BYTES_MAX // 256)
    await producer.append([record(topic, "a", large), record(topic, "b", large)])
    assert [entry.value for entry in await everything(log, topic)] == [large, large]


async def test_a_larger_record_is_refused_with_all_of_its_append(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    with pytest.raises(RecordTooLarge, match="1048577 bytes"):
        await producer.append(
            [record(topic, "a", "small"), record(topic, "b", b"x" * (RECORD_BYTES_MAX + 1))]
        )
    await producer.append([record(topic, "c", "after")])
    assert texts(await everything(log, topic)) == ["after"]


async def test_an_append_of_ten_thousand_records_is_one_append(log: EventLog) -> None:
    topic = await made(log, partitions=4)
    producer = await log.producer(a_name())
    appended = await producer.append([record(topic, f"{n}", f"{n}") for n in range(10_000)])
    assert appended.keys() == {(topic.name, partition) for partition in range(4)}
    assert sorted(map(int, texts(await everything(log, topic)))) == list(range(10_000))


async def test_an_append_of_nothing_changes_nothing(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    assert await producer.append([]) == {}
    assert await everything(log, topic) == []


async def test_a_value_may_be_empty_and_is_not_null(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", b""), record(topic, "a", None)])
    assert [entry.value for entry in await everything(log, topic)] == [b"", None]


async def test_an_append_to_a_missing_topic_is_refused(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    with pytest.raises(AppendRefused, match="no-such-topic"):
        await producer.append([record(topic, "a", "1"), Record("no-such-topic", "a", b"1")])
    await producer.append([record(topic, "a", "2")])
    assert texts(await everything(log, topic)) == ["2"]


async def test_an_append_to_a_missing_partition_is_refused(log: EventLog) -> None:
    topic = await made(log, partitions=2)
    producer = await log.producer(a_name())
    with pytest.raises(AppendRefused, match="no partition 2"):
        await producer.append([record(topic, "a", "1", partition=2)])
    await producer.append([record(topic, "a", "2", partition=1)])
    assert texts(await everything(log, topic)) == ["2"]


async def test_a_closed_producer_appends_no_more_and_can_be_closed_again(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    await producer.close()
    await producer.close()
    with pytest.raises(ProducerFenced):
        await producer.append([record(topic, "a", "2")])
    assert texts(await everything(log, topic)) == ["1"]


async def test_an_append_that_was_cancelled_is_never_followed_by_another(log: EventLog) -> None:
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    under_way = asyncio.create_task(producer.append([record(topic, "a", "2")]))
    for _ in range(3):
        await asyncio.sleep(0)
    if under_way.cancel():
        with pytest.raises(asyncio.CancelledError):
            await under_way
        again = await log.producer(producer.name)
        await again.append([record(topic, "a", "3")])
        with pytest.raises(ProducerFenced):
            await producer.append([record(topic, "a", "4")])
        assert texts(await everything(log, topic)) in (["1", "3"], ["1", "2", "3"])
