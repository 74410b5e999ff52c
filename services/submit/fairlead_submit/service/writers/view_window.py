"""Delays requests with many jobs while lookout's view falls behind.

Jobs are accepted ten times as fast as they can be run or shown. Without a limit, a burst of one
user makes the view of everybody as old as the burst is long. So a request with many jobs waits
until the view shows enough of what was accepted before it (`view_pace`). Queues take turns.

It only delays: no request waits longer than `wait_s_max`, and none is refused unless the requests
of its queue that wait already take `bytes_max` of memory. Nothing waits for a view that does not
exist, has stopped or is catching up.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_submit.domain.view_pace import Admission, ViewPace
from fairlead_submit.service import metrics

FEW_JOBS: Final = 100
"""A request with at most this many jobs neither waits nor counts."""
WAIT_S_MAX: Final = 10.0
WAITING_BYTES_MAX: Final = 64 * 2**20
"""Records that wait in memory, of each queue."""
POLL_S: Final = 0.1
RETRY_S: Final = 2

ReadPositions = Callable[[], Awaitable[Mapping[int, int] | None]]
"""Reads the position of each partition that the view folds next; None without a view."""


class ViewWindow:
    """What one process of submit has accepted and the view does not show yet."""

    def __init__(
        self,
        read_positions: ReadPositions,
        lag_s_max: float,
        *,
        bytes_max: int = WAITING_BYTES_MAX,
        wait_s_max: float = WAIT_S_MAX,
    ) -> None:
        self._read_positions = read_positions
        self._pace = ViewPace(lag_s_max)
        self._bytes_max = bytes_max
        self._wait_s_max = wait_s_max
        self._waiting_bytes: Counter[str] = Counter()
        self._turn = asyncio.Lock()
        self._turns_by_queue: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        metrics.UNSEEN_JOBS.set_function(lambda: self._pace.jobs)

    @asynccontextmanager
    async def admit(self, queue: str, jobs: int, size: int) -> AsyncIterator[Admission]:
        """Wait until these jobs may be accepted; the block appends them and sets `positions`.

        `size`: of their records, in bytes. Raises `DatabaseUnavailable`, and a 503 `Problem` if too
        many bytes of this queue wait.
        """
        if jobs <= FEW_JOBS:
            yield Admission(jobs, 0.0)
            return
        if not self._pace.allows(jobs):
            with metrics.VIEW_WAIT_SECONDS.time():
                await self._wait_for_turn(queue, jobs, size)
        admission = self._pace.admit(jobs, clock.monotonic_s())
        try:
            yield admission
        finally:
            if admission.positions is None:
                admission.positions = {}  # nothing was appended that could be shown

    async def _wait_for_turn(self, queue: str, jobs: int, size: int) -> None:
        """Wait for the turn of this request in its queue, of the queue, and then for the view."""
        waiting = self._waiting_bytes
        if waiting[queue] and waiting[queue] + size > self._bytes_max:
            raise Problem(
                "unavailable",
                f"Too many requests of queue {queue!r} wait until their jobs can be shown. Try"
                " again in a moment.",
                retry_after_s=RETRY_S,
            )
        own_turn = self._turns_by_queue.setdefault(queue, asyncio.Lock())
        waiting[queue] += size
        try:
            async with asyncio.timeout(self._wait_s_max), own_turn, self._turn:
                while True:
                    self._pace.look(await self._read_positions(), clock.monotonic_s())
                    if self._pace.allows(jobs):
                        return
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            metrics.VIEW_WAITS_ENDED.inc()
        finally:
            waiting[queue] -= size
            if not waiting[queue]:
                del waiting[queue]
