"""The view in Postgres: reading what a batch mentions, writing what became of it.

Everything here runs on the one connection that holds the locks of the partitions. New rows are
copied straight into their tables; changed rows are copied into kept temporary tables and merged.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec

from fairlead_common.db import Connection, load
from fairlead_common.db.locks import LockClass
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.service import clock
from fairlead_lookout.domain import references
from fairlead_lookout.domain.batches import Batch
from fairlead_lookout.domain.event_chunks import Chunk
from fairlead_lookout.domain.model import (
    Amounts,
    Changes,
    Job,
    JobSet,
    Known,
    Message,
    Run,
    RunKey,
    SetKey,
    Within,
)
from fairlead_lookout.store.fold import shared_counters, table_rows
from fairlead_lookout.store.fold.bulk_candidates import Requests
from fairlead_lookout.store.fold.fold_cache import Cache
from fairlead_lookout.store.fold.time_slice import Turns

NOTHING: Final[Amounts] = {}
LOOKED_UP: Final = 1_000
"""Jobs looked up in memory between two looks at the clock."""
COPIED_MAX: Final = 500
"""Rows of one COPY: they are encoded at once, in some ms."""
_decode_amounts: Final = msgspec.json.Decoder(Amounts).decode
_decode_labels: Final = msgspec.json.Decoder(dict[str, str]).decode
SCHEMA: Final = "fairlead_lookout"
SQL: Final = load("fairlead_lookout.store", "sql/fold.sql")


class Rows(msgspec.Struct, frozen=True):
    """What a batch makes of the tables, row by row: it is written while the next one is folded."""

    moves: list[tuple[Any, ...]]
    jobs: list[tuple[Any, ...]]
    specs: list[tuple[Any, ...]]
    job_changes: list[tuple[Any, ...]]
    runs: list[tuple[Any, ...]]
    run_changes: list[tuple[Any, ...]]
    sets: list[tuple[Any, ...]]
    counters: list[tuple[Any, ...]]
    events: list[tuple[Any, ...]]
    shapes: list[tuple[Any, ...]]
    queue_counts: list[tuple[Any, ...]]
    usage: list[tuple[Any, ...]]


class Store:
    """Reads and writes the view inside the caller's transaction."""

    def __init__(self, connection: Connection, cache: Cache, turns: Turns) -> None:
        self._connection = connection
        self._cache = cache
        self._turns = turns
        self._requests = Requests(connection)
        self._days: set[date] = set()

    async def remembered(self, batch: Batch) -> Known | None:
        """As `load`, if all of it is in memory."""
        if batch.found is not None:
            return None
        messages, cached = batch.messages, self._cache
        jobs: dict[str, Job] = {}
        keys = {(each.sequence.queue, each.sequence.job_set) for each in messages}
        shapes: set[str] = set()
        for index, job_id in enumerate(references.mentioned(messages)):
            if index % LOOKED_UP == 0:
                await self._turns.give_way()
            job = cached.jobs.get(job_id)
            if job is None:
                return None
            jobs[job_id] = job
            keys.add(job.key)
            shapes.add(job.shape)
            if job.latest is not None:
                shapes.add(job.latest.shape)
        if not keys <= cached.sets.keys() or not shapes <= cached.requests.keys():
            return None
        await self._turns.give_way()
        if references.bulk(messages[-1:]) or _older_runs(messages, jobs):
            return None
        sets = {key: cached.sets[key] for key in keys}
        return Known(jobs=jobs, sets=sets, requests=cached.requests)

    async def load(self, batch: Batch) -> Known:
        """What is known of everything that these messages mention."""
        messages = batch.messages
        if batch.found is None:
            candidates = await self._requests.everything(messages)
        else:
            candidates = {(each.partition, each.position): batch.found for each in messages}
        wanted = references.mentioned(messages)
        for ids in candidates.values():
            wanted.update(dict.fromkeys(ids))
        cached = self._cache.jobs
        jobs = {job_id: cached[job_id] for job_id in wanted if job_id in cached}
        await self._turns.give_way()
        jobs.update(await self._jobs([job_id for job_id in wanted if job_id not in cached]))
        partitions = {
            (each.sequence.queue, each.sequence.job_set): each.partition for each in messages
        }
        return Known(
            jobs=jobs,
            sets=await self._sets(partitions, {job.key for job in jobs.values()}),
            runs=await self._older_runs(_older_runs(messages, jobs)),
            candidates=candidates,
            labels=await self._labels(messages, candidates),
            requests=await self._asked_for(jobs),
        )

    async def _asked_for(self, jobs: Mapping[str, Job]) -> Mapping[str, Amounts]:
        """What the shapes of these jobs ask for, and whatever else is remembered."""
        known = self._cache.requests
        missing = list(_shapes_of(jobs) - known.keys())
        if missing:
            rows = await self._connection.fetch(SQL["shapes"], missing)
            read = {row["key"]: _decode_amounts(row["requests"]) for row in rows}
            self._cache.keep_requests(dict.fromkeys(missing, NOTHING) | read)
        return known

    async def _jobs(self, ids: list[str]) -> dict[str, Job]:
        if not ids:
            return {}
        # In order, because jobs of one partition are neighbours in the index.
        rows = await self._connection.fetch(SQL["jobs"], sorted(ids))
        numbers = {row["set_number"] for row in rows}
        sets = await self._connection.fetch(SQL["set_names"], list(numbers))
        names = {number: (queue, name) for number, queue, name in sets}

        def job(row: Any) -> Job:
            return table_rows.job(row, names)

        return {job.id: job for job in await self._turns.each(job, rows)}

    async def _labels(
        self, messages: Sequence[Message], candidates: Mapping[tuple[int, int], list[str]]
    ) -> dict[str, dict[str, str]]:
        """The labels of jobs that filters of labels may find."""
        found: dict[str, dict[str, str]] = {}
        for message, wanted in references.bulk(messages):
            if wanted.labels:
                ids = candidates[message.partition, message.position]
                rows = await self._connection.fetch(SQL["labels"], ids)
                found |= {job_id: _decode_labels(labels) for job_id, labels in rows}
        return found

    async def _older_runs(self, wanted: set[RunKey]) -> dict[RunKey, Run]:
        if not wanted:
            return {}
        ids, numbers = zip(*wanted, strict=True)
        rows = await self._connection.fetch(SQL["runs"], list(ids), list(numbers))
        return {(row["job_id"], row["number"]): Run(*tuple(row)[1:]) for row in rows}

    async def _sets(
        self, partitions: Mapping[SetKey, int], others: set[SetKey]
    ) -> dict[SetKey, JobSet]:
        """The job sets of the messages (made when they are new) and of all their jobs."""
        cached = self._cache.sets
        wanted = partitions.keys() | others
        missing = [key for key in wanted if key not in cached]
        if missing:
            await self._read_sets(missing)
        new = [key for key in missing if key not in cached]
        if new:
            rows = await self._connection.fetch(
                SQL["make_sets"],
                [key[0] for key in new],
                [key[1] for key in new],
                [partitions[key] for key in new],
            )
            made = [JobSet(row[0], (row[1], row[2]), row[3]) for row in rows]
            return {key: cached[key] for key in wanted if key in cached} | {
                each.key: each for each in made
            }
        return {key: cached[key] for key in wanted}

    async def _read_sets(self, keys: list[SetKey]) -> None:
        rows = await self._connection.fetch(
            SQL["sets_by_key"], [key[0] for key in keys], [key[1] for key in keys]
        )
        read = {row["number"]: table_rows.job_set(row) for row in rows}
        if read:
            for row in await self._connection.fetch(SQL["counters"], list(read)):
                read[row["set_number"]].counts[row["class"], row["state"]] = row["jobs"]
        for each in read.values():
            self._cache.keep_set(each)

    async def rows(
        self, known: Known, changes: Changes, chunks: Iterable[Chunk], batch: Batch
    ) -> Rows:
        """What there is to be written. From here on the cache may take the changes over."""
        each = self._turns.each
        new = [job for job in changes.jobs.values() if job.new]
        changed = [job for job in changes.jobs.values() if job.dirty and not job.new]
        runs = changes.runs.items()

        def job(job: Job) -> tuple[Any, ...]:
            return table_rows.job_row(job, changes.sets[job.key].number)

        def spec(job: Job) -> tuple[Any, ...]:
            return table_rows.spec_row(job.id, changes.submitted[job.id])

        def event(chunk: Chunk) -> tuple[Any, ...]:
            return table_rows.event_row(chunk, changes.sets[chunk.key])

        return Rows(
            moves=_moves(batch, changes.told),
            jobs=await each(job, new),
            specs=await each(spec, new),
            job_changes=await each(table_rows.job_change, changed),
            runs=await each(table_rows.run_row, [named for named in runs if named[1].new]),
            run_changes=await each(table_rows.run_change, [one for one in runs if not one[1].new]),
            sets=await each(table_rows.job_set_change, list(changes.sets.values())),
            counters=[
                (changes.sets[key].number, *count, changes.sets[key].counts[count])
                for key, moved in changes.counted.items()
                for count in moved
            ],
            events=await each(event, list(chunks)),
            shapes=self._used_shapes(known, changes),
            queue_counts=shared_counters.queue_counts(known, changes),
            usage=shared_counters.usage(changes),
        )

    async def write(self, rows: Rows) -> None:
        """Write everything and move the positions. Raises `ViewConflict`."""
        await self._advance(rows.moves)
        await self._copy("jobs", table_rows.JOB_COLUMNS, rows.jobs)
        await self._copy("job_specs", table_rows.SPEC_COLUMNS, rows.specs)
        await self._change(
            "job_changes", table_rows.JOB_CHANGES, rows.job_changes, SQL["merge_jobs"]
        )
        await self._copy("runs", table_rows.RUN_COLUMNS, rows.runs)
        await self._change(
            "run_changes", table_rows.RUN_CHANGES, rows.run_changes, SQL["merge_runs"]
        )
        await self._all("write_sets", rows.sets)
        await self._all("write_counters", rows.counters)
        await self._make_days({row[table_rows.EVENT_COLUMNS.index("day")] for row in rows.events})
        await self._copy("events", table_rows.EVENT_COLUMNS, rows.events)
        # Last, because other processes wait while these rows are locked.
        await self._all("write_shapes", rows.shapes)
        await self._all("add_queue_counts", rows.queue_counts)
        await self._all("add_usage", rows.usage)

    def _used_shapes(self, known: Known, changes: Changes) -> list[tuple[Any, ...]]:
        """(shape, what it asks for, today) of the shapes of these jobs and runs, unless the table
        says that they are used today."""
        today = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).date()
        used = self._cache.used
        rows: list[tuple[Any, ...]] = []
        names = {job.shape for job in changes.jobs.values()}
        names.update(run.shape for run in changes.runs.values())
        for name in names | changes.shapes.keys():
            amounts = changes.shapes.get(name, known.requests.get(name, NOTHING))
            if amounts is not NOTHING and used.get(name) != today:
                rows.append((name, _text(amounts), today))
                used[name] = today
        return rows

    async def _all(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        """One statement for all rows, which takes them column by column."""
        if rows:
            await self._connection.execute(SQL[name], *map(list, zip(*rows, strict=True)))

    async def _advance(self, moves: list[tuple[Any, ...]]) -> None:
        lists = map(list, zip(*moves, strict=True))
        status = await self._connection.execute(SQL["advance"], *lists)
        if status != f"UPDATE {len(moves)}":
            raise ViewConflict(
                f"lookout's view moved while it was written ({status}, {len(moves)} partitions):"
                " another process folds the same partitions"
            )

    async def _make_days(self, days: set[date]) -> None:
        for day in days - self._days:
            await self._make_day(day)

    async def _make_day(self, day: date) -> None:
        """Make the table of a day's events, if nobody has yet."""
        await self._connection.execute(SQL["lock_days"], LockClass.LOOKOUT_DAYS)
        await self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS {SCHEMA}.events_{day:%Y%m%d}"
            f" PARTITION OF {SCHEMA}.events"
            f" FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
        )
        self._days.add(day)

    def forget_written(self) -> None:
        """Make sure of days and shapes again: the transaction that wrote them was rolled back."""
        self._days.clear()
        self._cache.used.clear()

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
            await self._turns.give_way()

    async def _change(
        self, table: str, names: list[str], rows: list[tuple[Any, ...]], merge: str
    ) -> None:
        if rows:
            await self._copy(table, names, rows, schema=None)
            await self._connection.execute(merge)


def _moves(batch: Batch, told: int) -> list[tuple[Any, ...]]:
    """What the statement `advance` takes, for each partition that moves."""
    before, after = batch.before, batch.after
    left = None if batch.left is None else msgspec.structs.replace(batch.left, told=told)
    asked = {each.partition for each in batch.messages if batch.found is not None}
    times_ms = {message.partition: message.time_ms for message in batch.messages}
    return [
        (
            number,
            before[number],
            position,
            times_ms.get(number, 0),
            _within(batch.begun) if number in asked else None,
            _within(left) if number in asked else None,
        )
        for number, position in after.items()
        if position != before[number] or number in asked
    ]


def _shapes_of(jobs: Mapping[str, Job]) -> set[str]:
    """The names of the shapes of these jobs and of their newest runs."""
    names = {job.shape for job in jobs.values()}
    names.update([job.latest.shape for job in jobs.values() if job.latest is not None])
    names.discard("")
    return names


def _older_runs(messages: Sequence[Message], jobs: Mapping[str, Job]) -> set[RunKey]:
    """Runs that these messages mention and that are not the newest of their jobs."""
    return {
        (job_id, number)
        for job_id, number in references.mentioned_runs(messages)
        if job_id in jobs and number < jobs[job_id].run
    }


def _within(place: Within | None) -> str | None:
    return None if place is None else _text(place)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
