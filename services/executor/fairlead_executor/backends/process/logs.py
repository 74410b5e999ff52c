"""What a run wrote: reading the end of a file, from a byte on, and on as it grows; and its bound.

A command writes to its files itself, so that no process of ours is in its way. A file that became
too large gives its oldest bytes back to the disk while it is written: it gets a hole at its front,
and every byte keeps its place.
"""

import asyncio
import ctypes
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from fairlead_executor.domain.cluster_protocol import LogRequest

PIECE_BYTES: Final = 64 * 1024
POLL_S: Final = 0.2


async def read(
    path: Path, request: LogRequest, has_ended: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The bytes asked for. `has_ended`: whether nobody writes any more.

    The end is asked for before each read, so that nothing written before it is missed.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = _first(file.fileno(), size)
        file.seek(first)
        if request.tail is not None:
            file.seek(await asyncio.to_thread(_start_of_tail, path, request.tail, first, size))
        if request.since_bytes is not None:
            file.seek(max(file.tell(), min(request.since_bytes, size)))
        while True:
            last = not request.follow or has_ended()
            while data := file.read(PIECE_BYTES):
                yield data
            if last:
                return
            await asyncio.sleep(POLL_S)


def _first(descriptor: int, size: int) -> int:
    """Where the bytes begin that are still there."""
    if size == 0 or not hasattr(os, "SEEK_DATA"):
        return 0
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError:  # nothing but a hole, or a file system that knows of none
        return 0


def _start_of_tail(path: Path, lines: int, first: int, size: int) -> int:
    """Where the last `lines` lines begin."""
    if lines == 0:
        return size
    with path.open("rb") as file:
        at, seen = size, 0
        while at > first:
            step = min(PIECE_BYTES, at - first)
            at -= step
            file.seek(at)
            piece = file.read(step)
            end = len(piece) - (1 if at + step == size and piece.endswith(b"\n") else 0)
            while (found := piece.rfind(b"\n", 0, end)) >= 0:
                seen += 1
                if seen == lines:
                    return at + found + 1
                end = found
    return first


_KEEP_SIZE_AND_PUNCH_HOLE: Final = 1 | 2
_BLOCK_BYTES: Final = 4096


def trim(path: Path, bytes_max: int) -> None:
    """Give the oldest bytes of a file that is too large back to the disk. Blocks shortly.

    Where the system cannot do that (not Linux, an odd file system) the file grows.
    """
    if sys.platform != "linux":
        return
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        there = os.fstat(descriptor)
        if there.st_blocks * 512 <= bytes_max:
            return
        hole = (there.st_size - bytes_max // 2) // _BLOCK_BYTES * _BLOCK_BYTES
        ctypes.CDLL(None, use_errno=True).fallocate(
            descriptor, _KEEP_SIZE_AND_PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(hole)
        )
    finally:
        os.close(descriptor)
