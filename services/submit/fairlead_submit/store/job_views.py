"""Jobs in lookout's views. The views can lag, or not exist yet: then nothing is known."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import asyncpg
import msgspec

from fairlead_common import db
from fairlead_common.db.connection_pool import DatabaseUnavailable
from fairlead_common.domain import position_tokens
from fairlead_common.domain.ids import (
    TASK_NUMBERS,
    ArrayId,
    GroupId,
    JobId,
    is_array_id,
    job_ids_of,
    job_set_partition,
    parse_task_id,
    partition_of_job,
    task_id,
)
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import index_marks, line_chunks
from fairlead_common.domain.records.events import ArraySubmitted, Group, JobFilter, JobSubmitted
from fairlead_common.domain.records.index_marks import Marks
from fairlead_common.domain.records.index_sets import IndexSet
from fairlead_common.log.protocol import EventLog, caught_up
from fairlead_common.log.topics import JOBS
from fairlead_common.service import clock
from fairlead_submit.domain.recent_ids import RecentIds
from fairlead_submit.store.schema import SQL

LIVE: Final = sorted(set(JobState) - JOB_ENDED)

VIEW_RETRY_S: Final = 5.0
"""How long a missing view is not queried again."""

WAIT_S_MAX: Final = 3.0
PAUSE_S: Final = 0.05

BYTES_S_MAX: Final = 20.0
COUNT_S_MAX: Final = 1.5
COUNTED_MAX: Final = 100_000
"""Jobs of a filter without a counter are counted up to this number, within `COUNT_S_MAX`."""


class KnownJob(msgspec.Struct, frozen=True):
    """The state of a job, and where it belongs.

    `tasks`: of an array, how many jobs it is. `array`: of an array, or of a task that was never
    released, unless the array has ended.
    """

    state: str
    queue: str
    job_set: str
    tasks: int = 1
    array: ArrayId | None = None


class KnownGroup(msgspec.Struct, frozen=True):
    """A group: where it belongs, its terms, its state and its labels, and whether somebody has
    requested to cancel it."""

    group: GroupId
    queue: str
    job_set: str
    client_id: str | None
    terms: Group
    state: str
    labels: dict[str, str]
    is_cancelling: bool


class KnownArray(msgspec.Struct, frozen=True):
    """An array: where it belongs, and the event that submitted it.

    `cancelled_ranges`: how many ranges of waiting tasks were cancelled. `waiting`: how many tasks
    are not released; `live`: how many have not ended.
    """

    queue: str
    job_set: str
    submitted: ArraySubmitted
    ended: bool
    cancelled_ranges: int
    waiting: int
    live: int


class KnownMember(msgspec.Struct, frozen=True):
    """A job that is or was a member of a group."""

    job_id: JobId
    role: str
    index: int
    generation: int
    state: str


class JobMatch(msgspec.Struct, frozen=True, rename="camel"):
    """One job that a filter finds."""

    id: str
    job_set: str
    state: str


class LiveCounts(msgspec.Struct, frozen=True):
    """Live jobs by queue, and the position of each partition up to which they are counted."""

    jobs: Mapping[str, int]
    positions: Mapping[int, int]


Rows = Iterable[asyncpg.Record]
_decode_terms: Final = msgspec.json.Decoder(Group).decode
_decode_labels: Final = msgspec.json.Decoder(dict[str, str]).decode
_decode_array: Final = msgspec.json.Decoder(ArraySubmitted).decode
_decode_submitted: Final = msgspec.json.Decoder(JobSubmitted).decode


class _JobOfSet(msgspec.Struct, frozen=True):
    """A job id and the job set in which it is looked up."""

    queue: str
    job_set: str
    job_id: str


K = TypeVar("K", bound=Hashable)


class _Batch(Generic[K]):
    """Keys of one query, and its rows by job id or its failure."""

    def __init__(self) -> None:
        self.keys: list[K] = []
        self.found: dict[str, asyncpg.Record] | None = None
        self.failure: str | None = None


class _CoalescedLookup(Generic[K]):
    """Looks rows up by job, one query at a time: callers that come while one runs go together
    into the next, so that many small requests cost few queries."""

    def __init__(self, fetch: Callable[[list[K]], Awaitable[Rows | None]]) -> None:
        self._fetch = fetch
        self._batch: _Batch[K] = _Batch()
        self._running = asyncio.Lock()

    async def rows(self, keys: Sequence[K]) -> Mapping[str, asyncpg.Record]:
        """By job id, the rows that exist, of these jobs and possibly of others. Raises
        `DatabaseUnavailable`."""
        if not keys:
            return {}
        batch = self._batch
        batch.keys += keys
        async with self._running:
            if batch.found is None and batch.failure is None:
                self._batch = _Batch()
                await self._run(batch)
        if batch.failure is not None:
            raise DatabaseUnavailable(batch.failure)
        return batch.found or {}

    async def _run(self, batch: _Batch[K]) -> None:
        """Look up all keys of the batch. If the caller is cancelled here, the next one in line does
        it."""
        try:
            rows = await self._fetch(list(dict.fromkeys(batch.keys)))
        except DatabaseUnavailable as error:
            batch.failure = str(error)
            return
        batch.found = {row["job_id"]: row for row in rows or ()}


class JobViews:
    """Queries the views of lookout's schema."""

    def __init__(
        self, pool: db.Pool, log: EventLog, now_s: Callable[[], float] = clock.monotonic_s
    ) -> None:
        self._pool = pool
        self._log = log
        self._now_s = now_s
        self._absent_until_s = 0.0
        self.recent: Final = RecentIds()
        # In order: ids of one job set are neighbours in the index.
        self._jobs = _CoalescedLookup[str](lambda ids: self._fetch("known_jobs", sorted(ids)))
        self._digests = _CoalescedLookup[_JobOfSet](self._fetch_digests)

    async def find_jobs(self, ids: Sequence[str]) -> dict[str, KnownJob]:
        """The jobs among these that the view has. Raises `DatabaseUnavailable`."""
        rows = await self._jobs.rows(ids)
        return {
            job_id: KnownJob(row["state"], row["queue"], row["job_set"] or "")
            for job_id in ids
            if (row := rows.get(job_id)) is not None
        }

    async def choose_ids(self, references: Sequence[str]) -> list[JobId]:
        """The id that each of these texts names: of several that it can name, that of a job which
        the view has. Raises `DatabaseUnavailable`, and ValueError for an invalid text.
        """
        named = [job_ids_of(text) for text in references]
        ambiguous = [job_id for each in named if len(each) > 1 for job_id in each]
        known = await self.find_jobs(ambiguous)
        return [next((one for one in each if one in known), each[0]) for each in named]

    async def find_digests(self, queue: str, job_set: str, ids: Sequence[str]) -> dict[str, str]:
        """Digests of what the client sent when it submitted these jobs of a job set, of those that
        are known; "" where it sent no client id. Raises `DatabaseUnavailable`."""
        rows = await self._digests.rows([_JobOfSet(queue, job_set, job_id) for job_id in ids])
        return self._find_recent(ids) | {
            job_id: row["digest"] or "" for job_id in ids if (row := rows.get(job_id)) is not None
        }

    def positions_of(self, ids: Iterable[str]) -> dict[int, int]:
        """Positions of the log after which these exist, as far as they were accepted lately."""
        recent = self.recent.find(ids, self._now_s())
        return position_tokens.merge(*(each.positions for each in recent.values()))

    def _find_recent(self, ids: Sequence[str]) -> dict[str, str]:
        recent = self.recent.find(ids, self._now_s())
        return {each: found.digest for each, found in recent.items()}

    async def _fetch_digests(self, jobs: list[_JobOfSet]) -> Rows | None:
        """Look up jobs of known job sets, in the weeks in which these can have any."""
        by_set: dict[tuple[str, str], list[str]] = {}
        for job in jobs:
            by_set.setdefault((job.queue, job.job_set), []).append(job.job_id)
        known = await self._fetch("first_weeks", *map(list, zip(*by_set, strict=True)))
        by_week: dict[int, list[str]] = {}
        for row in known or ():
            some = by_week.setdefault(row["first_week"], [])
            some += by_set[row["queue"], row["job_set"]]
        found: list[asyncpg.Record] = []
        for week, ids in by_week.items():
            found += await self._fetch("known_digests", sorted(ids), week) or ()
        return found

    async def find_group_digests(self, groups: Sequence[str]) -> dict[str, str]:
        """Digests of what the client sent when it submitted these groups, of those that are known.
        Raises `DatabaseUnavailable`."""
        if not groups:
            return {}
        rows = await self._fetch("known_group_digests", list(groups))
        return self._find_recent(groups) | {row["group_id"]: row["digest"] for row in rows or ()}

    async def find_array_digests(self, arrays: Sequence[str]) -> dict[str, str]:
        """As `find_digests`, of arrays. Raises `DatabaseUnavailable`."""
        rows = await self._fetch("known_array_digests", list(arrays))
        return self._find_recent(arrays) | {row["array_id"]: row["digest"] for row in rows or ()}

    async def find_succeeded(self, ids: Sequence[str]) -> set[str]:
        """Which of these jobs and arrays have succeeded, as far as is known. Raises
        `DatabaseUnavailable`."""
        jobs = await self.find_jobs(ids)
        found = {job_id for job_id, job in jobs.items() if job.state == JobState.SUCCEEDED}
        arrays = [each for each in ids if is_array_id(each)]
        rows = await self._fetch("succeeded_arrays", arrays) if arrays else None
        return found | {row["array_id"] for row in rows or ()}

    async def find_array(self, array: str) -> KnownArray | None:
        """An array with all that was written of it until now; None if it does not exist.

        Raises a 503 `Problem` if the view lags too far behind, and `DatabaseUnavailable`.
        """
        if not await self.wait_until_current():
            raise Problem(
                "unavailable",
                "The view of lookout lags or is unavailable, so the state of this array is not"
                " known. Try again.",
                retry_after_s=1,
            )
        return (await self.find_arrays([array])).get(array)

    async def find_arrays(self, arrays: Sequence[str]) -> dict[str, KnownArray]:
        """The arrays among these that the view has. Raises `DatabaseUnavailable`."""
        if not arrays:
            return {}
        rows = await self._fetch("known_arrays", list(arrays))
        return {
            row["array_id"]: KnownArray(
                row["queue"],
                row["job_set"],
                _decode_array(row["submitted"]),
                row["ended"],
                row["cancelled_ranges"],
                row["waiting"],
                row["live"],
            )
            for row in rows or ()
        }

    async def find_cancelled_tasks(self, arrays: Sequence[str]) -> dict[str, Marks]:
        """Which tasks of these arrays were cancelled before their release. Raises
        `DatabaseUnavailable`."""
        chunks: dict[str, dict[int, bytes]] = {array: {} for array in arrays}
        for row in await self._fetch("cancelled_tasks", list(arrays)) or ():
            chunks[row["array_id"]][row["chunk"]] = row["bits"].bytes
        return {array: index_marks.decode(bits) for array, bits in chunks.items()}

    async def count_live_tasks(self, array: KnownArray, chosen: IndexSet) -> int:
        """How many of these tasks of an array have not ended. Raises `DatabaseUnavailable`."""
        name = array.submitted.array
        place = (name, task_id(name, TASK_NUMBERS - 2))
        live = await self._fetch("live_tasks", array.queue, array.job_set, list(LIVE), *place)
        count = sum(parse_task_id(row["job_id"])[1] in chosen for row in live or ())
        if array.waiting:
            newest = list(await self._fetch("newest_task", *place) or ())
            released_to = parse_task_id(newest[0]["job_id"])[1] if newest else -1
            cancelled = (await self.find_cancelled_tasks([name]))[name]
            count += index_marks.count_unmarked(chosen.as_ranges(), cancelled, released_to)
        return count

    async def find_group(self, group: str) -> KnownGroup | None:
        """A group with all that was written of it until now; None if it does not exist.

        Raises a 503 `Problem` if the view lags too far behind, and `DatabaseUnavailable`.
        """
        if not await self.wait_until_current():
            raise Problem(
                "unavailable",
                "The view of lookout lags or is unavailable, so the state of this group is not"
                " known. Try again.",
                retry_after_s=1,
            )
        rows = list(await self._fetch("known_group", group) or ())
        if not rows:
            return None
        row = rows[0]
        return KnownGroup(
            GroupId(row["group_id"]),
            row["queue"],
            row["job_set"],
            row["client_id"],
            _decode_terms(row["terms"]),
            row["state"],
            _decode_labels(row["labels"]),
            row["is_cancelling"],
        )

    async def find_members(self, group: str) -> list[KnownMember]:
        """All members that a group has had. Raises `DatabaseUnavailable`."""
        rows = await self._fetch("known_members", group)
        columns = ("job_id", "role", "number", "generation", "state")
        return [KnownMember(*(row[column] for column in columns)) for row in rows or ()]

    async def find_templates(self, group: str) -> dict[str, JobSubmitted]:
        """The submission of one member of each role. Raises `DatabaseUnavailable`."""
        rows = await self._fetch("member_templates", group)
        return {
            row["role"]: _decode_submitted(line_chunks.read_line(row["lines"], row["chunk_line"]))
            for row in rows or ()
        }

    async def count_live_jobs(self, queue: str) -> int | None:
        """How many jobs of the queue have not ended, as far as is known; None if nothing is."""
        rows = await self._fetch("live_jobs", queue)
        return None if rows is None else sum(row["jobs"] for row in rows)

    async def count_live_by_queue(self) -> LiveCounts | None:
        """How many jobs of each queue have not ended, and how far the view had folded the log
        then; None if there is no view."""
        rows = await self._fetch("live_by_queue")
        if rows is None:
            return None
        return LiveCounts(
            jobs={row["queue"]: row["jobs"] for row in rows if row["queue"] is not None},
            positions={row["partition"]: row["position"] for row in rows if row["queue"] is None},
        )

    async def measure_live_by_queue(self) -> dict[str, int] | None:
        """How many bytes the events take that submitted them; None if the query takes too long."""
        try:
            async with asyncio.timeout(BYTES_S_MAX):
                rows = await self._fetch("live_bytes_by_queue")
        except TimeoutError:
            return None
        return None if rows is None else {row["queue"]: row["bytes"] or 0 for row in rows}

    async def count(self, chosen: JobFilter, states: Iterable[JobState]) -> int | None:
        """How many jobs in these states the filter finds: None if the query takes too long.

        At most `COUNTED_MAX` are counted where no counter of the view says it.
        """
        by_counter = not (chosen.labels or chosen.executor or chosen.node)
        statement = "count_by_counter" if by_counter else "count_found"
        given = make_arguments(chosen, states)
        rows = await self._fetch_within_bound(
            statement, *(given[:4] if by_counter else (*given, COUNTED_MAX))
        )
        return None if rows is None else sum(row["jobs"] for row in rows)

    async def sample(
        self, chosen: JobFilter, states: Iterable[JobState], limit: int
    ) -> list[JobMatch]:
        """Some of those jobs, the newest first; none if the query takes too long."""
        rows = await self._fetch_within_bound(
            "sample_found", *make_arguments(chosen, states), limit
        )
        return [JobMatch(row["job_id"], row["job_set"], row["state"]) for row in rows or ()]

    async def wait_until_current(
        self, wait_s: float = WAIT_S_MAX, chosen: JobFilter | None = None
    ) -> bool:
        """Whether the view has seen all that was written until now (of jobs that a filter may
        find); waits at most so long.
        """
        ends = await self._log.end_positions(JOBS)
        if chosen is not None and chosen.job_set is not None:
            partition = job_set_partition(chosen.queue, chosen.job_set)
            ends = {partition: ends[partition]}
        deadline_s = self._now_s() + wait_s
        while True:
            passed = await self._has_passed(ends)
            if passed is None or passed or self._now_s() >= deadline_s:
                return bool(passed)
            await asyncio.sleep(PAUSE_S)

    async def wait_for_current_jobs(self, ids: Sequence[JobId]) -> tuple[dict[str, KnownJob], bool]:
        """As `wait_for_jobs`, once the view has seen all that was written of these until now."""
        ends = await self._log.end_positions(JOBS)
        wanted = {partition_of_job(job_id) for job_id in ids}
        return await self.wait_for_jobs(ids, {partition: ends[partition] for partition in wanted})

    async def wait_for_jobs(
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
            found |= await self.find_jobs(missing)
            missing = [job_id for job_id in missing if job_id not in found]
            if not missing or has_passed or has_passed is None:
                return found, bool(has_passed) or not missing
            if self._now_s() >= deadline_s:
                return found, False
            await asyncio.sleep(PAUSE_S)

    async def read_positions(self) -> dict[int, int] | None:
        """The position of each partition that the view reads next; None without a view.
        Raises `DatabaseUnavailable`."""
        rows = await self._fetch("view_positions")
        return None if rows is None else {row["partition"]: row["position"] for row in rows}

    async def _has_passed(self, positions: Mapping[int, int]) -> bool | None:
        """None if there is no view."""
        seen = await self.read_positions()
        return None if seen is None else caught_up(seen, positions)

    async def _fetch_within_bound(self, statement: str, *arguments: object) -> Rows | None:
        """As `_fetch`, with a time limit: None if the query takes too long."""
        try:
            async with asyncio.timeout(COUNT_S_MAX):
                return await self._fetch(statement, *arguments)
        except TimeoutError:
            return None

    async def _fetch(self, statement: str, *arguments: object) -> Rows | None:
        """None if there is no view, or an older one."""
        if self._now_s() < self._absent_until_s:
            return None
        try:
            with db.translate_errors():
                rows: Rows = await self._pool.fetch(SQL[statement], *arguments)
        except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
            self._absent_until_s = self._now_s() + VIEW_RETRY_S
            return None
        return rows


def make_arguments(chosen: JobFilter, states: Iterable[JobState]) -> tuple[object, ...]:
    """The arguments of the statements that find jobs, in their order."""
    wanted = set(states) & set(chosen.states) if chosen.states else states
    labels = msgspec.json.encode(chosen.labels).decode() if chosen.labels else None
    return (
        chosen.queue,
        chosen.job_set,
        sorted(wanted),
        list(chosen.classes),
        labels,
        chosen.executor,
        chosen.node,
    )
