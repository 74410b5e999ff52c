"""The event log in memory: for simulations and tests, with faults on demand.

`MemoryCore` is plain data with plain methods: no event loop, and the time is an argument.
`MemoryLog` is the `EventLog` over it. Like Kafka, each append leaves a hole behind its records in
every partition that it touched (the commit marker), so that no code relies on dense positions.

Entries are delivered again by opening a reader at an old position; that needs no failure.
"""

import asyncio
import enum
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogUnavailable,
    PositionExpired,
    ProducerFenced,
    TopicMismatch,
)
from fairlead_common.log.append_limits import check_append, check_topic
from fairlead_common.log.protocol import (
    READ_BYTES_MAX,
    TOMBSTONE_RETENTION_MS,
    Appended,
    Batch,
    Entry,
    Positions,
    Record,
    Topic,
    partition_of,
    rotate_positions,
)


class AppendFailure(enum.Enum):
    """How an append fails."""

    REFUSED = "refused"
    UNKNOWN_WRITTEN = "unknown, and it was written"
    UNKNOWN_NOT_WRITTEN = "unknown, and it was not written"


class _Partition:
    """Entries in order of position; `first`: the first retained position, `next`: the next free
    one."""

    __slots__ = ("buried", "buried_round", "cleaned", "entries", "first", "next", "round")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.first = 0
        self.next = 0
        self.cleaned: dict[int, tuple[int, int]] = {}
        """Of each tombstone seen by cleanup: when the older records of its key were dropped, and in
        which round of cleanup."""
        self.round = 0
        self.buried = 0
        """Tombstones below this position were dropped, ..."""
        self.buried_round = 0
        """... the last of them as seen in this round."""

    def index(self, position: int) -> int:
        """Where the first entry at or after `position` is in `entries`."""
        return bisect_left(self.entries, position, key=_position)


def _position(entry: Entry) -> int:
    return entry.position


class _Stored(msgspec.Struct):
    topic: Topic
    partitions: list[_Partition]


class MemoryCore:
    """All topics, producers and faults of one log. No method waits."""

    def __init__(self, identity: str = "memory") -> None:
        self.identity = identity
        self.away = False
        """While True every call raises: `AppendRefused` to append, else `LogUnavailable`."""
        self._topics: dict[str, _Stored] = {}
        self._epochs: dict[str, int] = {}
        self._failures: deque[tuple[AppendFailure, str | None]] = deque()
        self._listeners: list[Callable[[], None]] = []

    def fail_next(self, failure: AppendFailure, producer: str | None = None) -> None:
        """Let the next append (of this producer, if named) fail in this way. Failures are
        queued."""
        self._failures.append((failure, producer))

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every append that wrote something."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Stop calling the listener. An unknown listener is ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def create(self, topic: Topic) -> None:
        """Create the topic. Raises `TopicMismatch`."""
        check_topic(topic)
        self._check_away()
        stored = self._topics.get(topic.name)
        if stored is None:
            partitions = [_Partition() for _ in range(topic.partitions)]
            self._topics[topic.name] = _Stored(topic, partitions)
            return
        there = stored.topic
        if (there.partitions, there.compacted) != (topic.partitions, topic.compacted):
            raise TopicMismatch(f"the topic exists as {there}; requested was {topic}")
        if topic.retention_s is not None:
            stored.topic = topic

    def topics(self) -> list[Topic]:
        """All topics, in the order of their creation."""
        return [stored.topic for stored in self._topics.values()]

    def begin(self, producer: str) -> int:
        """Fence the producers of this name and return the epoch of a new one."""
        self._check_away()
        self._epochs[producer] = epoch = self._epochs.get(producer, 0) + 1
        return epoch

    def append(
        self, producer: str, epoch: int, records: Sequence[Record], time_ms: int
    ) -> Appended:
        """Append all records or none. Raises what `Producer.append` raises."""
        check_append(records)
        if self.away:
            raise AppendRefused("the log is unavailable")
        failure = self._take_failure(producer)
        if failure is AppendFailure.REFUSED:
            raise AppendRefused("the log refused the append, as configured")
        if self._epochs.get(producer) != epoch:
            raise ProducerFenced(f"a newer producer {producer!r} exists")
        for record in records:
            _place(self._append_topic(record), record)
        if failure is AppendFailure.UNKNOWN_NOT_WRITTEN:
            raise AppendUnknown("the append was lost, as configured")
        appended = self._write(records, time_ms)
        for listener in self._listeners:
            listener()
        if failure is AppendFailure.UNKNOWN_WRITTEN:
            raise AppendUnknown("the answer to the append was lost, as configured")
        return appended

    def write_foreign(
        self, topic: str, partition: int, key: str, value: bytes | None, time_ms: int
    ) -> int:
        """Append a record as another program could, with any `Entry.key`; its position."""
        stored = self._topic(topic).partitions[partition]
        position = stored.next
        stored.entries.append(Entry(partition, position, key, value, time_ms))
        stored.next = position + 1
        for listener in self._listeners:
            listener()
        return position

    def read(
        self,
        topic: str,
        positions: Positions,
        records_max: int = 10_000,
        bytes_max: int = READ_BYTES_MAX,
        since: Mapping[int, int] | None = None,
    ) -> Batch:
        """The next records, partitions in the order of `positions`. Raises `PositionExpired`.

        `since`: the round of cleanup in which the reading of each partition began.
        """
        self._check_away()
        stored = self._topic(topic)
        entries: list[Entry] = []
        after: dict[int, int] = {}
        size = 0
        for number, position in positions.items():
            partition = stored.partitions[number]
            missed = (
                since is not None
                and position < partition.buried
                and since[number] < partition.buried_round
            )
            if missed or not partition.first <= position <= partition.next:
                raise PositionExpired(topic, number, position, partition.first)
            index = partition.index(position)
            retained = partition.entries
            while index < len(retained) and len(entries) < records_max:
                entry = retained[index]
                size += len(entry.value or b"") + len(entry.key)
                if entries and size > bytes_max:
                    break
                entries.append(entry)
                index += 1
            after[number] = retained[index].position if index < len(retained) else partition.next
        return Batch(entries, after)

    def start_positions(self, topic: str) -> dict[int, int]:
        """The first retained position, for each partition."""
        self._check_away()
        return {n: part.first for n, part in enumerate(self._topic(topic).partitions)}

    def rounds(self, topic: str) -> dict[int, int]:
        """The number of cleanups of each partition."""
        self._check_away()
        return {n: part.round for n, part in enumerate(self._topic(topic).partitions)}

    def end_positions(self, topic: str) -> dict[int, int]:
        """The next free position, for each partition."""
        self._check_away()
        return {n: part.next for n, part in enumerate(self._topic(topic).partitions)}

    def maintain(self, now_ms: int) -> None:
        """Drop what the topics no longer retain."""
        for stored in self._topics.values():
            for partition in stored.partitions:
                if stored.topic.compacted:
                    _compact(partition, now_ms)
                else:
                    _expire(partition, now_ms - 1000 * stored.topic.initial_retention_s)

    def _check_away(self) -> None:
        if self.away:
            raise LogUnavailable("the log is unavailable")

    def _topic(self, name: str) -> _Stored:
        stored = self._topics.get(name)
        if stored is None:
            raise TopicMismatch(f"the topic {name!r} does not exist")
        return stored

    def _append_topic(self, record: Record) -> Topic:
        stored = self._topics.get(record.topic)
        if stored is None:
            raise AppendRefused(f"the topic {record.topic!r} does not exist")
        return stored.topic

    def _take_failure(self, producer: str) -> AppendFailure | None:
        for index, (failure, name) in enumerate(self._failures):
            if name is None or name == producer:
                del self._failures[index]
                return failure
        return None

    def _write(self, records: Iterable[Record], time_ms: int) -> Appended:
        touched: dict[tuple[str, int], int] = {}
        for record in records:
            stored = self._topics[record.topic]
            number = _place(stored.topic, record)
            partition = stored.partitions[number]
            position = partition.next
            partition.next = position + 1
            partition.entries.append(Entry(number, position, record.key, record.value, time_ms))
            touched[record.topic, number] = position + 1
        for name, number in touched:
            self._topics[name].partitions[number].next += 1
        return touched


def _place(topic: Topic, record: Record) -> int:
    if record.partition is None:
        return partition_of(record.key, topic.partitions)
    if not 0 <= record.partition < topic.partitions:
        raise AppendRefused(f"{topic.name} has no partition {record.partition}")
    return record.partition


def _expire(partition: _Partition, before_ms: int) -> None:
    """Drop the oldest entries, up to the first that is retained."""
    entries = partition.entries
    count = next((n for n, e in enumerate(entries) if e.time_ms >= before_ms), len(entries))
    if count:
        partition.first = entries[count - 1].position + 1
        del entries[:count]


def _compact(partition: _Partition, now_ms: int) -> None:
    """Retain the newest entry per key; drop tombstones whose older records were dropped long
    ago."""
    newest = {entry.key: entry.position for entry in partition.entries}
    before_ms = now_ms - TOMBSTONE_RETENTION_MS
    buried = {at: seen for at, (ms, seen) in partition.cleaned.items() if ms <= before_ms}
    partition.entries = [
        entry
        for entry in partition.entries
        if newest[entry.key] == entry.position and entry.position not in buried
    ]
    if buried:
        partition.buried = max(partition.buried, max(buried) + 1)
        partition.buried_round = max(partition.buried_round, *buried.values())
    partition.round += 1
    partition.cleaned = {
        entry.position: partition.cleaned.get(entry.position, (now_ms, partition.round))
        for entry in partition.entries
        if entry.value is None
    }


class MemoryLog:
    """An `EventLog` over a core that several logs may share: each is one process's connection."""

    def __init__(self, clock_ms: Callable[[], int], core: MemoryCore | None = None) -> None:
        self.core = MemoryCore() if core is None else core
        self._clock_ms = clock_ms
        self._committed = asyncio.Event()
        self.core.listen(self._wake)

    async def identity(self) -> str:
        """See `EventLog`."""
        return self.core.identity

    async def create(self, topic: Topic) -> None:
        """See `EventLog`."""
        self.core.create(topic)

    async def producer(self, name: str) -> "MemoryProducer":
        """See `EventLog`."""
        return MemoryProducer(self.core, self._clock_ms, name, self.core.begin(name))

    async def reader(self, topic: str, positions: Positions) -> "MemoryReader":
        """See `EventLog`."""
        unknown = positions.keys() - self.core.start_positions(topic).keys()
        if unknown:
            raise TopicMismatch(f"{topic} has no partition {min(unknown)}")
        return MemoryReader(self, topic, positions)

    async def start_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return self.core.start_positions(topic)

    async def end_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return self.core.end_positions(topic)

    async def close(self) -> None:
        """See `EventLog`."""
        self.core.unlisten(self._wake)

    async def committed(self) -> None:
        """Wait for the next commit."""
        await self._committed.wait()

    def _wake(self) -> None:
        self._committed.set()
        self._committed = asyncio.Event()


class MemoryProducer:
    """A `Producer`: one epoch of a name."""

    def __init__(
        self, core: MemoryCore, clock_ms: Callable[[], int], name: str, epoch: int
    ) -> None:
        self.name = name
        self._core = core
        self._clock_ms = clock_ms
        self._epoch = epoch
        self._dead = False

    async def append(self, records: Sequence[Record]) -> Appended:
        """See `Producer`. Other tasks run before it happens, as with a remote log."""
        await asyncio.sleep(0)
        if self._dead:
            raise ProducerFenced(f"this producer {self.name!r} can no longer be used")
        if not records:
            return {}
        try:
            return self._core.append(self.name, self._epoch, records, self._clock_ms())
        except (ProducerFenced, AppendUnknown):
            self._dead = True
            raise

    async def close(self) -> None:
        """See `Producer`."""
        self._dead = True


class MemoryReader:
    """A `Reader`. It has the positions of its partitions, and which of them is next."""

    def __init__(self, log: MemoryLog, topic: str, positions: Positions) -> None:
        self.topic = topic
        self._log = log
        self._positions = dict(positions)
        rounds = log.core.rounds(topic)
        self._since = {number: -1 if at else rounds[number] for number, at in positions.items()}

    async def read(
        self, *, records_max: int = 10_000, bytes_max: int = READ_BYTES_MAX, wait_s: float = 1.0
    ) -> Batch:
        """See `Reader`."""
        batch = self._next(records_max, bytes_max)
        try:
            async with asyncio.timeout(wait_s):
                while not batch.entries:
                    await self._log.committed()
                    batch = self._next(records_max, bytes_max)
        except TimeoutError:
            pass
        return batch

    async def close(self) -> None:
        """See `Reader`."""

    def _next(self, records_max: int, bytes_max: int) -> Batch:
        batch = self._log.core.read(
            self.topic, self._positions, records_max, bytes_max, self._since
        )
        last = batch.entries[-1].partition if batch.entries else None
        self._positions = rotate_positions(batch.positions, last)
        return batch
