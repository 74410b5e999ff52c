"""What the rows of jobs in lookout's view cost Postgres, by indexes: CPU of the backend per job.

    python bench/job_rows.py [--jobs 16000] [--rounds 6] [--variant NAME=SQL ...] [--json]
    python bench/job_rows.py --variant "noQueue=DROP INDEX {table}_queue_state_number_id_week_idx"

Starts a Postgres of its own and writes as the fold does: rows of queued jobs by COPY, their start
and their end by the statement `merge_jobs`, up to 5,000 of each in a transaction. The table is that
of a week, with the indexes of the migrations, detached; `--variant` changes it first (`{table}` is
its name). Variants take turns, because the speed of a machine changes.

What is like reality: ids are digests in 32 partitions, in 100 job sets of 10 queues, messages of 30
jobs. What is not: each job is updated exactly twice, and nothing else is written.

Of each variant: the least and the median in us per job of `insert` (COPY of new rows),
`submissions` (COPY of their chunks), `changes` (COPY into the temporary table), `update` and `all`.
The last line is one JSON object.
"""

import argparse
import asyncio
import hashlib
import json
import random
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec

from fairlead_common.db import Connection, open_pool
from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import shapes
from fairlead_lookout.domain.model import Job, Run, SubmissionDetails, SubmissionPlace
from fairlead_lookout.domain.submission_chunks import number_chunks, pack_submissions
from fairlead_lookout.store import job_weeks, table_rows
from fairlead_lookout.store.fold.fold_store import COPIED_MAX
from fairlead_lookout.store.view_schema import FOLD, SCHEMA, migrate_schema
from fairlead_lookout.store.week_tables import create_weeks
from fairlead_standalone.processes.child_process import RunningProcess
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import Postgres

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/job_rows.py`

from bench import folders

SHAPE: Final = shapes.encode(shapes.Shape({"cpu": 1000, "memory": 2 << 30}))
SPEC: Final = b"""{"containers":[{"name":"main","image":"registry.example.com/team/train:1.2",
"command":["python","train.py"],"env":[{"name":"EPOCHS","value":"10"}],"resources":{"requests":
{"cpu":"1","memory":"2Gi"}}}],"restartPolicy":"Never"}""".replace(b"\n", b"")
Row = tuple[Any, ...]  # `Any`: of each type that a column has
TIME_MS: Final = 1_795_000_000_000
WEEK: Final = job_weeks.week_of(TIME_MS)
TABLE: Final = f"jobs_{WEEK}"
SETS: Final = 100
QUEUES: Final = 10
NODES: Final = 1_000
MESSAGE_JOBS: Final = 30
BATCH_JOBS: Final = 5_000
STARTED_AFTER: Final = 2
"""Batches from the row of a job to its start, and from that to its end."""
SETTINGS: Final = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "synchronous_commit": "off",
}
"""As of the fold's connection."""


class Step(msgspec.Struct, frozen=True):
    """What one transaction writes."""

    new: list[Row]
    submissions: list[Row]
    changes: list[Row]


def make_steps(jobs: int) -> Iterator[Step]:
    """The rows of all jobs: new, started, and ended."""
    chance, numbers = random.Random(7), number_chunks(1)
    made = _make_jobs(jobs)
    parts = [made[at : at + BATCH_JOBS] for at in range(0, jobs, BATCH_JOBS)]
    for number in range(len(parts) + 2 * STARTED_AFTER):
        changes: list[Row] = []
        for job in _part(parts, number - STARTED_AFTER):
            state = chance.choice(["LEASED", "PENDING", "RUNNING", "RUNNING"])
            node = f"node-{chance.randrange(NODES):04}"
            job.latest = Run(1, state, "simulated", node, "default", TIME_MS + 900)
            job.latest.shape = job.shape
            job.run, job.state, job.changed_ms = 1, state, TIME_MS + 1_000
            changes.append(table_rows.encode_job_change(job))
        for job in _part(parts, number - 2 * STARTED_AFTER):
            assert job.latest is not None
            job.latest.state = job.state = "SUCCEEDED"
            job.started_ms = job.latest.running_ms = TIME_MS + 1_100
            job.ended_ms = job.changed_ms = job.latest.ended_ms = TIME_MS + 3_100
            changes.append(table_rows.encode_job_change(job))
        new = _part(parts, number)
        submissions: list[Row] = []
        places: dict[str, SubmissionPlace] = {}
        texts = {job.id: _submit(job, at) for at, job in enumerate(new)}
        for chunk in pack_submissions([(key, one.text) for key, one in texts.items()], numbers):
            submissions.append((chunk.number, chunk.data, WEEK))
            places |= chunk.places
        rows = [
            table_rows.encode_job(job, int(job.key[1]) + 1, texts[job.id], places[job.id])
            for job in new
        ]
        yield Step(rows, submissions, changes)


def _submit(job: Job, at: int) -> SubmissionDetails:
    """The submission of a job. Its digest is as random as its id."""
    event = events.JobSubmitted(
        job_id=ids.JobId(job.id),
        shape=SHAPE,
        spec=msgspec.Raw(SPEC),
        digest=hashlib.blake2b(job.id.encode(), digest_size=16).hexdigest(),
        client_id=f"trial-{at}",
    )
    text = msgspec.json.encode(event)
    return SubmissionDetails(event.digest, event.client_id, {}, {}, None, text)


def _part(parts: Sequence[list[Job]], number: int) -> list[Job]:
    return parts[number] if 0 <= number < len(parts) else []


def _make_jobs(jobs: int) -> list[Job]:
    """Queued jobs, in the order in which their messages are read."""
    by_message: defaultdict[tuple[int, int], list[Job]] = defaultdict(list)
    for job_set in range(SETS):
        key = (f"queue-{job_set % QUEUES}", str(job_set))
        partition = ids.job_set_partition(*key)
        names = map(str, range(len(range(job_set, jobs, SETS))))
        for place, job_id in enumerate(ids.client_job_ids(partition, *key, names)):
            message, index = divmod(place, MESSAGE_JOBS)
            number = ids.submission_number(TIME_MS, partition, message * SETS + job_set, index)
            job = Job(job_id, key, "default", number, TIME_MS, "f" * 16, "QUEUED", 0, TIME_MS)
            job.submitted_by, job.week = "admin", WEEK
            by_message[message, job_set].append(job)
    return [job for message in sorted(by_message) for job in by_message[message]]


async def measure(url: str, jobs: int, changes: str) -> Counter[str]:
    """us per job, by what is written, after a statement has changed the table."""
    connection = await asyncpg.connect(url, server_settings=SETTINGS)
    server = connection.get_server_pid()
    await connection.execute(FOLD["create_temporary_tables"])
    await connection.execute(f"SET search_path = {SCHEMA}")
    await connection.execute(f"DROP TABLE IF EXISTS {TABLE}, submissions_{WEEK}, older_runs_{WEEK}")
    await create_weeks(connection, [WEEK])
    await connection.execute(f"ALTER TABLE jobs DETACH PARTITION {TABLE}")
    await connection.execute(changes.format(table=TABLE))
    merge = FOLD["merge_jobs"].replace("{week}", str(WEEK))
    used: Counter[str] = Counter()
    for step in make_steps(jobs):
        async with connection.transaction():
            begun = _cpu_ns(server)
            await _copy(connection, TABLE, SCHEMA, table_rows.JOB_COLUMNS, step.new)
            inserted = _cpu_ns(server)
            await _copy(
                connection,
                f"submissions_{WEEK}",
                SCHEMA,
                table_rows.SUBMISSION_COLUMNS,
                step.submissions,
            )
            stored = _cpu_ns(server)
            await _copy(connection, "job_changes", None, table_rows.JOB_CHANGES, step.changes)
            copied = _cpu_ns(server)
            await connection.execute(merge)
            used["insert"] += inserted - begun
            used["submissions"] += stored - inserted
            used["changes"] += copied - stored
            used["update"] += _cpu_ns(server) - copied
    await connection.close()
    used["all"] = used.total()
    return Counter({name: spent // jobs for name, spent in used.items()})


async def _copy(
    connection: Connection, table: str, schema: str | None, names: list[str], rows: list[Row]
) -> None:
    for first in range(0, len(rows), COPIED_MAX):
        await connection.copy_records_to_table(
            table,
            schema_name=schema,
            columns=names,
            records=rows[first : first + COPIED_MAX],
        )


def _cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])


async def run(url: str, given: argparse.Namespace) -> dict[str, Any]:
    """All rounds; the result."""
    pool = await open_pool(url, size_max=1)
    await migrate_schema(pool)
    await pool.close()
    variants = {"asMigrated": "SELECT 1"} | dict(each.split("=", 1) for each in given.variant)
    rounds: defaultdict[str, list[Counter[str]]] = defaultdict(list)
    for number in range(given.rounds):
        print(f"round {number + 1} of {given.rounds}", file=sys.stderr)
        for name, changes in variants.items():
            rounds[name].append(await measure(url, given.jobs, changes))
    return {
        "jobs": given.jobs,
        "rounds": given.rounds,
        "usPerJob": {
            name: {
                part: {
                    "min": round(min(each[part] for each in found) / 1000, 1),
                    "median": round(statistics.median(each[part] for each in found) / 1000, 1),
                }
                for part in ("insert", "submissions", "changes", "update", "all")
            }
            for name, found in rounds.items()
        },
    }


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=16_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--variant", action="append", default=[], metavar="NAME=SQL")
    parser.add_argument("--json", action="store_true", help="nothing but the JSON on stdout")
    given = parser.parse_args()
    with folders.temporary_folder("job-rows") as folder:
        folder.chmod(0o755)
        postgres = Postgres(folder / "pg", password="rows", port=free_port())
        with RunningProcess(postgres, folder / "pg.log") as running:
            running.start()
            found = asyncio.run(run(postgres.url(), given))
    if not given.json:
        print(json.dumps(found, indent=2))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
