"""The view in Postgres: reading what a batch mentions, writing what became of it.

Everything here runs on the one connection that holds the locks of the partitions. New rows are
copied straight into their tables; changed rows are copied into kept temporary tables and merged.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec

from fairlead_common import clock
from fairlead_common.db import Connection, load
from fairlead_common.errors import ViewConflict
from fairlead_lookout import columns, mentions, sums
from fairlead_lookout.batches import Batch
from fairlead_lookout.cache import Cache
from fairlead_lookout.chunks import Chunk
from fairlead_lookout.model import (
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
from fairlead_lookout.requests import Requests
from fairlead_lookout.turns import Turns

NOTHING: Final[Amounts] = {}
COPIED_MAX: Final = 500
"""Rows of one COPY: they are encoded at once, in some ms."""
_decode_amounts: Final = msgspec.json.Decoder(Amounts).decode
_decode_labels: Final = msgspec.json.Decoder(dict[str, str]).decode
SCHEMA: Final = "fairlead_lookout"
SQL: Final = load("fairlead_lookout", "sql/fold.sql")


class Store:
    """Reads and writes the view inside the caller's transaction."""

    def __init__(self, connection: Connection, cache: Cache, turns: Turns) -> None:
        self._connection = connection
        self._cache = cache
        self._turns = turns
        self._requests = Requests(connection)
        self._days: set[date] = set()

    async def load(self, batch: Batch) -> Known:
        """What is known of everything that these messages mention."""
        messages = batch.messages
        if batch.found is None:
            candidates = await self._requests.everything(messages)
        else:
            candidates = {(each.partition, each.position): batch.found for each in messages}
        wanted = mentions.mentioned(messages)
        wanted.update(job_id for ids in candidates.values() for job_id in ids)
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
            runs=await self._older_runs(messages, jobs),
            candidates=candidates,
            labels=await self._labels(messages, candidates),
            requests=await self._asked_for(jobs),
        )

    async def _asked_for(self, jobs: Mapping[str, Job]) -> Mapping[str, Amounts]:
        """What the shapes of these jobs ask for, and whatever else is remembered."""
        known = self._cache.requests
        wanted = {job.shape for job in jobs.values()} | {
            job.latest.shape for job in jobs.values() if job.latest is not None
        }
        missing = [name for name in wanted if name and name not in known]
        if missing:
            rows = await self._connection.fetch(SQL["shapes"], missing)
            read = {row["key"]: _decode_amounts(row["requests"]) for row in rows}
            self._cache.keep_requests(dict.fromkeys(missing, NOTHING) | read)
        return known

    async def _jobs(self, ids: list[str]) -> dict[str, Job]:
        if not ids:
            return {}
        rows = await self._connection.fetch(SQL["jobs"], ids)
        numbers = {row["set_number"] for row in rows}
        sets = await self._connection.fetch(SQL["set_names"], list(numbers))
        names = {number: (queue, name) for number, queue, name in sets}

        def job(row: Any) -> Job:
            return columns.job(row, names)

        return {job.id: job for job in await self._turns.each(job, rows)}

    async def _labels(
        self, messages: Sequence[Message], candidates: Mapping[tuple[int, int], list[str]]
    ) -> dict[str, dict[str, str]]:
        """The labels of jobs that filters of labels may find."""
        found: dict[str, dict[str, str]] = {}
        for message, wanted in mentions.bulk(messages):
            if wanted.labels:
                ids = candidates[message.partition, message.position]
                rows = await self._connection.fetch(SQL["labels"], ids)
                found |= {job_id: _decode_labels(labels) for job_id, labels in rows}
        return found

    async def _older_runs(
        self, messages: Sequence[Message], jobs: Mapping[str, Job]
    ) -> dict[RunKey, Run]:
        wanted = {
            (job_id, number)
            for job_id, number in mentions.mentioned_runs(messages)
            if job_id in jobs and number < jobs[job_id].run
        }
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
        read = {row["number"]: columns.job_set(row) for row in rows}
        if read:
            for row in await self._connection.fetch(SQL["counters"], list(read)):
                read[row["set_number"]].counts[row["class"], row["state"]] = row["jobs"]
        for each in read.values():
            self._cache.keep_set(each)

    async def write(
        self,
        known: Known,
        changes: Changes,
        chunks: Iterable[Chunk],
        batch: Batch,
    ) -> None:
        """Write everything and move the positions. Raises `ViewConflict`."""
        await self._advance(batch, changes.told)
        await self._insert_jobs([job for job in changes.jobs.values() if job.new], changes)
        await self._change(
            "job_changes",
            columns.JOB_CHANGES,
            await self._turns.each(
                columns.job_change,
                [job for job in changes.jobs.values() if job.dirty and not job.new],
            ),
            SQL["merge_jobs"],
        )
        await self._copy(
            "runs",
            columns.RUN_COLUMNS,
            await self._turns.each(
                columns.run_row, [each for each in changes.runs.items() if each[1].new]
            ),
        )
        await self._change(
            "run_changes",
            columns.RUN_CHANGES,
            await self._turns.each(
                columns.run_change, [each for each in changes.runs.items() if not each[1].new]
            ),
            SQL["merge_runs"],
        )
        if changes.sets:
            await self._write_sets(changes)
        await self._write_chunks(list(chunks), changes)
        # Last, because other processes wait while these rows are locked.
        await self._use_shapes(known, changes)
        await self._add_up("add_queue_counts", sums.queue_counts(known, changes))
        await self._add_up("add_usage", sums.usage(changes))

    async def _use_shapes(self, known: Known, changes: Changes) -> None:
        """Say of the shapes of these jobs and runs that they are used today, unless the table
        says so."""
        today = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).date()
        used = self._cache.used
        rows: list[tuple[str, str]] = []
        names = {job.shape for job in changes.jobs.values()}
        names.update(run.shape for run in changes.runs.values())
        for name in names | changes.shapes.keys():
            amounts = changes.shapes.get(name, known.requests.get(name, NOTHING))
            if amounts is not NOTHING and used.get(name) != today:
                rows.append((name, _text(amounts)))
                used[name] = today
        if rows:
            keys, texts = map(list, zip(*rows, strict=True))
            await self._connection.execute(SQL["write_shapes"], keys, texts, today)

    async def _add_up(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            await self._connection.execute(SQL[name], *map(list, zip(*rows, strict=True)))

    async def _advance(self, batch: Batch, told: int) -> None:
        before, after = batch.before, batch.after
        left = None if batch.left is None else msgspec.structs.replace(batch.left, told=told)
        asked = {each.partition for each in batch.messages if batch.found is not None}
        moved = [
            number
            for number, position in after.items()
            if position != before[number] or number in asked
        ]
        times_ms = {message.partition: message.time_ms for message in batch.messages}
        status = await self._connection.execute(
            SQL["advance"],
            moved,
            [before[number] for number in moved],
            [after[number] for number in moved],
            [times_ms.get(number, 0) for number in moved],
            [_within(batch.begun) if number in asked else None for number in moved],
            [_within(left) if number in asked else None for number in moved],
        )
        if status != f"UPDATE {len(moved)}":
            raise ViewConflict(
                f"lookout's view moved while it was written ({status}, {len(moved)} partitions):"
                " another process folds the same partitions"
            )

    async def _insert_jobs(self, new: list[Job], changes: Changes) -> None:
        def row(job: Job) -> tuple[Any, ...]:
            return columns.job_row(job, changes.sets[job.key].number)

        def spec(job: Job) -> tuple[Any, ...]:
            return columns.spec_row(job.id, changes.submitted[job.id])

        await self._copy("jobs", columns.JOB_COLUMNS, await self._turns.each(row, new))
        await self._copy("job_specs", columns.SPEC_COLUMNS, await self._turns.each(spec, new))

    async def _write_sets(self, changes: Changes) -> None:
        rows = await self._turns.each(columns.job_set_change, list(changes.sets.values()))
        await self._connection.execute(SQL["write_sets"], *map(list, zip(*rows, strict=True)))
        counted = [
            (changes.sets[key].number, *count, changes.sets[key].counts[count])
            for key, moved in changes.counted.items()
            for count in moved
        ]
        if counted:
            lists = map(list, zip(*counted, strict=True))
            await self._connection.execute(SQL["write_counters"], *lists)

    async def _write_chunks(self, chunks: list[Chunk], changes: Changes) -> None:
        made = []
        for chunk in chunks:
            day = datetime.fromtimestamp(chunk.time_ms / 1000, UTC).date()
            if day not in self._days:
                await self._make_day(day)
            own = changes.sets[chunk.key]
            made.append(
                (
                    own.number,
                    *chunk.last,
                    *chunk.first,
                    day,
                    chunk.data,
                    own.partition,
                    chunk.key[0],
                    chunk.time_ms,
                )
            )
        await self._copy("events", columns.EVENT_COLUMNS, made)

    async def _make_day(self, day: date) -> None:
        """Make the table of a day's events, if nobody has yet."""
        await self._connection.execute(SQL["lock_days"])
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


def _within(place: Within | None) -> str | None:
    return None if place is None else _text(place)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
