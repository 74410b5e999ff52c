"""How the records of an append become rows of the table, and rows become records again.

As in Kafka, what one append adds to a partition is stored together, in arrays of keys and values.
So a record needs no row and no entries of indexes of its own.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fairlead_common.log.protocol import Entry, Record

BATCH_RECORDS_MAX: Final = 256
BATCH_BYTES_MAX: Final = 262_144
"""A batch ends with the record that reaches one of these: it is read, and compacted, as a whole."""


class NewBatch(NamedTuple):
    """Records to append to one partition: the type `fairlead_log.new_batch`.

    `following`: how many records of the append come after them in this partition. `deletions`: how
    many of them have no value.
    """

    part: int
    following: int
    deletions: int
    keys: list[str]
    values: list[bytes | None]


class StoredBatch(NamedTuple):
    """A row of `fairlead_log.batches`. `next`: the position after its last record. Records without
    a key are removed."""

    part: int
    next: int
    time_ms: int
    keys: list[str | None]
    values: list[bytes | None]


def pack(parts: Mapping[int, Sequence[Record]]) -> list[NewBatch]:
    """The batches of an append, from the records for each partition."""
    packed: list[NewBatch] = []
    for part, records in parts.items():
        following = len(records)
        for some in _cut(records):
            following -= len(some)
            values = [record.value for record in some]
            keys = [record.key for record in some]
            packed.append(NewBatch(part, following, values.count(None), keys, values))
    return packed


def _cut(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    first = size = 0
    for end, record in enumerate(records, 1):
        size += len(record.key) + len(record.value or b"")
        if size >= BATCH_BYTES_MAX or end - first == BATCH_RECORDS_MAX:
            yield records[first:end]
            first, size = end, 0
    if first < len(records):
        yield records[first:]


def unpack(batch: StoredBatch, partition: int, position: int) -> list[Entry]:
    """The records of a batch from a position on."""
    first = batch.next - len(batch.keys)
    skipped = max(0, position - first)
    return [
        Entry(partition, at, key, value, batch.time_ms)
        for at, key, value in itertools.islice(
            zip(itertools.count(first), batch.keys, batch.values, strict=False), skipped, None
        )
        if key is not None
    ]


def limit(entries: Iterable[Entry], records_max: int, bytes_max: int) -> list[Entry]:
    """The first of these records that are within the limits, and at least one."""
    taken: list[Entry] = []
    size = 0
    for entry in itertools.islice(entries, records_max):
        size += len(entry.key) + len(entry.value or b"")
        if size > bytes_max and taken:
            break
        taken.append(entry)
    return taken
