"""A call that many ask at the same time is asked once.

When an answer that was kept for a while runs out, all requests that are under way want it anew:
without this each of them would ask the database.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Questions by key, and who waits for their answers."""

    def __init__(self) -> None:
        self._under_way: dict[K, asyncio.Task[V]] = {}

    async def run(self, key: K, call: Callable[[], Coroutine[object, object, V]]) -> V:
        """The answer, perhaps to whoever asked before. Raises what the call raises.

        Whoever is cancelled meanwhile takes it from nobody else.
        """
        asked = self._under_way.get(key)
        if asked is None:
            asked = self._under_way[key] = asyncio.create_task(call())
            asked.add_done_callback(lambda ended: self._end(key, ended))
        return await asyncio.shield(asked)

    def _end(self, key: K, ended: "asyncio.Task[V]") -> None:
        del self._under_way[key]
        if not ended.cancelled():
            ended.exception()  # told to all who wait; perhaps nobody does any more
