"""Shares of something scarce: places that callers are given in turn, each at most some of them.

Whoever waits is served by caller: the one that holds the fewest places comes next, and among equals
the one that was served the longest ago. So a caller with a hundred requests waits for its own, and
another with one request waits for at most one place to become free.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from fairlead_common.domain.problems import Problem

CALLER: Final[ContextVar[str]] = ContextVar("caller", default="")
"""The name of the caller whose request is answered; "" for work of the server itself."""


class FairSemaphore:
    """`places` in all, at most `per_caller` of them for one, of whom at most `waiting_max` wait.

    `what` names the work in messages, in the plural.
    """

    def __init__(self, what: str, places: int, per_caller: int, waiting_max: int) -> None:
        self._what = what
        self._free = places
        self._per_caller = min(per_caller, places)
        self._waiting_max = waiting_max
        self._held: dict[str, int] = {}
        # In the order in which callers were served last.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place, of the current caller's share. Raises a 429 `Problem` when too many of its
        requests wait already.
        """
        caller = CALLER.get()
        await self._take(caller)
        try:
            yield
        finally:
            self._give_back(caller)

    def waiting(self, caller: str) -> int:
        """How many requests of this caller wait."""
        return len(self._waiting.get(caller, ()))

    async def _take(self, caller: str) -> None:
        if self._free and self._held.get(caller, 0) < self._per_caller:
            self._hold(caller)
            return
        if self.waiting(caller) >= self._waiting_max:
            raise Problem(
                "too-many-requests",
                f"{self._waiting_max} {self._what} of {caller} wait already. This server carries"
                f" out {self._per_caller} of one caller at a time; let some of them end first.",
                retry_after_s=1,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(caller)
            else:
                self._forget(caller, turn)
            raise

    def _hold(self, caller: str) -> None:
        self._free -= 1
        self._held[caller] = self._held.get(caller, 0) + 1

    def _give_back(self, caller: str) -> None:
        self._free += 1
        if (held := self._held[caller]) > 1:
            self._held[caller] = held - 1
        else:
            del self._held[caller]
        if caller in self._waiting:  # last in line now
            self._waiting[caller] = self._waiting.pop(caller)
        self._serve()

    def _serve(self) -> None:
        while self._free:
            able = [each for each in self._waiting if self._held.get(each, 0) < self._per_caller]
            if not able:
                return
            caller = min(able, key=lambda each: self._held.get(each, 0))
            turns = self._waiting.pop(caller)
            turn = turns.popleft()
            if turns:
                self._waiting[caller] = turns
            self._hold(caller)
            turn.set_result(None)

    def _forget(self, caller: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting[caller]
        turns.remove(turn)
        if not turns:
            del self._waiting[caller]


class OpenRequestLimit:
    """Counts what stays open (streams, long polls): `places` in all, `per_caller` for one caller.

    Nobody waits: whoever finds no place is refused.
    """

    def __init__(self, what: str, setting: str, places: int, per_caller: int) -> None:
        self._what = what
        self._setting = setting
        self._places = places
        self._per_caller = per_caller
        self._held: dict[str, int] = {}

    @property
    def taken(self) -> int:
        """How many are open."""
        return sum(self._held.values())

    def check(self) -> None:
        """Raises a 429 `Problem` when the caller has its share, a 503 when all are taken."""
        caller = CALLER.get()
        if self._held.get(caller, 0) >= self._per_caller:
            raise Problem(
                "too-many-requests",
                f"{caller} has {self._per_caller} {self._what} open, which is the limit for one"
                f" caller (setting `{self._setting}`). Close some of them.",
                retry_after_s=5,
            )
        if self.taken >= self._places:
            raise Problem(
                "unavailable", f"{self._places} {self._what} are open already.", retry_after_s=5
            )

    def take(self) -> str:
        """Take a place; returns whose it is, for `give_back`. Raises as `check` does."""
        self.check()
        caller = CALLER.get()
        self._held[caller] = self._held.get(caller, 0) + 1
        return caller

    def give_back(self, caller: str) -> None:
        """One of this caller's has ended."""
        if (held := self._held[caller]) > 1:
            self._held[caller] = held - 1
        else:
            del self._held[caller]
