"""Returns freed memory to the system.

Submissions come and go by the thousand between objects that stay. glibc keeps the pages in between
for itself: a scheduler that was filled with 300,000 jobs held 345 MB and used 233 MB.

A large array is a mapping of its own, given back when it is freed. But whenever glibc frees one, it
takes arrays of up to that size (32 MiB at most) from its heaps from then on, one heap per thread,
and keeps them: after the first round over a million jobs the scheduler held 929 MB instead of 712.
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 30.0
MAPPED_BYTES_MIN: Final = 1 << 20
"""Allocations of at least this size are always separate mappings."""
HEAPS_MAX: Final = 2
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""As in glibc's malloc.h."""


def limit_heaps() -> None:
    """Let freed arrays go back to the system at once. To be called before threads are started.

    Does nothing where the C library is not glibc.
    """
    mallopt: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or _find_trim() is None:
        return
    mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
    mallopt(_M_TRIM_THRESHOLD, 2 * MAPPED_BYTES_MIN)
    mallopt(_M_ARENA_MAX, HEAPS_MAX)


async def trim_regularly() -> None:
    """Return only where the C library has no way to do that."""
    trim = _find_trim()
    while trim is not None:
        await asyncio.sleep(EVERY_S)
        await asyncio.to_thread(trim, 0)


def _find_trim() -> Callable[[int], int] | None:
    """`malloc_trim` of glibc; others have none, and need none."""
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
