"""Lookout's part of `fairlead repair`: the jobs and groups in its view, and folding to the end of
the log.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

from fairlead_common.db import Pool
from fairlead_common.domain.ids import GroupId, JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.repair_events import KnownGroup
from fairlead_common.log import EventLog
from fairlead_common.log import coverage as log_coverage
from fairlead_common.log.coverage import Gap
from fairlead_common.log.topics import JOBS
from fairlead_lookout.service.fold_loop import FoldLoop
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store import view_coverage, viewed_groups, viewed_jobs
from fairlead_lookout.store.event_streams import StreamWriter
from fairlead_lookout.store.view_progress import ViewProgress
from fairlead_lookout.store.view_schema import migrate_schema
from fairlead_lookout.store.viewed_jobs import ViewedJob

POLL_S: Final = 0.05
PAGE: Final = 10_000


class Recovery:
    """Lookout's view during a repair."""

    def __init__(self, log: EventLog, pool: Pool, settings: Settings) -> None:
        self.gap: Gap | None = None
        """Why the log cannot continue the view."""
        self.unrepaired: Gap | None = None
        """What the view lacks since before."""
        self._log = log
        self._pool = pool
        self._settings = settings

    @classmethod
    async def load(cls, log: EventLog, pool: Pool, settings: Settings) -> "Recovery":
        """Bring the schema up to date and find what the view lacks."""
        await migrate_schema(pool)
        recovery = cls(log, pool, settings)
        recovery.gap = await view_coverage.find_gap(pool, log)
        state = await log_coverage.read_log_state(log, JOBS)
        recovery.unrepaired = await view_coverage.find_unrepaired(pool, state)
        return recovery

    def is_complete(self, partition: int) -> bool:
        """Whether the view has folded, or can fold, all events of this partition."""
        gaps = (self.gap, self.unrepaired)
        return all(gap is None or partition not in gap.missing for gap in gaps)

    async def positions(self) -> dict[int, int]:
        """The positions that the view reads next."""
        saved = await view_coverage.read_progress(self._pool)
        return {} if saved is None else saved[1]

    async def relocate(self) -> None:
        """Move the view to where the log can continue it; the gap stays recorded until `settle`."""
        if self.gap is not None:
            await view_coverage.relocate(self._pool, self._log, self.gap)

    async def fold(self, end: Mapping[int, int]) -> None:
        """Fold at least to these positions, while other processes of lookout run.

        Raises the error that ends the fold.
        """
        progress = ViewProgress(self._pool)
        streams = StreamWriter(self._settings.redis_url)
        folder = FoldLoop(self._log, streams, progress, self._settings)
        folding = asyncio.create_task(folder.run())
        try:
            while not folding.done():
                known = await self.positions()
                wanted = {n: at for n, at in end.items() if n not in folder.stopped}
                if all(known.get(number, 0) >= position for number, position in wanted.items()):
                    return
                if folder.unusable is not None:
                    raise folder.unusable
                await asyncio.sleep(POLL_S)
            folding.result()
        finally:
            folding.cancel()
            await asyncio.gather(folding, return_exceptions=True)
            await streams.close()

    async def live_jobs(self) -> AsyncIterator[list[JobId]]:
        """The ids of all live jobs of the view, a page at a time."""
        last = ""
        while ids := await viewed_jobs.list_live_ids(self._pool, last, PAGE):
            yield ids
            last = ids[-1]

    async def find(self, ids: Iterable[JobId]) -> dict[JobId, ViewedJob]:
        """These jobs in the view. Jobs that it does not have are left out."""
        return await viewed_jobs.find_jobs(self._pool, ids)

    async def find_known(self, ids: Iterable[JobId]) -> set[JobId]:
        """Which of these ids are jobs, groups or arrays of the view."""
        return await viewed_jobs.find_known(self._pool, ids)

    async def live_groups(self) -> AsyncIterator[list[GroupId]]:
        """The ids of all groups of the view that have not ended, a page at a time."""
        last = ""
        while ids := await viewed_groups.list_live_ids(self._pool, last, PAGE):
            yield ids
            last = ids[-1]

    async def find_groups(self, ids: Iterable[GroupId]) -> dict[GroupId, KnownGroup]:
        """These groups in the view. Groups that it does not have are left out."""
        return await viewed_groups.find_groups(self._pool, ids)

    async def find_members(self, ids: Iterable[GroupId]) -> dict[GroupId, list[JobId]]:
        """The members of the present generation of these groups, live or ended."""
        return await viewed_groups.find_members(self._pool, ids)

    async def find_array_results(self, ids: Iterable[JobId]) -> dict[JobId, JobState]:
        """The results of these arrays, as far as the view has one."""
        return await viewed_jobs.find_array_results(self._pool, ids)

    async def settle(self) -> None:
        """The repair is complete: the view has no warning any more."""
        await view_coverage.close_gaps(self._pool)
