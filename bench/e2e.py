"""The whole way of many jobs: HTTP, log, scheduler, executor, lookout, on simulated nodes.

    python bench/e2e.py --burst --jobs 20000 [--json]
    python bench/e2e.py --paced --rate 1667 --seconds 60 [--json]
    ... --kafka        the log in a real Kafka broker, started here
    ... --history 5000000    with that number of ended jobs in the tables, see bench/history.py
    ... --nodes 1000    in place of 2,000, each with 32 cores for jobs of one core

Starts everything itself through `fairlead up --backend simulated` in a folder of its own, with 10
queues and 100 job sets. `--burst` submits all jobs at once: `jobsPerSecond` is over the whole life,
from the first request until lookout shows the last success. At 10,000 jobs/s the jobs, which run
for 2 s, hold up to 48,000 cores at a time. With fewer cores the cluster is full at times, and the
figure is that of the cluster: jobs wait for cores, or are preempted because another queue has less
than its share, and run again (`fairlead_lookout.preemptions` in `postgresPerJob`). `--paced`
submits at an even rate and reports how long jobs took from the request that submitted them until
their lease was in the log, and whether everything kept up. `postgresPerJob` is what Postgres used
for each job: CPU by role of the backend, WAL, and rows by table. The last line of output is one
JSON object.
"""

import argparse
import asyncio
import contextlib
import datetime
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from fairlead import AsyncClient, Job
from fairlead_common.db import open_pool
from fairlead_standalone.processes.child_process import RunningProcess
from fairlead_standalone.service.testing import StandaloneInstallation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/e2e.py`

from bench import folders, history, processes
from bench.postgres_costs import PostgresMeter
from tests.kafka_broker import KafkaBroker

NODES: Final = 2_000
CORES: Final = 32
QUEUES: Final = [f"bench-{number}" for number in range(10)]
SETS: Final = [(QUEUES[number % 10], f"set-{number:03}") for number in range(100)]
RUN_S: Final = 2.0
TICK_S: Final = 0.1
REQUESTS_MAX: Final = 8
PACED_REQUESTS_MAX: Final = 64
DRAIN_S_MAX: Final = 600.0
LATE_S_MAX: Final = 5.0
POLL_S: Final = 0.2
REPORTED_LAG_S: Final = 3.0
WARM_UP: Final = 10
DEFAULTS: Final[dict[str, object]] = {
    "command": ["true"],
    "cpu": "1",
    "memory": "1Gi",
    "annotations": {"fairlead.dev/simulated-seconds": str(RUN_S)},
}
MIXED: Final = [
    Job(cpu=str(cpu), memory=f"{memory}Gi", priority=priority)
    for cpu in (1, 2, 3, 4)
    for memory in (1, 2, 4, 8)
    for priority in (0, 10)
]


class Leased(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of an event."""

    type: str
    time: str
    job_id: str = ""


class Setting(msgspec.Struct, frozen=True):
    """A running Fairlead and how to ask it."""

    standalone: StandaloneInstallation
    client: AsyncClient
    http: httpx2.AsyncClient
    meter: processes.Meter
    succeeded: int
    """Jobs that had succeeded before the bench began."""


def main() -> None:
    """Read the arguments and run one bench."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--burst", action="store_true")
    what.add_argument("--paced", action="store_true")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=1_667.0, help="jobs a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--nodes", type=int, default=NODES, help="simulated nodes of 32 cores")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--mixed", action="store_true", help="jobs of 32 shapes instead of one")
    parser.add_argument("--fresh", action="store_true", help="with no compiled kernels")
    parser.add_argument("--history", type=int, default=0, help="ended jobs in the tables before")
    parser.add_argument(
        "--logs", type=Path, help="keep the logs of the services in this new folder"
    )
    parser.add_argument("--json", action="store_true", help="nothing but the JSON on stdout")
    given = parser.parse_args()
    with folders.temporary_folder("e2e") as folder:
        found = run(given, Path(folder))
    if not given.json:
        print(json.dumps(found, indent=2))
    print(json.dumps(found))


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start everything, run the bench, end everything."""
    with contextlib.ExitStack() as stack:
        options, more = ["--backend", "simulated"], {}
        if given.kafka:
            broker = KafkaBroker(folder / "kafka")
            running = stack.enter_context(RunningProcess(broker, folder / "kafka.log"))
            running.start()
            options += ["--kafka", broker.url()]
            more["kafka"] = running.pid
        kind = {"count": given.nodes, "resources": {"cpu": CORES, "memory": "256Gi"}}
        environment = {"FAIRLEAD_SIMULATION": json.dumps({"nodes": [kind]})}
        if given.fresh:
            environment["NUMBA_CACHE_DIR"] = str(folder)
        standalone = stack.enter_context(
            StandaloneInstallation(folder, *options, environment=environment)
        )
        started_s = time.monotonic()
        standalone.start()
        say(f"everything answers after {time.monotonic() - started_s:.1f} s")
        if given.history:
            filled = asyncio.run(fill(standalone, given.history))
            say(f"{given.history} ended jobs after {filled.fill_s:.0f} s: {filled.gb}")
        if given.logs:
            stack.callback(shutil.copytree, standalone.data / "logs", given.logs)
        found = asyncio.run(bench(given, standalone, more))
    log = "kafka" if given.kafka else "postgres"
    where = {"log": log, "history": given.history, "nodes": given.nodes, "cores": os.cpu_count()}
    return {**where, **found}


async def fill(standalone: StandaloneInstallation, jobs: int) -> history.Filled:
    """Put ended jobs into the tables of a Fairlead that nobody has used yet."""
    pool = await open_pool(standalone.child("web").environ()["FAIRLEAD_DATABASE_URL"], size_max=1)
    try:
        return await history.fill(pool, jobs)
    finally:
        await pool.close()


async def bench(
    given: argparse.Namespace, standalone: StandaloneInstallation, more: dict[str, int]
) -> dict[str, Any]:
    """Prepare queues and run what was asked for."""
    headers = {"authorization": f"Bearer {standalone.token}"}
    async with (
        AsyncClient(standalone.address, token=standalone.token) as client,
        httpx2.AsyncClient(
            base_url=standalone.address, headers=headers, trust_env=False, timeout=60.0
        ) as http,
    ):
        first_job_s = await prepare(client, http, given.nodes)
        meter = processes.Meter(standalone, more, time.monotonic())
        before = (await counts(http)).get("SUCCEEDED", 0)
        setting = Setting(standalone, client, http, meter, before)
        lags = Lags(setting)
        async with watched(lags), metered(standalone) as postgres:
            if given.burst:
                found = await burst(setting, given.jobs, mixed=given.mixed)
            else:
                found = await paced(setting, given.rate, given.seconds)
            costs = await postgres.costs(found["jobs"])
        first = {"firstJobSeconds": round(first_job_s, 2)}
        per_job = {"postgresPerJob": msgspec.to_builtins(costs)}
        return {**found, **first, **per_job, "lag": lags.summary()}


@contextlib.asynccontextmanager
async def metered(standalone: StandaloneInstallation) -> AsyncIterator[PostgresMeter]:
    """The costs of Postgres from now on."""
    url = standalone.child("web").environ()["FAIRLEAD_DATABASE_URL"]
    meter = await PostgresMeter.start(url, standalone.child("postgres"))
    try:
        yield meter
    finally:
        await meter.close()


async def prepare(client: AsyncClient, http: httpx2.AsyncClient, nodes: int) -> float:
    """Make the queues; wait until all nodes are known and first jobs went all the way.

    Returns how many seconds these jobs took, less the time that they ran.
    """
    for name in QUEUES:
        await client.create_queue(name)
    while True:
        answer = (await http.get("/api/v1/clusters")).json()
        if sum(cluster["nodes"] for cluster in answer["clusters"]) >= nodes:
            break
        await asyncio.sleep(POLL_S)
    began_s = time.monotonic()
    done = await client.submit(QUEUES[0], "warm-up", [Job()] * WARM_UP, defaults=DEFAULTS)
    await client.wait(QUEUES[0], "warm-up", after=done.position, timeout_s=60.0)
    return time.monotonic() - began_s - RUN_S


async def burst(setting: Setting, jobs: int, *, mixed: bool) -> dict[str, Any]:
    """All at once; how long until lookout shows that all have succeeded."""
    requests_left = asyncio.Semaphore(REQUESTS_MAX)
    share = [jobs // len(SETS) + (number < jobs % len(SETS)) for number in range(len(SETS))]

    shapes = MIXED if mixed else [Job()]

    async def submit(place: tuple[str, str], count: int) -> None:
        async with requests_left:
            made = [
                msgspec.structs.replace(shapes[number % len(shapes)], client_id=f"j{number}")
                for number in range(count)
            ]
            await setting.client.submit(*place, made, defaults=DEFAULTS)

    began_s = time.monotonic()
    await asyncio.gather(*map(submit, SETS, share))
    submitted_s = time.monotonic() - began_s
    say(f"{jobs} jobs accepted after {submitted_s:.2f} s")
    states = await drained(setting, jobs)
    passed_s = time.monotonic() - began_s
    return {
        "bench": "burst",
        "jobs": jobs,
        "succeeded": states.get("SUCCEEDED", 0),
        "seconds": round(passed_s, 2),
        "submitSeconds": round(submitted_s, 2),
        "jobsPerSecond": round(jobs / passed_s, 1),
        "processes": uses(setting),
    }


async def paced(setting: Setting, rate: float, seconds: float) -> dict[str, Any]:
    """An even stream; how long jobs took from their request to their lease."""
    requests_left = asyncio.Semaphore(PACED_REQUESTS_MAX)
    sent: dict[str, float] = {}
    requests: list[float] = []
    tasks: set[asyncio.Task[None]] = set()

    async def submit(place: tuple[str, str], first: int, count: int, due_s: float) -> None:
        async with requests_left:
            made = [Job(client_id=f"j{number}") for number in range(first, first + count)]
            wall_s = time.time() - (time.monotonic() - due_s)
            done = await setting.client.submit(*place, made, defaults=DEFAULTS)
            requests.append(time.monotonic() - due_s)
            sent.update(dict.fromkeys((job.id for job in done.jobs), wall_s))

    began_s = time.monotonic()
    total, tick = 0, 0
    while (due_s := began_s + tick * TICK_S) < began_s + seconds:
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        wanted = round(rate * (tick + 1) * TICK_S)
        if wanted > total:
            place = SETS[tick % len(SETS)]
            tasks.add(asyncio.create_task(submit(place, total, wanted - total, due_s)))
        total, tick = wanted, tick + 1
    await asyncio.gather(*tasks)
    submitted_s = time.monotonic() - began_s
    during = uses(setting)
    states = await drained(setting, total)
    drained_s = time.monotonic() - began_s - submitted_s
    say(f"{total} jobs in {submitted_s:.1f} s, all ended {drained_s:.1f} s later")
    waits = await latencies(setting, sent, last_s=seconds)
    is_on_time = (
        submitted_s - seconds < LATE_S_MAX
        and quantile(waits.late, 0.99) < LATE_S_MAX
        and quantile(waits.late, 0.5) < 3 * quantile(waits.early, 0.5) + 1.0  # does not grow
    )
    return {
        "bench": "paced",
        "rate": rate,
        "seconds": seconds,
        "jobs": total,
        "succeeded": states.get("SUCCEEDED", 0),
        "submittedPerSecond": round(total / submitted_s, 1),
        "leaseSeconds": summary(waits.all),
        "leaseSecondsInTheFirstThird": summary(waits.early),
        "leaseSecondsInTheLastThird": summary(waits.late),
        "requestSeconds": summary(requests),
        "drainSeconds": round(drained_s, 2),
        "keptUp": is_on_time,
        "processes": during,
    }


async def drained(setting: Setting, jobs: int) -> dict[str, int]:
    """Poll lookout's counters until this number of jobs has ended; the counts by state."""
    deadline_s = time.monotonic() + DRAIN_S_MAX
    printed_s = time.monotonic()
    while True:
        states = await counts(setting.http)
        if states.get("SUCCEEDED", 0) >= jobs + setting.succeeded:
            return {**states, "SUCCEEDED": states["SUCCEEDED"] - setting.succeeded}
        if time.monotonic() > deadline_s:
            sys.exit(f"not all of {jobs} jobs succeeded within {DRAIN_S_MAX:.0f} s: {states}")
        if time.monotonic() - printed_s > 5.0:
            printed_s = time.monotonic()
            say(f"  {states}")
        await asyncio.sleep(POLL_S)


async def counts(http: httpx2.AsyncClient) -> dict[str, int]:
    """Lookout's counters by state."""
    answer = (await http.get("/api/v1/jobs", params={"groupBy": "state"})).json()
    return {group["group"]["state"]: group["jobs"] for group in answer["groups"]}


class Waits(msgspec.Struct, frozen=True):
    """Seconds from request to lease: of all jobs, and of those sent in the first and last third."""

    all: list[float]
    early: list[float]
    late: list[float]


async def latencies(setting: Setting, sent: dict[str, float], last_s: float) -> Waits:
    """From the events of every job set: the first lease of each job."""
    leased: dict[str, float] = {}
    for queue, job_set in SETS:
        async for event in events(setting.http, queue, job_set):
            if event.job_id not in leased:
                leased[event.job_id] = datetime.datetime.fromisoformat(event.time).timestamp()
    first_s = min(sent.values())
    waits = [(sent_s, leased[job_id] - sent_s) for job_id, sent_s in sent.items()]
    early = [wait_s for sent_s, wait_s in waits if sent_s - first_s < last_s / 3]
    late = [wait_s for sent_s, wait_s in waits if sent_s - first_s > last_s * 2 / 3]
    return Waits([wait_s for _, wait_s in waits], early, late)


async def events(
    http: httpx2.AsyncClient, queue: str, job_set: str, kind: str = "leased"
) -> AsyncIterator[Leased]:
    """The events of this type of one job set."""
    wanted = f'"{kind}"'.encode()
    decoder = msgspec.json.Decoder(Leased)
    async with http.stream("GET", f"/api/v1/jobsets/{queue}/{job_set}/events") as answer:
        if answer.status_code == 404:
            return  # the bench was too short to use every job set
        answer.raise_for_status()
        rest = b""
        async for chunk in answer.aiter_bytes():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if wanted in line:
                    yield decoder.decode(line)


class Lags:
    """Looks every second at how far the views are behind."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._seen: dict[str, list[float]] = {}
        port = setting.standalone.child("scheduler").environ()["FAIRLEAD_HTTP_PORT"]
        self._sources = {
            f"{setting.standalone.address}/metrics": ("fairlead_lookout_lag_seconds",),
            f"http://127.0.0.1:{port}/metrics": ("fairlead_scheduler_lag_seconds",),
        }

    async def look(self) -> None:
        """Read the gauges once a second until cancelled."""
        while True:
            for url, gauges in self._sources.items():
                text = (await self._setting.http.get(url)).text
                for line in text.splitlines():
                    name, _, value = line.partition(" ")
                    if name in gauges:
                        self._seen.setdefault(name, []).append(float(value))
                        if float(value) > REPORTED_LAG_S:
                            say(f"  {name} is {float(value):.1f}")
            await asyncio.sleep(1.0)

    def summary(self) -> dict[str, dict[str, float]]:
        """Median, 99th percentile and maximum of each gauge."""
        return {name: summary(values) for name, values in self._seen.items()}


@contextlib.asynccontextmanager
async def watched(lags: Lags) -> AsyncIterator[None]:
    """Look at the lags while the block runs."""
    async with asyncio.TaskGroup() as tasks:
        sampling = tasks.create_task(lags.look())
        yield
        sampling.cancel()


def uses(setting: Setting) -> dict[str, Any]:
    """CPU and memory of each process since the beginning."""
    found: dict[str, Any] = msgspec.to_builtins(setting.meter.read(time.monotonic()))
    return found


def summary(values: Sequence[float]) -> dict[str, float]:
    """In seconds (or records)."""
    return {
        "p50": round(quantile(values, 0.5), 3),
        "p99": round(quantile(values, 0.99), 3),
        "max": round(max(values, default=0.0), 3),
    }


def quantile(values: Sequence[float], part: float) -> float:
    """0 for nothing."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=1000, method="inclusive")[round(part * 1000) - 1]


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
