"""Chunks of lines: newline-delimited JSON as lookout stores it and other services read it.

A chunk is compressed if it is long enough.
"""

import zlib
from collections.abc import Sequence
from typing import Final

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


def read_lines(wanted: Sequence[tuple[int | None, int | None, bytes | None]]) -> list[bytes | None]:
    """The lines of several chunks, in the order in which they are wanted; each chunk is
    decompressed once. `wanted`: (chunk, number of the line, data of the chunk). The data needs to
    be with one line of a chunk only. A line has no result (None) if its chunk has no data."""
    by_chunk: dict[int, list[tuple[int, int]]] = {}
    data: dict[int, bytes] = {}
    for index, (chunk, number, some) in enumerate(wanted):
        if chunk is None or number is None:
            continue
        by_chunk.setdefault(chunk, []).append((index, number))
        if some is not None:
            data[chunk] = some
    found: list[bytes | None] = [None] * len(wanted)
    for chunk, some in data.items():
        lines = decompress(some).split(b"\n")
        for index, number in by_chunk[chunk]:
            found[index] = lines[number]
    return found
