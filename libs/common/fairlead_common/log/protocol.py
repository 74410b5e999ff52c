"""What every event log offers, and what its readers and writers may rely on.

The clauses below are tested on all implementations by `tests/contract/log/`:

- within a partition, records are read in the order in which they became visible;
- an append is atomic over all its topics and visible only when committed;
- a second producer of the same name fences the first;
- a record that another program has written is read whatever its key and value are (`Entry`);
- positions grow and may have holes; a reader stores the *position to read next*;
- a reader of a compacted topic that may have missed a deletion, because it was away or read for
  longer than tombstones are kept, gets `PositionExpired`: it starts from the beginning and drops
  every key that it does not see again (`compacted_view.CompactedReader` does).
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

RECORD_BYTES_MAX: Final = 1_048_576
"""Largest value of one record, in bytes. Topics and producers are set to twice that."""

APPEND_RECORDS_MAX: Final = 100_000
APPEND_BYTES_MAX: Final = 64 * RECORD_BYTES_MAX
READ_BYTES_MAX: Final = 16 * RECORD_BYTES_MAX
TOMBSTONE_RETENTION_MS: Final = 120_000
"""Least time for which readers find a tombstone after the older records of its key have gone.

Long enough to read any compacted topic once; the number of tombstones, and with it what a start has
to read, is bounded by the rate of deletions times a few of these.
"""


RETENTION_S: Final = 30 * 86_400
"""How long records of topics that are not compacted are kept unless their owner says otherwise."""


class Topic(msgspec.Struct, frozen=True):
    """A named sequence of partitions; their number is fixed when it is made.

    `compacted`: only the newest value per key is kept for good. Otherwise records are kept for
    `retention_s` seconds. None leaves an existing topic as it is, and is `RETENTION_S` for a new
    one: only the owner of a topic gives a number, so that services do not overwrite each other's.
    """

    name: str
    partitions: int = 1
    compacted: bool = False
    retention_s: int | None = None

    @property
    def initial_retention_s(self) -> int:
        """How long a new topic keeps its records."""
        return RETENTION_S if self.retention_s is None else self.retention_s


class Record(msgspec.Struct, frozen=True, gc=False):
    """What is appended. `value` None deletes the key of a compacted topic.

    `partition` None means `partition_of(key, topic.partitions)`.
    """

    topic: str
    key: str
    value: bytes | None
    partition: int | None = None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What is read: a record with its place and the time at which the log took it (ms, UTC).

    Other programs may have written what no producer of ours writes: a record without a key is read
    with an empty `key`, and bytes of a key that are not UTF-8 as lone surrogates (`\\udc80` to
    `\\udcff`, Python's `surrogateescape`).
    """

    partition: int
    position: int
    key: str
    value: bytes | None
    time_ms: int


class Batch(msgspec.Struct, frozen=True):
    """One read. `positions` holds the position to read next of *every* partition of the reader.

    It may have moved although `entries` is empty (transaction markers, compacted records).
    """

    entries: list[Entry]
    positions: dict[int, int]


Positions = Mapping[int, int]
"""partition -> position to read next."""

Appended = Mapping[tuple[str, int], int]
"""(topic, partition) -> a position that a reader has passed when it has read this append."""


class Producer(Protocol):
    """A named writer; at most one of a name can write.

    Callers append one after the other: a second `append` while one is under way waits for it.
    """

    name: str

    async def append(self, records: Sequence[Record]) -> Appended:
        """Append all records or none, and return when they are visible to readers.

        Raises `ProducerFenced` (a newer producer of this name exists), `AppendRefused` (nothing
        was written: the log was away for longer than the bound, or a record is too large) or
        `AppendUnknown` (make a new producer and read back). After the first and the last of
        these every further append raises `ProducerFenced`.
        """
        ...

    async def close(self) -> None:
        """Give up the connection. Safe to call twice."""
        ...


class Reader(Protocol):
    """Reads some partitions of one topic from given positions on. Used by one task at a time."""

    topic: str

    async def read(
        self, *, records_max: int = 10_000, bytes_max: int = READ_BYTES_MAX, wait_s: float = 1.0
    ) -> Batch:
        """What comes next, in order within each partition; empty after `wait_s` of nothing.

        Returns at once when there is something, else wakes when something is committed. At least
        one record is returned when there is one, whatever `bytes_max` says. Raises
        `PositionExpired`, or `LogUnavailable` after bounded retries (the reader can be used again
        afterwards).
        """
        ...

    async def close(self) -> None:
        """Give up the connection. Safe to call twice."""
        ...


class EventLog(Protocol):
    """An append-only, ordered, durable log of records in topics."""

    async def identity(self) -> str:
        """A text that names this log for good, so that a view can refuse another log."""
        ...

    async def create(self, topic: Topic) -> None:
        """Make the topic if it is not there. Raises `TopicMismatch` if it is there otherwise."""
        ...

    async def producer(self, name: str) -> Producer:
        """A new producer of that name; whoever had the name before is fenced from now on."""
        ...

    async def reader(self, topic: str, positions: Positions) -> Reader:
        """A reader of the partitions named in `positions`, each from its position to read next."""
        ...

    async def start_positions(self, topic: str) -> dict[int, int]:
        """The first position still kept, for each partition of the topic."""
        ...

    async def end_positions(self, topic: str) -> dict[int, int]:
        """For each partition: who has everything committed until now reads next at or after it."""
        ...

    async def close(self) -> None:
        """Close all producers and readers made by this log. Safe to call twice."""
        ...


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key: the same in every implementation, for ever."""
    return zlib.crc32(key.encode()) % partitions


def caught_up(positions: Positions, end: Positions) -> bool:
    """Whether a reader at `positions` has seen everything before `end`."""
    return all(positions.get(partition, 0) >= position for partition, position in end.items())
