"""Loads what a batch refers to: from memory, and what is not there from Postgres.

Most batches are loaded while the batch before is written: on a second connection, which reads what
is committed.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

import msgspec

from fairlead_common.db import Connection
from fairlead_lookout.domain.bulk_requests import find_bulk_filters
from fairlead_lookout.domain.message_batches import (
    Batch,
    find_arrays,
    find_job_ids,
    find_new_jobs,
    find_run_keys,
)
from fairlead_lookout.domain.model import (
    Amounts,
    Changes,
    Job,
    JobSet,
    JobSetKey,
    Message,
    Run,
    RunKey,
    StoredRecords,
)
from fairlead_lookout.store import job_weeks, table_rows
from fairlead_lookout.store.fold.bulk_candidates import BulkCandidates
from fairlead_lookout.store.fold.fold_cache import FoldCache
from fairlead_lookout.store.fold.fold_rows import NOTHING_WRITTEN, WrittenKeys
from fairlead_lookout.store.fold.time_slice import TimeSlice
from fairlead_lookout.store.view_schema import FOLD

UNKNOWN_REQUESTS: Final[Amounts] = {}
"""Of a shape that is not recorded; this object, not one that is equal to it."""
LOOKED_UP: Final = 1_000
"""Jobs looked up in memory between two checks of the clock."""
_decode_amounts: Final = msgspec.json.Decoder(Amounts).decode
_decode_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


class RecordLoader:
    """Loads on the connection that holds the locks and writes; `reader`: a connection for reads
    while a transaction of that is open."""

    def __init__(
        self, connection: Connection, reader: Connection, cache: FoldCache, time_slice: TimeSlice
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._cache = cache
        self._time_slice = time_slice
        self._bulk_candidates = BulkCandidates(connection)
        self._writing = NOTHING_WRITTEN

    async def keep_reader_open(self) -> None:
        """Use the connection for reads: the server closes sessions that are idle for long."""
        await self._reader.execute("SELECT 1")

    def start_writing(self, changes: Changes) -> None:
        """These changes are in memory, and their transaction has possibly not ended yet."""
        self._writing = WrittenKeys(
            changes.jobs.keys(), changes.job_sets.keys(), changes.shapes.keys()
        )

    def end_writing(self) -> None:
        """The transaction of the last changes is committed."""
        self._writing = NOTHING_WRITTEN

    async def load_ahead(self, batch: Batch) -> StoredRecords | None:
        """As `load`, while the batch before is written; None if that must be complete first.

        What is not in memory is read as it was committed. So it must not be part of the batch
        that is being written.
        """
        messages, cached = batch.messages, self._cache
        if batch.candidates is not None or (messages and find_bulk_filters((messages[-1],))):
            return None
        partitions = _find_partitions(messages)
        if self._is_writing_sets(partitions.keys()):
            return None
        job_sets = await self._load_job_sets(self._reader, partitions)
        jobs: dict[str, Job] = {}
        missing: list[str] = []
        for index, job_id in enumerate(await self._find_job_ids(messages)):
            if index % LOOKED_UP == 0:
                await self._time_slice.yield_if_over()
            job = cached.jobs.get(job_id)
            if job is None:
                missing.append(job_id)
            else:
                jobs[job_id] = job
        writing = self._writing
        if missing:
            if not writing.jobs.isdisjoint(missing):
                return None
            jobs.update(await self._read_jobs(self._reader, missing, messages))
        keys = {job.key for job in jobs.values()}
        if self._is_writing_sets(keys):
            return None
        await self._time_slice.yield_if_over()
        if await self._find_older_runs(messages, jobs):
            return None
        shapes = find_shapes(jobs) - cached.requests.keys()
        if not writing.shapes.isdisjoint(shapes):
            return None
        return StoredRecords(
            jobs=jobs,
            job_sets=job_sets | await self._load_known_sets(self._reader, keys),
            requests=await self._load_requests(self._reader, jobs),
            arrays=await self._load_arrays(self._reader, messages),
        )

    def _is_writing_sets(self, keys: Set[JobSetKey]) -> bool:
        """Whether some of these job sets are being written and are not in memory."""
        return not self._writing.job_sets.isdisjoint(keys - self._cache.job_sets.keys())

    async def load(self, batch: Batch) -> StoredRecords:
        """The jobs, job sets and runs that the messages of a batch refer to."""
        messages = batch.messages
        if batch.candidates is None:
            candidates = await self._bulk_candidates.read_all(messages)
        else:
            candidates = {(each.partition, each.position): batch.candidates for each in messages}
        wanted = await self._find_job_ids(messages)
        for ids in candidates.values():
            wanted.update(dict.fromkeys(ids))
        job_sets = await self._load_job_sets(self._connection, _find_partitions(messages))
        cached = self._cache.jobs
        jobs = {job_id: cached[job_id] for job_id in wanted if job_id in cached}
        await self._time_slice.yield_if_over()
        missing = [job_id for job_id in wanted if job_id not in cached]
        jobs.update(await self._read_jobs(self._connection, missing, messages))
        return StoredRecords(
            jobs=jobs,
            job_sets=job_sets
            | await self._load_known_sets(self._connection, {job.key for job in jobs.values()}),
            older_runs=await self._read_runs(await self._find_older_runs(messages, jobs), jobs),
            candidates=candidates,
            labels=await self._read_labels(messages, candidates, jobs),
            requests=await self._load_requests(self._connection, jobs),
            arrays=await self._load_arrays(self._connection, messages),
        )

    async def _load_arrays(
        self, connection: Connection, messages: Sequence[Message]
    ) -> dict[str, str]:
        """Who submitted the arrays that the messages name, if they exist."""
        wanted, known = find_arrays(messages), self._cache.array_submitters
        if missing := wanted - known.keys():
            rows = await connection.fetch(FOLD["array_submitters"], list(missing))
            self._cache.put_arrays(dict(rows))
        return {array: known[array] for array in wanted if array in known}

    async def _find_job_ids(self, messages: Sequence[Message]) -> dict[str, None]:
        """The ids of all jobs that these messages name, message by message."""
        found: dict[str, None] = {}
        for message in messages:
            found.update(find_job_ids((message,)))
            await self._time_slice.yield_if_over()
        return found

    async def _find_older_runs(
        self, messages: Sequence[Message], jobs: Mapping[str, Job]
    ) -> set[RunKey]:
        """Runs that these messages mention and that are not the newest of their jobs."""
        found: set[RunKey] = set()
        if max([job.run for job in jobs.values()], default=0) <= 1:
            return found
        for message in messages:
            for job_id, number in find_run_keys((message,)):
                if job_id in jobs and number < jobs[job_id].run:
                    found.add((job_id, number))
            await self._time_slice.yield_if_over()
        return found

    async def _load_requests(
        self, connection: Connection, jobs: Mapping[str, Job]
    ) -> Mapping[str, Amounts]:
        """The requests of all shapes in memory, which include the shapes of these jobs."""
        requests = self._cache.requests
        missing = list(find_shapes(jobs) - requests.keys())
        if missing:
            rows = await connection.fetch(FOLD["shapes"], missing)
            read = {row["key"]: _decode_amounts(row["requests"]) for row in rows}
            self._cache.put_requests(dict.fromkeys(missing, UNKNOWN_REQUESTS) | read)
        return requests

    async def _read_jobs(
        self, connection: Connection, ids: list[str], messages: Sequence[Message]
    ) -> dict[str, Job]:
        """Those of these jobs that exist. The job sets of the messages are in memory."""
        if not ids:
            return {}
        rows: list[Any] = []
        for week, some in self._group_by_first_week(ids, messages).items():
            # Sorted, because jobs of one partition are neighbours in the index.
            rows += await connection.fetch(FOLD["jobs"], sorted(some), week)
        numbers = {row["set_number"] for row in rows}
        sets = await connection.fetch(FOLD["set_names"], list(numbers))
        names = {number: (queue, name) for number, queue, name in sets}

        def job(row: Any) -> Job:
            return table_rows.decode_job(row, names)

        # An expired job without its job set is about to be dropped.
        rows = [row for row in rows if row["set_number"] in names]
        return {job.id: job for job in await self._time_slice.map_all(job, rows)}

    def _group_by_first_week(
        self, ids: list[str], messages: Sequence[Message]
    ) -> dict[int, list[str]]:
        """These jobs by the first week in which they can be. A job that is submitted now can only
        have been submitted before if its job set exists, and not before the first job of that."""
        new, job_sets = find_new_jobs(messages), self._cache.job_sets
        found: dict[int, list[str]] = {}
        for job_id in ids:
            key = new.get(job_id)
            if key is None:
                found.setdefault(0, []).append(job_id)
            elif key in job_sets:
                week = job_weeks.week_of(job_sets[key].first_ms)
                found.setdefault(week, []).append(job_id)
        return found

    async def _read_labels(
        self,
        messages: Sequence[Message],
        candidates: Mapping[tuple[int, int], list[str]],
        jobs: Mapping[str, Job],
    ) -> dict[str, dict[str, str]]:
        """The labels of the candidates of filters by label."""
        found: dict[str, dict[str, str]] = {}
        for message, wanted in find_bulk_filters(messages):
            if wanted.labels:
                ids = candidates[message.partition, message.position]
                weeks = [jobs[job_id].week for job_id in ids]
                rows = await self._connection.fetch(FOLD["labels"], ids, weeks)
                found |= {job_id: _decode_labels(labels) for job_id, labels in rows}
        return found

    async def _read_runs(self, wanted: set[RunKey], jobs: Mapping[str, Job]) -> dict[RunKey, Run]:
        if not wanted:
            return {}
        rows = await self._connection.fetch(
            FOLD["older_runs"],
            [job_id for job_id, _ in wanted],
            [number for _, number in wanted],
            [jobs[job_id].week for job_id, _ in wanted],
        )
        return {(row["job_id"], row["number"]): Run(*tuple(row)[1:]) for row in rows}

    async def _load_job_sets(
        self, connection: Connection, partitions: Mapping[JobSetKey, int]
    ) -> dict[JobSetKey, JobSet]:
        """The job sets of messages, with their partitions. Those that do not exist are new, and
        their rows are written with the batch."""
        known = self._cache.job_sets
        await self._read_job_sets(connection, partitions.keys() - known.keys())
        new = [key for key in partitions if key not in known]
        numbers = await connection.fetch(FOLD["draw_set_numbers"], len(new)) if new else []
        return {key: known[key] for key in partitions if key in known} | {
            key: JobSet(row["number"], key, partitions[key], new=True)
            for key, row in zip(new, numbers, strict=True)
        }

    async def _load_known_sets(
        self, connection: Connection, keys: Set[JobSetKey]
    ) -> dict[JobSetKey, JobSet]:
        """The job sets of jobs that exist."""
        known = self._cache.job_sets
        await self._read_job_sets(connection, keys - known.keys())
        return {key: known[key] for key in keys}

    async def _read_job_sets(self, connection: Connection, keys: Set[JobSetKey]) -> None:
        """Read these job sets into memory, as far as they exist."""
        if not keys:
            return
        rows = await connection.fetch(
            FOLD["sets_by_key"], [key[0] for key in keys], [key[1] for key in keys]
        )
        read = {row["number"]: table_rows.decode_job_set(row) for row in rows}
        if read:
            for row in await connection.fetch(FOLD["counters"], list(read)):
                read[row["set_number"]].counts[row["class"], row["state"]] = row["jobs"]
        for each in read.values():
            self._cache.put_job_set(each)


def _find_partitions(messages: Sequence[Message]) -> dict[JobSetKey, int]:
    """The job sets of these messages, and their partitions."""
    return {(one.sequence.queue, one.sequence.job_set): one.partition for one in messages}


def find_shapes(jobs: Mapping[str, Job]) -> set[str]:
    """The names of the shapes of these jobs and of their newest runs."""
    names = {job.shape for job in jobs.values()}
    names.update([job.latest.shape for job in jobs.values() if job.latest is not None])
    names.discard("")
    return names
