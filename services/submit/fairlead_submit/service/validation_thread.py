"""Checks large requests in a thread of its own, so that the event loop goes on answering others.

There is one such thread in a process, and callers take turns in it: a caller who sends large faulty
requests one after the other delays its own, not those of others.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.web.fair_semaphore import FairSemaphore
from fairlead_submit.domain.decoding import Decoder

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

LARGE_BYTES: Final = 64 * 1024
"""A body that is larger than this is decoded in the thread."""
LARGE_JOBS: Final = 500
"""Jobs of a request that are prepared in the event loop: 25 ms at most."""
WAITING_MAX: Final = 16
"""Large requests of one caller that wait; more are refused."""
SWITCH_S: Final = 0.001
"""After this the thread lets the event loop go on; Python's default of 5 ms, spent at each of the
waits of a request, would be a tenth of a second."""


class Validator:
    """Runs work in the thread, or at once where that is so little that it delays nobody."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "validation")
        self._shares = FairSemaphore("large requests", 1, 1, WAITING_MAX)
        sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))

    async def decode(self, decoder: Decoder[R], body: bytes) -> tuple[R, list[FieldError]]:
        """What the decoder makes of a body. Raises a 400, 413, 422 or 429 `Problem`."""
        if len(body) <= LARGE_BYTES:
            return decoder(body)
        return await self.run(lambda: decoder(body))

    def is_large(self, jobs: Sequence[object] | None) -> bool:
        """Whether these jobs are prepared in the thread."""
        return jobs is not None and len(jobs) > LARGE_JOBS

    async def run(self, work: Callable[[], T]) -> T:
        """The result of work that takes long, in the thread. Raises a 429 `Problem` when too much
        of the same caller's waits already.
        """
        async with self._shares.place():
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)
