"""Submissions in chunks: who reads them, what moves with a job, and how a view without them is
migrated."""

from typing import Any, Final

import asyncpg
import msgspec

from fairlead_common.db import Pool, open_pool
from fairlead_common.domain.ids import job_set_partition
from fairlead_common.domain.records.events import JobSubmitted
from fairlead_common.domain.records.job_properties import Gang
from fairlead_common.log.memory_log import MemoryCore
from fairlead_common.service import clock
from fairlead_lookout.domain.submission_chunks import LINES_MAX
from fairlead_lookout.store import job_weeks, viewed_jobs
from fairlead_lookout.store.job_weeks import WEEK_MS
from fairlead_lookout.store.view_schema import SCHEMA
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_pruning import append_at, drop_expired_weeks
from tests.integration.lookout.test_weeks import migrate_to
from tests.unit.lookout.builders import cancel, job_id, leased, submitted, succeeded

THIS_WEEK: Final = job_weeks.week_of(clock.now_ms())


def named(name: str) -> JobSubmitted:
    """A submission whose namespace says whose it is."""
    return submitted(name, namespace=f"of-{name}")


async def check_submissions(harness: LookoutHarness, *names: str) -> None:
    """Each of these jobs has its own submission."""
    for name in names:
        job = await harness.read(f"/jobs/{job_id(name)}")
        assert (job["clientId"], job["namespace"]) == (name, f"of-{name}")


async def count_chunks(database: str) -> dict[int, int]:
    """The chunks of each week."""
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch(
            f"SELECT week, count(*) AS chunks FROM {SCHEMA}.submissions GROUP BY week"
        )
    finally:
        await connection.close()
    return {row["week"]: row["chunks"] for row in rows}


async def test_many_submissions_are_in_few_chunks(fresh_database: str, valkey_url: str) -> None:
    names = [f"j{number}" for number in range(2 * LINES_MAX + 10)]
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(*[named(name) for name in names])
        await harness.read("/jobsets", after)
        assert await count_chunks(fresh_database) == {THIS_WEEK: 3}
        await check_submissions(harness, names[0], names[LINES_MAX], names[-1])
        pool = await open_pool(fresh_database, size_max=1)
        try:
            found = await viewed_jobs.find_jobs(pool, [job_id(name) for name in names])
        finally:
            await pool.close()
        read = {each.submitted.namespace for each in found.values() if each.submitted is not None}
        assert read == {f"of-{name}" for name in names}


async def test_chunks_of_a_process_that_starts_again_are_new_ones(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    for name in "abc":
        async with running(fresh_database, valkey_url, core) as harness:
            await harness.read("/jobsets", await harness.append_events(named(name)))
            await check_submissions(harness, *"abc"[: "abc".index(name) + 1])
    assert await count_chunks(fresh_database) == {THIS_WEEK: 3}


async def test_a_job_that_moves_to_another_week_takes_its_chunk_along(
    fresh_database: str, valkey_url: str
) -> None:
    core, now_ms = MemoryCore(), clock.now_ms()
    names = ("early", "late", "later", "live")
    async with running(fresh_database, valkey_url, core) as harness:
        await append_at(
            core,
            now_ms - 6 * WEEK_MS,
            *(named(name) for name in names),
            *(leased(name) for name in names[1:]),
            cancel("early"),
        )
        await append_at(core, now_ms - 3 * WEEK_MS, *succeeded("late"), *succeeded("later"))
        await harness.read("/jobsets", await harness.append_events(named("new")))
        await check_submissions(harness, *names, "new")
    async with running(fresh_database, valkey_url, core, jobs_days=28) as harness:
        assert await drop_expired_weeks(fresh_database, 28) == [THIS_WEEK - 6]
        assert await count_chunks(fresh_database) == {THIS_WEEK - 3: 1, THIS_WEEK: 2}
        await check_submissions(harness, "late", "later", "live", "new")
        assert (await harness.get(f"/jobs/{job_id('early')}")).status_code == 404
    async with running(fresh_database, valkey_url, core, jobs_days=0) as harness:
        assert THIS_WEEK - 3 in await drop_expired_weeks(fresh_database)
        assert await count_chunks(fresh_database) == {THIS_WEEK: 2}
        await check_submissions(harness, "live", "new")


async def test_the_submissions_of_a_view_with_a_row_for_each_stay(
    empty_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    gang = Gang("band", 2)
    before = [
        (submitted("last", namespace="of-last", gang=gang), THIS_WEEK - 1),
        (submitted("this", namespace="of-this", annotations={"team": "a"}), THIS_WEEK),
        (named("other"), THIS_WEEK),
    ]
    pool = await open_pool(empty_database, size_max=1)
    try:
        await migrate_to(pool, "0107")
        await insert_specs(pool, before)
        async with running(empty_database, valkey_url, core) as harness:
            await harness.read("/jobsets", await harness.append_events(named("new")))
            await check_submissions(harness, "last", "this", "other", "new")
            found = await harness.read("/jobs", **{"annotation.team": "a"})
            assert [job["id"] for job in found["jobs"]] == [job_id("this")]
        assert await count_chunks(empty_database) == {THIS_WEEK - 1: 1, THIS_WEEK: 3}
        rows = await pool.fetch(
            f"SELECT client_id, digest, gang, submitted_bytes FROM {SCHEMA}.jobs ORDER BY 1"
        )
        new = (named("new"), THIS_WEEK)
        assert [tuple(row) for row in rows] == [
            (event.client_id, "d", event.gang and event.gang.name, len(msgspec.json.encode(event)))
            for event, _ in sorted([*before, new], key=lambda each: each[0].client_id or "")
        ]
        # Jobs of both weeks move to one: their chunks have different numbers.
        async with running(empty_database, valkey_url, core, jobs_days=0) as harness:
            await drop_expired_weeks(empty_database)
            await check_submissions(harness, "last", "this", "other", "new")
    finally:
        await pool.close()


async def insert_specs(pool: Pool, submissions: list[tuple[JobSubmitted, int]]) -> None:
    """Queued jobs of these weeks, in a view that has each submission in a row of its own."""
    await pool.execute(
        f"INSERT INTO {SCHEMA}.job_sets (queue, job_set, partition, jobs, live, active, first_ms)"
        " VALUES ('q', 's', $1, $2, $2, true, $3)",
        *(job_set_partition("q", "s"), len(submissions), job_weeks.start_ms(THIS_WEEK - 1)),
    )
    for event, week in submissions:
        await pool.execute(f"SELECT {SCHEMA}.create_week($1)", week)
        await pool.execute(
            f"INSERT INTO {SCHEMA}.jobs (id, set_number, queue, class, pool, number, submitted_ms,"
            " shape, state, held, priority, run, changed_ms, week)"
            " VALUES ($1, 1, 'q', 'default', 'default', 1, 1, 's', 'QUEUED', false, 0, 0, 1, $2)",
            *(event.job_id, week),
        )
        annotations: Any = msgspec.json.encode(event.annotations).decode()
        await pool.execute(
            f"INSERT INTO {SCHEMA}.job_specs"
            " (job_id, digest, client_id, annotations, submitted, week)"
            " VALUES ($1, 'd', $2, $3, $4, $5)",
            *(event.job_id, event.client_id, annotations, msgspec.json.encode(event), week),
        )
    for table, key in (("counters", "set_number"), ("queue_counts", "queue")):
        await pool.execute(
            f"INSERT INTO {SCHEMA}.{table} ({key}, class, state, jobs)"
            f" SELECT {key}, class, state, count(*) FROM {SCHEMA}.jobs GROUP BY 1, 2, 3"
        )
