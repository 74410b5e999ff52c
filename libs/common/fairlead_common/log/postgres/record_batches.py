"""How the records of an append become rows of the table, and rows become records again.

As in Kafka, what one append adds to a partition is stored together, in arrays of keys and values.
So a record needs no row and no entries of indexes of its own. Long values are compressed one by
one, so that the server can remove superseded values from a batch.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from backports import zstd

from fairlead_common.log.protocol import RECORD_BYTES_MAX, Entry, Record

BATCH_RECORDS_MAX: Final = 256
BATCH_BYTES_MAX: Final = 262_144
"""A batch ends with the record that reaches one of these: it is read, and compacted, as a whole."""
COMPRESSED_BYTES_MIN: Final = 4_096
"""A shorter value is stored as it is: zstd takes 13 us to begin, however short a value is."""
LEVEL: Final = 1
MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""A stored value that begins with the magic number of zstd is compressed."""


class NewBatch(NamedTuple):
    """Records to append to one partition: the type `fairlead_log.new_batch`.

    `following`: how many records of the append come after them in this partition. `deletions`: how
    many of them have no value. `size`: of keys and values before compression, in bytes.
    """

    part: int
    following: int
    deletions: int
    keys: list[str]
    stored_values: list[bytes | None]
    size: int


class StoredBatch(NamedTuple):
    """A row of `fairlead_log.batches`. `next`: the position after its last record. Records without
    a key are removed."""

    part: int
    next: int
    time_ms: int
    keys: list[str | None]
    stored_values: list[bytes | None]


def pack(parts: Mapping[int, Sequence[Record]]) -> list[NewBatch]:
    """The batches of an append, from the records for each partition."""
    packed: list[NewBatch] = []
    for part, records in parts.items():
        following = len(records)
        for some, size in _cut(records):
            following -= len(some)
            keys = [record.key for record in some]
            stored = [_store(record.value) for record in some]
            packed.append(NewBatch(part, following, stored.count(None), keys, stored, size))
    return packed


def _cut(records: Sequence[Record]) -> Iterator[tuple[Sequence[Record], int]]:
    """The records of each batch, and their bytes."""
    first = size = 0
    for end, record in enumerate(records, 1):
        size += len(record.key) + len(record.value or b"")
        if size >= BATCH_BYTES_MAX or end - first == BATCH_RECORDS_MAX:
            yield records[first:end], size
            first, size = end, 0
    if first < len(records):
        yield records[first:], size


def unpack(batch: StoredBatch, partition: int, position: int) -> list[Entry]:
    """The records of a batch from a position on."""
    first = batch.next - len(batch.keys)
    skipped = max(0, position - first)
    return [
        Entry(partition, at, key, _load(stored), batch.time_ms)
        for at, key, stored in itertools.islice(
            zip(itertools.count(first), batch.keys, batch.stored_values, strict=False),
            skipped,
            None,
        )
        if key is not None
    ]


def _store(value: bytes | None) -> bytes | None:
    """The value as it is stored: compressed if it is long, or would be taken for compressed."""
    if value is None or (len(value) < COMPRESSED_BYTES_MIN and value[:4] != MAGIC):
        return value
    return zstd.compress(value, LEVEL)


def _load(stored: bytes | None) -> bytes | None:
    """The value; if it is damaged or too long, what is stored, which no reader can decode."""
    if stored is None or stored[:4] != MAGIC:
        return stored
    decompressor = zstd.ZstdDecompressor()
    try:
        value = decompressor.decompress(stored, max_length=RECORD_BYTES_MAX + 1)
    except zstd.ZstdError:
        return stored
    return value if decompressor.eof and len(value) <= RECORD_BYTES_MAX else stored


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
