"""Returns freed memory to the system.

Thousands of submissions are allocated and freed between objects that stay. glibc does not return
the freed pages between them: a scheduler that was filled with 300,000 jobs held 345 MB and used
233.

A large array is a mapping of its own, which is returned when it is freed. But after glibc freed a
mapping, it allocates arrays of up to that size (at most 32 MiB) in its heaps, one per thread, and
does not return them: after the first round over a million jobs the scheduler held 929 MB instead of
712.
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

TRIM_EVERY_S: Final = 30.0
MAPPED_BYTES_MIN: Final = 1 << 20
"""Allocations of at least this size are always separate mappings."""
HEAPS_MAX: Final = 2
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
"""As in glibc's malloc.h."""


def limit_heaps() -> None:
    """Make glibc return freed arrays to the system at once. Must be called before threads start.

    Does nothing if the C library is not glibc.
    """
    mallopt: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or _find_trim() is None:
        return
    mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
    mallopt(_M_TRIM_THRESHOLD, 2 * MAPPED_BYTES_MIN)
    mallopt(_M_ARENA_MAX, HEAPS_MAX)


async def trim_regularly() -> None:
    """Return freed memory to the system every `TRIM_EVERY_S`. Ends at once if the C library is not
    glibc."""
    trim = _find_trim()
    while trim is not None:
        await asyncio.sleep(TRIM_EVERY_S)
        await asyncio.to_thread(trim, 0)


def _find_trim() -> Callable[[int], int] | None:
    """`malloc_trim` of glibc; None in other C libraries, which do not need it."""
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
