"""The tables of weeks: migration of an existing view, and how weeks expire in steps."""

from importlib import resources
from typing import Any, Final

import asyncpg
import msgspec

from fairlead_common.db import Pool, open_pool
from fairlead_common.domain.ids import job_set_partition
from fairlead_common.log.memory_log import MemoryCore
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_common.service import clock
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.store import job_weeks, week_tables
from fairlead_lookout.store.fold.fold_cache import FoldCache
from fairlead_lookout.store.fold.week_expiry import WeekExpiry
from fairlead_lookout.store.job_weeks import WEEK_MS
from fairlead_lookout.store.view_schema import SCHEMA, migrate_schema
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_pruning import MISCOUNTED, append_at, read_weeks
from tests.unit.lookout.builders import (
    cancel,
    job_id,
    leased,
    pending,
    submitted,
    succeeded,
)

THIS_WEEK: Final = job_weeks.week_of(clock.now_ms())
OLD: Final = THIS_WEEK - 3
SETS: Final = 450
"""More than are examined in one step."""
FILL: Final = """
    INSERT INTO fairlead_lookout.job_sets (queue, job_set, partition, jobs, failures, superseded)
    SELECT 'q', name, partition, 3, '{"oom": 1}', 1
    FROM unnest($1::text[], $2::int[]) AS s (name, partition)
    """
FILL_JOBS: Final = """
    INSERT INTO fairlead_lookout.jobs (id, set_number, queue, class, pool, number, submitted_ms,
        shape, state, held, priority, run, changed_ms, ended_ms, category, superseded_by, week)
    SELECT lpad((3 * s.number + n)::text, 28, '0'), s.number, 'q', 'default', 'default', n, 0,
        's', (ARRAY['SUCCEEDED', 'FAILED', 'QUEUED'])[n], false, 0, 0, 0,
        CASE WHEN n < 3 THEN $2::bigint END, CASE n WHEN 2 THEN 'oom' END,
        CASE n WHEN 2 THEN 'other' END, $1
    FROM fairlead_lookout.job_sets s CROSS JOIN generate_series(1, 3) AS n
    """
COUNT: Final = """
    INSERT INTO fairlead_lookout.counters (set_number, class, state, jobs)
    SELECT set_number, class, state, count(*) FROM fairlead_lookout.jobs GROUP BY 1, 2, 3;
    INSERT INTO fairlead_lookout.queue_counts (queue, class, state, jobs)
    SELECT queue, class, state, count(*) FROM fairlead_lookout.jobs GROUP BY 1, 2, 3;
    INSERT INTO fairlead_lookout.groups
        (id, queue, job_set, digest, terms, labels, submitted_ms, changed_ms)
    SELECT 'group', queue, job_set, '', '{"roles": []}', '{}', 0, 0
    FROM fairlead_lookout.job_sets WHERE number = 1;
    INSERT INTO fairlead_lookout.group_members (job_id, group_id, role, number)
    SELECT id, 'group', 'worker', n FROM (
        SELECT id, row_number() OVER () AS n FROM fairlead_lookout.jobs
        WHERE set_number = 1 AND state <> 'QUEUED'
    ) ended;
    INSERT INTO fairlead_lookout.group_events (group_id, position, item, time_ms, type, line)
    VALUES ('group', 0, 0, 0, 'groupSubmitted', '{}');
    INSERT INTO fairlead_lookout.arrays (id, queue, job_set, class, digest, tasks, waiting,
        cancelled, submitted, submitted_ms, submitted_by, ended_ms)
    SELECT 'array', queue, job_set, 'default', '', 5, 0, 5, '{}', 0, '', 1
    FROM fairlead_lookout.job_sets WHERE number = 2;
    INSERT INTO fairlead_lookout.array_counts VALUES ('array', 'CANCELLED', 5);
    UPDATE fairlead_lookout.job_sets SET jobs = jobs + 5 WHERE number = 2;
    INSERT INTO fairlead_lookout.counters VALUES (2, 'default', 'CANCELLED', 5);
    INSERT INTO fairlead_lookout.queue_counts VALUES ('q', 'default', 'CANCELLED', 5);
    """


async def fill(pool: Pool) -> None:
    """Job sets, each with two ended jobs and a queued one of an old week; a group whose members
    ended, and an array whose tasks never became jobs."""
    await migrate_schema(pool)
    names = [f"set-{number}" for number in range(SETS)]
    partitions = [job_set_partition("q", name) for name in names]
    async with pool.acquire() as connection, connection.transaction():
        await week_tables.create_weeks(connection, [OLD])
        await connection.execute(FILL, names, partitions)
        await connection.execute(FILL_JOBS, OLD, job_weeks.start_ms(OLD))
        await connection.execute(COUNT)
        await connection.executemany(
            "INSERT INTO fairlead_lookout.progress (partition, position) VALUES ($1, 0)",
            [(partition,) for partition in range(JOB_PARTITIONS)],
        )


async def expire(connection: Any, held: frozenset[int]) -> None:
    """One step of a process that has just started and holds these partitions."""
    expiry = WeekExpiry(connection, FoldCache(), jobs_days=0)
    await expiry.load(held)
    await expiry.expire_some(held)


async def test_a_week_is_dropped_after_all_partitions_finished_whatever_restarts(
    fresh_database: str,
) -> None:
    pool = await open_pool(fresh_database, size_max=2)
    first, second = frozenset(range(7)), frozenset(range(7, JOB_PARTITIONS))
    everything = first | second
    try:
        await fill(pool)
        async with pool.acquire() as connection:
            for held in (first, everything, second, everything, first):
                await expire(connection, held)
                assert await week_tables.drop_expired_weeks(pool) == []
            steps = 0
            while not await week_tables.drop_expired_weeks(pool):
                await expire(connection, everything)
                assert (steps := steps + 1) < 100
        assert not await pool.fetch(MISCOUNTED)
        counted = await pool.fetch(
            "SELECT DISTINCT jobs, failures, superseded FROM fairlead_lookout.job_sets"
        )
        assert [tuple(row) for row in counted] == [(1, "{}", 0)]
        assert await pool.fetchval("SELECT count(*) FROM fairlead_lookout.job_sets") == SETS
        for table in ("groups", "group_members", "group_events", "arrays", "array_counts"):
            assert await pool.fetchval(f"SELECT count(*) FROM fairlead_lookout.{table}") == 0
        jobs = await pool.fetch("SELECT DISTINCT state, week FROM fairlead_lookout.jobs")
        assert [tuple(row) for row in jobs] == [("QUEUED", THIS_WEEK)]
    finally:
        await pool.close()


async def test_a_week_is_not_dropped_before_the_last_partition(fresh_database: str) -> None:
    pool = await open_pool(fresh_database, size_max=2)
    try:
        await fill(pool)
        await pool.execute("UPDATE fairlead_lookout.progress SET expired_week = $1", OLD)
        await pool.execute(
            "UPDATE fairlead_lookout.progress SET expired_week = $1 WHERE partition = 9", OLD - 1
        )
        assert await week_tables.drop_expired_weeks(pool) == []
        await pool.execute("UPDATE fairlead_lookout.progress SET expired_week = $1", OLD)
        assert await week_tables.drop_expired_weeks(pool) == [OLD]
    finally:
        await pool.close()


async def test_a_job_that_is_submitted_again_weeks_later_exists_once(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    now_ms = clock.now_ms()
    async with running(fresh_database, valkey_url, core) as harness:
        await append_at(core, now_ms - 2 * WEEK_MS, submitted("a"), cancel("a"))
        await append_at(core, now_ms, submitted("b"))
        # The clock of the log has stepped back.
        await append_at(core, now_ms - 3 * WEEK_MS, submitted("c"), cancel("c"))
        await harness.read("/jobsets/q/s", await harness.append_events(submitted("d")))
    before = await read_weeks(fresh_database)
    assert {len(weeks) for weeks in before["jobs"].values()} == {1}
    assert before["jobs"][job_id("c")] == {THIS_WEEK - 3}
    async with running(fresh_database, valkey_url, core) as harness:  # with an empty cache
        again = [submitted(name) for name in "abcd"]
        job_set = await harness.read("/jobsets/q/s", await harness.append_events(*again))
        assert (job_set["jobs"], job_set["live"]) == (4, 2)
    assert await read_weeks(fresh_database) == before


async def test_jobs_of_an_old_log_are_not_added_to_expired_weeks(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    async with running(fresh_database, valkey_url, core) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("first")))
    connection = await asyncpg.connect(fresh_database)
    await connection.execute(
        "UPDATE fairlead_lookout.progress SET expired_week = $1, expiring_week = NULL",
        THIS_WEEK - 2,
    )
    await connection.close()
    async with running(fresh_database, valkey_url, core) as harness:
        await append_at(core, job_weeks.start_ms(OLD), submitted("late"), cancel("late"))
        await harness.read("/jobsets", await harness.append_events(submitted("last")))
        assert (await read_weeks(fresh_database))["jobs"][job_id("late")] == {THIS_WEEK - 1}


async def test_the_jobs_of_a_view_without_weeks_stay(empty_database: str, valkey_url: str) -> None:
    pool = await open_pool(empty_database, size_max=1)
    try:
        await migrate_to(pool, "0086")
    finally:
        await pool.close()
    await insert_without_weeks(empty_database)
    async with running(empty_database, valkey_url) as harness:
        job = await harness.read(f"/jobs/{job_id('old')}")
        assert (job["state"], job["runs"][0]["state"]) == ("RUNNING", "RUNNING")
        events = [*succeeded("old"), submitted("new"), leased("new"), pending("new")]
        after = await harness.append_events(*events)
        found = (await harness.read("/jobs", after, queue="q"))["jobs"]
        assert {each["id"]: each["state"] for each in found} == {
            job_id("old"): "SUCCEEDED",
            job_id("new"): "PENDING",
        }
        weeks = await read_weeks(empty_database)
        for table in ("jobs", "runs_of_jobs"):
            assert weeks[table] == {job_id("old"): {THIS_WEEK}, job_id("new"): {THIS_WEEK}}
        connection = await asyncpg.connect(empty_database)
        try:
            held = await connection.fetchval(f"SELECT held FROM {SCHEMA}.job_sets")
            used = await connection.fetch(
                f"SELECT DISTINCT submitted_by, used FROM {SCHEMA}.user_usage"
            )
        finally:
            await connection.close()
        assert msgspec.json.decode(held) == {"default": {"anna": {"cpu": 1000}}}
        assert {(row["submitted_by"], row["used"] > 0) for row in used} == {("", True)}


async def migrate_to(pool: Pool, last: str) -> None:
    """Run the migrations up to the one with this number."""
    folder = resources.files("fairlead_lookout.store").joinpath("sql/migrations")
    await pool.execute(f"CREATE SCHEMA {SCHEMA}")
    await pool.execute(
        f"CREATE TABLE {SCHEMA}.migrations (name text PRIMARY KEY, at timestamptz DEFAULT now())"
    )
    for item in sorted(folder.iterdir(), key=lambda each: each.name):
        if item.name <= f"{last}~":
            await pool.execute(item.read_text())
            await pool.execute(f"INSERT INTO {SCHEMA}.migrations (name) VALUES ($1)", item.name)


async def insert_without_weeks(database: str) -> None:
    """A running job of a view as it was before weeks."""
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(
            f"INSERT INTO {SCHEMA}.job_sets"
            " (queue, job_set, partition, jobs, live, active, held, metered_ms)"
            " VALUES ('q', 's', $1, 1, 1, true, '{\"default\": {\"cpu\": 1000}}', $2)",
            job_set_partition("q", "s"),
            clock.now_ms() // HOUR_MS * HOUR_MS - 1,
        )
        await connection.execute(
            f"INSERT INTO {SCHEMA}.jobs (id, set_number, queue, class, pool, number, submitted_ms,"
            " shape, state, held, priority, run, changed_ms)"
            " VALUES ($1, 1, 'q', 'default', 'default', 1, 1, 's', 'RUNNING', false, 0, 1, 1)",
            job_id("old"),
        )
        await connection.execute(
            f"INSERT INTO {SCHEMA}.job_specs (job_id, digest, client_id, submitted)"
            " VALUES ($1, 'd', 'old', $2)",
            job_id("old"),
            msgspec.json.encode(submitted("old")),
        )
        await connection.execute(
            f"INSERT INTO {SCHEMA}.runs (job_id, number, state, executor, node, pool, leased_ms)"
            " VALUES ($1, 1, 'RUNNING', 'e', 'n', 'default', 1)",
            job_id("old"),
        )
        for statement in (
            f"INSERT INTO {SCHEMA}.shapes (key, requests) VALUES ('s', '{{\"cpu\": 1000}}')",
            f"INSERT INTO {SCHEMA}.counters VALUES (1, 'default', 'RUNNING', 1)",
            f"INSERT INTO {SCHEMA}.queue_counts VALUES ('q', 'default', 'RUNNING', 1)",
        ):
            await connection.execute(statement)
    finally:
        await connection.close()


async def test_the_runs_of_a_view_with_a_table_of_runs_stay(
    empty_database: str, valkey_url: str
) -> None:
    pool = await open_pool(empty_database, size_max=1)
    try:
        await migrate_to(pool, "0106")
        await insert_table_of_runs(pool)
    finally:
        await pool.close()
    async with running(empty_database, valkey_url) as harness:
        assert await read_runs(harness, "twice") == [
            (2, "RUNNING", "n2", None),
            (1, "LOST", "n1", "silent"),
        ]
        assert await read_runs(harness, "once") == [(1, "LEASED", "n1", None)]
        assert await read_runs(harness, "never") == []
        found = await harness.read("/jobs", **{"label.name": "never"})
        assert [job["id"] for job in found["jobs"]] == [job_id("never")]
        late, _ = succeeded("twice", run=1)
        after = await harness.append_events(late, *succeeded("twice", run=2), pending("once"))
        assert await read_runs(harness, "twice", after) == [
            (2, "SUCCEEDED", "n2", None),
            (1, "SUCCEEDED", "n1", None),
        ]
        assert await read_runs(harness, "once") == [(1, "PENDING", "n1", None)]


async def insert_table_of_runs(pool: Pool) -> None:
    """A job of last week with two runs, and jobs of this week with one and none, in a view that has
    each run in a row of its own."""
    for week in (THIS_WEEK - 1, THIS_WEEK):
        await pool.execute(f"SELECT {SCHEMA}.create_week($1)", week)
    await pool.execute(
        f"INSERT INTO {SCHEMA}.job_sets (queue, job_set, partition, jobs, live, active, first_ms)"
        " VALUES ('q', 's', $1, 3, 3, true, $2)",
        job_set_partition("q", "s"),
        job_weeks.start_ms(THIS_WEEK - 1),
    )
    for name, runs, state, week in (
        ("twice", 2, "RUNNING", THIS_WEEK - 1),
        ("once", 1, "LEASED", THIS_WEEK),
        ("never", 0, "QUEUED", THIS_WEEK),
    ):
        await pool.execute(
            f"INSERT INTO {SCHEMA}.jobs (id, set_number, queue, class, pool, number, submitted_ms,"
            " shape, state, held, priority, run, changed_ms, week)"
            " VALUES ($1, 1, 'q', 'default', 'default', 1, 1, 's', $3, false, 0, $2, 1, $4)",
            *(job_id(name), runs, state, week),
        )
        await pool.execute(
            f"INSERT INTO {SCHEMA}.job_specs (job_id, digest, client_id, labels, submitted, week)"
            " VALUES ($1, 'd', $2, jsonb_build_object('name', $2::text), $3, $4)",
            *(job_id(name), name, msgspec.json.encode(submitted(name)), week),
        )
        for run in range(1, runs + 1):
            end = (state, None, None) if run == runs else ("LOST", 1, "silent")
            await pool.execute(
                f"INSERT INTO {SCHEMA}.runs (job_id, number, node, week, state, ended_ms, reason,"
                " executor, pool, leased_ms, shape)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, 'e', 'default', 1, 's')",
                *(job_id(name), run, f"n{run}", week, *end),
            )
    for table, key in (("counters", "set_number"), ("queue_counts", "queue")):
        await pool.execute(
            f"INSERT INTO {SCHEMA}.{table} ({key}, class, state, jobs)"
            f" SELECT {key}, class, state, count(*) FROM {SCHEMA}.jobs GROUP BY 1, 2, 3"
        )


async def read_runs(
    harness: LookoutHarness, name: str, after: str | None = None
) -> list[tuple[int, str, str, str | None]]:
    """(number, state, node, reason) of the runs of a job, newest first."""
    job = await harness.read(f"/jobs/{job_id(name)}", after)
    return [(run["run"], run["state"], run["node"], run.get("reason")) for run in job["runs"]]
