"""Reading what a run wrote: the end of a file, from a byte on, and on as it grows."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from fairlead_executor.backends.cluster import LogRequest

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
        if request.tail is not None:
            file.seek(await asyncio.to_thread(_start_of_tail, path, request.tail, size))
        if request.since_bytes is not None:
            file.seek(max(file.tell(), min(request.since_bytes, size)))
        while True:
            last = not request.follow or has_ended()
            while data := file.read(PIECE_BYTES):
                yield data
            if last:
                return
            await asyncio.sleep(POLL_S)


def _start_of_tail(path: Path, lines: int, size: int) -> int:
    """Where the last `lines` lines begin."""
    if lines == 0:
        return size
    with path.open("rb") as file:
        at, seen = size, 0
        while at > 0:
            step = min(PIECE_BYTES, at)
            at -= step
            file.seek(at)
            piece = file.read(step)
            end = len(piece) - (1 if at + step == size and piece.endswith(b"\n") else 0)
            while (found := piece.rfind(b"\n", 0, end)) >= 0:
                seen += 1
                if seen == lines:
                    return at + found + 1
                end = found
    return 0
