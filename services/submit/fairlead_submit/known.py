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


class Known:
    """Asks the views that lookout's schema offers."""

    def __init__(self, pool: db.Pool, now_s: Callable[[], float] = clock.monotonic_s) -> None:
        self._pool = pool
        self._now_s = now_s
        self._absent_until_s = 0.0

    async def jobs(self, ids: Sequence[str]) -> dict[str, KnownJob]:
        """What is known of these; the others are not known. Raises `DatabaseUnavailable`."""
        rows = await self._ask("known_jobs", ids) if ids else []
        return {row["job_id"]: KnownJob(row["digest"] or "", row["state"]) for row in rows or ()}

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
        self, statement: str, argument: Sequence[object]
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
