"""Jobs are looked up by id through indexes, however many ended jobs the tables hold."""

import re
from collections.abc import Iterator
from typing import Final

from fairlead_common.db import Pool, load, migrate, open_pool
from fairlead_common.service import clock
from fairlead_lookout.store import job_weeks
from fairlead_lookout.store.queries.preemption_lists import BY_TIME, OF_QUEUES
from fairlead_lookout.store.queries.view_reader import JOBS_BY_ID
from fairlead_lookout.store.view_schema import FOLD, READ, migrate_schema
from fairlead_lookout.store.week_tables import create_weeks
from tests.integration.lookout.lookout_harness import LookoutHarness, running

SCHEDULER: Final = load("fairlead_scheduler.store", "checkpoint.sql")
SUBMIT: Final = load("fairlead_submit.store", "statements.sql")

JOBS: Final = 20_000
THIS_WEEK: Final = job_weeks.week_of(clock.now_ms())
WEEKS: Final = (THIS_WEEK, THIS_WEEK + 1)
WEEK_MS: Final = 7 * 86_400_000
WANTED: Final = [f"{number:028}" for number in range(JOBS - 2_000, JOBS + 2_000)]
"""So many that Postgres expects a scan of the table to be cheaper; half of them do not exist."""
FEW: Final = [JOBS - 20, JOBS - 5_000, JOBS - 5_001, 20]
"""One job that the first step of a page compares, two of the second, and one after them."""
FILL: Final = f"""
    INSERT INTO fairlead_lookout.job_sets (queue, job_set, partition)
    SELECT 'q', 'set-' || n, 0 FROM generate_series(1, 200) AS n;
    INSERT INTO fairlead_lookout.jobs (id, set_number, queue, class, pool, number, submitted_ms,
        shape, state, held, priority, run, changed_ms, run_state, run_executor, run_node, run_pool,
        run_leased_ms, run_ended_ms, labels, digest, chunk, chunk_line, week)
    SELECT lpad(n::text, 28, '0'), n % 200 + 1, 'q', 'default', 'default', n, 0,
        's', 'SUCCEEDED', false, 0, 2, 0, 'SUCCEEDED', 'e', 'n', 'default',
        0, 1, '{{"a": "b"}}', md5(lpad(n::text, 28, '0')), n % 100, n / 100, {WEEKS[0]} + n % 2
    FROM generate_series(0, {JOBS - 1}) AS n;
    INSERT INTO fairlead_lookout.submissions (chunk, lines, week)
    SELECT n, '{{}}', {WEEKS[0]} + n % 2 FROM generate_series(0, 99) AS n;
    INSERT INTO fairlead_lookout.older_runs
        (job_id, number, state, executor, node, pool, leased_ms, week)
    SELECT id, 1, 'SUCCEEDED', 'e', 'n', 'default', 0, week FROM fairlead_lookout.jobs;
    INSERT INTO fairlead_scheduler.job_specs (job_id, spec)
    SELECT id, '{{}}' FROM fairlead_lookout.jobs;
    CREATE TABLE fairlead_scheduler.ended_0 PARTITION OF fairlead_scheduler.ended
    FOR VALUES FROM (0) TO ({WEEK_MS});
    CREATE TABLE fairlead_scheduler.ended_1 PARTITION OF fairlead_scheduler.ended
    FOR VALUES FROM ({WEEK_MS}) TO ({2 * WEEK_MS});
    INSERT INTO fairlead_scheduler.ended (job_id, state, digest, at_ms)
    SELECT id, 'SUCCEEDED', md5(id), (number % 2) * {WEEK_MS} FROM fairlead_lookout.jobs;
"""

FILL_PREEMPTIONS: Final = """
    INSERT INTO fairlead_lookout.preemptions (time_ms, job_id, run, queue, cause)
    SELECT number, id, 1, 'q' || number % 50, 'fair-share' FROM fairlead_lookout.jobs;
    ANALYZE fairlead_lookout.preemptions;
"""

FILL_GROUP: Final = """
    INSERT INTO fairlead_lookout.group_members (job_id, group_id, role, number)
    SELECT id, 'group', 'worker', number FROM fairlead_lookout.jobs WHERE number < 100;
    UPDATE fairlead_lookout.jobs SET run_running_ms = 1 WHERE number < 100;
    ANALYZE fairlead_lookout.group_members;
"""


def statements() -> Iterator[tuple[str, str, tuple[object, ...]]]:
    """(name, statement, arguments) of every look-up by job id of thousands of jobs at once."""
    yield "submit.known_digests", SUBMIT["known_digests"], (WANTED, 0)
    yield "submit.known_jobs", SUBMIT["known_jobs"], (WANTED,)
    yield "scheduler.find_ended", SCHEDULER["find_ended"], (" ".join(WANTED),)
    yield "scheduler.read_specs", SCHEDULER["read_specs"], (" ".join(WANTED),)
    yield "lookout.jobs", FOLD["jobs"], (WANTED, 0)
    weeks = [WEEKS[int(job_id) % 2] for job_id in WANTED]
    yield "lookout.labels", FOLD["labels"], (WANTED, weeks)
    yield "lookout.older_runs", FOLD["older_runs"], (WANTED, [1] * len(WANTED), weeks)
    yield "lookout.jobs_by_id", JOBS_BY_ID, (WANTED,)


async def filled(url: str) -> Pool:
    """The tables of lookout and the scheduler with many ended jobs."""
    pool = await open_pool(url)
    await migrate_schema(pool)
    await migrate(pool, "fairlead_scheduler", "fairlead_scheduler.store")
    async with pool.acquire() as connection, connection.transaction():
        await create_weeks(connection, WEEKS)
    await pool.execute(FILL)
    await pool.execute("VACUUM ANALYZE")
    return pool


async def plan(pool: Pool, statement: str, arguments: tuple[object, ...]) -> str:
    """How Postgres executes the statement."""
    rows = await pool.fetch(f"EXPLAIN {statement}", *arguments)
    return "\n".join(row[0] for row in rows)


async def test_job_lookups_by_id_scan_no_table(fresh_database: str) -> None:
    pool = await filled(fresh_database)
    try:
        for name, statement, arguments in statements():
            found = await pool.fetch(statement, *arguments)
            assert len(found) == len(WANTED) // 2, name
            assert "Seq Scan" not in (text := await plan(pool, statement, arguments)), (name, text)
    finally:
        await pool.close()


async def test_digests_are_looked_up_by_the_keys_of_jobs(fresh_database: str) -> None:
    pool = await filled(fresh_database)
    try:
        text = await plan(pool, SUBMIT["known_digests"], (WANTED, 0))
        for week in WEEKS:
            # The table of the week of the first migration has a key with an older name.
            assert re.search(rf"Index Scan using jobs_(\d+_)?pkey on jobs_{week} ", text), text
    finally:
        await pool.close()


async def test_new_jobs_are_looked_up_in_the_weeks_of_their_job_set(fresh_database: str) -> None:
    pool = await filled(fresh_database)
    try:
        for name, statement, table in (
            ("submit.known_digests", SUBMIT["known_digests"], "jobs"),
            ("lookout.jobs", FOLD["jobs"], "jobs"),
        ):
            text = await plan(pool, statement, (WANTED, WEEKS[1]))
            assert f"{table}_{WEEKS[1]} " in text, (name, text)
            assert f"{table}_{WEEKS[0]} " not in text, (name, text)
    finally:
        await pool.close()


async def test_runs_are_looked_up_for_each_job(fresh_database: str) -> None:
    pool = await filled(fresh_database)
    try:
        await pool.execute(FILL_PREEMPTIONS)
        await pool.execute(FILL_GROUP)
        for name, statement, arguments in (
            ("preemptions", BY_TIME, (None, [], 0, 2**62, None, None, None, 51)),
            ("running_members", READ["running_members"], ("group", 0, 2**50, 50)),
            ("member_runs", READ["member_runs"], ("group", 50)),
            ("job", READ["job"], (WANTED[0],)),
        ):
            assert await pool.fetch(statement, *arguments), name
            text = await plan(pool, statement, arguments)
            assert "Seq Scan on jobs" not in text, (name, text)
            assert "Seq Scan on older_runs" not in text, (name, text)
    finally:
        await pool.close()


async def test_pages_of_preemptions_read_as_many_rows_as_they_have(fresh_database: str) -> None:
    pool = await filled(fresh_database)
    try:
        await pool.execute(FILL_PREEMPTIONS)
        last = (JOBS // 2, f"{JOBS // 2:028}", 1)
        for name, statement, only in (
            ("by time", BY_TIME, None),
            ("of queues", OF_QUEUES, ["q1", "q2"]),
        ):
            arguments: tuple[object, ...] = (only, [], 0, 2**62, *last, 51)
            found = await pool.fetch(statement, *arguments)
            assert len(found) == 51, name
            assert all(row["time_ms"] < last[0] for row in found), name
            rows = await pool.fetch(f"EXPLAIN (ANALYZE) {statement}", *arguments)
            text = "\n".join(row[0] for row in rows)
            assert "Seq Scan on preemptions" not in text, (name, text)
            read = [
                int(part) for part in re.findall(r"Index Scan.*? rows=(\d+)(?:\.\d+)? loops", text)
            ]
            assert max(read) <= 102, (name, text)
    finally:
        await pool.close()


async def test_a_page_of_jobs_counts_among_as_many_jobs_as_it_examines(
    fresh_database: str, valkey_url: str
) -> None:
    pool = await filled(fresh_database)
    try:
        await pool.execute(
            "INSERT INTO fairlead_lookout.queue_counts VALUES ('q', 'default', 'SUCCEEDED', $1)",
            JOBS,
        )
        await pool.execute(
            "UPDATE fairlead_lookout.jobs SET run_node = 'rare'"
            " WHERE id < lpad('5000', 28, '0') OR id >= lpad($1, 28, '0')",
            str(JOBS - 100),
        )
        await pool.execute(
            "UPDATE fairlead_lookout.jobs SET run_executor = 'third' WHERE id::bigint % 3 = 0"
        )
        await pool.execute(
            "UPDATE fairlead_lookout.jobs SET run_executor = 'few' WHERE id::bigint = ANY($1)", FEW
        )
    finally:
        await pool.close()
    async with running(fresh_database, valkey_url) as harness:
        page = (await harness.client.get("/jobs?node=rare")).text
        assert "<strong data-jobs>100+</strong>" in page
        page = (await harness.client.get("/jobs?cluster=few")).text
        assert "<strong data-jobs>3+</strong>" in page
        page = (await harness.client.get("/jobs?queue=q")).text
        assert "<strong data-jobs>10000+</strong>" in page
        found = await harness.read("/jobs", node="rare", include="count")
        assert found["count"] == "5100"
        rare = [f"{number:028}" for number in range(JOBS) if number < 5_000 or number >= JOBS - 100]
        assert await list_ids(harness, sort="submitted", node="rare") == rare
        assert await list_ids(harness, node="rare") == rare[::-1]
        assert await list_ids(harness, node="rare", **{"label.a": "b"}) == rare[::-1]
        thirds = [f"{number:028}" for number in range(0, JOBS, 3) if number not in FEW]
        assert await list_ids(harness, cluster="third") == thirds[::-1]
        assert await list_ids(harness, sort="submitted", cluster="third") == thirds
        assert await list_ids(harness, cluster="other") == []
        found = await harness.read("/jobs", include="count", **{"label.a": "b"})
        assert found["count"] == "10000+"
        named = [f"{number:028}" for number in range(JOBS - 1, -1, -1) if number % 200 == 117]
        assert await list_ids(harness, q="set-118") == named


async def list_ids(harness: LookoutHarness, **query: str) -> list[str]:
    """The ids of all pages of a list of jobs."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await harness.read("/jobs", limit=1_000, **query, **cursor)
        found += [job["id"] for job in page["jobs"]]
        if page.get("next") is None:
            return found
        cursor = {"cursor": page["next"]}
