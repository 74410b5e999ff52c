"""The fleet that submit knows when the log fails in the middle of a reading."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from fairlead_common.domain.errors import LogUnavailable
from fairlead_common.domain.records import clusters
from fairlead_common.domain.records.clusters import Heartbeat
from fairlead_common.log import topics
from fairlead_common.log.memory_log import MemoryLog, MemoryReader
from fairlead_common.log.protocol import Batch, Positions
from fairlead_submit.service.cluster_view import ClusterView


def _break_off(reader: MemoryReader, *, waits: bool) -> None:
    """Let it read one entry, and then fail or wait for ever."""
    read, reads = reader.read, itertools.count()

    async def breaks_off(**_: object) -> Batch:
        if next(reads) == 0:
            return await read(records_max=1)
        if waits:
            await asyncio.Event().wait()
        raise LogUnavailable("away")

    reader.read = breaks_off  # type: ignore[method-assign]


class _Log(MemoryLog):
    """A log whose readers break off while it is told to."""

    breaks = False
    waits = False
    ends_before_b = False

    async def end_positions(self, topic: str) -> dict[int, int]:
        return {0: 1} if self.ends_before_b else await super().end_positions(topic)

    async def reader(self, topic: str, positions: Positions) -> MemoryReader:
        reader = await super().reader(topic, positions)
        if self.breaks:
            _break_off(reader, waits=self.waits)
        return reader


@pytest.fixture
async def log() -> AsyncIterator[_Log]:
    """A log that two executors have reported to."""
    log = _Log(lambda: 0)
    await log.create(topics.clusters())
    producer = await log.producer("e")
    for name in ("a", "b"):
        await producer.append([clusters.heartbeat_record(Heartbeat(executor=name))])
    yield log
    await log.close()


async def test_entries_read_before_a_log_failure_are_applied(
    log: _Log,
) -> None:
    fleet = ClusterView(log)
    log.breaks = True
    with pytest.raises(LogUnavailable):
        await fleet.read()
    log.breaks, log.ends_before_b = False, True
    assert (await fleet.read()).executors == {"a"}


async def test_an_unresponsive_log_raises_log_unavailable(log: _Log) -> None:
    log.breaks = log.waits = True
    with pytest.raises(LogUnavailable):
        await ClusterView(log, read_s_max=0.01).read()
