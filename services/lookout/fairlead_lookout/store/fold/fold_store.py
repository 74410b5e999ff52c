"""Writes the changes of a batch to Postgres.

Everything is written on the one connection that holds the locks of the partitions. New rows are
copied directly into their tables; changed rows are copied into temporary tables and merged.
"""

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, Final

import msgspec

from fairlead_common.db import Connection, to_columns
from fairlead_common.db.locks import LockClass
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.domain.timestamps import find_day
from fairlead_common.service import clock
from fairlead_lookout.domain.event_chunks import Chunk
from fairlead_lookout.domain.model import (
    Changes,
    Job,
    Run,
    RunKey,
    StoredRecords,
    SubmissionPlace,
)
from fairlead_lookout.domain.submission_chunks import number_chunks, pack_submissions
from fairlead_lookout.store import job_weeks, table_rows
from fairlead_lookout.store.dated_tables import create_day
from fairlead_lookout.store.expired_rows import EVENTS
from fairlead_lookout.store.fold.fold_cache import FoldCache
from fairlead_lookout.store.fold.fold_rows import FoldRows
from fairlead_lookout.store.fold.record_loader import UNKNOWN_REQUESTS, find_shapes
from fairlead_lookout.store.fold.time_slice import TimeSlice
from fairlead_lookout.store.view_schema import FOLD, SCHEMA
from fairlead_lookout.store.week_tables import create_weeks

COPIED_MAX: Final = 2_000
"""Rows of one COPY: they are encoded in one step, in some ms."""


async def create_temporary_tables(connection: Connection) -> None:
    """The tables of this session that the rows of a batch are copied into."""
    await connection.execute(FOLD["create_temporary_tables"])


async def draw_chunk_numbers(connection: Connection) -> Iterator[int]:
    """The numbers of chunks of submissions for a session that begins."""
    return number_chunks(await connection.fetchval(FOLD["draw_session"]))


class FoldStore:
    """Writes the view in the caller's transaction."""

    def __init__(
        self,
        connection: Connection,
        cache: FoldCache,
        time_slice: TimeSlice,
        chunk_numbers: Iterator[int],
    ) -> None:
        self._connection = connection
        self._cache = cache
        self._time_slice = time_slice
        self._chunk_numbers = chunk_numbers
        self._days: set[date] = set()
        self._weeks: set[int] = set()

    async def encode_rows(
        self,
        stored: StoredRecords,
        changes: Changes,
        chunks: Iterable[Chunk],
        moves: list[tuple[Any, ...]],
    ) -> FoldRows:
        """The rows to write. After this the cache may take over the changes."""
        each = self._time_slice.map_all
        new = [job for job in changes.jobs.values() if job.new]
        self._choose_weeks(new, changes)
        changed = [job for job in changes.jobs.values() if job.dirty and not job.new]
        older = changes.older_runs.items()

        places, submissions = await self._pack_submissions(new, changes)

        def job(job: Job) -> tuple[Any, ...]:
            set_number = changes.job_sets[job.key].number
            return table_rows.encode_job(job, set_number, changes.submitted[job.id], places[job.id])

        def run(item: tuple[RunKey, Run]) -> tuple[Any, ...]:
            return table_rows.encode_older_run(changes.jobs[item[0][0]], item[1])

        def run_change(item: tuple[RunKey, Run]) -> tuple[Any, ...]:
            return table_rows.encode_older_run_change(changes.jobs[item[0][0]], item[1])

        def event(chunk: Chunk) -> tuple[Any, ...]:
            return table_rows.encode_chunk(chunk, changes.job_sets[chunk.key])

        return FoldRows(
            moves=moves,
            jobs=await each(job, new),
            submissions=submissions,
            job_changes=await each(table_rows.encode_job_change, changed),
            older_runs=await each(run, [one for one in older if one[1].new]),
            older_run_changes=await each(run_change, [one for one in older if not one[1].new]),
            new_sets=[
                (job_set.number, *job_set.key, job_set.partition)
                for job_set in changes.job_sets.values()
                if job_set.new
            ],
            sets=await each(table_rows.encode_job_set_change, list(changes.job_sets.values())),
            counters=[
                (changes.job_sets[key].number, *count, changes.job_sets[key].counts[count])
                for key, moved in changes.counted.items()
                for count in moved
            ],
            events=await each(event, list(chunks)),
            shapes=self._encode_shapes(stored, changes),
            queue_counts=table_rows.encode_queue_counts(stored, changes),
            usage=table_rows.encode_usage(changes),
            user_usage=table_rows.encode_user_usage(changes),
            preemptions=[msgspec.structs.astuple(one) for one in changes.preemptions],
            groups=[msgspec.structs.astuple(one) for one in changes.groups.new],
            group_members=[msgspec.structs.astuple(one) for one in changes.groups.members],
            group_changes=[msgspec.structs.astuple(one) for one in changes.groups.changes.values()],
            group_events=[msgspec.structs.astuple(one) for one in changes.groups.events],
            arrays=[msgspec.structs.astuple(one) for one in changes.arrays.new],
            array_changes=[msgspec.structs.astuple(one) for one in changes.arrays.changes.values()],
            array_counts=[(*key, tasks) for key, tasks in changes.arrays.counts.items() if tasks],
            cancelled_tasks=[
                (*key, bits.decode()) for key, bits in changes.arrays.cancelled_tasks.items()
            ],
            array_priorities=[msgspec.structs.astuple(one) for one in changes.arrays.priorities],
        )

    async def write(self, rows: FoldRows) -> None:
        """Write everything and move the positions. Raises `ViewConflict`."""
        await self._advance(rows.moves)
        await self._create_weeks({row[-1] for row in rows.jobs})
        await self._copy_by_week("jobs", table_rows.JOB_COLUMNS, rows.jobs)
        await self._copy_by_week("submissions", table_rows.SUBMISSION_COLUMNS, rows.submissions)
        await self._merge_jobs(rows.job_changes)
        await self._copy_by_week("older_runs", table_rows.OLDER_RUN_COLUMNS, rows.older_runs)
        await self._execute_all("change_older_runs", rows.older_run_changes)
        await self._execute_all("create_sets", rows.new_sets)
        await self._execute_all("write_sets", rows.sets)
        await self._execute_all("write_counters", rows.counters)
        await self._create_days({row[table_rows.EVENT_COLUMNS.index("day")] for row in rows.events})
        await self._copy("events", table_rows.EVENT_COLUMNS, rows.events)
        await self._execute_all("add_preemptions", rows.preemptions)
        await self._execute_all("add_groups", rows.groups)
        await self._execute_all("add_members", rows.group_members)
        await self._execute_all("change_groups", rows.group_changes)
        await self._execute_all("add_group_events", rows.group_events)
        await self._execute_all("add_arrays", rows.arrays)
        await self._execute_all("change_arrays", rows.array_changes)
        await self._execute_all("add_array_counts", rows.array_counts)
        await self._execute_all("add_cancelled_tasks", rows.cancelled_tasks)
        for row in rows.array_priorities:
            await self._connection.execute(FOLD["change_array_priorities"], *row)
        # Last, because other processes wait while these rows are locked.
        await self._execute_all("write_shapes", rows.shapes)
        await self._execute_all("add_queue_counts", rows.queue_counts)
        await self._execute_all("add_usage", rows.usage)
        await self._execute_all("add_user_usage", rows.user_usage)

    async def _pack_submissions(
        self, new: Iterable[Job], changes: Changes
    ) -> tuple[dict[str, SubmissionPlace], list[tuple[Any, ...]]]:
        """Where the submissions of these jobs will be, and the rows of their chunks."""
        by_week: dict[int, list[tuple[str, bytes]]] = {}
        for job in new:
            by_week.setdefault(job.week, []).append((job.id, changes.submitted[job.id].text))
        places: dict[str, SubmissionPlace] = {}
        rows: list[tuple[Any, ...]] = []
        for week, submissions in by_week.items():
            for chunk in pack_submissions(submissions, self._chunk_numbers):
                places |= chunk.places
                rows.append((chunk.number, chunk.data, week))
                await self._time_slice.yield_if_over()
        return places, rows

    def _encode_shapes(self, stored: StoredRecords, changes: Changes) -> list[tuple[Any, ...]]:
        """(shape, its requests, today) for the shapes of these jobs and runs, unless the table
        already records that they are used today."""
        today = find_day(clock.now_ms())
        shape_days = self._cache.shape_days
        rows: list[tuple[Any, ...]] = []
        names = find_shapes(changes.jobs)
        for name in names | changes.shapes.keys():
            amounts = changes.shapes.get(name, stored.requests.get(name, UNKNOWN_REQUESTS))
            if amounts is not UNKNOWN_REQUESTS and shape_days.get(name) != today:
                rows.append((name, msgspec.json.encode(amounts).decode(), today))
                shape_days[name] = today
        return rows

    async def _execute_all(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        """Execute one statement for all rows; it takes them column by column."""
        if rows:
            await self._connection.execute(FOLD[name], *to_columns(rows))

    async def _advance(self, moves: list[tuple[Any, ...]]) -> None:
        status = await self._connection.execute(FOLD["advance"], *to_columns(moves))
        if status != f"UPDATE {len(moves)}":
            raise ViewConflict(
                f"lookout's view moved while it was written ({status}, {len(moves)} partitions):"
                " another process folds the same partitions"
            )

    def _choose_weeks(self, new: Iterable[Job], changes: Changes) -> None:
        """New jobs are kept in the week in which they were submitted, unless that has expired."""
        expired = self._cache.expired_weeks
        for job in new:
            first = expired.get(changes.job_sets[job.key].partition, 0) + 1
            job.week = max(job_weeks.week_of(job.submitted_ms), first)

    async def _create_weeks(self, weeks: set[int]) -> None:
        missing = weeks - self._weeks
        await create_weeks(self._connection, sorted(missing))
        self._weeks |= missing

    async def _create_days(self, days: set[date]) -> None:
        for day in days - self._days:
            await create_day(self._connection, LockClass.LOOKOUT_TABLES, EVENTS, day)
            self._days.add(day)

    def forget_written(self) -> None:
        """Write days, weeks and shapes again: the transaction that wrote them was rolled back."""
        self._days.clear()
        self._weeks.clear()
        self._cache.shape_days.clear()

    async def _copy(
        self, table: str, names: list[str], rows: list[tuple[Any, ...]], schema: str | None = SCHEMA
    ) -> None:
        for first in range(0, len(rows), COPIED_MAX):
            await self._connection.copy_records_to_table(
                table,
                schema_name=schema,
                columns=names,
                records=rows[first : first + COPIED_MAX],
            )
            await self._time_slice.yield_if_over()

    async def _copy_by_week(
        self, table: str, names: list[str], rows: list[tuple[Any, ...]]
    ) -> None:
        """Copy rows, whose last column is the week, directly into the tables of their weeks."""
        by_week: dict[int, list[tuple[Any, ...]]] = {}
        for row in rows:
            by_week.setdefault(row[-1], []).append(row)
        for week, some in by_week.items():
            await self._copy(f"{table}_{week}", names, some)

    async def _merge_jobs(self, rows: list[tuple[Any, ...]]) -> None:
        await self._copy("job_changes", table_rows.JOB_CHANGES, rows, schema=None)
        for week in {row[-1] for row in rows}:
            await self._connection.execute(FOLD["merge_jobs"].replace("{week}", str(week)))
