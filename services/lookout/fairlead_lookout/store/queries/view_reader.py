"""Reading the view for API and pages. Counts come from the counters, never from counting rows.

Lists of jobs are in `job_lists.py`.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final

import asyncpg
import msgspec

from fairlead_common.db import Pool, translate_errors
from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events, scheduling_reports
from fairlead_common.service import clock
from fairlead_common.web.fair_semaphore import FairSemaphore
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.http import export_responses, responses
from fairlead_lookout.store.fold import table_rows
from fairlead_lookout.store.queries import list_cursors
from fairlead_lookout.store.queries.list_statements import SQL

QUEUES_MAX: Final = 2_000
SETS_LOOKED_AT: Final = 20_000
"""Job sets whose names a page looks at, at most; what follows is for the next page."""
SETS_COUNTED_MAX: Final = 10_000
_submitted: Final = msgspec.json.Decoder(events.JobSubmitted)
_runs: Final = msgspec.json.Decoder(list[dict[str, Any]])


class SetFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which job sets a list is about; an empty field does not restrict."""

    reach: QueueScope = ALL_QUEUES
    queue: str | None = None
    active: bool | None = None
    q: str | None = None


class JobFound(msgspec.Struct, frozen=True):
    """A job as it was read: its row, its submission, its runs, the states of those it awaits, and
    their client ids where they have one.
    """

    row: Any
    submitted: events.JobSubmitted
    runs: list[Any]
    dependencies: dict[str, str]
    client_ids: dict[str, str]
    giving_way: list[Any]
    """Of a job that has its node and has not started: runs there that must end first."""

    @property
    def waits_for_others(self) -> bool:
        """Whether one of those it awaits has not succeeded yet."""
        return any(state != "SUCCEEDED" for state in self.dependencies.values())


class View:
    """The tables of the view, for reading. Raises `DatabaseUnavailable`, and a `Problem` for a
    statement that took too long or whose caller has too many waiting.

    `shares`: the places for statements that run at the same time, of which each caller has some.
    """

    def __init__(self, pool: Pool, shares: FairSemaphore | None = None) -> None:
        self._pool = pool
        self._shares = shares

    async def fetch(self, name: str, *arguments: object) -> list[Any]:
        """All rows of a named statement."""
        return await self.ask(SQL[name], *arguments)

    async def ask(self, text: str, *arguments: object) -> list[Any]:
        """All rows of a statement; none for a text that no table can hold (with a NUL)."""
        place = nullcontext() if self._shares is None else self._shares.place()
        try:
            async with place:
                with translate_errors():
                    rows: list[Any] = await self._pool.fetch(text, *arguments)
        except asyncpg.CharacterNotInRepertoireError:
            return []
        except asyncpg.QueryCanceledError:
            raise Problem(
                "unavailable",
                "The query took too long and was ended. Narrow the filter, or try again later.",
                retry_after_s=5,
            ) from None
        return rows

    async def job_set(self, queue: str, job_set: str) -> JobSet | None:
        """A job set that has jobs, without its counters."""
        rows = await self.fetch("set_by_key", queue, job_set)
        return table_rows.job_set(rows[0]) if rows else None

    async def show_set(self, known: JobSet) -> responses.JobSetShown:
        """A job set with its counters."""
        return (await self._show_sets([known]))[0]

    async def job_sets(
        self,
        wanted: SetFilter,
        limit: int,
        cursor: str | None,
    ) -> responses.JobSetsShown:
        """A page of job sets, newest first; it may be shorter where a name finds few of many."""
        query = ("jobsets", wanted.queue, wanted.active, wanted.q)
        place = list_cursors.decode(query, cursor)
        looked = SETS_LOOKED_AT if wanted.q is not None else 0
        rows = await self._sets(wanted, place and place[0], limit + 1, looked, least=limit + 1)
        sets = [table_rows.job_set(row) for row in rows if row["number"] is not None]
        following = None
        if len(sets) > limit:
            del sets[limit:]
            following = list_cursors.encode(query, sets[-1].number)
        elif rows and rows[0]["horizon"] is not None:
            following = list_cursors.encode(query, rows[0]["horizon"])
        return responses.JobSetsShown(job_sets=await self._show_sets(sets), next=following)

    async def count_sets(self, wanted: SetFilter) -> str:
        """How many job sets there are, up to a bound; `+` where more were not looked at."""
        rows = await self._sets(wanted, None, SETS_COUNTED_MAX + 1, SETS_LOOKED_AT, least=1)
        found = sum(row["number"] is not None for row in rows)
        if found > SETS_COUNTED_MAX:
            return f"{SETS_COUNTED_MAX}+"
        return f"{found}+" if rows and rows[0]["horizon"] is not None else str(found)

    async def _sets(
        self, wanted: SetFilter, begin: int | None, most: int, looked: int, *, least: int
    ) -> Sequence[Any]:
        """At most so many of the newest job sets, of `looked` in all, but `least` of each queue."""
        if wanted.queue is None and wanted.active is None and wanted.reach.only is None:
            looked = max(least, looked if wanted.reach.is_everything else SETS_LOOKED_AT)
            arguments: tuple[object, ...] = (*wanted.reach.arguments(), begin, looked)
            return await self.fetch("newest_sets", *arguments, wanted.q, most)
        queues = await self.queues(wanted.reach, wanted.queue)
        looked = max(least, looked // max(len(queues), 1))
        return await self.fetch(
            "sets_of_queues", queues, wanted.active, begin, looked, wanted.q, most
        )

    async def _show_sets(self, sets: Sequence[JobSet]) -> list[responses.JobSetShown]:
        states: dict[int, dict[str, int]] = {each.number: {} for each in sets}
        for row in await self.fetch("counts_of_sets", list(states)):
            states[row["set_number"]][row["state"]] = row["jobs"]
        now_ms = clock.now_ms()
        return [responses.job_set(each, states[each.number], now_ms) for each in sets]

    async def waiting_for_others(self, rows: Sequence[Any]) -> set[str]:
        """Which of these jobs wait for another job to succeed."""
        after = {
            row["id"]: row["after"] for row in rows if row["after"] and row["state"] == "QUEUED"
        }
        if not after:
            return set()
        ids = list({job_id for awaited in after.values() for job_id in awaited})
        states = {row["id"]: row["state"] for row in await self.fetch("states", ids)}
        return {
            job_id
            for job_id, awaited in after.items()
            if any(states.get(each) != "SUCCEEDED" for each in awaited)
        }

    async def client_ids(self, rows: Sequence[Any]) -> dict[str, str]:
        """The client ids of the jobs because of which these were cancelled, by their ids."""
        found = {responses.awaited(row["reason"]) for row in rows} - {None}
        if not found:
            return {}
        return {row["id"]: row["client_id"] for row in await self.fetch("client_ids", list(found))}

    async def with_specs(self, jobs: Sequence[responses.JobShown]) -> list[responses.JobExported]:
        """These jobs with their labels and what they ask for."""
        rows = await self.fetch("labels_and_requests", [job.id for job in jobs])
        known = {row["id"]: row for row in rows}
        return [responses.exported(job, known.get(job.id)) for job in jobs]

    async def with_submissions(
        self, jobs: Sequence[responses.JobShown]
    ) -> list[export_responses.JobWithSubmission]:
        """These jobs with their labels and what decides where and when they run."""
        rows = await self.fetch("submissions", [job.id for job in jobs])
        known = {row["id"]: row for row in rows}
        return [
            export_responses.with_submission(job, row, _submitted.decode(row["submitted"]))
            for job in jobs
            if (row := known.get(job.id)) is not None
        ]

    async def totals(self, reach: QueueScope, queue: str | None) -> dict[str, int]:
        """Jobs by state, of a queue or of all."""
        rows = await self.fetch("totals", *reach.arguments(), queue)
        return {row["state"]: row["jobs"] for row in rows}

    async def queues(self, reach: QueueScope, queue: str | None = None) -> list[str]:
        """The names of queues that have jobs, or of this one if it has."""
        rows = await self.fetch("queues", *reach.arguments(), queue, QUEUES_MAX)
        return [row["queue"] for row in rows]

    async def rounds(self, pool: str, limit: int) -> list[scheduling_reports.Round]:
        """The last rounds of a pool, newest first."""
        return [
            done
            for row in await self.fetch("rounds", pool, limit)
            if isinstance(
                done := scheduling_reports.decode(row["report"]), scheduling_reports.Round
            )
        ]

    async def job(self, job_id: str) -> JobFound | None:
        """Everything that is known of a job."""
        rows = await self.fetch("job", job_id)
        if not rows:
            return None
        row = rows[0]
        dependencies: dict[str, str] = {}
        client_ids: dict[str, str] = {}
        if row["after"]:
            known = {each["id"]: each for each in await self.fetch("dependencies", row["after"])}
            dependencies = {
                each: known[each]["state"] if each in known else "UNKNOWN" for each in row["after"]
            }
            client_ids = {
                each: found["client_id"] for each, found in known.items() if found["client_id"]
            }
        giving_way: list[Any] = []
        if row["state"] == "LEASED":
            giving_way = await self.fetch("giving_way", job_id, row["run"])
        return JobFound(
            row=row,
            submitted=_submitted.decode(row["submitted"]),
            runs=_runs.decode(row["runs"] or "[]"),
            dependencies=dependencies,
            client_ids=client_ids,
            giving_way=giving_way,
        )
