"""Folding a compacted topic: the newest value of every key, and following it without a miss."""

from collections.abc import Iterable
from typing import Final

from fairlead_common.domain.errors import PositionExpired
from fairlead_common.log.protocol import (
    READ_BYTES_MAX,
    Batch,
    Entry,
    EventLog,
    Positions,
    Reader,
    caught_up,
)

SCANS_MAX: Final = 5
"""How often a topic is read from its beginning that changes faster than it can be read."""


async def read_newest(log: EventLog, topic: str) -> tuple[dict[str, bytes], dict[int, int]]:
    """The newest value per key, without deleted keys, and the positions to read next.

    Covers at least everything committed before the call. Raises what `Reader.read` raises.
    """
    entries, positions = await read_newest_entries(log, topic)
    return {
        key: entry.value for key, entry in entries.items() if entry.value is not None
    }, positions


async def read_newest_entries(log: EventLog, topic: str) -> tuple[dict[str, Entry], dict[int, int]]:
    """As `newest`, with whole entries, in the order of the log within each partition."""
    for _ in range(SCANS_MAX - 1):
        try:
            return await _scan(log, topic)
        except PositionExpired:
            continue
    return await _scan(log, topic)


async def _scan(log: EventLog, topic: str) -> tuple[dict[str, Entry], dict[int, int]]:
    end = await log.end_positions(topic)
    positions = await log.start_positions(topic)
    entries: dict[str, Entry] = {}
    reader = await log.reader(topic, positions)
    try:
        while not caught_up(positions, end):
            batch = await reader.read()
            for entry in batch.entries:
                entries.pop(entry.key, None)
                if entry.value is not None:
                    entries[entry.key] = entry
            positions = batch.positions
    finally:
        await reader.close()
    return entries, positions


class CompactedReader:
    """A `Reader` of a whole compacted topic that misses no deletion.

    When it was away for longer than tombstones are kept, it reads the topic again from its
    beginning: that is one batch with the newest entry of every key, and with a null for each key
    that is no longer there.
    """

    def __init__(self, log: EventLog, reader: Reader, live: Iterable[str]) -> None:
        self.topic = reader.topic
        self._log = log
        self._reader = reader
        self._live = set(live)
        self._time_ms = 0

    @classmethod
    async def open(
        cls,
        log: EventLog,
        topic: str,
        positions: Positions | None = None,
        live: Iterable[str] = (),
    ) -> "CompactedReader":
        """From the beginning, or from positions at which these keys were live."""
        if positions is None:
            positions = await log.start_positions(topic)
        return cls(log, await log.reader(topic, positions), live)

    async def read(
        self, *, records_max: int = 10_000, bytes_max: int = READ_BYTES_MAX, wait_s: float = 1.0
    ) -> Batch:
        """See `Reader`. The limits do not apply to a topic that is read again."""
        try:
            batch = await self._reader.read(
                records_max=records_max, bytes_max=bytes_max, wait_s=wait_s
            )
        except PositionExpired:
            batch = await self._again()
        for entry in batch.entries:
            self._time_ms = max(self._time_ms, entry.time_ms)
            if entry.value is None:
                self._live.discard(entry.key)
            else:
                self._live.add(entry.key)
        return batch

    async def close(self) -> None:
        """See `Reader`."""
        await self._reader.close()

    async def _again(self) -> Batch:
        """The topic as it is now, as a batch of changes to what was read before."""
        found, positions = await read_newest_entries(self._log, self.topic)
        entries = list(found.values())
        time_ms = max((entry.time_ms for entry in entries), default=self._time_ms)
        partition, position = next(iter(positions.items()))
        gone = sorted(self._live - found.keys())
        entries += [Entry(partition, position - 1, key, None, time_ms) for key in gone]
        await self._reader.close()
        self._reader = await self._log.reader(self.topic, positions)
        return Batch(entries, positions)
