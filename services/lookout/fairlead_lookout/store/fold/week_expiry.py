"""Takes the jobs of expired weeks out of the counters, so that their tables can be dropped.

The process that folds a partition does this between batches, on the same connection, so that
counters have one writer. Jobs of these weeks that have not ended, or ended later, are moved to the
week of their end first. It continues after a restart where it was: in the row of each partition.
The retention of the log and of events are other settings.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fairlead_common.db import Connection, to_columns
from fairlead_common.domain.ids import NUMBER_EPOCH_MS, submission_number
from fairlead_common.domain.timestamps import find_day
from fairlead_common.service import clock
from fairlead_lookout.domain.array_fold import CANCELLED
from fairlead_lookout.domain.model import CountKey, JobSet
from fairlead_lookout.domain.transitions import LIVE
from fairlead_lookout.store import job_weeks, table_rows
from fairlead_lookout.store.fold.fold_cache import FoldCache
from fairlead_lookout.store.view_schema import FOLD
from fairlead_lookout.store.week_tables import create_weeks

MOVED_MAX: Final = 1_000
"""Jobs moved in one transaction, which takes some tens of ms."""
JOB_SETS_MAX: Final = 200
"""Job sets examined in one transaction, ..."""
JOBS_MAX: Final = 20_000
"""... until they have this number of jobs. A job set is not divided."""
SHAPES_MAX: Final = 1_000
BUSY_S: Final = 0.5
IDLE_S: Final = 600.0


class _Weeks(NamedTuple):
    """The weeks that are expiring: all after the first one, up to the last one."""

    after: int
    last: int

    @property
    def end_ms(self) -> int:
        """The end of the last week."""
        return job_weeks.start_ms(self.last + 1)


class WeekExpiry:
    """Visits the job sets of all partitions that are held, once for each week that expires."""

    def __init__(self, connection: Connection, cache: FoldCache, jobs_days: int) -> None:
        self._connection = connection
        self._cache = cache
        self._jobs_days = jobs_days
        self._due_s = 0.0

    async def load(self, held: frozenset[int]) -> None:
        """Read which weeks have expired in the partitions that are held now."""
        self._cache.expired_weeks.update(
            {
                row["partition"]: row["expiring_week"] or row["expired_week"]
                for row in await self._read_progress(held)
            }
        )

    def is_due(self) -> bool:
        """Whether it is time to examine some job sets."""
        return clock.monotonic_s() >= self._due_s

    async def expire_some(self, held: frozenset[int]) -> None:
        """Examine some job sets of these partitions."""
        now_s = clock.monotonic_s()
        rows = await self._read_progress(held)
        begun = [row for row in rows if row["expiring_week"] is not None]
        expired = job_weeks.find_expired_week(clock.now_ms(), self._jobs_days)
        overdue = [row["partition"] for row in rows if row["expired_week"] < expired]
        self._due_s = now_s + (BUSY_S if begun or overdue else IDLE_S)
        if begun:
            weeks = _Weeks(begun[0]["expired_week"], begun[0]["expiring_week"])
            places = {
                row["partition"]: row["expiring_set"]
                for row in begun
                if (row["expired_week"], row["expiring_week"]) == weeks
            }
            await self._expire_job_sets(weeks, places)
        elif overdue:
            await self._connection.execute(FOLD["begin_expiry"], overdue, expired)
            self._cache.expired_weeks.update(dict.fromkeys(overdue, expired))
        else:
            self._cache.remove_expired_jobs()
            await self._delete_shapes(expired)

    async def _read_progress(self, held: frozenset[int]) -> list[Any]:
        rows: list[Any] = await self._connection.fetch(FOLD["expired_weeks"], sorted(held))
        return rows

    async def _expire_job_sets(self, weeks: _Weeks, places: dict[int, int]) -> None:
        """Examine the next job sets of these partitions: those with greater numbers than their
        places."""
        partitions = sorted(places)
        rows = await self._connection.fetch(
            FOLD["old_sets"], min(places.values()), partitions, weeks.end_ms, JOB_SETS_MAX
        )
        if not rows:
            await self._connection.execute(FOLD["end_expiry"], partitions)
            return
        rows = _take_rows(rows, JOBS_MAX)
        job_sets = [
            table_rows.decode_job_set(row)
            for row in rows
            if row["number"] > places[row["partition"]]
        ]
        async with self._connection.transaction():
            moved = await self._move_unexpired(job_sets, weeks)
            if len(moved) < MOVED_MAX:
                await self._uncount(job_sets, weeks)
                await self._connection.execute(
                    FOLD["advance_expiry"], partitions, rows[-1]["number"]
                )
        self._cache.remove([each.key for each in job_sets], moved)

    async def _move_unexpired(self, job_sets: Sequence[JobSet], weeks: _Weeks) -> list[str]:
        """Move jobs that had not ended when these weeks were over; returns their ids."""
        numbers = [each.number for each in job_sets]
        rows = await self._connection.fetch(
            FOLD["unexpired_jobs"], numbers, *weeks, weeks.end_ms, MOVED_MAX
        )
        if not rows:
            return []
        now_ms = clock.now_ms()
        found = [row["id"] for row in rows]
        before = [row["week"] for row in rows]
        after = [
            job_weeks.week_of(now_ms if row["ended_ms"] is None else row["ended_ms"])
            for row in rows
        ]
        await create_weeks(self._connection, sorted(set(after)))
        for name in ("copy_submissions", "move_jobs", "move_older_runs"):
            await self._connection.execute(FOLD[name], found, before, after)
        return found

    async def _uncount(self, job_sets: Sequence[JobSet], weeks: _Weeks) -> None:
        """Subtract the expired jobs, and tasks of expired arrays that never became jobs, from the
        counters, as if they had never existed."""
        by_number = {each.number: each for each in job_sets}
        by_key = {each.key: each for each in job_sets}
        keys = [[key[0] for key in by_key], [key[1] for key in by_key]]
        await self._connection.execute(FOLD["delete_members"], *keys, weeks.last)
        moved: dict[int, dict[CountKey, int]] = {}
        for row in await self._connection.fetch(FOLD["delete_arrays"], *keys, weeks.end_ms):
            job_set = by_key[row["queue"], row["job_set"]]
            job_set.jobs -= row["tasks"]
            _add(moved, job_set, (row["class"], CANCELLED), row["tasks"])
        for row in await self._connection.fetch(FOLD["expired_jobs"], list(by_number), *weeks):
            job_set = by_number[row["set_number"]]
            job_set.jobs -= row["jobs"]
            job_set.superseded -= row["superseded"]
            if row["category"] in job_set.failures:
                job_set.failures[row["category"]] -= row["jobs"]
            _add(moved, job_set, (row["class"], row["state"]), row["jobs"])
        await self._write([by_number[number] for number in moved], moved)

    async def _write(
        self, job_sets: Sequence[JobSet], moved: dict[int, dict[CountKey, int]]
    ) -> None:
        """Write the job sets, or delete them with their last job, and lower the counters."""
        remaining, empty, counters = [], [], []
        queues: dict[tuple[str, str, str], int] = {}
        for job_set in job_sets:
            for (class_, state), jobs in moved[job_set.number].items():
                name = (job_set.key[0], class_, state)
                queues[name] = queues.get(name, 0) - jobs
                counters.append((job_set.number, class_, state, jobs))
            job_set.failures = {name: jobs for name, jobs in job_set.failures.items() if jobs > 0}
            if job_set.jobs:
                remaining.append(table_rows.encode_job_set_change(job_set))
            else:
                empty.append(job_set.number)
        if remaining:
            await self._connection.execute(FOLD["write_sets"], *to_columns(remaining))
        if counters:
            await self._connection.execute(FOLD["lower_counters"], *to_columns(counters))
        await self._connection.execute(FOLD["delete_counters"], empty)
        await self._connection.execute(FOLD["delete_sets"], empty)
        if queues:
            changes = [(*name, jobs) for name, jobs in queues.items()]
            await self._connection.execute(FOLD["add_queue_counts"], *to_columns(changes))

    async def _delete_shapes(self, expired: int) -> None:
        """Delete shapes that no job has used since the day before the first week that is
        retained."""
        oldest_ms = job_weeks.start_ms(expired + 1) - job_weeks.DAY_MS
        before, today = find_day(oldest_ms), find_day(clock.now_ms())
        if not await self._connection.fetchval(FOLD["has_old_shapes"], before):
            return
        number = submission_number(max(oldest_ms, NUMBER_EPOCH_MS), 0, 0, 0)
        async with self._connection.transaction():
            await self._connection.execute(
                FOLD["touch_live_shapes"], before, sorted(LIVE), number, today
            )
            await self._connection.execute(FOLD["delete_shapes"], before, SHAPES_MAX)


def _take_rows(rows: list[Any], jobs_max: int) -> list[Any]:
    """The first of these job sets, until they have this number of jobs."""
    for index, row in enumerate(rows, 1):
        jobs_max -= row["jobs"]
        if jobs_max <= 0:
            return rows[:index]
    return rows


def _add(
    moved: dict[int, dict[CountKey, int]], job_set: JobSet, count: CountKey, jobs: int
) -> None:
    counts = moved.setdefault(job_set.number, {})
    counts[count] = counts.get(count, 0) + jobs
