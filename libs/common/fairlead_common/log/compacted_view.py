"""Folds a compacted topic into the newest value of every key, and follows it without missing
any."""

import logging
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

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
"""How many times a topic that changes faster than it can be read is read from its beginning."""
V = TypeVar("V")
_logger: Final = logging.getLogger("fairlead.log")


class CompactedView(Generic[V]):
    """The newest value of every key of a compacted topic.

    `values` holds what `retain` makes of the newest entry of each key, in the order of the log
    within each partition. Folding entries again, or only the newest of each key, gives the same.
    """

    def __init__(self, retain: Callable[[Entry], V], keys_max: int | None = None) -> None:
        """`retain` never returns None. A view of `keys_max` keys adds no further key, and `is_full`
        says so."""
        self.values: dict[str, V] = {}
        self.is_full = False
        self._retain = retain
        self._keys_max = keys_max

    def fold(self, entries: Iterable[Entry]) -> list[str]:
        """Apply entries in the order of the log; returns the keys whose value has changed.

        An entry without a value deletes its key.
        """
        changed = []
        for entry in entries:
            key = entry.key
            before = self.values.pop(key, None)
            if entry.value is None:
                if before is not None:
                    changed.append(key)
                continue
            if before is None and self._keys_max is not None and len(self.values) >= self._keys_max:
                self.is_full = True
                continue
            value = self._retain(entry)
            self.values[key] = value
            if value != before:
                changed.append(key)
        return changed


async def read_newest(log: EventLog, topic: str) -> tuple[dict[str, bytes], dict[int, int]]:
    """The newest value per key, without deleted keys, and the positions to read next.

    Covers at least everything committed before the call. Raises what `Reader.read` raises.
    """
    entries, positions = await read_newest_entries(log, topic)
    return {
        key: entry.value for key, entry in entries.items() if entry.value is not None
    }, positions


async def read_newest_entries(log: EventLog, topic: str) -> tuple[dict[str, Entry], dict[int, int]]:
    """As `read_newest`, with whole entries, in the order of the log within each partition."""
    for _ in range(SCANS_MAX - 1):
        try:
            return await _scan(log, topic)
        except PositionExpired:
            continue
    return await _scan(log, topic)


async def _scan(log: EventLog, topic: str) -> tuple[dict[str, Entry], dict[int, int]]:
    end = await log.end_positions(topic)
    positions = await log.start_positions(topic)
    newest = CompactedView(lambda entry: entry)
    reader = await log.reader(topic, positions)
    try:
        while not caught_up(positions, end):
            batch = await reader.read()
            newest.fold(batch.entries)
            positions = batch.positions
    finally:
        await reader.close()
    return newest.values, positions


class CompactedReader:
    """A `Reader` of a whole compacted topic that misses no deletion.

    If it pauses for longer than tombstones are retained, it reads the topic again from its
    beginning, as one batch with the newest entry of every key, and a null for each key that no
    longer exists.
    """

    def __init__(
        self, log: EventLog, reader: Reader, live: Iterable[str], *, read_again: bool = False
    ) -> None:
        """`live`: the keys that exist at the positions of `reader`, or, with `read_again`, that
        existed when the topic was last read."""
        self.topic = reader.topic
        self._log = log
        self._reader = reader
        self._live = set(live)
        self._read_again = read_again
        self._time_ms = 0

    @classmethod
    async def open(
        cls,
        log: EventLog,
        topic: str,
        positions: Positions | None = None,
        live: Iterable[str] = (),
    ) -> "CompactedReader":
        """From positions at which these keys were live; without positions, from the beginning.

        The first batch deletes keys in `live` that no longer exist.
        """
        if positions is not None:
            return cls(log, await log.reader(topic, positions), live)
        reader = await log.reader(topic, await log.start_positions(topic))
        known = list(live)
        return cls(log, reader, known, read_again=bool(known))

    async def read(
        self, *, records_max: int = 10_000, bytes_max: int = READ_BYTES_MAX, wait_s: float = 1.0
    ) -> Batch:
        """See `Reader`. The limits do not apply to a topic that is read again."""
        batch = None
        if not self._read_again:
            try:
                batch = await self._reader.read(
                    records_max=records_max, bytes_max=bytes_max, wait_s=wait_s
                )
            except PositionExpired:
                self._read_again = True
        if batch is None:
            batch = await self._read_from_start()
            self._read_again = False
        for entry in batch.entries:
            if entry.value is None:
                self._live.discard(entry.key)
            else:
                self._live.add(entry.key)
        if batch.entries:
            self._time_ms = batch.entries[-1].time_ms
        return batch

    async def close(self) -> None:
        """See `Reader`."""
        await self._reader.close()

    async def _read_from_start(self) -> Batch:
        """The present state of the topic, as a batch of changes to what was read before."""
        found, positions = await read_newest_entries(self._log, self.topic)
        removed = sorted(self._live - found.keys())
        if removed:
            _logger.warning(
                "%s was read again from its beginning: %d keys are no longer there, such as %s",
                self.topic,
                len(removed),
                removed[0],
            )
        entries = list(found.values())
        time_ms = max((entry.time_ms for entry in entries), default=self._time_ms)
        partition, position = next(iter(positions.items()))
        entries += [Entry(partition, position - 1, key, None, time_ms) for key in removed]
        await self._reader.close()
        self._reader = await self._log.reader(self.topic, positions)
        return Batch(entries, positions)
