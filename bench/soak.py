"""What grows while Fairlead runs for long: memory, descriptors, threads, tables, log, cache, files.

    python bench/soak.py [--rate 1000] [--minutes 30] [--interval 15] [--check] [--json]

Starts `fairlead up --backend simulated` in a folder of its own and submits jobs at a steady rate:
ever new client ids and job sets, a new queue each minute (the old ones are deleted), new shapes all
the time, half of the jobs with a maximum run time of a day, some that fail, some that are
cancelled. Then it stops, waits until every job has ended and upkeep has compacted the log, and
kills scheduler and executor to see how long they take to start.

Printed for each series is its slope per million jobs over the second half of the run: the median of
the slopes between all pairs of samples (Theil and Sen), which a few outliers do not move. What must
not grow is compared with a limit; `--check` ends with code 1 if one is exceeded. Limits are judged
from `JUDGED_MINUTES` on: before, caches still fill. What keeps history by design (ended jobs,
events and the log within their retention) is listed apart, as bytes per job.

Memory is private memory (not shared with other processes), for Postgres of all of its processes.
Progress is printed on stderr; the last line of output is one JSON object.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil
from redis.asyncio import Redis

from fairlead import AsyncClient, Job
from fairlead.errors import Conflict, FairleadError
from fairlead_common.db import Pool, open_pool
from fairlead_standalone.service.testing import StandaloneInstallation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/soak.py`

from bench import folders
from bench.soak_limits import HISTORY, Sample, beyond, slopes, superseded, uncompacted

MB: Final = 1e6
JUDGED_MINUTES: Final = 10.0
CORES: Final = 32

SET_S: Final = 5.0
SHAPE_S: Final = 2.0
QUEUE_S: Final = 60.0
QUEUES_MAX: Final = 3
TICK_S: Final = 0.1
REQUESTS_MAX: Final = 64
DRAIN_S_MAX: Final = 900.0
START_S_MAX: Final = 300.0
REST_S_MAX: Final = 900.0
ROLES: Final = ("web", "scheduler", "executor", "postgres", "valkey")
OPTIONS: Final[dict[str, Any]] = {
    "command": ("true",),
    "cpu": "1",
    "annotations": {"fairlead.dev/simulated-seconds": "2"},
}

SIZES: Final = """
    SELECT n.nspname AS schema, sum(pg_total_relation_size(c.oid))::float8 AS bytes
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname LIKE 'fairlead%' AND c.relkind = 'r'
      AND NOT (n.nspname = 'fairlead_scheduler' AND c.relname LIKE 'ended%') GROUP BY 1
    UNION ALL
    SELECT 'fairlead_scheduler.ended', coalesce(sum(pg_total_relation_size(oid)), 0)::float8
    FROM pg_class WHERE relname LIKE 'ended%' AND relkind = 'r'
    UNION ALL
    SELECT 'wal', coalesce(sum(size), 0)::float8 FROM pg_ls_waldir()"""
RECORDS: Final = """
    SELECT topic, count(*) AS records, count(*) FILTER (WHERE value IS NULL) AS tombstones,
        count(*) FILTER (WHERE value IS NOT NULL AND position = newest) AS live
    FROM (
        SELECT *, max(position) OVER (PARTITION BY topic, partition, key) AS newest
        FROM fairlead_log.records JOIN fairlead_log.topics USING (topic) WHERE compacted
    ) found
    GROUP BY 1 ORDER BY 1"""


def main() -> None:
    """Read the arguments, run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1_000.0, help="jobs a second")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--interval", type=float, default=15.0, help="seconds between samples")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--check", action="store_true", help="fail beyond a stated limit")
    parser.add_argument("--json", action="store_true", help="nothing but the JSON on stdout")
    given = parser.parse_args()
    with folders.temporary_folder("soak") as folder:
        found = run(given, Path(folder))
    if not given.json:
        show(found)
    print(json.dumps(found))
    if given.check and found["exceeded"]:
        sys.exit(1)


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start everything, soak it, end everything."""
    kind = {"count": given.nodes, "resources": {"cpu": CORES, "memory": "256Gi"}}
    environment = {"FAIRLEAD_SIMULATION": json.dumps({"nodes": [kind], "failureRate": 0.02})}
    with StandaloneInstallation(
        folder, "--backend", "simulated", environment=environment
    ) as standalone:
        standalone.start()
        say("everything answers")
        soak = asyncio.run(soaked(given, standalone))
        restarts = asyncio.run(restarted(standalone))
    return {
        "bench": "soak",
        "rate": given.rate,
        "minutes": given.minutes,
        "cores": os.cpu_count(),
        **soak,
        "restart": restarts,
    }


# The load -----------------------------------------------------------------------------------------


class Load:
    """Submits jobs at a steady rate, and remembers how many there are."""

    def __init__(self, client: AsyncClient, rate: float) -> None:
        self._client = client
        self._rate = rate
        self._slots = asyncio.Semaphore(REQUESTS_MAX)
        self._queues: list[str] = []
        self.jobs = 0
        self.cancelled = 0
        self.refused = 0
        """Requests that were not answered with success, each tried once."""

    async def update(self, seconds: float) -> None:
        """Submit for so long, then wait for the answers."""
        tasks: set[asyncio.Task[None]] = set()
        began_s, due, tick = time.monotonic(), 0, 0
        while (passed_s := tick * TICK_S) < seconds:
            await asyncio.sleep(max(0.0, began_s + passed_s - time.monotonic()))
            await self._turn_queues(passed_s)
            wanted = round(self._rate * (tick + 1) * TICK_S)
            if wanted > due:
                task = asyncio.create_task(self._submit(due, wanted - due, passed_s))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            due, tick = wanted, tick + 1
        await asyncio.gather(*tasks)

    async def _turn_queues(self, passed_s: float) -> None:
        """A new queue each minute; those of some minutes ago are deleted once they are empty."""
        if len(self._queues) > passed_s / QUEUE_S:
            return
        name = f"soak-{len(self._queues)}"
        await self._client.create_queue(name)
        self._queues.append(name)
        for old in self._queues[:-QUEUES_MAX]:
            with contextlib.suppress(Conflict, FairleadError):
                await self._client.delete_queue(old)

    async def _submit(self, first: int, count: int, passed_s: float) -> None:
        queue, job_set = self._queues[-1], f"set-{passed_s // SET_S:.0f}"
        memory = f"{1_000 + passed_s // SHAPE_S:.0f}Mi"
        jobs = [
            Job(
                client_id=f"job-{number}",
                memory=memory,
                max_runtime_seconds=86_400 if number % 2 else None,
            )
            for number in range(first, first + count)
        ]
        async with self._slots:
            try:
                done = await self._client.submit(queue, job_set, jobs, defaults=OPTIONS)
                self.jobs += count
                if first // count % 10 == 0:
                    some = [job.id for job in done.jobs[: count // 5]]
                    await self._client.cancel(some, reason="soak")
                    self.cancelled += len(some)
            except FairleadError as error:
                self.refused += 1
                say(f"  a request failed: {error}")


# What is measured ---------------------------------------------------------------------------------


class Meter:
    """Reads every series."""

    def __init__(self, standalone: StandaloneInstallation, pool: Pool, redis: Redis) -> None:
        self._standalone = standalone
        self._pool = pool
        self._redis = redis

    async def read(self) -> dict[str, float]:
        """All series now. Sizes are in MB."""
        values: dict[str, float] = {}
        for role in ROLES:
            for name, value in _process(self._standalone.child(role)).items():
                values[f"{name}.{role}"] = value
        for name, value in _process(self._standalone.supervisor, alone=True).items():
            values[f"{name}.supervisor"] = value
        for row in await self._pool.fetch(SIZES, timeout=60):
            values[f"size.{row['schema']}"] = row["bytes"] / MB
        memory = await self._redis.info("memory")
        values["valkey.memory"] = memory["used_memory"] / MB
        values["valkey.keys"] = await self._redis.dbsize()
        values["files.logs"] = _bytes(self._standalone.data / "logs") / MB
        runs = self._standalone.data / "runs"
        values["files.runs"] = sum(1 for _ in runs.iterdir()) if runs.is_dir() else 0
        return values

    async def records(self) -> dict[str, dict[str, int]]:
        """Of each compacted topic: records, tombstones among them, live keys."""
        rows = await self._pool.fetch(RECORDS, timeout=300)
        return {
            row["topic"]: {name: row[name] for name in ("records", "tombstones", "live")}
            for row in rows
        }


def _process(root: psutil.Process, *, alone: bool = False) -> dict[str, float]:
    """Private memory (MB), descriptors and threads of a process and its children."""
    found = {"memory": 0.0, "descriptors": 0.0, "threads": 0.0}
    for process in [root] if alone else [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            found["memory"] += process.memory_full_info().uss / MB
            found["descriptors"] += process.num_fds()
            found["threads"] += process.num_threads()
    return found


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def soaked(given: argparse.Namespace, standalone: StandaloneInstallation) -> dict[str, Any]:
    """Submit and measure; then wait for the end of all jobs."""
    settings = standalone.child("web").environ()
    pool = await open_pool(settings["FAIRLEAD_DATABASE_URL"], size_max=1, name="soak")
    redis = Redis.from_url(settings["FAIRLEAD_REDIS_URL"])
    headers = {"authorization": f"Bearer {standalone.token}"}
    try:
        async with (
            AsyncClient(standalone.address, token=standalone.token) as client,
            httpx2.AsyncClient(
                base_url=standalone.address, headers=headers, trust_env=False, timeout=60.0
            ) as http,
        ):
            await _nodes(http, given.nodes)
            load, meter = Load(client, given.rate), Meter(standalone, pool, redis)
            samples: list[Sample] = []
            sampling = asyncio.create_task(_sample(meter, load, samples, given.interval))
            try:
                await load.update(60 * given.minutes)
            finally:
                sampling.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sampling
            records = await meter.records()
            states, drain_s = await _drained(http, load.jobs)
            after = await meter.read()
            at_rest, rest_s = await _compacted(meter)
    finally:
        await redis.aclose()
        await pool.close()
    judged = given.minutes >= JUDGED_MINUTES
    series = slopes(samples)
    exceeded = [*beyond(series, samples), *superseded(records, given.rate)] if judged else []
    exceeded += uncompacted(at_rest)
    if load.jobs != sum(states.values()):
        exceeded.append(f"{load.jobs} jobs were accepted, and {sum(states.values())} have ended")
    return {
        "jobs": load.jobs,
        "refusedRequests": load.refused,
        "cancelAsked": load.cancelled,
        "states": states,
        "drainSeconds": round(drain_s, 1),
        "judged": judged,
        "exceeded": exceeded,
        "perMillionJobs": series,
        "bytesPerJob": {name: series[name] for name in HISTORY if name in series},
        "compactedTopics": records,
        "compactedAtRest": at_rest,
        "restSeconds": round(rest_s, 1),
        "first": rounded(samples[0].values) if samples else {},
        "last": rounded(samples[-1].values) if samples else {},
        "afterwards": rounded(after),
    }


async def _nodes(http: httpx2.AsyncClient, nodes: int) -> None:
    """Return once lookout shows all nodes."""
    while True:
        answer = (await http.get("/api/v1/clusters")).json()
        if sum(cluster["nodes"] for cluster in answer["clusters"]) >= nodes:
            return
        await asyncio.sleep(0.5)


async def _sample(meter: Meter, load: Load, samples: list[Sample], interval_s: float) -> None:
    """Add a sample again and again until cancelled."""
    began_s = time.monotonic()
    for number in itertools.count(1):
        values = await meter.read()
        sample = Sample(time.monotonic() - began_s, load.jobs, values)
        samples.append(sample)
        memory = ", ".join(f"{role} {values[f'memory.{role}']:.0f}" for role in ROLES)
        say(
            f"{sample.at_s:6.0f} s {sample.jobs:9,} jobs; MB: {memory},"
            f" WAL {values['size.wal']:.0f}, lookout {values['size.fairlead_lookout']:.0f},"
            f" log {values['size.fairlead_log']:.0f}"
        )
        await asyncio.sleep(max(0.0, began_s + number * interval_s - time.monotonic()))


async def _drained(http: httpx2.AsyncClient, jobs: int) -> tuple[dict[str, int], float]:
    """Wait until this number of jobs has ended; the counts by state, and how long it took."""
    began_s = time.monotonic()
    while True:
        answer = (await http.get("/api/v1/jobs", params={"groupBy": "state"})).json()
        states = {group["group"]["state"]: group["jobs"] for group in answer["groups"]}
        live = {"QUEUED", "LEASED", "PENDING", "RUNNING"}
        ended = {state: count for state, count in states.items() if state not in live}
        passed_s = time.monotonic() - began_s
        if sum(ended.values()) >= jobs or passed_s > DRAIN_S_MAX:
            return ended, passed_s
        await asyncio.sleep(1.0)


async def _compacted(meter: Meter) -> tuple[dict[str, dict[str, int]], float]:
    """Wait until upkeep has removed what newer records replace; the records then, and how long."""
    began_s = time.monotonic()
    while True:
        records = await meter.records()
        passed_s = time.monotonic() - began_s
        if not uncompacted(records) or passed_s > REST_S_MAX:
            say(f"compacted topics after {passed_s:.0f} s of rest: {json.dumps(records)}")
            return records, passed_s
        await asyncio.sleep(10.0)


async def restarted(standalone: StandaloneInstallation) -> dict[str, float]:
    """Seconds from `kill -9` of scheduler and executor until they lead and report again."""

    def leads(text: str) -> bool:
        return "fairlead_scheduler_leading 1.0" in text

    return {
        "schedulerLeadsS": await _killed(standalone, "scheduler", "/metrics", leads),
        "executorReadyS": await _killed(standalone, "executor", "/readyz", lambda _: True),
    }


async def _killed(
    standalone: StandaloneInstallation, role: str, path: str, is_back: Callable[[str], bool]
) -> float:
    old = standalone.child(role)
    url = f"http://127.0.0.1:{old.environ()['FAIRLEAD_HTTP_PORT']}{path}"
    began_s = time.monotonic()
    old.kill()
    async with httpx2.AsyncClient(trust_env=False, timeout=5.0) as http:
        while (passed_s := time.monotonic() - began_s) < START_S_MAX:
            with contextlib.suppress(httpx2.HTTPError, AssertionError, psutil.NoSuchProcess):
                if standalone.child(role).pid != old.pid:
                    answer = await http.get(url)
                    if answer.status_code == 200 and is_back(answer.text):
                        break
            await asyncio.sleep(0.05)
    say(f"{role} is back after {passed_s:.1f} s")
    return round(passed_s, 2)


def rounded(values: dict[str, float]) -> dict[str, float]:
    """For people."""
    return {name: round(value, 1) for name, value in sorted(values.items())}


def show(found: dict[str, Any]) -> None:
    """The series as a table."""
    print(f"{'':32}{'first':>12}{'last':>12}{'afterwards':>12}{'per million jobs':>18}")
    for name, value in found["perMillionJobs"].items():
        first, last, after = (found[key][name] for key in ("first", "last", "afterwards"))
        mark = "  (bytes per job, retained by design)" if name in HISTORY else ""
        print(f"{name:32}{first:12.1f}{last:12.1f}{after:12.1f}{value:18.2f}{mark}")
    printed = ("compactedTopics", "compactedAtRest", "restart", "states")
    print(json.dumps({key: found[key] for key in printed}))
    for text in found["exceeded"]:
        print(f"EXCEEDED {text}")
    if not found["judged"]:
        print(f"Limits are judged from {JUDGED_MINUTES:g} minutes on: caches still fill before.")


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
