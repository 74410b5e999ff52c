"""Work that goes on while the next is prepared: one piece at a time, each begun after the last."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class Behind:
    """Holds the piece that is under way. Who leaves the `with` block early ends it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.done()
        elif self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin this once what is under way is done; raises what that raises."""
        try:
            await self.done()
        except BaseException:
            work.close()
            raise
        self._task = asyncio.create_task(work)

    async def done(self) -> None:
        """Wait for what is under way; raises what it raises."""
        task, self._task = self._task, None
        if task is not None:
            await task
