"""Reads the view for the API and the pages. Counts come from counters, never from counting rows.

Lists of jobs are in `job_lists.py`.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, Literal

import asyncpg
import msgspec

from fairlead_common.db import Connection, Pool, translate_errors
from fairlead_common.domain import ids
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events, line_chunks, scheduling_reports
from fairlead_common.web.fair_semaphore import FairSemaphore
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.store import table_rows
from fairlead_lookout.store.queries import list_cursors
from fairlead_lookout.store.queries.list_filters import JobSetFilter
from fairlead_lookout.store.view_schema import READ

QUEUES_MAX: Final = 2_000
SETS_EXAMINED_MAX: Final = 20_000
"""Job sets whose names one page examines; the next page continues after them."""
NAMES_EXAMINED_MAX: Final = 10_000
"""The newest groups, and arrays, among whose client ids a text is looked for."""
SETS_COUNTED_MAX: Final = 10_000
JOBS_BEFORE_MAX: Final = 10_000
"""The oldest jobs of a queue that are examined for a queue position."""
RUNS_MAX: Final = 200_000
JOBS_BY_ID: Final = (
    READ["jobs_by_id"].replace("{job_row}", READ["job_row"]).replace("{week}", "j.week")
)
JOBS_OF_WEEK: Final = (
    READ["jobs_by_id"].replace("{job_row}", READ["job_row"]).replace("{week}", "$2::int")
)
_submitted: Final = msgspec.json.Decoder(events.JobSubmitted)
_runs: Final = msgspec.json.Decoder(list[dict[str, Any]])
_FAILED_DEPENDENCY: Final = re.compile(
    rf"^(?:job|array) ([{ids.ALPHABET}]{{{ids.JOB_ID_LENGTH}}})\b", re.IGNORECASE
)
"""How the reason of a job begins that was cancelled because of another one."""


def find_failed_dependency(reason: str | None) -> str | None:
    """The id of the job or array that made the scheduler cancel a job, from its reason."""
    found = _FAILED_DEPENDENCY.match(reason or "")
    return None if found is None else found[1]


class Dependencies(msgspec.Struct, frozen=True):
    """What a job or an array waits for. `states`: of these jobs and arrays, by id; `client_ids`:
    theirs, where they have one."""

    states: dict[str, str] = {}
    client_ids: dict[str, str] = {}

    @property
    def are_open(self) -> bool:
        """Whether one of them has not succeeded yet."""
        return any(state != "SUCCEEDED" for state in self.states.values())

    def select(self, ids_: Sequence[str]) -> "Dependencies":
        """Those with these ids."""
        client_ids = {each: self.client_ids[each] for each in ids_ if each in self.client_ids}
        return Dependencies({each: self.states[each] for each in ids_}, client_ids)


class JobRecord(msgspec.Struct, frozen=True):
    """Everything about one job.

    `preempted_runs`: if the job is leased and not started, the runs on its node that must end
    first.
    """

    row: Any
    submitted: events.JobSubmitted
    runs: list[Any]
    dependencies: Dependencies
    preempted_runs: list[Any]
    waits_in_array: bool = False
    """Whether it is a task that has not been released: it has no row, and `row` is made up."""


class JobRows(msgspec.Struct, frozen=True):
    """Rows of jobs in their order. `waiting_for_others`: the ids of those with a dependency that
    has not succeeded. `client_ids`: by id, of the jobs that reasons name."""

    rows: list[Any]
    waiting_for_others: set[str]
    client_ids: dict[str, str]


class CountedJobSet(msgspec.Struct, frozen=True):
    """A job set and its jobs by state."""

    job_set: JobSet
    states: dict[str, int]


class JobSetPage(msgspec.Struct, frozen=True):
    """A page of job sets, newest first, and the cursor of the next page."""

    job_sets: list[CountedJobSet]
    next: str | None


class ViewReader:
    """The tables of the view, read only. Raises `DatabaseUnavailable`, and a `Problem` for a
    statement that took too long or whose caller has too many statements waiting.

    `shares`: limits the statements that run at the same time, in total and per caller.
    """

    def __init__(self, source: Pool | Connection, shares: FairSemaphore | None = None) -> None:
        self._source = source
        self._shares = shares

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator["ViewReader"]:
        """A reader whose statements all see the same state of the view, on one connection.

        Without it, a job that changes its state between two statements can be in neither result.
        """
        async with self._place():
            with translate_errors():
                async with (
                    self._source.acquire() as connection,
                    connection.transaction(isolation="repeatable_read", readonly=True),
                ):
                    yield type(self)(connection)

    def _place(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._shares is None else self._shares.place()

    async def fetch(self, name: str, *arguments: object) -> list[Any]:
        """All rows of a statement in `read.sql`."""
        return await self.fetch_text(READ[name], *arguments)

    async def fetch_text(self, text: str, *arguments: object) -> list[Any]:
        """All rows of a statement; no rows for a text with a NUL, which no table can hold."""
        try:
            async with self._place():
                with translate_errors():
                    rows: list[Any] = await self._source.fetch(text, *arguments)
        except asyncpg.CharacterNotInRepertoireError:
            return []
        except asyncpg.QueryCanceledError:
            raise Problem(
                "unavailable",
                "The query took too long and was ended. Narrow the filter, or try again later.",
                retry_after_s=5,
            ) from None
        return rows

    async def read_job_set(self, queue: str, job_set: str) -> JobSet | None:
        """A job set that has jobs, without its counters."""
        rows = await self.fetch("set_by_key", queue, job_set)
        return table_rows.decode_job_set(rows[0]) if rows else None

    async def has_groups_or_arrays(self, queue: str, job_set: str) -> bool:
        """Whether there are groups or arrays in a job set."""
        (row,) = await self.fetch("has_groups_or_arrays", queue, job_set)
        return bool(row["found"])

    async def count_states(self, job_sets: Sequence[JobSet]) -> list[CountedJobSet]:
        """These job sets with their jobs by state."""
        states: dict[int, dict[str, int]] = {each.number: {} for each in job_sets}
        for row in await self.fetch("counts_of_sets", list(states)):
            states[row["set_number"]][row["state"]] = row["jobs"]
        return [CountedJobSet(each, states[each.number]) for each in job_sets]

    async def read_job_sets(
        self, wanted: JobSetFilter, limit: int, cursor: str | None
    ) -> JobSetPage:
        """A page of job sets. It can be shorter than `limit` where a name matches few of many."""
        query = ("jobsets", wanted.queue, wanted.active, wanted.q)
        place = list_cursors.decode(query, cursor, list_cursors.INT_MAX)
        examined = SETS_EXAMINED_MAX if wanted.q is not None else 0
        rows = await self._job_set_rows(
            wanted, place and place[0], limit + 1, examined, per_queue_min=limit + 1
        )
        job_sets = [table_rows.decode_job_set(row) for row in rows if row["number"] is not None]
        following = None
        if len(job_sets) > limit:
            del job_sets[limit:]
            following = list_cursors.encode(query, job_sets[-1].number)
        elif rows and rows[0]["horizon"] is not None:
            following = list_cursors.encode(query, rows[0]["horizon"])
        return JobSetPage(await self.count_states(job_sets), following)

    async def count_job_sets(self, wanted: JobSetFilter) -> str:
        """The number of job sets up to a limit, with `+` where more were not examined."""
        rows = await self._job_set_rows(
            wanted, None, SETS_COUNTED_MAX + 1, SETS_EXAMINED_MAX, per_queue_min=1
        )
        found = sum(row["number"] is not None for row in rows)
        if found > SETS_COUNTED_MAX:
            return f"{SETS_COUNTED_MAX}+"
        return f"{found}+" if rows and rows[0]["horizon"] is not None else str(found)

    async def _job_set_rows(
        self,
        wanted: JobSetFilter,
        begin: int | None,
        rows_max: int,
        examined: int,
        *,
        per_queue_min: int,
    ) -> Sequence[Any]:
        """The newest job sets, at most `rows_max`. About `examined` are examined in total, and at
        least `per_queue_min` of each queue."""
        if wanted.queue is None and wanted.active is None and wanted.visible_queues.only is None:
            limit = examined if wanted.visible_queues.is_everything else SETS_EXAMINED_MAX
            arguments: tuple[object, ...] = (
                *wanted.visible_queues.arguments(),
                begin,
                max(per_queue_min, limit),
            )
            return await self.fetch("newest_sets", *arguments, wanted.q, rows_max)
        queues = await self.read_queues(wanted.visible_queues, wanted.queue)
        per_queue = max(per_queue_min, examined // max(len(queues), 1))
        return await self.fetch(
            "sets_of_queues", queues, wanted.active, begin, per_queue, wanted.q, rows_max
        )

    async def find_ids(
        self, table: Literal["groups", "arrays"], visible_queues: QueueScope, text: str, limit: int
    ) -> list[str]:
        """The ids of groups or arrays with this id or with the text in their client ids."""
        rows = await self.fetch_text(
            READ["ids_by_name"].replace("{table}", table),
            *visible_queues.arguments(),
            text,
            NAMES_EXAMINED_MAX,
            limit,
        )
        return [row["id"] for row in rows]

    async def read_jobs(
        self, job_ids: Sequence[str], weeks: Sequence[int] | None = None
    ) -> JobRows:
        """The rows of these jobs, in this order; jobs that were removed are left out.

        `weeks`: in which they are, if that is known: only the tables of these are read.
        """
        if not job_ids:
            return JobRows([], set(), {})
        found: list[Any] = []
        if weeks is None:
            found = await self.fetch_text(JOBS_BY_ID, list(job_ids))
        else:
            by_week: dict[int, list[str]] = {}
            for job_id, week in zip(job_ids, weeks, strict=True):
                by_week.setdefault(week, []).append(job_id)
            for week, some in by_week.items():
                found += await self.fetch_text(JOBS_OF_WEEK, some, week)
        by_id = {row["id"]: row for row in found}
        return await self.describe_rows([by_id[each] for each in job_ids if each in by_id])

    async def describe_rows(self, rows: list[Any]) -> JobRows:
        """Rows of jobs, with what they refer to."""
        return JobRows(
            rows=rows,
            waiting_for_others=await self._waiting_for_others(rows),
            client_ids=await self._client_ids_in_reasons(rows),
        )

    async def _waiting_for_others(self, rows: Sequence[Any]) -> set[str]:
        after = {
            row["id"]: row["after"] for row in rows if row["after"] and row["state"] == "QUEUED"
        }
        if not after:
            return set()
        others = list({job_id for dependencies in after.values() for job_id in dependencies})
        states = {row["id"]: row["state"] for row in await self.fetch("states", others)}
        return {
            job_id
            for job_id, dependencies in after.items()
            if any(states.get(each) != "SUCCEEDED" for each in dependencies)
        }

    async def _client_ids_in_reasons(self, rows: Sequence[Any]) -> dict[str, str]:
        """The client ids of the failed dependencies that the reasons name, by their ids."""
        found = {find_failed_dependency(row["reason"]) for row in rows} - {None}
        if not found:
            return {}
        return {row["id"]: row["client_id"] for row in await self.fetch("client_ids", list(found))}

    async def read_labels_and_requests(self, job_ids: Sequence[str]) -> dict[str, Any]:
        """By job id, the labels of these jobs and the resources that they request."""
        return {row["id"]: row for row in await self.fetch("labels_and_requests", list(job_ids))}

    async def read_submissions(
        self, job_ids: Sequence[str]
    ) -> dict[str, tuple[Any, events.JobSubmitted]]:
        """By job id, the labels and requests of these jobs, and their submissions."""
        rows = await self.fetch("submissions", list(job_ids))
        lines = line_chunks.read_lines(rows)
        return {
            row["id"]: (row, _submitted.decode(line))
            for row, line in zip(rows, lines, strict=True)
            if line is not None
        }

    async def count_jobs_by_state(
        self, visible_queues: QueueScope, queue: str | None
    ) -> dict[str, int]:
        """Jobs by state, of one queue or of all that the caller is permitted to view."""
        rows = await self.fetch("totals", *visible_queues.arguments(), queue)
        return {row["state"]: row["jobs"] for row in rows}

    async def read_queues(self, visible_queues: QueueScope, queue: str | None = None) -> list[str]:
        """The names of the queues that have jobs, or only this one if it has jobs."""
        rows = await self.fetch("queues", *visible_queues.arguments(), queue, QUEUES_MAX)
        return [row["queue"] for row in rows]

    async def read_queues_of(self, job_ids: Sequence[str]) -> dict[str, str]:
        """The queues of these jobs, by job id."""
        return {row["id"]: row["queue"] for row in await self.fetch("queues_of", list(job_ids))}

    async def read_rounds(self, pool: str, limit: int) -> list[scheduling_reports.RoundReport]:
        """The last rounds of a pool, newest first."""
        return [
            report
            for row in await self.fetch("rounds", pool, limit)
            if isinstance(
                report := scheduling_reports.decode(row["report"]), scheduling_reports.RoundReport
            )
        ]

    async def read_runs_on(self, executor: str) -> list[Any]:
        """The live runs of a cluster, by node and shape."""
        return await self.fetch("runs_on", executor, RUNS_MAX)

    async def read_shape_requests(self, shapes: Sequence[str]) -> dict[str, bytes]:
        """What these shapes request, as encoded JSON."""
        return {row["key"]: row["requests"] for row in await self.fetch("shapes", list(shapes))}

    async def read_queue_position(self, job: Any, class_values: dict[str, int]) -> str | None:
        """The position of a queued job in its queue and pool, from 1; None if it is not queued.

        Jobs are ordered by class, priority and submission. Only the oldest `JOBS_BEFORE_MAX` are
        examined; a plus sign says that there are more.
        """
        if job["state"] != "QUEUED":
            return None
        (row,) = await self.fetch(
            "jobs_before",
            job["queue"],
            JOBS_BEFORE_MAX,
            job["pool"],
            class_values.get(job["class"], 0),
            job["priority"],
            job["number"],
            job["id"],
            list(class_values),
            list(class_values.values()),
        )
        return f"{row['before'] + 1}{'+' if row['examined'] >= JOBS_BEFORE_MAX else ''}"

    async def read_job(self, job_id: str) -> JobRecord | None:
        """Everything that the view has about a job."""
        rows = await self.fetch("job", job_id)
        if not rows:
            return None
        row = rows[0]
        preempted_runs: list[Any] = []
        if row["state"] == "LEASED":
            preempted_runs = await self.fetch("preempted_runs", job_id)
        return JobRecord(
            row=row,
            submitted=_submitted.decode(line_chunks.read_line(row["lines"], row["chunk_line"])),
            runs=_runs.decode(row["runs"] or "[]"),
            dependencies=await self.read_dependencies(row["after"] or ()),
            preempted_runs=preempted_runs,
        )

    async def read_dependencies(self, after: Sequence[str]) -> Dependencies:
        """The states and client ids of these jobs and arrays."""
        if not after:
            return Dependencies()
        found = {row["id"]: row for row in await self.fetch("dependencies", list(after))}
        return Dependencies(
            {each: found[each]["state"] if each in found else "UNKNOWN" for each in after},
            {each: row["client_id"] for each, row in found.items() if row["client_id"]},
        )
