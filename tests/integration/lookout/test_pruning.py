"""Jobs are dropped with their week, and the counters are as if they had never existed."""

import asyncio
from typing import Any

import asyncpg
import msgspec

from fairlead_common.db import open_pool
from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log.memory_log import MemoryCore, MemoryLog
from fairlead_common.service import clock
from fairlead_lookout.store import job_weeks, week_tables
from fairlead_lookout.store.job_weeks import WEEK_MS
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import (
    cancel,
    job_id,
    leased,
    pending,
    submitted,
    succeeded,
)

MISCOUNTED = """
    SELECT * FROM fairlead_lookout.queue_counts q FULL JOIN (
        SELECT queue, class, state, count(*) AS jobs FROM fairlead_lookout.jobs GROUP BY 1, 2, 3
    ) j USING (queue, class, state) WHERE coalesce(q.jobs, 0) <> coalesce(j.jobs, 0)
"""
UNFINISHED = """
    SELECT count(*) FROM fairlead_lookout.progress
    WHERE expired_week < $1 OR expiring_week IS NOT NULL
"""


async def append_at(
    core: MemoryCore, time_ms: int, *appended: events.AnyEvent, job_set: str = "s"
) -> None:
    """Append events as if it were this time."""
    log = MemoryLog(lambda: time_ms, core)
    producer = await log.producer("past")
    await producer.append(events.records("q", job_set, "anna", appended))


async def drop_expired_weeks(database: str, days: int = 0) -> list[int]:
    """Wait until all jobs that are too old are no longer counted, and drop their tables."""
    expired = job_weeks.find_expired_week(clock.now_ms(), days)
    pool = await open_pool(database, size_max=1)
    try:
        async with asyncio.timeout(120):
            while await pool.fetchval(UNFINISHED, expired):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        dropped = await week_tables.drop_expired_weeks(pool)
        assert not await pool.fetch(MISCOUNTED)
    finally:
        await pool.close()
    return dropped


async def read_weeks(database: str) -> dict[str, dict[str, set[int]]]:
    """Table -> job -> the weeks in which it has rows."""
    connection = await asyncpg.connect(database)
    found: dict[str, dict[str, set[int]]] = {}
    try:
        for table, key in (("jobs", "id"), ("runs_of_jobs", "job_id")):
            for row in await connection.fetch(
                f"SELECT {key} AS id, week FROM fairlead_lookout.{table}"
            ):
                found.setdefault(table, {}).setdefault(row["id"], set()).add(row["week"])
    finally:
        await connection.close()
    return found


async def test_jobs_are_dropped_with_their_week_and_live_jobs_stay(
    fresh_database: str, valkey_url: str
) -> None:
    core, now_ms = MemoryCore(), clock.now_ms()
    async with running(fresh_database, valkey_url, core) as harness:
        jobs = [submitted(f"j{number}") for number in range(50)]
        ended = [cancel(f"j{number}") for number in range(40)]
        await append_at(core, now_ms - 3 * WEEK_MS, *jobs, *ended)
        gone = [submitted("a", "t"), cancel_in("a", "t")]
        await append_at(core, now_ms - 3 * WEEK_MS, *gone, job_set="t")
        await harness.read("/jobsets", await harness.append_events(submitted("new")))
    connection = await asyncpg.connect(fresh_database)
    try:
        weeks = await week_names(connection)
        this_week = job_weeks.week_of(now_ms)
        assert this_week - 3 in weeks
        async with running(fresh_database, valkey_url, core, jobs_days=0) as harness:
            assert await drop_expired_weeks(fresh_database) == [this_week - 3]
            assert this_week - 3 not in await week_names(connection)
            assert len((await harness.read("/jobs", limit=1_000))["jobs"]) == 11
            found = await harness.read("/jobs", groupBy="queue,state")
            assert found["groups"] == [{"group": {"queue": "q", "state": "QUEUED"}, "jobs": 11}]
            (only,) = (await harness.read("/jobsets"))["jobSets"]
            assert (only["jobSet"], only["jobs"], only["states"]) == ("s", 11, {"QUEUED": 11})
            assert (await harness.get(f"/jobs/{job_id('j0')}")).status_code == 404
            assert (await harness.read(f"/jobs/{job_id('j49')}"))["state"] == "QUEUED"
            # The name of a job set that is gone begins anew, and so does a job's.
            again = await harness.read(
                "/jobsets/q/t", await harness.append_events(submitted("a", "t"), job_set="t")
            )
            assert again["jobs"] == 1
            after = await harness.append_events(submitted("j0"), cancel("j49"))
            assert (await harness.read("/jobsets/q/s", after))["jobs"] == 12
            assert not await connection.fetch(MISCOUNTED)
    finally:
        await connection.close()


async def week_names(connection: Any) -> set[int]:
    """The weeks that have tables of all kinds."""
    rows = await connection.fetch(
        "SELECT substr(c.relname, length(p.relname) + 2)::int AS week FROM pg_inherits i"
        " JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent"
        " WHERE p.relnamespace = 'fairlead_lookout'::regnamespace AND p.relkind = 'p'"
        " AND p.relname IN ('jobs', 'submissions', 'older_runs') GROUP BY 1 HAVING count(*) = 3"
    )
    return {row["week"] for row in rows}


async def test_a_job_that_ended_later_moves_to_the_week_of_its_end(
    fresh_database: str, valkey_url: str
) -> None:
    core, now_ms = MemoryCore(), clock.now_ms()
    this_week = job_weeks.week_of(now_ms)
    async with running(fresh_database, valkey_url, core) as harness:
        await append_at(
            core,
            now_ms - 5 * WEEK_MS,
            *(submitted(name) for name in ("early", "late", "live")),
            *(leased(name) for name in ("late", "live")),
            cancel("early"),
        )
        await append_at(core, now_ms - 2 * WEEK_MS, pending("live"), *succeeded("late"))
        await harness.read("/jobsets", await harness.append_events(submitted("other")))
        weeks = await read_weeks(fresh_database)
        assert weeks["jobs"][job_id("late")] == weeks["jobs"][job_id("live")] == {this_week - 5}
    async with running(fresh_database, valkey_url, core, jobs_days=21) as harness:
        assert await drop_expired_weeks(fresh_database, 21) == [this_week - 5]
        weeks = await read_weeks(fresh_database)
        for table in ("jobs", "runs_of_jobs"):
            assert weeks[table][job_id("late")] == {this_week - 2}
            assert weeks[table][job_id("live")] == {job_weeks.week_of(clock.now_ms())}
        # A moved job is changed where it is now, and what was moved is found as before.
        after = await harness.append_events(*succeeded("live"))
        job = await harness.read(f"/jobs/{job_id('live')}", after)
        assert (job["state"], job["runs"][0]["state"]) == ("SUCCEEDED", "SUCCEEDED")
        assert (await harness.read(f"/jobs/{job_id('late')}"))["runs"][0]["state"] == "SUCCEEDED"
        (job_set,) = (await harness.read("/jobsets"))["jobSets"]
        assert job_set["states"] == {"SUCCEEDED": 2, "QUEUED": 1}
    async with running(fresh_database, valkey_url, core, jobs_days=0):
        assert this_week - 2 in await drop_expired_weeks(fresh_database)
        assert job_id("late") not in (await read_weeks(fresh_database))["jobs"]


async def test_a_shape_is_deleted_with_its_last_job_and_recreated(
    fresh_database: str, valkey_url: str
) -> None:
    core, now_ms = MemoryCore(), clock.now_ms()
    small, large, other = ({"cpu": amount} for amount in (1, 2, 3))
    async with running(fresh_database, valkey_url, core) as harness:
        history = [shaped("live", small), shaped("gone", large), shaped("back", other)]
        ended = [cancel("gone"), cancel("back")]
        await append_at(core, now_ms - 2 * WEEK_MS, *history, *ended)
        await harness.read(
            "/jobsets", await harness.append_events(submitted("new", shape=history[0].shape))
        )
    connection = await asyncpg.connect(fresh_database)
    try:
        await connection.execute("UPDATE fairlead_lookout.shapes SET used = used - 8")
        # As if it had been submitted then, and nothing had happened to it since.
        await connection.execute("UPDATE fairlead_lookout.jobs SET number = 1")
        async with running(fresh_database, valkey_url, core, jobs_days=0) as harness:
            async with asyncio.timeout(120):
                while await known_shapes(connection) != [small]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await harness.read("/jobsets", await harness.append_events(shaped("again", other)))
            assert await known_shapes(connection) == [small, other]
    finally:
        await connection.close()


def shaped(name: str, requests: dict[str, int]) -> events.JobSubmitted:
    """A job that asks for this."""
    return submitted(name, shape=shapes.encode(shapes.Shape(requests)))


async def known_shapes(connection: Any) -> list[dict[str, int]]:
    """What the shapes of the view ask for."""
    rows = await connection.fetch("SELECT requests FROM fairlead_lookout.shapes ORDER BY requests")
    return [msgspec.json.decode(row["requests"]) for row in rows]


def cancel_in(name: str, job_set: str) -> events.AnyEvent:
    """Somebody wants a job of another set gone."""
    return events.JobCancelRequested(job_id=job_id(name, job_set), reason="enough")
