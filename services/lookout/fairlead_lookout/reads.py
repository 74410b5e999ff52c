"""Reading the view for API and pages. Counts come from the counters, never from counting rows."""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg
import msgspec

from fairlead_common import clock, events, positions
from fairlead_common.db import Pool, load
from fairlead_common.db.pool import AWAY, DatabaseUnavailable
from fairlead_lookout import columns, cursors, shown
from fairlead_lookout.model import JobSet

SQL: Final = load("fairlead_lookout", "sql/read.sql")
SETS_MAX: Final = 32
"""Up to so many job sets are looked into one by one, which a filter on states makes cheap."""
QUEUES_MAX: Final = 1_000
COUNT_MAX: Final = 10_000
GROUPS: Final = ("queue", "jobSet", "class", "state")
_FAILED: Final = frozenset({"FAILED", "REJECTED"})
"""States in which a job has a category."""
_submitted: Final = msgspec.json.Decoder(events.JobSubmitted)


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs a list is about; an empty field does not restrict."""

    queue: str | None = None
    job_set: str | None = None
    states: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def arguments(self) -> tuple[str | None, str | None, list[str], list[str]]:
        """As statements take it."""
        return self.queue, self.job_set, list(self.states), list(self.classes)


class JobFound(msgspec.Struct, frozen=True):
    """A job as it was read: its row, its submission, its runs, the states of those it awaits."""

    row: Any
    submitted: events.JobSubmitted
    runs: list[Any]
    dependencies: dict[str, str]

    @property
    def waits_for_others(self) -> bool:
        """Whether one of those it awaits has not succeeded yet."""
        return any(state != "SUCCEEDED" for state in self.dependencies.values())


class View:
    """The tables of the view, for reading. Raises `DatabaseUnavailable`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def fetch(self, name: str, *arguments: object) -> list[Any]:
        """All rows of a named statement; none for a text that no table can hold (with a NUL)."""
        try:
            rows: list[Any] = await self._pool.fetch(SQL[name], *arguments)
        except AWAY as error:
            raise DatabaseUnavailable(f"Postgres is away: {error}") from error
        except asyncpg.CharacterNotInRepertoireError:
            return []
        return rows

    async def job_set(self, queue: str, job_set: str) -> JobSet | None:
        """A job set that has jobs, without its counters."""
        rows = await self.fetch("set_by_key", queue, job_set)
        return columns.job_set(rows[0]) if rows else None

    async def show_set(self, known: JobSet) -> shown.JobSetShown:
        """A job set with its counters."""
        return (await self._show_sets([known]))[0]

    async def job_sets(
        self,
        queue: str | None,
        active: bool | None,
        name: str | None,
        limit: int,
        cursor: str | None,
    ) -> shown.JobSetsShown:
        """A page of job sets, newest first."""
        query = ("jobsets", queue, active, name)
        place = cursors.decode(query, cursor)
        rows = await self.fetch("job_sets", queue, active, name, place and place[0], limit + 1)
        sets = [columns.job_set(row) for row in rows[:limit]]
        following = cursors.encode(query, sets[-1].number) if len(rows) > limit else None
        return shown.JobSetsShown(job_sets=await self._show_sets(sets), next=following)

    async def _show_sets(self, sets: Sequence[JobSet]) -> list[shown.JobSetShown]:
        states: dict[int, dict[str, int]] = {each.number: {} for each in sets}
        for row in await self.fetch("counts_of_sets", list(states)):
            states[row["set_number"]][row["state"]] = row["jobs"]
        return [
            shown.job_set(
                each,
                states[each.number],
                positions.encode({each.partition: each.position + 1}),
            )
            for each in sets
        ]

    async def jobs(
        self, wanted: JobFilter, limit: int, cursor: str | None, *, count: bool = False
    ) -> shown.JobsShown:
        """A page of jobs, newest first."""
        query = ("jobs", *wanted.arguments())
        place = cursors.decode(query, cursor) or (None, None)
        rows = await self._job_rows(wanted, place, limit + 1)
        following = None
        if len(rows) > limit:
            del rows[limit:]
            following = cursors.encode(query, rows[-1]["number"], rows[-1]["id"])
        waiting = await self._waiting_for_others(rows)
        now_ms = clock.now_ms()
        jobs = [shown.job(row, now_ms, row["id"] in waiting) for row in rows]
        total = await self._count(wanted) if count else None
        return shown.JobsShown(jobs=jobs, next=following, count=total)

    async def _job_rows(
        self, wanted: JobFilter, place: tuple[int | None, str | None], limit: int
    ) -> list[Any]:
        # A job set of one name may be in many queues; else many sets are looked into by queue.
        most = QUEUES_MAX if wanted.job_set is not None else SETS_MAX
        sets = await self.fetch("sets_with", *wanted.arguments(), most + 1)
        states, classes = list(wanted.states), list(wanted.classes)
        if len(sets) <= most or wanted.job_set is not None:
            numbers = [row["number"] for row in sets]
            return await self.fetch("jobs_of_sets", numbers, states, classes, *place, limit)
        rows = await self.fetch("queues_with", wanted.queue, states, classes, QUEUES_MAX)
        queues = [row["queue"] for row in rows]
        failed = bool(states) and _FAILED.issuperset(states)
        name = "failed_jobs_of_queues" if failed else "jobs_of_queues"
        return await self.fetch(name, queues, states, classes, *place, limit)

    async def _waiting_for_others(self, rows: Sequence[Any]) -> set[str]:
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

    async def _count(self, wanted: JobFilter) -> str:
        total = sum(row["jobs"] for row in await self.fetch("counts", *wanted.arguments()))
        return str(total) if total <= COUNT_MAX else f"{COUNT_MAX}+"

    async def totals(self, queue: str | None) -> dict[str, int]:
        """Jobs by state, of a queue or of all."""
        return {row["state"]: row["jobs"] for row in await self.fetch("totals", queue)}

    async def queues(self) -> list[str]:
        """The names of queues that have jobs."""
        return [row["queue"] for row in await self.fetch("queues", QUEUES_MAX)]

    async def groups(self, wanted: JobFilter, by: Sequence[str], limit: int) -> shown.GroupsShown:
        """Counts per group of some of `GROUPS`, greatest first."""
        names = {"queue": "queue", "jobSet": "job_set", "class": "class", "state": "state"}
        totals: dict[tuple[str, ...], int] = {}
        for row in await self.fetch("counts", *wanted.arguments()):
            key = tuple(row[names[name]] for name in by)
            totals[key] = totals.get(key, 0) + row["jobs"]
        ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:limit]
        return shown.GroupsShown(
            groups=[
                shown.GroupShown(group=dict(zip(by, key, strict=True)), jobs=jobs)
                for key, jobs in ordered
            ]
        )

    async def job(self, job_id: str) -> JobFound | None:
        """Everything that is known of a job."""
        rows = await self.fetch("job", job_id)
        if not rows:
            return None
        row = rows[0]
        dependencies: dict[str, str] = {}
        if row["after"]:
            known = {each["id"]: each["state"] for each in await self.fetch("states", row["after"])}
            dependencies = {each: known.get(each, "UNKNOWN") for each in row["after"]}
        return JobFound(
            row=row,
            submitted=_submitted.decode(row["submitted"]),
            runs=await self.fetch("runs_of_job", job_id),
            dependencies=dependencies,
        )
