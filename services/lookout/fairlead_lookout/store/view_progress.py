"""The positions of the view, for long polls, `?after=`, event streams and live pages.

Positions come directly from the fold of this process, and from the table for partitions that
another process folds; the table is only read while a request waits.
"""

import asyncio
import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from fairlead_common.db.connection_pool import DatabaseUnavailable, Pool, translate_errors
from fairlead_common.domain import ids, position_tokens
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_common.service import clock
from fairlead_lookout.domain.model import JobSetKey
from fairlead_lookout.store.view_schema import FOLD

POLL_S: Final = 0.2


class ChangeWatch:
    """Notices changes of one job set, or of anything in the view if `job_set` is not given."""

    def __init__(self, job_set: JobSetKey | None) -> None:
        self._job_set = job_set
        self._partition = None if job_set is None else ids.job_set_partition(*job_set)
        self._changed = asyncio.Event()

    def forget(self) -> None:
        """The reader is about to read: earlier changes no longer count."""
        self._changed.clear()

    def notice(self, partitions: Collection[int], job_sets: Collection[JobSetKey] | None) -> None:
        """These partitions have moved. `job_sets`: what has changed; None if that is not known."""
        if self._job_set is None or job_sets is None:
            changed = bool(partitions) if self._partition is None else self._partition in partitions
        else:
            changed = self._job_set in job_sets
        if changed:
            self._changed.set()

    def notice_any(self) -> None:
        """Something has changed that every reader can show."""
        self._changed.set()

    @property
    def has_changed(self) -> bool:
        """Whether there was a change since the last `forget`."""
        return self._changed.is_set()

    async def wait(self) -> None:
        """Wait for a change since the last `forget`."""
        await self._changed.wait()


class ViewProgress:
    """The positions that the view reads next, as far as this process knows."""

    def __init__(self, pool: Pool) -> None:
        self.positions: dict[int, int] = {}
        self._pool = pool
        self.own_partitions: frozenset[int] = frozenset()
        self._moved = asyncio.Event()
        self._watches: set[ChangeWatch] = set()
        self._waiting = 0
        self._has_waiters = asyncio.Event()

    def set_own_partitions(self, partitions: frozenset[int]) -> None:
        """This process folds these partitions and reports their positions."""
        self.own_partitions = partitions

    def reset(self, positions: Mapping[int, int]) -> None:
        """The fold of these partitions starts here. That can be before the known positions, if the
        database crashed and lost its last commits."""
        self.positions = {**self.positions, **positions}

    def advance(
        self, positions: Mapping[int, int], job_sets: Collection[JobSetKey] | None = None
    ) -> None:
        """The view has reached these positions; wake waiters. Older positions change nothing.

        `job_sets`: those that have changed; None if that is not known.
        """
        before, after = self.positions, position_tokens.merge(self.positions, positions)
        moved = {number for number, at in after.items() if before.get(number) != at}
        if moved:
            self.positions = after
            self._moved.set()
            self._moved = asyncio.Event()
        for watch in self._watches:
            watch.notice(moved, job_sets)

    def notice_configuration(self) -> None:
        """A queue or a cordon has changed, which every page can show."""
        for watch in self._watches:
            watch.notice_any()

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
        with self._count_waiter():
            try:
                async with asyncio.timeout(wait_s):
                    await self._moved.wait()
            except TimeoutError:
                return False
        return True

    @contextlib.contextmanager
    def watch(self, job_set: JobSetKey | None) -> Iterator[ChangeWatch]:
        """Notice changes of a job set, or (None) of anything, while the block runs."""
        watch = ChangeWatch(job_set)
        self._watches.add(watch)
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    async def wait_for_change(self, seen: Mapping[int, int], wait_s: float) -> None:
        """Wait until `positions` differ from `seen`, for at most `wait_s`."""
        if self.positions is seen:
            await self.wait_for_move(wait_s)

    async def wait_for_watch(self, watch: ChangeWatch, wait_s: float) -> None:
        """Wait until the watch has noticed a change, for at most `wait_s`."""
        with self._count_waiter(), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await watch.wait()

    @contextlib.contextmanager
    def _count_waiter(self) -> Iterator[None]:
        self._waiting += 1
        self._has_waiters.set()
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._has_waiters.clear()

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
