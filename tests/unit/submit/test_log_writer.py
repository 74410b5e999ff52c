"""Group commit over a log that fails on demand: who is told what, and what the log then holds."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogUnavailable,
    ProducerFenced,
    RecordTooLarge,
)
from fairlead_common.domain.problems import Problem
from fairlead_common.log import topics
from fairlead_common.log.memory_log import AppendFailure, MemoryLog
from fairlead_common.log.protocol import Appended, EventLog, Producer, Record
from fairlead_submit.service.writers.log_writer import LogWriter

NAME = "submit-test"


def record(text: str, partition: int = 0) -> Record:
    return Record(topics.JOBS, "q/s", text.encode(), partition)


class Picky:
    """A log whose producers refuse every append that holds a bad record, and count appends."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.appends: list[list[bytes | None]] = []
        self.appending = asyncio.Event()

    async def producer(self, name: str) -> Producer:
        return _PickyProducer(await self._log.producer(name), self)


class _PickyProducer:
    name = NAME

    def __init__(self, producer: Producer, log: Picky) -> None:
        self._producer = producer
        self._log = log

    async def append(self, records: Sequence[Record]) -> Appended:
        self._log.appends.append([each.value for each in records])
        self._log.appending.set()
        if any(each.value == b"bad" for each in records):
            await asyncio.sleep(0)
            raise AppendRefused("there is a bad record")
        return await self._producer.append(records)

    async def close(self) -> None:
        await self._producer.close()


@asynccontextmanager
async def writing(
    log: EventLog, **limits: int
) -> AsyncIterator[tuple[LogWriter, asyncio.Task[None]]]:
    bounds = {"append_bytes_max": 1_000, "pending_bytes_max": 10_000, **limits}
    writer = LogWriter(log, NAME, **bounds)
    task = asyncio.create_task(writer.run())
    yield writer, task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def log() -> MemoryLog:
    made = MemoryLog(lambda: 0)
    await made.create(topics.jobs())
    return made


def written(log: MemoryLog) -> list[bytes | None]:
    starts = log.core.start_positions(topics.JOBS)
    return [entry.value for entry in log.core.read(topics.JOBS, starts).entries]


async def outcomes(writer: LogWriter, *requests: list[Record]) -> list[object]:
    return list(
        await asyncio.gather(*(writer.append(each) for each in requests), return_exceptions=True)
    )


async def test_each_request_gets_the_positions_of_its_partitions(log: MemoryLog) -> None:
    async with writing(log) as (writer, _):
        one, two = await outcomes(writer, [record("a", 3)], [record("b", 5), record("c", 3)])
    assert isinstance(one, dict)
    assert isinstance(two, dict)
    assert (set(one), set(two)) == ({3}, {3, 5})


async def test_requests_during_an_append_share_the_next_one(
    log: MemoryLog,
) -> None:
    picky = Picky(log)
    async with writing(picky) as (writer, _):  # type: ignore[arg-type]  # all that is asked of it
        first = asyncio.create_task(writer.append([record("a")]))
        await picky.appending.wait()
        await outcomes(writer, [record("b")], [record("c")], [record("d")])
        await first
    assert picky.appends == [[b"a"], [b"b", b"c", b"d"]]


async def test_the_size_of_an_append_is_limited(log: MemoryLog) -> None:
    picky = Picky(log)
    async with writing(picky, append_bytes_max=10) as (writer, _):  # type: ignore[arg-type]
        await outcomes(writer, *([record("x" * 6)] for _ in range(3)), [record("y" * 50)])
    assert [len(append) for append in picky.appends] == [1, 1, 1, 1]


async def test_a_request_that_the_log_refuses_fails_alone(log: MemoryLog) -> None:
    picky = Picky(log)
    async with writing(picky) as (writer, _):  # type: ignore[arg-type]
        results = await outcomes(writer, *([record(text)] for text in ("a", "b", "bad", "c", "d")))
    assert [isinstance(result, AppendRefused) for result in results] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert written(log) == [b"a", b"b", b"c", b"d"]


async def test_a_too_large_record_is_refused_before_it_waits(log: MemoryLog) -> None:
    async with writing(log) as (writer, _):
        with pytest.raises(RecordTooLarge):
            await writer.append([record("x" * (2**20 + 1))])


@pytest.mark.parametrize(
    ("append_failure", "there"),
    [
        (AppendFailure.UNKNOWN_WRITTEN, [b"a", b"b", b"c"]),
        (AppendFailure.UNKNOWN_NOT_WRITTEN, [b"c"]),
    ],
)
async def test_an_unknown_outcome_fails_all_requests_and_the_writer_continues(
    log: MemoryLog, append_failure: AppendFailure, there: list[bytes]
) -> None:
    log.core.fail_next(append_failure, NAME)
    async with writing(log) as (writer, _):
        results = await outcomes(writer, [record("a")], [record("b")])
        assert [type(result) for result in results] == [AppendUnknown, AppendUnknown]
        causes = [writer.failure]
        await writer.append([record("c")])
        causes.append(writer.failure)
    assert [cause is None for cause in causes] == [False, True]
    assert written(log) == there


async def test_requests_fail_only_while_the_log_is_unavailable(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    async with writing(log) as (writer, _):
        log.core.away = True
        results = await outcomes(writer, [record("a")], [record("b")])
        assert [type(result) for result in results] == [LogUnavailable, LogUnavailable]
        lines = [line for line in caplog.records if "could not be written" in line.getMessage()]
        assert {str(vars(line)["fields"]) for line in lines} == {"{'jobSets': ['q/s']}"}
        log.core.away = False
        await writer.append([record("c")])
        log.core.away = True
        results = await outcomes(writer, [record("d")])
        assert [type(result) for result in results] == [AppendRefused]
    log.core.away = False
    assert written(log) == [b"c"]


async def test_pending_requests_are_bounded(log: MemoryLog) -> None:
    async with writing(log, pending_bytes_max=10) as (writer, _):
        results = await outcomes(writer, *([record("x" * 6)] for _ in range(3)))
    assert isinstance(results[0], dict)
    for refused in results[1:]:
        assert isinstance(refused, Problem)
        assert (refused.slug, refused.retry_after_s) == ("unavailable", 1)
    assert written(log) == [b"x" * 6]


async def test_a_process_is_fenced_by_another_of_its_name(log: MemoryLog) -> None:
    async with writing(log) as (writer, task):
        await writer.append([record("a")])
        await log.producer(NAME)
        assert [type(r) for r in await outcomes(writer, [record("b")])] == [ProducerFenced]
        with pytest.raises(ProducerFenced):
            await task
    assert written(log) == [b"a"]


async def test_pending_requests_fail_when_the_writer_ends(log: MemoryLog) -> None:
    async with writing(log) as (writer, task):
        waiting = asyncio.create_task(outcomes(writer, [record("a")]))
        await writer.append([record("b")])
        await waiting
        task.cancel()
        results = await outcomes(writer, [record("c")])
        results += await outcomes(writer, [record("d")])
    assert [type(result) for result in results] == [LogUnavailable, LogUnavailable]
    assert b"d" not in written(log)
