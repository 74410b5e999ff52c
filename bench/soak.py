"""What grows while Fairlead runs for long: memory, descriptors, threads, tables, log, cache, files.

    python bench/soak.py [--rate 1000] [--minutes 30] [--interval 15] [--check] [--json]

Starts `fairlead up --backend simulated` in a folder of its own and submits jobs at a steady rate:
ever new client ids and job sets, a new queue each minute (the old ones are deleted), new shapes all
the time, half of the jobs with a maximum run time of a day, some that fail, some that are
cancelled. Then it stops, waits until every job has ended, and kills scheduler and executor to see
how long they take to start.

Printed for each series is its slope per million jobs over the second half of the run: the median of
the slopes between all pairs of samples (Theil and Sen), which a few outliers do not move. What must
not grow is compared with a limit; `--check` ends with code 1 if one is exceeded. Limits are judged
from `JUDGED_MINUTES` on: before, caches still fill. What keeps history by design (ended jobs,
events and the log within their retention) is shown apart, as bytes per job.

Memory is private memory (not shared with other processes), for Postgres of all of its processes.
Progress is printed on stderr; the last line of output is one JSON object.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
import psutil
from redis.asyncio import Redis

from fairlead import AsyncClient, Job
from fairlead.errors import Conflict, FairleadError
from fairlead_common.db import Pool, open_pool
from fairlead_common.log.opening import UPKEEP_S
from fairlead_standalone.service.testing import Whole

MB: Final = 1e6
JUDGED_MINUTES: Final = 10.0
CORES: Final = 32

SET_S: Final = 5.0
SHAPE_S: Final = 2.0
QUEUE_S: Final = 60.0
QUEUES_KEPT: Final = 3
TICK_S: Final = 0.1
REQUESTS_MAX: Final = 64
DRAIN_S_MAX: Final = 900.0
START_S_MAX: Final = 300.0
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
    SELECT p.topic, count(*) AS records, count(*) FILTER (WHERE e.value IS NULL) AS tombstones,
        count(*) FILTER (WHERE e.value IS NOT NULL AND NOT EXISTS (
            SELECT FROM fairlead_log.entries later WHERE later.part = e.part AND later.key = e.key
              AND later.compacted AND later.position > e.position)) AS live
    FROM fairlead_log.entries e JOIN fairlead_log.parts p USING (part)
    WHERE e.compacted GROUP BY 1 ORDER BY 1"""


class Limit(msgspec.Struct, frozen=True):
    """How much a series may grow per million jobs, and what it is measured in."""

    prefix: str
    most: float
    unit: str


LIMITS: Final = (
    Limit("memory.", 40.0, "MB"),
    Limit("descriptors.", 20.0, ""),
    Limit("descriptors.postgres", 600.0, ""),  # each connection opens each file of a table
    Limit("threads.", 5.0, ""),
    Limit("size.fairlead_submit", 10.0, "MB"),
    Limit("size.fairlead_scheduler", 100.0, "MB"),
    Limit("files.runs", 100.0, ""),
    Limit("files.logs", 20.0, "MB"),
)
"""Per million jobs. A series is judged by the longest prefix of its name."""
HISTORY: Final = ("size.fairlead_lookout", "size.fairlead_scheduler.ended", "size.fairlead_log")
"""These hold ended jobs, and records of the log, within their retention: MB per million jobs are
bytes per job."""
BOUNDED: Final = {"size.wal": 2_300.0, "memory.valkey": 350.0, "valkey.memory": 256.0}
"""MB that these hold at most, whatever their slope: `max_wal_size`, and `maxmemory`."""
SLACK: Final = 5_000
"""Records of a compacted topic, tombstones apart, may be twice its live keys, so many more, and
what is appended between two turns of upkeep."""


class Sample(msgspec.Struct, frozen=True):
    """All series at one moment, and how many jobs had been submitted."""

    at_s: float
    jobs: int
    values: dict[str, float]


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
    with tempfile.TemporaryDirectory(prefix="fairlead-soak-") as folder:
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
    with Whole(folder, "--backend", "simulated", environment=environment) as whole:
        whole.start()
        say("everything answers")
        soak = asyncio.run(soaked(given, whole))
        restarts = asyncio.run(restarted(whole))
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
        for old in self._queues[:-QUEUES_KEPT]:
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

    def __init__(self, whole: Whole, pool: Pool, redis: Redis) -> None:
        self._whole = whole
        self._pool = pool
        self._redis = redis

    async def read(self) -> dict[str, float]:
        """All series now. Sizes are in MB."""
        values: dict[str, float] = {}
        for role in ROLES:
            for name, value in _process(self._whole.child(role)).items():
                values[f"{name}.{role}"] = value
        for name, value in _process(self._whole.supervisor, alone=True).items():
            values[f"{name}.supervisor"] = value
        for row in await self._pool.fetch(SIZES, timeout=60):
            values[f"size.{row['schema']}"] = row["bytes"] / MB
        memory = await self._redis.info("memory")
        values["valkey.memory"] = memory["used_memory"] / MB
        values["valkey.keys"] = await self._redis.dbsize()
        values["files.logs"] = _bytes(self._whole.data / "logs") / MB
        runs = self._whole.data / "runs"
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


async def soaked(given: argparse.Namespace, whole: Whole) -> dict[str, Any]:
    """Submit and measure; then wait for the end of all jobs."""
    settings = whole.child("web").environ()
    pool = await open_pool(settings["FAIRLEAD_DATABASE_URL"], size_max=1, name="soak")
    redis = Redis.from_url(settings["FAIRLEAD_REDIS_URL"])
    headers = {"authorization": f"Bearer {whole.token}"}
    try:
        async with (
            AsyncClient(whole.address, token=whole.token) as client,
            httpx2.AsyncClient(
                base_url=whole.address, headers=headers, trust_env=False, timeout=60.0
            ) as http,
        ):
            await _nodes(http, given.nodes)
            load, meter = Load(client, given.rate), Meter(whole, pool, redis)
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
    finally:
        await redis.aclose()
        await pool.close()
    judged = given.minutes >= JUDGED_MINUTES
    series = slopes(samples)
    exceeded = [*beyond(series, samples), *superseded(records, given.rate)] if judged else []
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


async def restarted(whole: Whole) -> dict[str, float]:
    """Seconds from `kill -9` of scheduler and executor until they lead and report again."""

    def leads(text: str) -> bool:
        return "fairlead_scheduler_leading 1.0" in text

    return {
        "schedulerLeadsS": await _killed(whole, "scheduler", "/metrics", leads),
        "executorReadyS": await _killed(whole, "executor", "/readyz", lambda _: True),
    }


async def _killed(whole: Whole, role: str, path: str, is_back: Callable[[str], bool]) -> float:
    old = whole.child(role)
    url = f"http://127.0.0.1:{old.environ()['FAIRLEAD_HTTP_PORT']}{path}"
    began_s = time.monotonic()
    old.kill()
    async with httpx2.AsyncClient(trust_env=False, timeout=5.0) as http:
        while (passed_s := time.monotonic() - began_s) < START_S_MAX:
            with contextlib.suppress(httpx2.HTTPError, AssertionError, psutil.NoSuchProcess):
                if whole.child(role).pid != old.pid:
                    answer = await http.get(url)
                    if answer.status_code == 200 and is_back(answer.text):
                        break
            await asyncio.sleep(0.05)
    say(f"{role} is back after {passed_s:.1f} s")
    return round(passed_s, 2)


# What it means ------------------------------------------------------------------------------------


def slopes(samples: Sequence[Sample]) -> dict[str, float]:
    """The slope of each series per million jobs, over the second half of the run."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return {}
    names = half[0].values.keys()
    return {
        name: round(slope([(sample.jobs / 1e6, sample.values[name]) for sample in half]), 2)
        for name in sorted(names)
    }


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of points; 0 without any pair."""
    pairs = itertools.combinations(points, 2)
    found = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs if x2 > x1]
    return statistics.median(found) if found else 0.0


def beyond(series: dict[str, float], samples: Sequence[Sample]) -> list[str]:
    """What exceeds its limit, in words."""
    found = []
    for name, value in series.items():
        limit = max(_limits(name), key=lambda each: len(each.prefix), default=None)
        if limit is not None and value > limit.most:
            unit = f" {limit.unit}" if limit.unit else ""
            found.append(
                f"{name} grows by {value:.1f}{unit} per million jobs; at most {limit.most:g}"
            )
    for name, most in BOUNDED.items():
        reached = max((sample.values.get(name, 0.0) for sample in samples), default=0.0)
        if reached > most:
            found.append(f"{name} reached {reached:.0f} MB; at most {most:g}")
    return found


def _limits(name: str) -> Iterator[Limit]:
    if name in BOUNDED or name in HISTORY:
        return
    for limit in LIMITS:
        if name.startswith(limit.prefix):
            yield limit


def superseded(topics: dict[str, dict[str, int]], rate: float) -> list[str]:
    """Compacted topics that hold too many records that newer ones of their key replace."""
    found = []
    for topic, counts in topics.items():
        values = counts["records"] - counts["tombstones"]
        most = 2 * counts["live"] + SLACK + 2 * rate * UPKEEP_S
        if values > most:
            found.append(f"{topic} holds {values} values for {counts['live']} live keys")
    return found


def rounded(values: dict[str, float]) -> dict[str, float]:
    """For people."""
    return {name: round(value, 1) for name, value in sorted(values.items())}


def show(found: dict[str, Any]) -> None:
    """The series as a table."""
    print(f"{'':32}{'first':>12}{'last':>12}{'afterwards':>12}{'per million jobs':>18}")
    for name, value in found["perMillionJobs"].items():
        first, last, after = (found[key][name] for key in ("first", "last", "afterwards"))
        mark = "  (bytes per job, kept by design)" if name in HISTORY else ""
        print(f"{name:32}{first:12.1f}{last:12.1f}{after:12.1f}{value:18.2f}{mark}")
    print(json.dumps({key: found[key] for key in ("compactedTopics", "restart", "states")}))
    for text in found["exceeded"]:
        print(f"EXCEEDED {text}")
    if not found["judged"]:
        print(f"Limits are judged from {JUDGED_MINUTES:g} minutes on: caches still fill before.")


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
