"""What the log in memory can do besides: fail on demand, and be used without an event loop."""

import pytest

from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogUnavailable,
    PositionExpired,
    ProducerFenced,
)
from fairlead_common.log.memory_log import AppendFailure, MemoryCore, MemoryLog
from fairlead_common.log.protocol import TOMBSTONE_RETENTION_MS, Record, Topic

TOPIC = Topic("t")
TABLE = Topic("table", compacted=True)


def a_core() -> MemoryCore:
    core = MemoryCore()
    core.create(TOPIC)
    core.create(TABLE)
    return core


def put(value: str) -> list[Record]:
    return [Record("t", "k", value.encode())]


def contents(core: MemoryCore, topic: str = "t") -> list[bytes | None]:
    return [entry.value for entry in core.read(topic, core.start_positions(topic)).entries]


def test_the_core_needs_no_loop_and_takes_the_time_as_an_argument() -> None:
    core = a_core()
    epoch = core.begin("p")
    appended = core.append("p", epoch, put("a"), time_ms=5)
    batch = core.read("t", {0: 0})
    assert [(e.value, e.time_ms) for e in batch.entries] == [(b"a", 5)]
    assert batch.positions[0] >= appended["t", 0]


def test_every_append_leaves_a_gap_in_the_positions() -> None:
    core = a_core()
    epoch = core.begin("p")
    for value in "ab":
        core.append("p", epoch, put(value), 0)
    assert [entry.position for entry in core.read("t", {0: 0}).entries] == [0, 2]
    assert core.end_positions("t") == {0: 4}


@pytest.mark.parametrize(
    ("failure", "error", "written"),
    [
        (AppendFailure.REFUSED, AppendRefused, []),
        (AppendFailure.UNKNOWN_NOT_WRITTEN, AppendUnknown, []),
        (AppendFailure.UNKNOWN_WRITTEN, AppendUnknown, [b"a"]),
    ],
)
def test_only_the_next_append_fails_by_injection(
    failure: AppendFailure, error: type[Exception], written: list[bytes]
) -> None:
    core = a_core()
    epoch = core.begin("p")
    core.fail_next(failure)
    with pytest.raises(error):
        core.append("p", epoch, put("a"), 0)
    assert contents(core) == written
    core.append("p", epoch, put("b"), 0)
    assert contents(core) == [*written, b"b"]


def test_a_failure_can_be_injected_for_one_producer() -> None:
    core = a_core()
    mine, other = core.begin("mine"), core.begin("other")
    core.fail_next(AppendFailure.REFUSED, producer="mine")
    core.append("other", other, put("a"), 0)
    with pytest.raises(AppendRefused):
        core.append("mine", mine, put("b"), 0)
    assert contents(core) == [b"a"]


async def test_a_producer_with_unknown_outcome_never_appends_again() -> None:
    log = MemoryLog(lambda: 0, a_core())
    producer = await log.producer("p")
    log.core.fail_next(AppendFailure.UNKNOWN_WRITTEN)
    with pytest.raises(AppendUnknown):
        await producer.append(put("a"))
    with pytest.raises(ProducerFenced):
        await producer.append(put("b"))
    assert contents(log.core) == [b"a"]


async def test_an_unavailable_log_refuses_calls_and_loses_nothing() -> None:
    log = MemoryLog(lambda: 0, a_core())
    producer = await log.producer("p")
    reader = await log.reader("t", {0: 0})
    await producer.append(put("a"))
    log.core.away = True
    with pytest.raises(AppendRefused):
        await producer.append(put("b"))
    with pytest.raises(LogUnavailable):
        await reader.read(wait_s=0)
    with pytest.raises(LogUnavailable):
        await log.producer("other")
    log.core.away = False
    await producer.append(put("c"))
    assert [entry.value for entry in (await reader.read(wait_s=0)).entries] == [b"a", b"c"]


def test_only_records_older_than_the_retention_are_deleted() -> None:
    core = MemoryCore()
    core.create(Topic("t", retention_s=10))
    core.create(Topic("t"))
    epoch = core.begin("p")
    for time_ms in (0, 5_000, 12_000):
        core.append("p", epoch, put(f"{time_ms}"), time_ms)
    core.maintain(now_ms=12_000)
    assert contents(core) == [b"5000", b"12000"]
    with pytest.raises(PositionExpired):
        core.read("t", {0: 0})


def test_a_tombstone_is_removed_after_its_retention() -> None:
    core = a_core()
    epoch = core.begin("p")
    core.append("p", epoch, [Record("table", "k", b"old")], 0)
    core.append("p", epoch, [Record("table", "k", None)], 0)
    core.maintain(now_ms=10 * TOMBSTONE_RETENTION_MS)
    assert contents(core, "table") == [None]
    core.maintain(now_ms=11 * TOMBSTONE_RETENTION_MS - 1)
    assert contents(core, "table") == [None]
    core.maintain(now_ms=11 * TOMBSTONE_RETENTION_MS)
    assert contents(core, "table") == []
