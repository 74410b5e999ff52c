"""Time slices: the fold runs in the process that serves requests, and yields every few ms."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from fairlead_common.service import clock

SLICE_S: Final = 0.002
"""A request needs several turns of the event loop, and waits for a slice of the fold at each."""
ITEMS_PER_CHECK: Final = 100
"""Items between two checks of the clock: well below a ms."""
A = TypeVar("A")
B = TypeVar("B")


class TimeSlice:
    """The time slice of one worker, which checks often whether it is over."""

    def __init__(self) -> None:
        self._end_s = 0.0

    async def yield_if_over(self) -> None:
        """Let other tasks run if the slice is over."""
        if clock.monotonic_s() >= self._end_s:
            await asyncio.sleep(0)
            self._end_s = clock.monotonic_s() + SLICE_S

    async def map_all(self, make: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """`make` applied to all items, in their order."""
        made: list[B] = []
        for first in range(0, len(items), ITEMS_PER_CHECK):
            made += map(make, items[first : first + ITEMS_PER_CHECK])
            await self.yield_if_over()
        return made
