"""Chunks of lines: newline-delimited JSON as lookout stores it and other services read it.

A chunk is compressed if it is long enough.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from backports import zstd

COMPRESSED_BYTES_MIN: Final = 1024
_LEVEL: Final = 1
_ZSTD: Final = 0x28
_DEFLATED: Final = 0x78
"""The first byte of a zstd frame, and of the deflated chunks that are still stored; a line of JSON
starts with neither."""


def compress(text: bytes) -> bytes:
    """The text, compressed if it is long enough."""
    return zstd.compress(text, _LEVEL) if len(text) >= COMPRESSED_BYTES_MIN else text


def decompress(data: bytes) -> bytes:
    """The lines of a chunk, separated by newlines, without one at the end."""
    if data[0] == _ZSTD:
        return zstd.decompress(data)
    return zlib.decompress(data) if data[0] == _DEFLATED else data


def read_line(data: bytes, number: int) -> bytes:
    """A line of a chunk; the first one is 0. Raises `IndexError`."""
    return decompress(data).split(b"\n")[number]


def read_lines(rows: Sequence[Mapping[str, Any]]) -> list[bytes | None]:
    """The line of each row, of several chunks; each chunk is decompressed once. The columns of a
    row: `chunk`, `chunk_line` (its number) and `lines` (the data of the chunk), which needs to be
    in one row of a chunk only. A line of a chunk without data is `None`."""
    by_chunk: dict[int, list[tuple[int, int]]] = {}
    data: dict[int, bytes] = {}
    for index, row in enumerate(rows):
        chunk, number, some = row["chunk"], row["chunk_line"], row["lines"]
        if chunk is None or number is None:
            continue
        by_chunk.setdefault(chunk, []).append((index, number))
        if some is not None:
            data[chunk] = some
    found: list[bytes | None] = [None] * len(rows)
    for chunk, some in data.items():
        lines = decompress(some).split(b"\n")
        for index, number in by_chunk[chunk]:
            found[index] = lines[number]
    return found
