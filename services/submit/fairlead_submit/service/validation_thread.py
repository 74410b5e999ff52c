"""Validation of large requests in a thread, so that the event loop is not blocked.

A process has one such thread, which callers share fairly: large requests of one caller delay that
caller's own requests, not those of others.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests.decoding import Decoder
from fairlead_common.web.fair_semaphore import FairSemaphore

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

LARGE_BYTES: Final = 64 * 1024
"""Larger bodies are decoded in the thread."""
LARGE_JOBS: Final = 500
"""Requests with more jobs are prepared in the thread: these take 25 ms at most."""
WAITING_MAX: Final = 16
"""Maximum number of waiting large requests of one caller; more are refused."""
SWITCH_S: Final = 0.001
"""The interval after which the thread yields to the event loop. With Python's default of 5 ms, a
request would wait a tenth of a second in total."""


class ValidationThread:
    """Runs work in the thread, or at once if it is short."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "validation")
        self._shares = FairSemaphore("large requests", 1, 1, WAITING_MAX)
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))

    async def decode(self, decoder: Decoder[R], body: bytes) -> tuple[R, list[FieldError]]:
        """The result of the decoder for a body. Raises a 400, 413, 422 or 429 `Problem`."""
        if len(body) <= LARGE_BYTES:
            return decoder(body)
        return await self.run(lambda: decoder(body))

    def is_large(self, jobs: Sequence[object] | None) -> bool:
        """Whether these jobs are prepared in the thread."""
        return jobs is not None and len(jobs) > LARGE_JOBS

    async def run(self, work: Callable[[], T]) -> T:
        """The result of long work, in the thread. Raises a 429 `Problem` if too many requests of
        the caller are waiting.
        """
        async with self._shares.place():
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Accept no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)
