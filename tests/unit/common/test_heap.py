"""Memory that was freed goes back to the system."""

import asyncio
import platform
import subprocess
import sys
from typing import Final

import pytest

from fairlead_common.service import heap

ARRAYS: Final = """
import asyncio
import numpy as np, psutil
from fairlead_common.service import process

async def main():
    own = psutil.Process()
    before = own.memory_info().rss
    between = []
    for _ in range(4):
        arrays = []
        for size in (1 << 20, 1 << 21, 1 << 22):
            arrays += [np.ones(size) for _ in range(4)]
            between += [bytearray(100_000) for _ in range(4)]
        del arrays
    print(own.memory_info().rss - before - sum(map(len, between)))

{run}(main{call})
"""
"""Large arrays come and go between objects that stay."""


async def test_trimming_memory_continues_or_ends_at_once_if_unsupported() -> None:
    task = asyncio.create_task(heap.trim_regularly())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or task.exception() is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_large_arrays_that_were_freed_take_no_memory() -> None:
    assert held_bytes(is_service=False) > 20_000_000
    assert held_bytes(is_service=True) < 5_000_000


def held_bytes(*, is_service: bool) -> int:
    """What a process holds of arrays that it has freed."""
    code = ARRAYS.format(
        run="process.run" if is_service else "asyncio.run", call="" if is_service else "()"
    )
    found = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    return int(found.stdout)
