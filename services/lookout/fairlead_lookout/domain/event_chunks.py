"""Public events in chunks: the lines of one job set and one batch, as they are stored.

A chunk is newline-delimited JSON, deflated if it is long enough. Its id is that of its last event;
it also has the id of the event before its first, so that a reader notices a gap.
"""

import zlib
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from fairlead_lookout.domain.model import JobSet, JobSetKey, Line

CHUNK_BYTES_MAX: Final = 256 * 1024
DEFLATE_BYTES_MIN: Final = 1024
_DEFLATED: Final = 0x78
"""The first byte of deflated data; a line of JSON never starts with it."""


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
                data=deflate(b"\n".join([line.json for line in part])),
            )
            yield chunk
            previous = chunk.last


def _divide(lines: list[Line]) -> Iterator[list[Line]]:
    if lines and sum([len(line.json) for line in lines]) + len(lines) <= CHUNK_BYTES_MAX:
        yield lines
        return
    part: list[Line] = []
    size = 0
    for line in lines:
        if part and size + len(line.json) > CHUNK_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line.json) + 1
    if part:
        yield part


def deflate(text: bytes) -> bytes:
    """The text, deflated if it is long enough."""
    return zlib.compress(text, 1) if len(text) >= DEFLATE_BYTES_MIN else text


def inflate(data: bytes) -> bytes:
    """The lines of a chunk, separated by newlines, without one at the end."""
    return zlib.decompress(data) if data[0] == _DEFLATED else data


class _Identified(msgspec.Struct, frozen=True, gc=False):
    id: str


_decode_id: Final = msgspec.json.Decoder(_Identified).decode


def split_after(data: bytes, seen: tuple[int, int]) -> Iterator[tuple[tuple[int, int], bytes]]:
    """The ids and lines of the events of a chunk after `seen`."""
    for line in inflate(data).split(b"\n"):
        _, position, item = _decode_id(line).id.split("-")
        place = (int(position), int(item))
        if place > seen:
            yield place, line
