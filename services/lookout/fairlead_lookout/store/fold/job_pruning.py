"""Forgetting jobs that ended long ago, a few at a time, between the batches of the fold.

Done by whoever folds their partition, on the same connection, so that counters have one writer.
Ended jobs go with their specs and runs, and are taken out of the counters; a job set without jobs
goes as well, and shapes that no job has. The log's own retention and that of events are other
settings.
"""

from datetime import UTC, date, datetime
from typing import Any, Final

from fairlead_common.db import Connection
from fairlead_common.domain.ids import NUMBER_EPOCH_MS, submission_number
from fairlead_common.service import clock
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.domain.transitions import ENDED, LIVE
from fairlead_lookout.store.fold import table_rows
from fairlead_lookout.store.fold.fold_cache import Cache
from fairlead_lookout.store.fold.fold_store import SQL

DAY_MS: Final = 86_400_000
JOBS_MAX: Final = 1_000
"""Jobs forgotten in one transaction, which takes some tens of ms."""
SHAPES_MAX: Final = 1_000
SETS_MAX: Final = 200
"""Job sets looked into in one turn."""
BUSY_S: Final = 0.5
IDLE_S: Final = 600.0


class Pruner:
    """Goes round and round the job sets that have old jobs."""

    def __init__(self, connection: Connection, cache: Cache, jobs_days: int) -> None:
        self._connection = connection
        self._cache = cache
        self._jobs_days = jobs_days
        self._number = 0
        self._due_s = 0.0

    async def turn(self, held: frozenset[int]) -> int:
        """Forget some jobs, if it is time to; returns how many."""
        now_s = clock.monotonic_s()
        if now_s < self._due_s or not held:
            return 0
        before_ms = clock.now_ms() - self._jobs_days * DAY_MS
        rows = await self._connection.fetch(
            SQL["old_sets"], self._number, sorted(held), before_ms, SETS_MAX
        )
        forgotten = 0
        for row in rows:
            forgotten += await self._forget(
                table_rows.job_set(row), before_ms, JOBS_MAX - forgotten
            )
            if forgotten >= JOBS_MAX:
                break
            self._number = row["number"]
        if len(rows) < SETS_MAX and forgotten < JOBS_MAX:
            self._number = 0
            await self._forget_shapes()
        self._due_s = now_s + (BUSY_S if forgotten or len(rows) == SETS_MAX else IDLE_S)
        return forgotten

    async def _forget_shapes(self) -> None:
        """Forget shapes that no job has used since the last one that had them may be forgotten."""
        kept_ms = clock.now_ms() - (self._jobs_days + 1) * DAY_MS
        before, today = _day(kept_ms), _day(clock.now_ms())
        if not await self._connection.fetchval(SQL["has_old_shapes"], before):
            return
        number = submission_number(max(kept_ms, NUMBER_EPOCH_MS), 0, 0, 0)
        async with self._connection.transaction():
            await self._connection.execute(SQL["keep_shapes"], before, sorted(LIVE), number, today)
            await self._connection.execute(SQL["forget_shapes"], before, SHAPES_MAX)

    async def _forget(self, job_set: JobSet, before_ms: int, most: int) -> int:
        """Forget old jobs of this set, and the set when these were all."""
        number = submission_number(max(before_ms, NUMBER_EPOCH_MS), 0, 0, 0)
        arguments = (job_set.number, sorted(ENDED), number, before_ms, most)
        async with self._connection.transaction():
            old = await self._connection.fetch(SQL["old_jobs"], *arguments)
            if not old:
                return 0
            ids = [row["id"] for row in old]
            for name in ("forget_runs", "forget_specs", "forget_jobs"):
                await self._connection.execute(SQL[name], ids)
            await self._take_out(job_set, old)
        self._cache.forget(job_set.key, ids)
        return len(ids)

    async def _take_out(self, job_set: JobSet, old: list[Any]) -> None:
        """Of the counters, which then say what they would if these had never been."""
        moved: dict[tuple[str, str], int] = {}
        for row in old:
            key = (row["class"], row["state"])
            moved[key] = moved.get(key, 0) - 1
            if row["category"] in job_set.failures:
                job_set.failures[row["category"]] -= 1
        job_set.jobs -= len(old)
        job_set.superseded -= sum(row["superseded_by"] is not None for row in old)
        job_set.failures = {name: jobs for name, jobs in job_set.failures.items() if jobs > 0}
        classes, states = map(list, zip(*moved, strict=True))
        queues = [job_set.key[0]] * len(moved)
        changes = list(moved.values())
        if job_set.jobs:
            change = table_rows.job_set_change(job_set)
            await self._connection.execute(SQL["write_sets"], *([value] for value in change))
            await self._connection.execute(
                SQL["lower_counters"], job_set.number, classes, states, changes
            )
        else:
            await self._connection.execute(SQL["forget_counters"], job_set.number)
            await self._connection.execute(SQL["forget_set"], job_set.number)
        await self._connection.execute(SQL["add_queue_counts"], queues, classes, states, changes)


def _day(time_ms: int) -> date:
    return datetime.fromtimestamp(time_ms / 1000, UTC).date()
