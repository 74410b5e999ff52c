"""What every event log offers, and what its readers and writers can rely on.

The clauses below are tested on all implementations by `tests/contract/log/`:

- within a partition, records are read in the order in which they became visible;
- an append is atomic over all its topics and visible only when committed;
- a second producer of the same name fences the first;
- a record that another program has written is read whatever its key and value are (`Entry`);
- positions grow and may have holes; a reader stores the *position to read next*;
- a reader of a compacted topic that could have missed a deletion, because it paused or read for
  longer than tombstones are retained, gets `PositionExpired`: it has to start from the beginning
  and drop every key that it does not see again (as `compacted_view.CompactedReader` does).
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
"""How long a tombstone is retained at least after the older records of its key were removed.

Long enough to read any compacted topic once; the number of tombstones, which every start has to
read, is at most the rate of deletions times a few of these.
"""


RETENTION_S: Final = 30 * 86_400
"""The retention of topics that are not compacted, unless their owner sets another one."""


class Topic(msgspec.Struct, frozen=True):
    """A named sequence of partitions, whose number is fixed when the topic is created.

    `compacted`: only the newest value per key is retained. Otherwise records are retained for
    `retention_s` seconds. None leaves the retention of an existing topic unchanged, and means
    `RETENTION_S` for a new one: only the owner of a topic sets a number, so that services do not
    overwrite it.
    """

    name: str
    partitions: int = 1
    compacted: bool = False
    retention_s: int | None = None

    @property
    def initial_retention_s(self) -> int:
        """The retention of a new topic."""
        return RETENTION_S if self.retention_s is None else self.retention_s


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record to append. `value` None deletes the key of a compacted topic.

    `partition` None means `partition_of(key, topic.partitions)`.
    """

    topic: str
    key: str
    value: bytes | None
    partition: int | None = None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A record that was read, with its place and the time at which it was appended (ms, UTC).

    Other programs can write records that our producers never write: a record without a key is read
    with an empty `key`, and bytes of a key that are not UTF-8 as lone surrogates (`\\udc80` to
    `\\udcff`, Python's `surrogateescape`).

    `decoded`: what a reader that validates records has decoded; None for a record without a value,
    and of readers that do not.
    """

    partition: int
    position: int
    key: str
    value: bytes | None
    time_ms: int
    decoded: object = None


class Batch(msgspec.Struct, frozen=True):
    """One read. `positions` holds the position to read next of *every* partition of the reader.

    They can have advanced although `entries` is empty (transaction markers, compacted records).
    """

    entries: list[Entry]
    positions: dict[int, int]


Positions = Mapping[int, int]
"""partition -> position to read next."""

Appended = Mapping[tuple[str, int], int]
"""(topic, partition) -> a position that a reader reaches by reading this append."""


class Producer(Protocol):
    """A named writer. Only the newest producer of a name can write.

    Appends are sequential: an `append` waits for the previous one.
    """

    name: str

    async def append(self, records: Sequence[Record]) -> Appended:
        """Append all records or none, and return when they are visible to readers.

        Raises `ProducerFenced` (a newer producer of this name exists), `AppendRefused` (nothing was
        written: the log was unavailable for longer than the bound, or a record is too large) or
        `AppendUnknown` (open a new producer, and read what was written). After `ProducerFenced` or
        `AppendUnknown` every further append raises `ProducerFenced`.
        """
        ...

    async def close(self) -> None:
        """Close the connection. Can be called twice."""
        ...


class Reader(Protocol):
    """Reads some partitions of one topic from given positions on. Used by one task at a time."""

    topic: str

    async def read(
        self, *, records_max: int = 10_000, bytes_max: int = READ_BYTES_MAX, wait_s: float = 1.0
    ) -> Batch:
        """The next records, in order within each partition; empty after `wait_s` without any.

        Returns at once if there are records, else as soon as one is committed. At least one record
        is returned if there is one, even if it is larger than `bytes_max`. Raises
        `PositionExpired`, or `LogUnavailable` after bounded retries (the reader can be used again
        afterwards).
        """
        ...

    async def close(self) -> None:
        """Close the connection. Can be called twice."""
        ...


class EventLog(Protocol):
    """An append-only, ordered, durable log of records in topics."""

    async def identity(self) -> str:
        """The permanent id of this log, by which a view detects another log."""
        ...

    async def create(self, topic: Topic) -> None:
        """Create the topic if it does not exist. Raises `TopicMismatch` if it has other
        properties."""
        ...

    async def producer(self, name: str) -> Producer:
        """A new producer of that name; earlier ones are fenced from now on."""
        ...

    async def reader(self, topic: str, positions: Positions) -> Reader:
        """A reader of the partitions named in `positions`, each from its position to read next."""
        ...

    async def start_positions(self, topic: str) -> dict[int, int]:
        """The first retained position, for each partition of the topic."""
        ...

    async def end_positions(self, topic: str) -> dict[int, int]:
        """The end of each partition: a reader that has read all committed records is at or after
        it."""
        ...

    async def close(self) -> None:
        """Close all producers and readers of this log. Can be called twice."""
        ...


def rotate_positions(positions: Positions, last: int | None) -> dict[int, int]:
    """The positions in the order of the next read.

    It begins with the partition of the last record, which can have more, or after it if this read
    had no other partition. So all partitions are read before one is read again, however much is
    appended meanwhile.
    """
    if last is None:
        return dict(positions)
    order = list(positions)
    begin = max(order.index(last), 1)
    return {number: positions[number] for number in order[begin:] + order[:begin]}


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key. It never changes, and is the same in every implementation."""
    return zlib.crc32(key.encode()) % partitions


def caught_up(positions: Positions, end: Positions) -> bool:
    """Whether a reader at `positions` has seen everything before `end`."""
    return all(positions.get(partition, 0) >= position for partition, position in end.items())
