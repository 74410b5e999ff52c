"""Deletes jobs that ended long ago, a few at a time, between the batches of the fold.

The process that folds a partition does this on the same connection, so that counters have one
writer. Ended jobs are deleted with their specs and runs and subtracted from the counters, then job
sets without jobs and shapes that no job has. The retention of the log and of events are other
settings.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

from fairlead_common.db import Connection
from fairlead_common.domain.ids import NUMBER_EPOCH_MS, submission_number
from fairlead_common.service import clock
from fairlead_lookout.domain.array_fold import CANCELLED
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.domain.transitions import ENDED, LIVE
from fairlead_lookout.store import table_rows
from fairlead_lookout.store.fold.fold_cache import FoldCache
from fairlead_lookout.store.view_schema import FOLD

DAY_MS: Final = 86_400_000
JOBS_MAX: Final = 1_000
"""Jobs deleted in one transaction, which takes some tens of ms."""
SHAPES_MAX: Final = 1_000
JOB_SETS_MAX: Final = 200
"""Job sets examined in one call."""
BUSY_S: Final = 0.5
IDLE_S: Final = 600.0


class JobPruner:
    """Visits the job sets that have old jobs, again and again."""

    def __init__(self, connection: Connection, cache: FoldCache, jobs_days: int) -> None:
        self._connection = connection
        self._cache = cache
        self._jobs_days = jobs_days
        self._number = 0
        self._due_s = 0.0

    async def prune_some(self, held: frozenset[int]) -> int:
        """Delete some jobs, if it is time to; returns how many."""
        now_s = clock.monotonic_s()
        if now_s < self._due_s or not held:
            return 0
        before_ms = clock.now_ms() - self._jobs_days * DAY_MS
        rows = await self._connection.fetch(
            FOLD["old_sets"], self._number, sorted(held), before_ms, JOB_SETS_MAX
        )
        deleted = 0
        for row in rows:
            deleted += await self._delete_jobs(
                table_rows.decode_job_set(row), before_ms, JOBS_MAX - deleted
            )
            if deleted >= JOBS_MAX:
                break
            self._number = row["number"]
        if len(rows) < JOB_SETS_MAX and deleted < JOBS_MAX:
            self._number = 0
            await self._delete_shapes()
        self._due_s = now_s + (BUSY_S if deleted or len(rows) == JOB_SETS_MAX else IDLE_S)
        return deleted

    async def _delete_shapes(self) -> None:
        """Delete shapes that no job has used since the last job with them could be deleted."""
        oldest_ms = clock.now_ms() - (self._jobs_days + 1) * DAY_MS
        before, today = _date_of(oldest_ms), _date_of(clock.now_ms())
        if not await self._connection.fetchval(FOLD["has_old_shapes"], before):
            return
        number = submission_number(max(oldest_ms, NUMBER_EPOCH_MS), 0, 0, 0)
        async with self._connection.transaction():
            await self._connection.execute(
                FOLD["touch_live_shapes"], before, sorted(LIVE), number, today
            )
            await self._connection.execute(FOLD["delete_shapes"], before, SHAPES_MAX)

    async def _delete_jobs(self, job_set: JobSet, before_ms: int, jobs_max: int) -> int:
        """Delete old jobs of this job set, and the job set with its last job."""
        number = submission_number(max(before_ms, NUMBER_EPOCH_MS), 0, 0, 0)
        arguments = (job_set.number, sorted(ENDED), number, before_ms, jobs_max)
        async with self._connection.transaction():
            arrays = await self._delete_arrays(job_set, before_ms)
            old = await self._connection.fetch(FOLD["old_jobs"], *arguments)
            if not old and not arrays:
                return 0
            ids = [row["id"] for row in old]
            for name in ("delete_runs", "delete_specs", "delete_members", "delete_jobs"):
                await self._connection.execute(FOLD[name], ids)
            await self._subtract(job_set, old, arrays)
        self._cache.remove(job_set.key, ids)
        return len(ids)

    async def _delete_arrays(self, job_set: JobSet, before_ms: int) -> dict[tuple[str, str], int]:
        """Delete old arrays; (class, state) -> tasks of them that never became jobs."""
        rows = await self._connection.fetch(FOLD["delete_arrays"], *job_set.key, before_ms)
        return {(row["class"], CANCELLED): row["tasks"] for row in rows if row["tasks"]}

    async def _subtract(
        self, job_set: JobSet, old: list[Any], tasks: Mapping[tuple[str, str], int]
    ) -> None:
        """Subtract deleted jobs, and tasks of deleted arrays, from the counters, as if they had
        never existed."""
        moved = {key: -count for key, count in tasks.items()}
        for row in old:
            key = (row["class"], row["state"])
            moved[key] = moved.get(key, 0) - 1
            if row["category"] in job_set.failures:
                job_set.failures[row["category"]] -= 1
        job_set.jobs -= len(old) + sum(tasks.values())
        job_set.superseded -= sum(row["superseded_by"] is not None for row in old)
        job_set.failures = {name: jobs for name, jobs in job_set.failures.items() if jobs > 0}
        classes, states = map(list, zip(*moved, strict=True))
        queues = [job_set.key[0]] * len(moved)
        changes = list(moved.values())
        if job_set.jobs:
            change = table_rows.encode_job_set_change(job_set)
            await self._connection.execute(FOLD["write_sets"], *([value] for value in change))
            await self._connection.execute(
                FOLD["lower_counters"], job_set.number, classes, states, changes
            )
        else:
            await self._connection.execute(FOLD["delete_counters"], job_set.number)
            await self._connection.execute(FOLD["delete_set"], job_set.number)
        await self._connection.execute(FOLD["add_queue_counts"], queues, classes, states, changes)


def _date_of(time_ms: int) -> date:
    return datetime.fromtimestamp(time_ms / 1000, UTC).date()
