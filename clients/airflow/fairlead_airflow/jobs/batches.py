"""Calls that are collected for a short time and made together."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Final, Generic, TypeVar

COLLECT_S: Final = 1.0
"""Airflow starts the triggers of many task instances one after the other."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batch(Generic[Item, Result]):
    """Makes one call of `work` for all items of `COLLECT_S`; its results are in their order.

    A call begins after each of its items was given. Items whose caller was cancelled before that
    are left out.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], Coroutine[object, object, list[Result]]],
        collect_s: float = COLLECT_S,
    ) -> None:
        self._work = work
        self._collect_s = collect_s
        self._given = 0
        self._collected: dict[int, Item] = {}
        self._next: asyncio.Task[dict[int, Result]] | None = None
        """The call for what is being collected; its results are by number, as the items."""
        self._calls: set[asyncio.Task[dict[int, Result]]] = set()

    async def run(self, item: Item) -> Result:
        """The result of this item. Raises what `work` raises."""
        if self._next is None:
            self._collected = {}
            self._next = asyncio.create_task(self._call(self._collected))
            self._calls.add(self._next)
            self._next.add_done_callback(self._calls.discard)
        call, collected = self._next, self._collected
        self._given += 1
        number = self._given
        collected[number] = item
        try:
            return (await asyncio.shield(call))[number]
        finally:
            collected.pop(number, None)

    async def close(self) -> None:
        """Cancel the calls that are being made."""
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _call(self, collected: Mapping[int, Item]) -> dict[int, Result]:
        await asyncio.sleep(self._collect_s)
        self._next = None
        items = dict(collected)
        results = await self._work(list(items.values())) if items else []
        return dict(zip(items, results, strict=True))
