"""How far the view is, for those who wait: long polls, `?after=`, event streams.

Positions come from this process's own folder at once, and from the table for partitions that
another process folds; that table is only looked at while somebody waits.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from fairlead_common.db.connection_pool import DatabaseUnavailable, Pool, translate_errors
from fairlead_common.domain import position_tokens as tokens
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_common.service import clock
from fairlead_lookout.store.fold.fold_store import SQL

POLL_S: Final = 0.2


class Progress:
    """Positions to read next of the view's partitions, as far as this process knows."""

    def __init__(self, pool: Pool) -> None:
        self.positions: dict[int, int] = {}
        self._pool = pool
        self.own: frozenset[int] = frozenset()
        self._moved = asyncio.Event()
        self._waiting = 0
        self._anybody = asyncio.Event()

    def owns(self, partitions: frozenset[int]) -> None:
        """This process folds these partitions and will say so when they move."""
        self.own = partitions

    def begin(self, positions: Mapping[int, int]) -> None:
        """The fold of these partitions begins there, which is before what was known of them if the
        database crashed and lost its last commits."""
        self.positions = {**self.positions, **positions}

    def advance(self, positions: Mapping[int, int]) -> None:
        """The view is now there; whoever waits is woken. What was read a while ago moves nothing
        back."""
        after = tokens.merge(self.positions, positions)
        if after != self.positions:
            self.positions = after
            self._moved.set()
            self._moved = asyncio.Event()

    async def reached(self, target: Mapping[int, int], wait_s: float) -> bool:
        """Whether the view has passed `target`, after at most `wait_s` of waiting."""
        deadline = clock.monotonic_s() + wait_s
        await self.refresh()
        while not self._passed(target):
            left_s = deadline - clock.monotonic_s()
            if left_s <= 0:
                return False
            await self.moved(left_s)
        return True

    async def moved(self, wait_s: float) -> bool:
        """Wait for the view to move; False after `wait_s` without."""
        self._waiting += 1
        self._anybody.set()
        try:
            async with asyncio.timeout(wait_s):
                await self._moved.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._anybody.clear()
        return True

    async def beyond(
        self, seen: Mapping[int, int], wait_s: float, partition: int | None = None
    ) -> None:
        """Wait until `positions` differ from `seen` (in that partition), or for `wait_s`."""
        deadline = clock.monotonic_s() + wait_s
        while self.positions is seen or (
            partition is not None and self.positions.get(partition) == seen.get(partition)
        ):
            left_s = deadline - clock.monotonic_s()
            if left_s <= 0 or not await self.moved(left_s):
                return

    async def refresh(self) -> None:
        """Read the positions now. Raises `DatabaseUnavailable`."""
        with translate_errors():
            rows = await self._pool.fetch(SQL["positions"])
        self.advance(dict(tuple(row) for row in rows))

    async def watch(self) -> None:
        """Look at the table while somebody waits for what this process does not fold."""
        while True:
            await self._anybody.wait()
            if len(self.own) < JOB_PARTITIONS:
                with contextlib.suppress(DatabaseUnavailable):
                    await self.refresh()
            await asyncio.sleep(POLL_S)

    def _passed(self, target: Mapping[int, int]) -> bool:
        return all(self.positions.get(number, 0) >= at for number, at in target.items())
