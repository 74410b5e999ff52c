"""Concurrent calls with the same key share one execution.

When a cached value expires, all concurrent requests need a new one: without this, each of them
would query the database.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """The calls in progress by key."""

    def __init__(self) -> None:
        self._under_way: dict[K, asyncio.Task[V]] = {}

    async def run(self, key: K, call: Callable[[], Coroutine[object, object, V]]) -> V:
        """The result of the call in progress with this key, or of a new call. Raises what it
        raises.

        Cancelling one caller does not cancel the call for the others.
        """
        running = self._under_way.get(key)
        if running is None:
            running = self._under_way[key] = asyncio.create_task(call())
            running.add_done_callback(lambda ended: self._end(key, ended))
        return await asyncio.shield(running)

    def _end(self, key: K, ended: "asyncio.Task[V]") -> None:
        del self._under_way[key]
        if not ended.cancelled():
            ended.exception()  # retrieved, so that asyncio does not log it if no caller waits
