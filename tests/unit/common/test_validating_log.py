"""Readers skip every kind of undecodable record of every topic, and report it once."""

import contextlib
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.records import decoders, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.decoders import Undecodable, UnknownEventType
from fairlead_common.log import Entry, Record, quarantine, topics, validating_log
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.topics import CLUSTERS, JOBS, REPORTS
from fairlead_common.log.validating_log import ValidatingLog, ValidatingReader
from fairlead_common.service.health import Degraded
from tests import undecodable_records
from tests.undecodable_records import PARTITION, TOPICS, UndecodableRecord

KINDS = [each for topic in TOPICS for each in undecodable_records.make_records(topic)]
NOW_MS = 1_700_000_000_000


async def a_log() -> MemoryLog:
    log = MemoryLog(lambda: NOW_MS)
    for topic in (
        topics.jobs(),
        topics.clusters(),
        topics.config(),
        topics.reports(),
        topics.leases(undecodable_records.EXECUTOR),
    ):
        await log.create(topic)
    return log


def put(log: MemoryLog, found: UndecodableRecord) -> int:
    return log.core.write_foreign(found.topic, found.partition, found.key, found.value, NOW_MS)


async def append(log: MemoryLog, *several: Record) -> None:
    producer = await log.producer("test")
    for record in several:
        await producer.append([record])


async def read_all(log: ValidatingLog, topic: str) -> tuple[list[Entry], dict[int, int]]:
    """What a reader of the whole topic delivers, and where it reads next."""
    reader = await log.reader(topic, await log.start_positions(topic))
    assert isinstance(reader, ValidatingReader)
    batch = await reader.read(wait_s=0)
    batch = reader.screen(batch)
    return batch.entries, batch.positions


async def test_validated_entries_carry_what_was_decoded() -> None:
    inner, topic = await a_log(), undecodable_records.LEASES
    record = undecodable_records.good(topic, "a")
    await append(inner, record, Record(topic, record.key, None))
    entries, _ = await read_all(ValidatingLog(inner, Quarantine("executor")), topic)
    assert record.value is not None
    assert [entry.decoded for entry in entries] == [leases.decode(record.value), None]


@pytest.mark.parametrize("found", KINDS, ids=lambda found: f"{found.topic}: {found.kind}")
async def test_an_undecodable_record_is_skipped(found: UndecodableRecord) -> None:
    inner = await a_log()
    await append(inner, undecodable_records.good(found.topic, "before"))
    position = put(inner, found)
    await append(inner, undecodable_records.good(found.topic, "after"))
    log = ValidatingLog(inner, Quarantine("scheduler", now_ms=lambda: NOW_MS))
    entries, positions = await read_all(log, found.topic)
    before, after = (
        undecodable_records.good(found.topic, "before"),
        undecodable_records.good(found.topic, "after"),
    )
    assert [entry.value for entry in entries] == [before.value, after.value]
    assert positions == await inner.end_positions(found.topic)
    (noted,) = log.quarantine.records.values()
    assert (noted.topic, noted.partition, noted.position) == (
        found.topic,
        found.partition,
        position,
    )
    assert noted.outcome == "skipped"
    assert noted.reason
    assert noted.time_ms == NOW_MS


async def test_a_record_read_again_is_reported_once() -> None:
    inner = await a_log()
    put(inner, next(undecodable_records.make_records(CLUSTERS)))
    log = ValidatingLog(inner, Quarantine("scheduler"))
    await read_all(log, CLUSTERS)
    await read_all(log, CLUSTERS)
    assert len(log.quarantine.records) == 1


async def test_tombstones_are_valid_records() -> None:
    inner = await a_log()
    record = undecodable_records.good(REPORTS, "q")
    await append(inner, record, Record(REPORTS, record.key, None))
    log = ValidatingLog(inner, Quarantine("lookout"))
    entries, _ = await read_all(log, REPORTS)
    assert [entry.value for entry in entries] == [record.value, None]


async def test_an_unknown_optional_event_is_ignored_silently() -> None:
    inner = await a_log()
    found = undecodable_records.unknown_event(
        "optional.jobPainted", undecodable_records.submitted("a")
    )
    put(inner, found)
    log = ValidatingLog(inner, Quarantine("scheduler"))
    (entry,), positions = await read_all(log, JOBS)
    (event,) = decoders.decode_jobs(entry).events
    assert isinstance(event, ev.JobSubmitted)
    assert event.job_id == undecodable_records.job_id("a")
    assert positions == await inner.end_positions(JOBS)
    assert not log.quarantine.records
    assert await log.quarantine.check()() is None


async def test_an_unknown_optional_record_is_ignored_silently() -> None:
    inner = await a_log()
    value = b'{"type":"optional.weather","city":"Mainz"}'
    put(inner, UndecodableRecord("optional", CLUSTERS, 0, "weather", value))
    log = ValidatingLog(inner, Quarantine("scheduler"))
    assert (await read_all(log, CLUSTERS))[0] == []
    assert not log.quarantine.records


async def test_an_unknown_event_stops_its_partition_and_no_other() -> None:
    inner = await a_log()
    await append(inner, undecodable_records.good(JOBS, "before"))
    position = put(inner, undecodable_records.unknown_event("jobPainted"))
    await append(inner, undecodable_records.good(JOBS, "after"))
    elsewhere = ev.records("another", "set", "x", [undecodable_records.submitted("b")])[0]
    await append(inner, elsewhere)
    log = ValidatingLog(inner, Quarantine("scheduler"))
    entries, positions = await read_all(log, JOBS)
    assert {entry.value for entry in entries} == {
        undecodable_records.good(JOBS, "before").value,
        elsewhere.value,
    }
    end = await inner.end_positions(JOBS)
    assert positions == {**end, PARTITION: position}
    said = await log.quarantine.check()()
    assert isinstance(said, Degraded)
    assert "stopped reading partition" in said
    assert "jobPainted" in said
    assert "Upgrade this service" in said


async def test_a_stopped_partition_stays_stopped_while_the_reader_reads_on() -> None:
    inner = await a_log()
    position = put(inner, undecodable_records.unknown_event("jobPainted"))
    log = ValidatingLog(inner, Quarantine("scheduler"))
    reader = await log.reader(JOBS, await inner.start_positions(JOBS))
    assert isinstance(reader, ValidatingReader)
    reader.screen(await reader.read(wait_s=0))
    await append(inner, undecodable_records.good(JOBS, "after"))
    batch = await reader.read(wait_s=0)
    assert batch.entries == []
    assert batch.positions[PARTITION] == position
    assert validating_log.stopped_partitions(reader) == {PARTITION: position}


async def test_a_stopped_partition_continues_after_a_record_in_skip_records() -> None:
    inner = await a_log()
    position = put(inner, undecodable_records.unknown_event("jobPainted"))
    await append(inner, undecodable_records.good(JOBS, "after"))
    log = ValidatingLog(inner, Quarantine("scheduler", [f"{JOBS}/{PARTITION}/{position}"]))
    entries, positions = await read_all(log, JOBS)
    assert [entry.value for entry in entries] == [undecodable_records.good(JOBS, "after").value]
    assert positions == await inner.end_positions(JOBS)
    assert [noted.outcome for noted in log.quarantine.records.values()] == ["skipped"]


async def test_reports_are_limited_except_stops() -> None:
    own = Quarantine("lookout")
    for position in range(quarantine.RECORDS_MAX + 10):
        own.add(CLUSTERS, Entry(0, position, "k", b"", NOW_MS), "garbage", "skipped")
    assert len(own.records) == quarantine.RECORDS_MAX
    own.add(JOBS, Entry(3, 5, "k", b"", NOW_MS), "unknown", "stopped")
    assert len(own.records) == quarantine.RECORDS_MAX + 1


def test_the_excerpt_of_a_record_is_text() -> None:
    own = Quarantine("lookout")
    own.add(JOBS, Entry(0, 0, "\udcff", b"a\n\x00\xff" + b"x" * 1_000, NOW_MS), "r", "skipped")
    (noted,) = own.records.values()
    assert noted.key == "\\xff"
    assert noted.head.startswith("a\\n\\x00\\xffxxx")
    assert len(noted.head) < 300
    assert noted.size == 1_004


@pytest.mark.parametrize("topic", TOPICS)
def test_records_of_all_services_can_be_decoded(topic: str) -> None:
    record = undecodable_records.good(topic, "a")
    decode = decoders.find_decoder(topic)
    assert decode is not None
    assert decode(Entry(0, 0, record.key, record.value, 0)) is not None


_NOISE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from(TOPICS), st.text(), st.binary() | st.none())
def test_no_bytes_raise_anything_but_undecodable(topic: str, key: str, value: bytes | None) -> None:
    decode_or_refuse(topic, key, value)


@given(st.sampled_from(TOPICS), st.data())
def test_no_change_of_a_good_record_raises_anything_but_undecodable(
    topic: str, data: st.DataObject
) -> None:
    record = undecodable_records.good(topic, "a")
    assert record.value is not None
    value = json.loads(record.value)
    inner = data.draw(st.sampled_from([value, *value.get("events", ())]))
    field = data.draw(st.sampled_from(sorted(inner)) | st.text(max_size=5))
    inner[field] = data.draw(_NOISE)
    decode_or_refuse(topic, record.key, json.dumps(value).encode())


@given(st.sampled_from(TOPICS), st.data())
def test_no_damage_to_a_good_record_raises_anything_but_undecodable(
    topic: str, data: st.DataObject
) -> None:
    record = undecodable_records.good(topic, "a")
    assert record.value is not None
    value = bytearray(record.value)
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    decode_or_refuse(topic, record.key, bytes(value))


def decode_or_refuse(topic: str, key: str, value: bytes | None) -> None:
    decode = decoders.find_decoder(topic)
    assert decode is not None
    with contextlib.suppress(Undecodable):
        decode(Entry(0, 0, key, value, 0))


def test_an_unknown_type_beside_a_damaged_event_still_stops() -> None:
    found = undecodable_records.unknown_event("jobPainted")
    assert found.value is not None
    value = json.loads(found.value)
    value["events"].append({"type": "jobSucceeded"})
    with pytest.raises(UnknownEventType, match="jobPainted"):
        decoders.decode_jobs(Entry(0, 0, found.key, json.dumps(value).encode(), 0))


def test_no_event_of_today_is_optional() -> None:
    tags = [str(each.__struct_config__.tag) for each in get_args(ev.AnyEvent)]
    assert not [tag for tag in tags if tag.startswith(decoders.OPTIONAL_PREFIX)]
