"""Indexes of an array that are marked, as one number for each chunk of indexes. Pure."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeAlias

CHUNK_TASKS: Final = 65_536
"""Indexes of a chunk; migration 0090 of lookout names it too."""

Marks: TypeAlias = Mapping[int, int]
"""By chunk of `CHUNK_TASKS` indexes: a number with a bit for each index, the first one highest."""


def decode(chunks: Mapping[int, bytes]) -> Marks:
    """The marks of chunks as tables store them: a bit for each index."""
    return {chunk: int.from_bytes(bits, "big") for chunk, bits in chunks.items()}


def _find_range(ranges: Sequence[range], index: int) -> int:
    """The place of the last range that begins at this index or before; else of the first one."""
    return max(bisect_right(ranges, index, key=attrgetter("start")) - 1, 0)


def is_marked(marks: Marks, index: int) -> bool:
    """Whether an index is marked."""
    chunk, bit = divmod(index, CHUNK_TASKS)
    return bool(marks.get(chunk, 0) >> (CHUNK_TASKS - 1 - bit) & 1)


def list_marked(marks: Marks, after: int) -> Iterator[int]:
    """The marked indexes above this one, ascending."""
    for chunk, bits in sorted(marks.items()):
        text, start = f"{bits:0{CHUNK_TASKS}b}", chunk * CHUNK_TASKS
        at = text.find("1", max(0, after + 1 - start))
        while at >= 0:
            yield start + at
            at = text.find("1", at + 1)


def list_unmarked(ranges: Sequence[range], marks: Marks, after: int) -> Iterator[int]:
    """Of the indexes in these ranges, those above this one that are not marked, ascending."""
    for chunk, bits in _find_unmarked(ranges, marks, after):
        yield from list_marked({chunk: bits}, after)


def count_unmarked(ranges: Sequence[range], marks: Marks, after: int) -> int:
    """How many there are of these."""
    count = 0
    for chunk, bits in _find_unmarked(ranges, marks, after):
        above = CHUNK_TASKS - max(0, after + 1 - chunk * CHUNK_TASKS)
        count += (bits & (1 << above) - 1).bit_count()
    return count


def _find_unmarked(ranges: Sequence[range], marks: Marks, after: int) -> Iterator[tuple[int, int]]:
    """The unmarked indexes of these ranges as bits of chunks, from the chunk above `after` on."""
    if after >= ranges[-1][-1]:
        return
    for chunk in range((after + 1) // CHUNK_TASKS, ranges[-1][-1] // CHUNK_TASKS + 1):
        start, members = chunk * CHUNK_TASKS, bytearray(b"0" * CHUNK_TASKS)
        for each in ranges[_find_range(ranges, start) :]:
            if each.start >= start + CHUNK_TASKS:
                break
            if each[-1] < start:
                continue
            first = max(each.start, start + (each.start - start) % each.step) - start
            last = min(each[-1] - start, CHUNK_TASKS - 1)
            members[first : last + 1 : each.step] = b"1" * len(range(first, last + 1, each.step))
        yield chunk, int(bytes(members), 2) & ~marks.get(chunk, 0)
