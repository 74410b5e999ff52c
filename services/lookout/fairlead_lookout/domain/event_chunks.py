"""Public events in chunks: the lines of one job set and one batch, as they are stored.

A chunk is newline-delimited JSON, compressed if it is long enough. Its id is that of its last
event; it also has the id of the event before its first, so that a reader notices a gap.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

import msgspec

from fairlead_common.domain.records import line_chunks
from fairlead_lookout.domain.model import JobSet, JobSetKey, Line

CHUNK_BYTES_MAX: Final = 256 * 1024


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Consecutive public events of one job set. Ids are (position, item)."""

    key: JobSetKey
    previous: tuple[int, int]
    first: tuple[int, int]
    last: tuple[int, int]
    time_ms: int
    data: bytes


def pack_chunks(
    job_sets: Mapping[JobSetKey, JobSet], lines: dict[JobSetKey, list[Line]]
) -> Iterator[Chunk]:
    """The chunks that contain these lines, which are removed from `lines` and freed. `job_sets`: as
    they were before the lines."""
    for key in list(lines):
        own = lines.pop(key)
        previous = job_sets[key].last
        for part in _divide(own):
            first, last = part[0], part[-1]
            chunk = Chunk(
                key=key,
                previous=previous,
                first=(first.position, first.item),
                last=(last.position, last.item),
                time_ms=last.time_ms,
                data=line_chunks.compress(b"\n".join([line.json for line in part])),
            )
            yield chunk
            previous = chunk.last


def _divide(lines: list[Line]) -> Iterator[list[Line]]:
    """The lines in parts of at most `CHUNK_BYTES_MAX`, or of one line that is longer."""
    ends = list(accumulate([len(line.json) + 1 for line in lines]))
    first = 0
    while first < len(lines):
        begin = ends[first - 1] if first else 0
        after = max(bisect_right(ends, begin + CHUNK_BYTES_MAX + 1), first + 1)
        yield lines[first:after]
        first = after


class _Identified(msgspec.Struct, frozen=True, gc=False):
    id: str


_decode_id: Final = msgspec.json.Decoder(_Identified).decode


def split_after(data: bytes, seen: tuple[int, int]) -> Iterator[tuple[tuple[int, int], bytes]]:
    """The ids and lines of the events of a chunk after `seen`."""
    for line in line_chunks.decompress(data).split(b"\n"):
        _, position, item = _decode_id(line).id.split("-")
        place = (int(position), int(item))
        if place > seen:
            yield place, line
