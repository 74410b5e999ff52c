"""What a look-up by job id costs when millions of ended jobs are in the tables.

    python bench/history.py [--jobs 5000000] [--ids 10000] [--folder FOLDER] [--check] [--json]
    python bench/history.py --keep --folder FOLDER      leave the data there and use it next time

Starts a Postgres of its own, fills the tables that the migrations of lookout and the scheduler
define with `--jobs` ended jobs, and measures each statement that looks jobs up by id: with ids
that nobody has used (the common case: new jobs with client ids), with ids of one job set, with ids
from all of history, and half of each. Ids that clients chose are looked up in the weeks since
their job set began, so these look-ups are measured for job sets of several ages; of a new job set
nothing is looked up. 20 million jobs take about 35 GB and half an hour to fill.

What is like reality: the rows have the widths of rows that the services write (a pod spec with one
container, a digest, a client id, one run); ids are digests, so they are spread evenly over their
partition; jobs ended evenly over the last 28 days; 1,000 jobs per job set, 100 queues, and a tenth
that failed. What is not: rows were written once, so no table has dead rows; nobody else writes
meanwhile; and each index was built at once, so its pages are fuller than those of a live system.

`--check` ends with code 1 if a look-up of submit exceeds 50 ms. Progress is printed on stderr; the
last line of output is one JSON object.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead_common.db import Connection, Pool, load, migrate, open_pool
from fairlead_common.domain import ids
from fairlead_common.domain.records import events, line_chunks
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_common.service import clock
from fairlead_lookout.domain.submission_chunks import LINES_MAX
from fairlead_lookout.store.view_schema import FOLD, migrate_schema
from fairlead_lookout.store.week_tables import create_weeks
from fairlead_standalone.processes.child_process import RunningProcess
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import Postgres

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/history.py`

from bench import folders
from bench.fold import SPEC

DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS
DAYS: Final = 28
QUEUES: Final = 100
SET_JOBS: Final = 1_000
SLICE: Final = 500_000
FILL_S_MAX: Final = 7_200.0
REPEATS: Final = 5
BEGUN_WEEKS_AGO: Final = (0, 1, 4)
"""When a job set began whose ids are looked up."""
GOAL_MS: Final = 50.0
LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
SCHEDULER: Final = load("fairlead_scheduler.store", "checkpoint.sql")
SUBMIT: Final = load("fairlead_submit.store", "statements.sql")

JOB_SET: Final = (
    f"(n % {JOB_PARTITIONS} + {JOB_PARTITIONS} * (n / ({JOB_PARTITIONS} * {SET_JOBS})))"
)
"""The job set of job n: sets of one time are filled side by side, one in each partition."""
ID: Final = (
    f"'0' || substr('{LETTERS}', (n % {JOB_PARTITIONS})::int + 1, 1) || left(md5('job ' || n), 26)"
)
"""The id of job n: its partition, then what looks like a digest."""
ENDED_MS: Final = "($3::bigint + (n::float8 / $4 * $5)::bigint)"
WEEK: Final = f"(({ENDED_MS} - 120000) / {WEEK_MS})::int"
"""The week in which the rows of job n are kept."""
STATE: Final = "CASE WHEN n % 10 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END"
DIGEST: Final = "md5('spec ' || n)"

FILL: Final = {
    "fairlead_lookout.jobs": f"""
        INSERT INTO fairlead_lookout.jobs (id, set_number, queue, class, pool, number,
            submitted_ms, shape, state, held, priority, run, changed_ms, started_ms, ended_ms,
            category, exit_code, run_state, run_executor, run_node, run_pool, run_leased_ms,
            run_pending_ms, run_running_ms, run_ended_ms, run_exit_code, run_shape, chunk,
            chunk_line, submitted_bytes, digest, client_id, week)
        SELECT {ID}, {JOB_SET} + 1, 'history-' || {JOB_SET} % {QUEUES}, 'default', 'default',
            (({ENDED_MS} - 120000 - {ids.NUMBER_EPOCH_MS}) >> 2 << 24) + (n % 1000 << 5),
            {ENDED_MS} - 120000, $6::text, {STATE}, false, 0, 1, {ENDED_MS},
            {ENDED_MS} - 60000, {ENDED_MS},
            CASE WHEN n % 10 = 0 THEN 'exit-code' END, CASE WHEN n % 10 = 0 THEN 1 ELSE 0 END,
            {STATE}, 'cluster-a', 'node-' || n % 1000, 'default', {ENDED_MS} - 61000,
            {ENDED_MS} - 60500, {ENDED_MS} - 60000, {ENDED_MS}, 0, $6::text, n / {LINES_MAX},
            n % {LINES_MAX}, 500, {DIGEST}, 'trial-' || n, {WEEK}
        FROM generate_series($1::bigint, $2::bigint - 1) AS n""",
    "fairlead_lookout.submissions": f"""
        INSERT INTO fairlead_lookout.submissions (chunk, lines, week)
        SELECT n / {LINES_MAX}, $6::bytea, {WEEK}
        FROM generate_series($1::bigint, $2::bigint - 1) AS n WHERE n % {LINES_MAX} = 0""",
    "fairlead_scheduler.ended": f"""
        INSERT INTO fairlead_scheduler.ended (job_id, state, digest, at_ms)
        SELECT {ID}, {STATE}, {DIGEST}, {ENDED_MS}
        FROM generate_series($1::bigint, $2::bigint - 1) AS n""",
}
"""$1, $2: the jobs; $3, $4, $5: when the first ended, how many there are, over how many ms;
$6: the shape or, of `submissions`, a chunk."""

COUNT: Final = (
    f"""INSERT INTO fairlead_lookout.job_sets (queue, job_set, partition, jobs, first_ms, last_ms)
        SELECT 'history-' || s % {QUEUES}, 'set-' || s, s % {JOB_PARTITIONS}, 0, $1, $2
        FROM generate_series(0, $3::bigint - 1) AS s""",
    """INSERT INTO fairlead_lookout.counters (set_number, class, state, jobs)
       SELECT set_number, class, state, count(*) FROM fairlead_lookout.jobs GROUP BY 1, 2, 3""",
    """INSERT INTO fairlead_lookout.queue_counts (queue, class, state, jobs)
       SELECT s.queue, c.class, c.state, sum(c.jobs) FROM fairlead_lookout.counters c
       JOIN fairlead_lookout.job_sets s ON s.number = c.set_number GROUP BY 1, 2, 3""",
    """UPDATE fairlead_lookout.job_sets s SET jobs = n.jobs FROM (
           SELECT set_number, sum(jobs) AS jobs FROM fairlead_lookout.counters GROUP BY 1
       ) n WHERE n.set_number = s.number""",
)

Look = Callable[[Sequence[str]], Awaitable[Any]]


class Filled(msgspec.Struct, frozen=True, rename="camel"):
    """What filling took: seconds, and GB of tables with their indexes by name."""

    fill_s: float
    gb: dict[str, float]


def main() -> None:
    """Read the arguments, fill, measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=5_000_000)
    parser.add_argument("--ids", type=int, default=10_000, help="of one look-up")
    parser.add_argument(
        "--folder", type=Path, help="where the data goes; a temporary one otherwise"
    )
    parser.add_argument("--keep", action="store_true", help="leave the data in --folder")
    parser.add_argument("--check", action="store_true", help="fail beyond the stated limit")
    parser.add_argument("--json", action="store_true", help="nothing but the JSON on stdout")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if given.keep:
            folder = given.folder
            folder.mkdir(parents=True, exist_ok=True)
        else:
            folder = Path(stack.enter_context(folders.temporary_folder("history", given.folder)))
        folder.chmod(0o755)
        # The password of data that is used again must be the one that it was made with.
        postgres = Postgres(folder / "pg", password="history", port=free_port())
        running = stack.enter_context(RunningProcess(postgres, folder / "pg.log"))
        running.start()
        found = asyncio.run(run(given, postgres.url()))
    if not given.json:
        print(json.dumps(found, indent=2))
    print(json.dumps(found))
    if given.check and not found["met"]:
        sys.exit(1)


async def run(given: argparse.Namespace, url: str) -> dict[str, Any]:
    """Fill the tables unless they are full, and measure every look-up."""
    pool = await open_pool(url, size_max=2)
    try:
        await migrate_schema(pool)
        await migrate(pool, "fairlead_scheduler", "fairlead_scheduler.store", "migrations")
        filled = await fill(pool, given.jobs)
        async with pool.acquire() as connection:
            looks = _looks(connection)
            server = await connection.fetchval("SELECT pg_backend_pid()")
            found = {
                name: await measure(look, given.jobs, given.ids, server)
                for name, look in looks.items()
            }
    finally:
        await pool.close()
    return {
        "jobs": given.jobs,
        "ids": given.ids,
        "filled": msgspec.to_builtins(filled),
        "goalMs": GOAL_MS,
        "met": all(
            each["medianMs"] < GOAL_MS
            for name in found
            if name.startswith("submit.known_digests")
            for each in found[name].values()
        ),
        "found": found,
    }


async def fill(pool: Pool, jobs: int) -> Filled:
    """Fill the tables with this number of ended jobs, unless that has been done. Indexes are
    dropped first and made again at the end: random ids otherwise take most of the time."""
    began_s = time.monotonic()
    async with pool.acquire() as connection:
        if await connection.fetchval("SELECT count(*) FROM fairlead_lookout.job_sets") == 0:
            await _fill(connection, jobs)
        sizes = await connection.fetch(
            "SELECT relid::regclass::text AS name, pg_total_relation_size(relid) / 1e9 AS gb"
            " FROM pg_stat_user_tables WHERE pg_total_relation_size(relid) > 1e7 ORDER BY 1"
        )
    gb = {row["name"]: round(float(row["gb"]), 2) for row in sizes}
    return Filled(round(time.monotonic() - began_s, 1), gb)


async def _fill(connection: Connection, jobs: int) -> None:
    now_ms = clock.now_ms()
    first_ms = now_ms - DAYS * DAY_MS
    span = (first_ms, jobs, DAYS * DAY_MS - DAY_MS // 24)
    shape = shapes.key(_shape(), "default")
    await _make_weeks(connection, first_ms, now_ms)
    for name, value in (
        ("synchronous_commit", "off"),
        ("maintenance_work_mem", "'512MB'"),
        ("max_parallel_maintenance_workers", "0"),
    ):
        await connection.execute(f"SET {name} = {value}")
    for table, statement in FILL.items():
        last: list[Any] = [*span, shape] if table == "fairlead_lookout.jobs" else [*span]
        if table == "fairlead_lookout.submissions":
            last = [*span, _submissions()]
        async with _without_indexes(connection, table):
            for begin in range(0, jobs, SLICE):
                log_progress(f"{table}: {begin:,} of {jobs:,} jobs")
                end = min(begin + SLICE, jobs)
                await connection.execute(statement, begin, end, *last, timeout=FILL_S_MAX)
    log_progress("counting")
    sets = JOB_PARTITIONS * -(-jobs // (JOB_PARTITIONS * SET_JOBS))
    await connection.execute(COUNT[0], first_ms, now_ms, sets)
    for statement in COUNT[1:]:
        await connection.execute(statement, timeout=FILL_S_MAX)
    log_progress("vacuum and analyze")
    for table in (*FILL, *(f"fairlead_lookout.{name}" for name in _COUNTED)):
        await connection.execute(f"VACUUM ANALYZE {table}", timeout=FILL_S_MAX)
    await connection.execute("CHECKPOINT", timeout=FILL_S_MAX)
    await connection.execute("RESET ALL")


_COUNTED: Final = ("job_sets", "counters", "queue_counts")


def _shape() -> bytes:
    return bytes(shapes.encode(shapes.Shape({"cpu": 1000, "memory": 2 << 30})))


def _submissions() -> bytes:
    line = msgspec.json.encode(
        events.JobSubmitted(
            job_id=ids.JobId("0" * ids.JOB_ID_LENGTH),
            shape=shapes.encode(shapes.Shape({"cpu": 1000, "memory": 2 << 30})),
            spec=msgspec.Raw(SPEC),
            digest="d" * 32,
            client_id="trial-1000000",
        )
    )
    return line_chunks.compress(b"\n".join([line] * LINES_MAX))


async def _make_weeks(connection: Connection, first_ms: int, now_ms: int) -> None:
    """The tables of weeks of lookout and of the scheduler, named and bounded as it names and
    bounds them."""
    weeks = range((first_ms - WEEK_MS) // WEEK_MS, now_ms // WEEK_MS + 1)
    async with connection.transaction():
        await create_weeks(connection, weeks)
    for week in weeks:
        await connection.execute(
            f"CREATE TABLE IF NOT EXISTS fairlead_scheduler.ended_{week}"
            f" PARTITION OF fairlead_scheduler.ended"
            f" FOR VALUES FROM ({week * WEEK_MS}) TO ({(week + 1) * WEEK_MS})"
        )


@contextlib.asynccontextmanager
async def _without_indexes(connection: Connection, table: str) -> Any:
    """Drop the indexes of a partitioned table while the block runs, and make them again as they
    were."""
    keys = await connection.fetch(
        "SELECT conrelid::regclass::text AS owner, conname AS name,"
        " pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conparentid = 0"
        " AND conrelid IN (SELECT relid FROM pg_partition_tree($1::text::regclass))"
        " AND contype IN ('p', 'u')",
        table,
    )
    indexes = await connection.fetch(
        "SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS text"
        " FROM pg_index WHERE indrelid = $1::text::regclass AND NOT EXISTS ("
        "   SELECT FROM pg_constraint WHERE conindid = indexrelid)",
        table,
    )
    for row in keys:
        await connection.execute(f"ALTER TABLE {row['owner']} DROP CONSTRAINT {row['name']}")
    for row in indexes:
        await connection.execute(f"DROP INDEX {row['name']}")
    yield
    for row in keys:
        log_progress(f"{row['owner']}: {row['text']}")
        await connection.execute(
            f"ALTER TABLE {row['owner']} ADD CONSTRAINT {row['name']} {row['text']}",
            timeout=FILL_S_MAX,
        )
    for row in indexes:
        log_progress(f"{table}: {row['name']}")
        text = row["text"].replace(" ON ONLY ", " ON ")
        await connection.execute(text, timeout=FILL_S_MAX)


def _looks(connection: Connection) -> dict[str, Look]:
    """The statements that look jobs up by id, by service and name."""

    def by(statement: str, *week: int) -> Look:
        return lambda given: connection.fetch(statement, given, *week)

    def by_text(statement: str) -> Look:
        return lambda given: connection.fetch(statement, " ".join(given))

    looks = {
        "submit.known_jobs": by(SUBMIT["known_jobs"]),
        "scheduler.find_ended": by_text(SCHEDULER["find_ended"]),
    }
    this_week = clock.now_ms() // WEEK_MS
    for weeks in BEGUN_WEEKS_AGO:
        for name, statement in (
            ("submit.known_digests", SUBMIT["known_digests"]),
            ("lookout.jobs", FOLD["jobs"]),
        ):
            looks[f"{name}, job set of {weeks} weeks ago"] = by(statement, this_week - weeks)
    return looks


async def measure(look: Look, jobs: int, many: int, server: int) -> dict[str, Any]:
    """Median and maximum of each kind of ids, in ms; each look-up has other ids. `cpuMs` is the
    median processor time of the server's process: what other programs disturb least."""
    found = {}
    for kind, groups in _kinds(jobs, many).items():
        took, used, rows = [], [], 0
        for group in groups:
            began_s, before_ms = time.perf_counter(), _cpu_ms(server)
            rows = len(await look(sorted(group)))  # as the services do
            took.append(1000 * (time.perf_counter() - began_s))
            used.append(_cpu_ms(server) - before_ms)
        found[kind] = {
            "medianMs": round(statistics.median(took), 1),
            "firstMs": round(took[0], 1),
            "maxMs": round(max(took), 1),
            "cpuMs": round(statistics.median(used), 1),
            "rows": rows,
        }
        log_progress(f"  {kind}: {found[kind]}")
    return found


def _cpu_ms(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def _kinds(jobs: int, many: int) -> dict[str, list[list[str]]]:
    chance = random.Random(1)

    def unknown(partition: int | None = None) -> list[str]:
        return [_id(chance.randrange(1 << 40) + (1 << 50), partition) for _ in range(many)]

    def known() -> list[str]:
        return [_id(number) for number in chance.sample(range(jobs), min(many, jobs))]

    def of_one_set() -> list[str]:
        partition = chance.randrange(JOB_PARTITIONS)
        rows = jobs // JOB_PARTITIONS
        first = chance.randrange(max(rows - many, 1))
        return [
            _id((first + number) * JOB_PARTITIONS + partition) for number in range(min(many, rows))
        ]

    times = range(REPEATS)
    return {
        "unknown, of one job set": [unknown(chance.randrange(JOB_PARTITIONS)) for _ in times],
        "unknown, of all partitions": [unknown() for _ in times],
        "known, of one job set": [of_one_set() for _ in times],
        "known, of all history": [known() for _ in times],
        "half known, half unknown": [known()[: many // 2] + unknown()[: many // 2] for _ in times],
    }


def _id(number: int, partition: int | None = None) -> str:
    """As the SQL above makes it."""
    digest = hashlib.md5(f"job {number}".encode(), usedforsecurity=False).hexdigest()
    at = number % JOB_PARTITIONS if partition is None else partition
    return f"0{LETTERS[at]}{digest[:26]}"


def log_progress(text: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
