"""What lookout's view knows of jobs; it may lag, or not exist yet: then nothing is known."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import asyncpg
import msgspec

from fairlead_common import clock, db
from fairlead_common.db.pool import AWAY, DatabaseUnavailable
from fairlead_submit.store import SQL

ABSENT_S: Final = 5.0
"""How long a view that is not there is not asked for again."""

WAIT_S_MAX: Final = 3.0
PAUSE_S: Final = 0.05


class KnownJob(msgspec.Struct, frozen=True):
    """`digest`: of what the client sent when it submitted the job."""

    digest: str
    state: str


class _Turn:
    """Ids that are asked for together, and what came of it."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.found: dict[str, KnownJob] | None = None
        self.trouble: str | None = None


class Known:
    """Asks the views that lookout's schema offers.

    One question at a time: callers that come while one is asked go together into the next, so
    that many small requests cost few queries.
    """

    def __init__(self, pool: db.Pool, now_s: Callable[[], float] = clock.monotonic_s) -> None:
        self._pool = pool
        self._now_s = now_s
        self._absent_until_s = 0.0
        self._turn = _Turn()
        self._asking = asyncio.Lock()

    async def jobs(self, ids: Sequence[str]) -> dict[str, KnownJob]:
        """What is known of these; the others are not known. Raises `DatabaseUnavailable`."""
        if not ids:
            return {}
        turn = self._turn
        turn.ids += ids
        async with self._asking:
            if turn.found is None and turn.trouble is None:
                self._turn = _Turn()
                await self._take(turn)
        if turn.trouble is not None:
            raise DatabaseUnavailable(turn.trouble)
        found = turn.found
        return {job_id: found[job_id] for job_id in ids if job_id in found} if found else {}

    async def _take(self, turn: _Turn) -> None:
        """Ask for all ids of the turn. Whoever is cancelled here leaves it to the next in line."""
        try:
            rows = await self._ask("known_jobs", turn.ids)
        except DatabaseUnavailable as error:
            turn.trouble = str(error)
            return
        turn.found = {
            row["job_id"]: KnownJob(row["digest"] or "", row["state"]) for row in rows or ()
        }

    async def live_jobs(self, queue: str) -> int | None:
        """How many jobs of the queue have not ended, as far as is known; None if nothing is."""
        rows = await self._ask("live_jobs", queue)
        return None if rows is None else sum(row["jobs"] for row in rows)

    async def settled(
        self, ids: Sequence[str], positions: Mapping[int, int]
    ) -> tuple[dict[str, KnownJob], bool]:
        """What is known of these once the view has passed the positions.

        Waits for that only while some are unknown, and at most `WAIT_S_MAX`; the second value
        says whether what is unknown now does not exist before those positions.
        """
        deadline_s = self._now_s() + WAIT_S_MAX
        found: dict[str, KnownJob] = {}
        missing = list(ids)
        while True:
            has_passed = await self._has_passed(positions)
            found |= await self.jobs(missing)
            missing = [job_id for job_id in missing if job_id not in found]
            if not missing or has_passed or has_passed is None:
                return found, bool(has_passed) or not missing
            if self._now_s() >= deadline_s:
                return found, False
            await asyncio.sleep(PAUSE_S)

    async def _has_passed(self, positions: Mapping[int, int]) -> bool | None:
        """None if there is no view."""
        rows = await self._ask("view_progress", list(positions))
        if rows is None:
            return None
        seen = {row["partition"]: row["position"] for row in rows}
        return all(seen.get(partition, 0) >= place for partition, place in positions.items())

    async def _ask(
        self, statement: str, argument: Sequence[object] | str
    ) -> Iterable[asyncpg.Record] | None:
        if self._now_s() < self._absent_until_s:
            return None
        try:
            rows: Iterable[asyncpg.Record] = await self._pool.fetch(SQL[statement], argument)
        except asyncpg.UndefinedTableError:
            self._absent_until_s = self._now_s() + ABSENT_S
            return None
        except AWAY as error:
            raise DatabaseUnavailable(f"Postgres is away: {error}") from error
        return rows
