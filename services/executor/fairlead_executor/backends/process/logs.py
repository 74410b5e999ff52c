"""The output files of a run: reading them from a byte or a line on, following them, and their size.

A command writes to its files directly, without a process of Fairlead in between. The oldest bytes
of a file that exceeds its limit are freed on disk by a hole at its front, so that the offset of
every byte remains the same.
"""

import asyncio
import ctypes
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final

from fairlead_common.domain.records.log_parts import LogPart
from fairlead_executor.domain.run_logs import LogEnd, LogEndRequest, LogRequest, Stream

CHUNK_BYTES: Final = 64 * 1024
POLL_S: Final = 0.2


async def read(
    path: Path, request: LogRequest, has_ended: Callable[[], bool], bytes_max: int
) -> AsyncIterator[bytes]:
    """The requested bytes, among the newest `bytes_max`: a command can extend its file by a hole of
    any size. `has_ended`: whether the run no longer writes.

    A log that is not followed is read to its present size: a command can write faster than this
    reads. `has_ended` is called before each read, so that no byte written before the end is missed.
    """
    with path.open("rb") as file:
        first, size = _extent(file, bytes_max)
        begin = first
        if request.tail is not None:
            begin = await asyncio.to_thread(_start_of_tail, path, request.tail, first, size)
        if request.since_bytes is not None:
            begin = max(begin, min(request.since_bytes, size))
        async for chunk in _read_range(file, begin, size):
            yield chunk
        while request.follow:
            last = has_ended()
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
            if last:
                return
            await asyncio.sleep(POLL_S)


async def read_end(path: Path, request: LogEndRequest, bytes_max: int) -> LogEnd:
    """The requested bytes, among the newest `bytes_max`."""
    with path.open("rb") as file:
        first, size = _extent(file, bytes_max)
    end = size if request.before is None else max(first, min(request.before, size))
    begin = max(first, end - request.bytes_max)
    if request.lines_max is not None:
        begin = await asyncio.to_thread(_start_of_tail, path, request.lines_max, begin, end)
    return LogEnd(LogPart(begin > first, begin, first, size), _read_path(path, begin, end))


def _extent(file: BinaryIO, bytes_max: int) -> tuple[int, int]:
    """The offset of the oldest of the newest `bytes_max` that is not freed, and that of the end."""
    size = os.fstat(file.fileno()).st_size
    return max(_first(file.fileno(), size), size - bytes_max), size


async def _read_path(path: Path, begin: int, end: int) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        async for chunk in _read_range(file, begin, end):
            yield chunk


async def _read_range(file: BinaryIO, begin: int, end: int) -> AsyncIterator[bytes]:
    file.seek(begin)
    while chunk := file.read(min(CHUNK_BYTES, end - begin)):
        begin += len(chunk)
        yield chunk


def _first(descriptor: int, size: int) -> int:
    """The offset of the oldest byte that has not been freed."""
    if size == 0 or not hasattr(os, "SEEK_DATA"):
        return 0
    try:
        return os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError:  # only a hole, or a file system without holes
        return 0


def _start_of_tail(path: Path, lines: int, first: int, size: int) -> int:
    """The offset at which the last `lines` lines begin."""
    if lines == 0:
        return size
    with path.open("rb") as file:
        offset, count = size, 0
        while offset > first:
            step = min(CHUNK_BYTES, offset - first)
            offset -= step
            file.seek(offset)
            chunk = file.read(step)
            end = len(chunk) - (1 if offset + step == size and chunk.endswith(b"\n") else 0)
            while (found := chunk.rfind(b"\n", 0, end)) >= 0:
                count += 1
                if count == lines:
                    return offset + found + 1
                end = found
    return first


_KEEP_SIZE_AND_PUNCH_HOLE: Final = 1 | 2
_BLOCK_BYTES: Final = 4096


def trim_outputs(folders: Iterable[Path], bytes_max: int) -> None:
    """Trim both outputs of each of these runs. Blocks."""
    for folder in folders:
        for stream in Stream:
            trim(folder / stream.value, bytes_max)


def trim(path: Path, bytes_max: int) -> None:
    """Free the oldest bytes of a file that is too large. Blocks for a short time.

    If the system or the file system does not support holes, the file is left to grow.
    """
    if sys.platform != "linux":
        return
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        status = os.fstat(descriptor)
        if status.st_blocks * 512 <= bytes_max:
            return
        hole = (status.st_size - bytes_max // 2) // _BLOCK_BYTES * _BLOCK_BYTES
        ctypes.CDLL(None, use_errno=True).fallocate(
            descriptor, _KEEP_SIZE_AND_PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(hole)
        )
    finally:
        os.close(descriptor)
