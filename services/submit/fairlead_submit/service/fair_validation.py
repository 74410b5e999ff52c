"""Validation of requests without blocking the event loop, shared fairly between callers.

A process validates one large request at a time, and callers take turns: large requests of one
caller delay that caller's own requests, not those of others. Work on many jobs runs in slices of
the event loop. A thread would cost a tenth more processor time, because both threads fight for the
interpreter lock. Only work that cannot be interrupted runs in a thread.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests.decoding import Decoder
from fairlead_common.service import clock
from fairlead_common.web.fair_semaphore import FairSemaphore

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

LARGE_BYTES: Final = 64 * 1024
"""The errors of larger bodies are collected in the thread."""
INLINE_BYTES_MAX: Final = 512 * 1024
"""Valid bodies up to this size are decoded in the event loop: it takes 5 ms. The decoder holds the
interpreter lock, so the event loop would wait for it in a thread, too.
"""
LARGE_JOBS: Final = 500
"""Requests with more jobs wait for their turn."""
SLICE_S: Final = 0.001
"""The event loop continues after each slice."""
WAITING_MAX: Final = 16
"""Maximum number of waiting large requests of one caller; more are refused."""
SWITCH_S: Final = 0.001
"""The interval after which the thread yields to the event loop. With Python's default of 5 ms, a
request would wait a tenth of a second in total."""


class FairValidation:
    """Runs work at once if it is short, else in slices or in the thread."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "validation")
        self._turns = FairSemaphore("large requests", 1, 1, WAITING_MAX)
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))

    async def decode(self, decoder: Decoder[R], body: bytes) -> tuple[R, list[FieldError]]:
        """The result of the decoder for a body. Raises a 400, 413, 422 or 429 `Problem`."""
        if len(body) > INLINE_BYTES_MAX:
            return await self.run(lambda: decoder(body))
        decoder.check_object_count(body)
        request = decoder.decode_valid(body)
        if request is not None:
            return request, []
        if len(body) > LARGE_BYTES:
            return await self.run(lambda: decoder.decode_with_errors(body))
        return decoder.decode_with_errors(body)

    async def run_steps(self, steps: Iterator[None], jobs: int) -> None:
        """Do all steps of work on this number of jobs, in slices of `SLICE_S`. Raises a 429
        `Problem` if too many large requests of the caller are waiting.
        """
        if jobs <= LARGE_JOBS:
            await _run_in_slices(steps)
            return
        async with self._turns.place():
            await _run_in_slices(steps)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of long work, in the thread. Raises a 429 `Problem` if too many requests of
        the caller are waiting.
        """
        async with self._turns.place():
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Accept no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _run_in_slices(steps: Iterator[None]) -> None:
    until_s = clock.monotonic_s() + SLICE_S
    for _ in steps:
        if clock.monotonic_s() > until_s:
            await asyncio.sleep(0)
            until_s = clock.monotonic_s() + SLICE_S
