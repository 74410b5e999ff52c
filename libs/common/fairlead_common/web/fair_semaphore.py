"""A semaphore whose places are shared fairly between callers.

When a place becomes free, the waiting caller that holds the fewest places is next, and among equals
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
    """`places` in total, at most `per_caller` for one caller, which has at most `waiting_max`
    requests waiting.

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
        """Hold a place for the current caller. Raises a 429 `Problem` if too many of its requests
        are waiting.
        """
        caller = CALLER.get()
        await self._take(caller)
        try:
            yield
        finally:
            self._give_back(caller)

    def waiting(self, caller: str) -> int:
        """The number of waiting requests of this caller."""
        return len(self._waiting.get(caller, ()))

    async def _take(self, caller: str) -> None:
        if self._free and self._held.get(caller, 0) < self._per_caller:
            self._hold(caller)
            return
        if self.waiting(caller) >= self._waiting_max:
            raise Problem(
                "too-many-requests",
                f"{caller} has {self._waiting_max} waiting {self._what}, which is the limit for one"
                f" caller. This server carries out {self._per_caller} of them at a time for each"
                " caller. Wait until some have ended.",
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
    """Counts open streams and long polls: `places` in total, `per_caller` for one caller.

    A request without a place is refused; it does not wait.
    """

    def __init__(self, what: str, setting: str, places: int, per_caller: int) -> None:
        self._what = what
        self._setting = setting
        self._places = places
        self._per_caller = per_caller
        self._held: dict[str, int] = {}

    @property
    def taken(self) -> int:
        """The number of open requests."""
        return sum(self._held.values())

    def check(self) -> None:
        """Raises a 429 `Problem` if the caller has reached its limit, a 503 if all places are
        taken.
        """
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
                "unavailable",
                f"{self._places} {self._what} are open, which is the limit of this server. Try"
                " again later.",
                retry_after_s=5,
            )

    def take(self) -> str:
        """Take a place; returns its caller for `give_back`. Raises what `check` raises."""
        self.check()
        caller = CALLER.get()
        self._held[caller] = self._held.get(caller, 0) + 1
        return caller

    def give_back(self, caller: str) -> None:
        """A request of this caller has ended."""
        if (held := self._held[caller]) > 1:
            self._held[caller] = held - 1
        else:
            del self._held[caller]
