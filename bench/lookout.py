"""How fast lookout answers with a million jobs in its view, while it folds 2,000 events a second.

    python bench/lookout.py [--jobs 1000000] [--rate 2000] [--seconds 12] [--all] [--json]

Starts a Postgres, a Valkey and one lookout process of its own, fills the view by COPY, and then
lets a process of its own append whole lives of jobs to the log at the rate given. Meanwhile it asks
for one kind of page after the other, one request at a time and with pauses, so that they meet the
fold at any of its moments; at last it cancels 100,000 jobs by one filter. All of them share two
cores. `goalMs` is meant for the p99 of `page`, `groups` and `job`, which are always asked; `--all`
asks for the others too. Each kind takes `--seconds` and the answer to its last request. What it
does is written to stderr; the last line of output is one JSON object.
"""

import argparse
import asyncio
import contextlib
import os
import random
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import httpx2
import msgspec
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/lookout.py`

from bench import arguments, fold, folders
from fairlead_common.db import open_pool
from fairlead_common.domain import ids, position_tokens
from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import EventLog, topics
from fairlead_common.log.opening import open_log
from fairlead_common.service import clock
from fairlead_lookout.domain.model import Job, Run, SubmissionDetails
from fairlead_lookout.store import job_weeks, table_rows
from fairlead_lookout.store.view_schema import SCHEMA, migrate_schema
from fairlead_lookout.store.week_tables import create_weeks
from fairlead_standalone.processes.child_process import RunningProcess, die_with_parent
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import Postgres
from fairlead_standalone.servers.embedded_valkey import Valkey

GOAL_MS: Final = 100
BULK_GOAL_S: Final = 10.0
WITH_A_GOAL: Final = ("page", "groups", "job")
CORES: Final = 2
SLICE: Final = 50_000
JOB_ID: Final = table_rows.JOB_COLUMNS.index("id")
QUEUES: Final = 20
SETS: Final = 200
NODES: Final = 1_000
TEAMS: Final = 50
USERS: Final = 50
DAYS: Final = 20
BULK: Final = 100_000
BULK_S_MAX: Final = 120.0
TICK_S: Final = 0.1
PAUSE_S_MAX: Final = 0.05
EVENTS_OF_A_LIFE: Final = 6
WRITER: Final = "--write"
LOOKOUT: Final = "fairlead_lookout"
MARKS: Final = {"lookout": LOOKOUT, "writer": WRITER, "browser": "chromium", "driver": "playwright"}
"""What the command line of a process has, by who it is."""
CHOICE: Final = (
    ("SUCCEEDED", 900_000),
    ("QUEUED", 60_000),
    ("FAILED", 25_000),
    ("RUNNING", 10_000),
    ("CANCELLED", 4_990),
    ("PREEMPTED", 10),
)
"""States of the jobs, of a million."""
SHAPE: Final = shapes.encode(shapes.Shape({"cpu": 1000, "memory": 2 << 30}))


class Seeded(msgspec.Struct, frozen=True):
    """Some ids that are in the view."""

    ids: list[str]


@contextlib.contextmanager
def servers(name: str, reused: Path | None = None) -> Iterator[tuple[Path, str, str]]:
    """A folder, `reused` or a temporary one, and the URLs of a Postgres and a Valkey in it."""
    with contextlib.ExitStack() as stack:
        folder = reused or Path(stack.enter_context(folders.temporary_folder(name)))
        folder.chmod(0o755)
        password = "bench" if reused else secrets.token_hex(8)
        postgres = Postgres(folder / "pg", password=password, port=free_port())
        valkey = Valkey(folder / "valkey", password=password, port=free_port())
        with (
            RunningProcess(postgres, folder / "pg.log") as one,
            RunningProcess(valkey, folder / "v.log") as two,
        ):
            one.start()
            two.start()
            yield folder, postgres.url(), valkey.url()


def main() -> None:
    """Read the arguments, start everything, measure."""
    parser = arguments.make_parser(__doc__, jobs=1_000_000)
    parser.add_argument("--seconds", type=float, default=12.0, help="for each kind of page")
    parser.add_argument("--all", action="store_true", help="the kinds without a goal as well")
    parser.add_argument(WRITER, metavar="LOG", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        asyncio.run(write(given.write, given.rate))
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # and all that is started here
    with servers("lookout") as (folder, database, redis):
        found = asyncio.run(run(given, database, redis, folder))
    arguments.print_found(given, found)


def log_progress(text: str) -> None:
    """Say on stderr what is done now."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


async def run(given: argparse.Namespace, database: str, redis: str, folder: Path) -> dict[str, Any]:
    """Fill the view, start lookout, ask while it folds."""
    began_s = time.perf_counter()
    seeded, log = await fill_view(database, given.jobs)
    filled_s = time.perf_counter() - began_s
    address = f"http://127.0.0.1:{free_port()}"
    async with (
        serving(address, database, redis, folder) as client,
        writing(database, given.rate),
    ):
        await asyncio.sleep(2.0)
        began_s, before = time.perf_counter(), cpu_s()
        asked = {
            name: await measure(client, name, paths, given.seconds)
            for name, paths in kinds(seeded).items()
            if given.all or name in WITH_A_GOAL
        }
        passed_s, after = time.perf_counter() - began_s, cpu_s()
        lag_s = await lag_of(client, log)
        cancelled = await bulk(client, log)
    await log.close()
    return {
        "jobs": given.jobs,
        "eventsPerSecond": given.rate,
        "cores": {name: round((after[name] - before[name]) / passed_s, 2) for name in after},
        "filledInS": round(filled_s, 1),
        "goalMs": GOAL_MS,
        "met": all(asked[name]["p99Ms"] < GOAL_MS for name in WITH_A_GOAL),
        "lagS": lag_s,
        "asked": asked,
        "cancelled100k": cancelled,
    }


async def fill_view(database: str, jobs: int) -> tuple[Seeded, EventLog]:
    """A view with this number of jobs, and a log with nothing."""
    pool = await open_pool(database)
    await migrate_schema(pool)
    seeded = await seed(pool, jobs)
    await pool.close()
    log = await open_log(database)
    await log.create(topics.jobs())
    return seeded, log


def kinds(seeded: Seeded) -> dict[str, list[str]]:
    """Paths by kind of question; each is asked in turn."""
    chance = random.Random(1)
    queues = [f"queue-{chance.randrange(QUEUES)}" for _ in range(50)]
    return {
        "page": [f"/jobs?queue={queue}&state=SUCCEEDED,FAILED" for queue in queues],
        "groups": ["/jobs?groupBy=queue,state"],
        "job": [f"/jobs/{job_id}" for job_id in seeded.ids],
        "newest": ["/jobs"],
        "rareState": ["/jobs?state=PREEMPTED"],
        "noSuchState": ["/jobs?state=REJECTED"],
        "oldest": [f"/jobs?queue={queue}&sort=submitted" for queue in queues],
        "label": [f"/jobs?label.team=t{number}" for number in range(TEAMS)],
        "labelOfNobody": ["/jobs?label.team=nobody"],
        "node": [f"/jobs?node=n{number}&queue=queue-3" for number in range(20)],
        "category": ["/jobs?category=oom"],
        "jobSet": [f"/jobs?queue=queue-{n % QUEUES}&jobSet=set-{n}" for n in range(SETS)],
        "count": [f"/jobs?queue={queue}&include=count&limit=1" for queue in queues],
        "groupsByNode": ["/jobs?queue=queue-1&groupBy=node&limit=20"],
        "groupsByLabel": ["/jobs?groupBy=label.team"],
        "jobSets": ["/jobsets?active=true"],
        "events": ["/jobsets/queue-1/set-1/events"],
    }


async def measure(
    client: httpx2.AsyncClient, name: str, paths: list[str], seconds: float
) -> dict[str, Any]:
    """Percentiles of sequential requests during this number of seconds."""
    log_progress(f"asking for {name}")
    pauses = random.Random(3)
    took: list[float] = []
    deadline_s = time.perf_counter() + seconds
    while time.perf_counter() < deadline_s:
        took.append(await timed(client, paths[len(took) % len(paths)]))
        await asyncio.sleep(pauses.uniform(0, PAUSE_S_MAX))
    return percentiles(took)


async def timed(client: httpx2.AsyncClient, path: str) -> float:
    """How long a request took, in ms."""
    began_s = time.perf_counter()
    answer = await client.get(f"/api/v1{path}")
    took_ms = 1000 * (time.perf_counter() - began_s)
    assert answer.status_code in (200, 404), answer.text
    return took_ms


def percentiles(took: list[float]) -> dict[str, Any]:
    """Of times in ms."""
    took.sort()
    return {
        "minMs": round(took[0], 1),
        "p50Ms": round(took[len(took) // 2], 1),
        "p99Ms": round(took[min(len(took) - 1, len(took) * 99 // 100)], 1),
        "maxMs": round(took[-1], 1),
        "requests": len(took),
    }


async def bulk(client: httpx2.AsyncClient, log: EventLog) -> dict[str, Any]:
    """Cancel 100,000 jobs by one filter, and ask for pages until lookout shows it done.

    `s` is the time from the append until then, `pages` what requests took meanwhile.
    """
    log_progress(f"submitting {BULK} jobs")
    producer = await log.producer("bulk")
    for name in (f"set-{number}" for number in range(SETS)):
        partition = ids.job_set_partition("bulk", name)
        own = ids.client_job_ids(partition, "bulk", name, map(str, range(BULK // SETS)))
        cancellations = [
            events.JobSubmitted(
                job_id=job_id, shape=SHAPE, spec=msgspec.Raw(fold.SPEC), digest="d" * 32
            )
            for job_id in own
        ]
        await producer.append(events.records("bulk", name, "bench", cancellations))
    await lag_of(client, log)
    log_progress("cancelling them")
    asked = events.JobsCancelRequested(filter=events.JobFilter(queue="bulk"), reason="enough")
    began_s = time.perf_counter()
    await producer.append(
        [
            record
            for number in range(topics.JOB_PARTITIONS)
            for record in events.records("bulk", "", "bench", [asked], partition=number)
        ]
    )
    took: list[float] = []
    while True:
        took.append(await timed(client, "/jobs?queue=queue-1&state=SUCCEEDED,FAILED"))
        answer = await client.get("/api/v1/jobs?queue=bulk&groupBy=state")
        passed_s = time.perf_counter() - began_s
        if answer.json()["groups"] == [{"group": {"state": "CANCELLED"}, "jobs": BULK}]:
            met = passed_s <= BULK_GOAL_S
            return {"s": round(passed_s, 2), "met": met, "pages": percentiles(took)}
        assert passed_s < BULK_S_MAX, f"not cancelled after {BULK_S_MAX} s: {answer.text}"
        await asyncio.sleep(0.1)


async def lag_of(client: httpx2.AsyncClient, log: EventLog) -> float:
    """Seconds until the view has folded what is in the log now."""
    end = await log.end_positions(topics.JOBS)
    token = position_tokens.encode({number: at for number, at in end.items() if at})
    began_s = time.perf_counter()
    answer = await client.get("/api/v1/jobsets", params={"after": token, "wait": "60s", "limit": 1})
    assert answer.status_code == 200, answer.text
    return round(time.perf_counter() - began_s, 2)


@contextlib.asynccontextmanager
async def writing(url: str, rate: float) -> AsyncIterator[None]:
    """A process that appends to the log; the block fails if that has ended before it."""
    argv = (str(Path(__file__)), WRITER, url, "--rate", str(rate))
    async with running(argv, os.environ, None) as child:
        yield
        assert child.returncode is None, "the process that writes to the log has failed"


async def write(url: str, rate: float) -> None:
    """Append whole lives of new jobs, phase by phase, at this rate of events."""
    producer = await (await open_log(url)).producer("bench")
    jobs = max(1, round(rate * TICK_S / EVENTS_OF_A_LIFE))
    under_way: list[list[list[Any]]] = []
    number = 0
    began_s = time.perf_counter()
    while True:
        under_way.append(list(fold.steps(number, jobs)))
        records = [record for steps in under_way for record in steps.pop(0)]
        under_way = [steps for steps in under_way if steps]
        await producer.append(records)
        number += jobs
        ticks = number // jobs
        await asyncio.sleep(max(0.0, began_s + ticks * TICK_S - time.perf_counter()))


@contextlib.asynccontextmanager
async def serving(
    address: str, database: str, redis: str, folder: Path
) -> AsyncIterator[httpx2.AsyncClient]:
    """One lookout process, and a client of it."""
    environment = {
        **os.environ,
        "FAIRLEAD_DATABASE_URL": database,
        "FAIRLEAD_LOG_URL": database,
        "FAIRLEAD_REDIS_URL": redis,
        "FAIRLEAD_HTTP_PORT": address.rpartition(":")[2],
        "FAIRLEAD_ANONYMOUS": "true",
        "FAIRLEAD_REQUESTS": '{"perSecond": 100000, "burst": 100000}',
    }
    with (folder / "lookout.log").open("wb") as output:
        async with (
            running(("-m", LOOKOUT), environment, output) as child,
            httpx2.AsyncClient(base_url=address, timeout=120.0) as client,
        ):
            while True:
                assert child.returncode is None, (folder / "lookout.log").read_text()
                with contextlib.suppress(httpx2.ConnectError):
                    if (await client.get("/healthz")).status_code == 200:
                        break
                await asyncio.sleep(0.1)
            yield client


@contextlib.asynccontextmanager
async def running(
    words: Sequence[str], environment: Mapping[str, str], output: BinaryIO | None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python process, ended with the block."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        env=environment,
        stdout=output,
        stderr=output,
        preexec_fn=die_with_parent(signal.SIGTERM),
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
        async with asyncio.timeout(10):
            await child.wait()


def cpu_s() -> dict[str, float]:
    """Seconds of processor time so far, by who used them."""
    used = dict.fromkeys(("postgres", "client", *MARKS), 0.0)
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times, line = process.cpu_times(), " ".join(process.cmdline())
            name = "client"
            if process != own:
                name = next((who for who, mark in MARKS.items() if mark in line), "postgres")
            used[name] += times.user + times.system
            if name in ("postgres", "browser"):  # whose children end meanwhile
                used[name] += times.children_user + times.children_system
    machine = psutil.cpu_times()
    busy_s = machine.user + machine.nice + machine.system + machine.steal
    return used | {"others": busy_s - sum(used.values())}


async def seed(pool: Any, jobs: int) -> Seeded:
    """Fill the view with jobs by COPY; counters are counted once from the rows."""
    sets = [(f"queue-{number % QUEUES}", f"set-{number}") for number in range(SETS)]
    async with pool.acquire() as connection:
        await connection.execute(
            f"INSERT INTO {SCHEMA}.job_sets (queue, job_set, partition, jobs, first_ms, last_ms)"
            " SELECT *, 0, $4, $5 FROM unnest($1::text[], $2::text[], $3::int[])",
            [queue for queue, _ in sets],
            [name for _, name in sets],
            [ids.job_set_partition(*each) for each in sets],
            clock.now_ms() - DAYS * 86_400_000,
            clock.now_ms(),
        )
        rows = await connection.fetch(f"SELECT queue, job_set, number FROM {SCHEMA}.job_sets")
        numbers = {(row["queue"], row["job_set"]): row["number"] for row in rows}
        now_ms = clock.now_ms()
        first = job_weeks.week_of(now_ms - DAYS * job_weeks.DAY_MS)
        async with connection.transaction():
            await create_weeks(connection, range(first, job_weeks.week_of(now_ms) + 1))
        some: list[str] = []
        for first in range(0, jobs, SLICE):
            log_progress(f"filling the view: {first} of {jobs} jobs")
            made = list(_jobs(first, min(SLICE, jobs - first), jobs, sets, numbers))
            for table, names, place in (
                ("jobs", table_rows.JOB_COLUMNS, 0),
                ("submissions", table_rows.SUBMISSION_COLUMNS, 1),
            ):
                await connection.copy_records_to_table(
                    table,
                    schema_name=SCHEMA,
                    columns=names,
                    records=[each[place] for each in made],
                )
            some += [each[0][JOB_ID] for each in made[:: len(made) // 20 or 1]]
        await _count(connection)
    random.Random(2).shuffle(some)
    return Seeded(some)


def _jobs(
    first: int,
    many: int,
    jobs: int,
    sets: list[tuple[str, str]],
    numbers: dict[tuple[str, str], int],
) -> Iterator[tuple[Any, Any]]:
    """(job, chunk of its submission) rows of jobs that were submitted one after the other."""
    chance = random.Random(first)
    states = chance.choices([name for name, _ in CHOICE], [part for _, part in CHOICE], k=many)
    begin_ms, step_ms = clock.now_ms() - DAYS * 86_400_000, DAYS * 86_400_000 / jobs
    shape = shapes.key(bytes(SHAPE), "default")
    for index, state in enumerate(states):
        number = first + index
        own = sets[chance.randrange(len(sets))]
        partition = ids.job_set_partition(*own)
        at_ms = round(begin_ms + number * step_ms)
        job_id = ids.new_job_id(partition, at_ms, chance.getrandbits(80))
        run = 0 if state == "QUEUED" else 1
        ended = None if state in ("QUEUED", "RUNNING") else at_ms + 60_000
        started = at_ms + 1_000 if run else None
        category = chance.choice(("exit-code", "exit-code", "oom")) if state == "FAILED" else None
        order = ids.submission_number(at_ms, partition, number & 511, number & 1023)
        job = Job(
            id=job_id,
            key=own,
            priority_class="default",
            number=order,
            submitted_ms=at_ms,
            shape=shape,
            state=state,
            priority=0,
            run=run,
            changed_ms=ended or at_ms,
            started_ms=started,
            ended_ms=ended,
            category=category,
            week=job_weeks.week_of(at_ms),
            submitted_by=f"user-{number % USERS}",
        )
        labels = {"team": f"t{chance.randrange(TEAMS)}"}
        spec_json = msgspec.json.encode(
            events.JobSubmitted(
                job_id=job_id, shape=SHAPE, spec=msgspec.Raw(fold.SPEC), digest="d" * 32
            )
        )
        submitted = SubmissionDetails("d" * 32, f"trial-{number}", labels, {}, None, spec_json)
        node = f"n{chance.randrange(NODES)}"
        latest = Run(
            number=run,
            state=state if state in ("RUNNING", "SUCCEEDED", "FAILED") else "STOPPED",
            executor="cluster-a",
            node=node,
            pool="default",
            leased_ms=at_ms,
            pending_ms=at_ms,
            running_ms=started,
            ended_ms=ended,
            category=category,
            shape=shape,
        )
        job.latest = latest if run else None
        row = table_rows.encode_job(job, numbers[own], submitted, (number, 0))
        yield row, (number, spec_json, job.week)


async def _count(connection: Any) -> None:
    for text in (
        f"INSERT INTO {SCHEMA}.counters SELECT set_number, class, state, count(*)"
        f" FROM {SCHEMA}.jobs GROUP BY 1, 2, 3",
        f"INSERT INTO {SCHEMA}.queue_counts SELECT queue, class, state, count(*)"
        f" FROM {SCHEMA}.jobs GROUP BY 1, 2, 3",
        f"UPDATE {SCHEMA}.job_sets s SET jobs = n.jobs, live = n.live, active = n.live > 0"
        " FROM (SELECT set_number, count(*) AS jobs, count(*) FILTER (WHERE ended_ms IS NULL)"
        f" AS live FROM {SCHEMA}.jobs GROUP BY 1) n WHERE n.set_number = s.number",
    ):
        await connection.execute(text, timeout=600)
    log_progress("vacuum, analyze, checkpoint")
    for table in ("jobs", "submissions", "job_sets", "counters", "queue_counts"):
        await connection.execute(f"VACUUM ANALYZE {SCHEMA}.{table}", timeout=600)
    await connection.execute("CHECKPOINT", timeout=600)


if __name__ == "__main__":
    main()
