"""A background task: one piece of work runs while the next is prepared, one at a time."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class BackgroundTask:
    """Runs one piece of work at a time. An error in the `with` block cancels it."""

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
            await self.wait()
        elif self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start this work when the previous one is done. Raises the error of the previous one."""
        try:
            await self.wait()
        except BaseException:
            work.close()
            raise
        self._task = asyncio.create_task(work)

    async def wait(self) -> None:
        """Wait for the current work. Raises its error."""
        task, self._task = self._task, None
        if task is not None:
            await task
