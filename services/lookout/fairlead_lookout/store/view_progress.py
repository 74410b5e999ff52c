"""The positions of the view, for long polls, `?after=` and event streams.

Positions come directly from the fold of this process, and from the table for partitions that
another process folds; the table is only read while a request waits.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from fairlead_common.db.connection_pool import DatabaseUnavailable, Pool, translate_errors
from fairlead_common.domain import position_tokens
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_common.service import clock
from fairlead_lookout.store.view_schema import FOLD

POLL_S: Final = 0.2


class ViewProgress:
    """The positions that the view reads next, as far as this process knows."""

    def __init__(self, pool: Pool) -> None:
        self.positions: dict[int, int] = {}
        self._pool = pool
        self.own_partitions: frozenset[int] = frozenset()
        self._moved = asyncio.Event()
        self._waiting = 0
        self._has_waiters = asyncio.Event()

    def set_own_partitions(self, partitions: frozenset[int]) -> None:
        """This process folds these partitions and reports their positions."""
        self.own_partitions = partitions

    def reset(self, positions: Mapping[int, int]) -> None:
        """The fold of these partitions starts here. That can be before the known positions, if the
        database crashed and lost its last commits."""
        self.positions = {**self.positions, **positions}

    def advance(self, positions: Mapping[int, int]) -> None:
        """The view has reached these positions; wake waiters. Older positions change nothing."""
        after = position_tokens.merge(self.positions, positions)
        if after != self.positions:
            self.positions = after
            self._moved.set()
            self._moved = asyncio.Event()

    async def wait_for(self, target: Mapping[int, int], wait_s: float) -> bool:
        """Wait for the view to reach `target`; False if it has not after `wait_s`."""
        deadline = clock.monotonic_s() + wait_s
        await self.refresh()
        while not self._has_reached(target):
            left_s = deadline - clock.monotonic_s()
            if left_s <= 0:
                return False
            await self.wait_for_move(left_s)
        return True

    async def wait_for_move(self, wait_s: float) -> bool:
        """Wait for the view to move; False if it has not after `wait_s`."""
        self._waiting += 1
        self._has_waiters.set()
        try:
            async with asyncio.timeout(wait_s):
                await self._moved.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._has_waiters.clear()
        return True

    async def wait_for_change(
        self, seen: Mapping[int, int], wait_s: float, partition: int | None = None
    ) -> None:
        """Wait until `positions` differ from `seen` (in that partition), for at most `wait_s`."""
        deadline = clock.monotonic_s() + wait_s
        while self.positions is seen or (
            partition is not None and self.positions.get(partition) == seen.get(partition)
        ):
            left_s = deadline - clock.monotonic_s()
            if left_s <= 0 or not await self.wait_for_move(left_s):
                return

    async def refresh(self) -> None:
        """Read the positions now. Raises `DatabaseUnavailable`."""
        with translate_errors():
            rows = await self._pool.fetch(FOLD["positions"])
        self.advance(dict(tuple(row) for row in rows))

    async def poll(self) -> None:
        """For ever, read the table while requests wait and other processes fold partitions."""
        while True:
            await self._has_waiters.wait()
            if len(self.own_partitions) < JOB_PARTITIONS:
                with contextlib.suppress(DatabaseUnavailable):
                    await self.refresh()
            await asyncio.sleep(POLL_S)

    def _has_reached(self, target: Mapping[int, int]) -> bool:
        return all(self.positions.get(number, 0) >= at for number, at in target.items())
