"""Giving way: the fold shares its process with the requests, and lets them through every few ms."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from fairlead_common.service import clock

TURN_S: Final = 0.002
"""A request takes several turns of the loop, and waits for as many of the fold's."""
ITEMS: Final = 100
"""Things made between two looks at the clock: well below a ms."""
A = TypeVar("A")
B = TypeVar("B")


class Turns:
    """The turns of one worker, which asks after every bit of work whether it is over."""

    def __init__(self) -> None:
        self._over_s = 0.0

    async def give_way(self) -> None:
        """Let others work if this turn has lasted long enough."""
        if clock.monotonic_s() >= self._over_s:
            await asyncio.sleep(0)
            self._over_s = clock.monotonic_s() + TURN_S

    async def each(self, make: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """What `make` gives for each of these, in their order."""
        made: list[B] = []
        for first in range(0, len(items), ITEMS):
            made += map(make, items[first : first + ITEMS])
            await self.give_way()
        return made
