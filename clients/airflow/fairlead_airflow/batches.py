"""Calls that are collected for a short time and made together."""

import asyncio
from collections.abc import Callable, Coroutine
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
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._task: asyncio.Task[None] | None = None

    async def run(self, item: Item) -> Result:
        """The result of this item. Raises what `work` raises."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Cancel the call that is being made."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(self._collect_s)
            taken = [entry for entry in self._waiting if not entry[1].done()]
            self._waiting.clear()
            if not taken:
                continue
            try:
                results = await self._work([item for item, _ in taken])
            except Exception as error:  # each caller raises it
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), result in zip(taken, results, strict=True):
                    if not future.done():
                        future.set_result(result)
