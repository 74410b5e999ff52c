"""What lookout's fold costs: CPU per job of the process and of Postgres, and jobs a second.

    python -m bench.fold --database postgresql://... --redis redis://... [--jobs 50000]

Writes the whole life of `--jobs` jobs (six events each, in messages as the services write them)
to a log in memory and folds it into an empty database, at once or at `--rate` jobs a second. With
`--bulk cancel` (or `reprioritize`) they are only submitted, and what is measured is one request for
all jobs of each queue. With `--bulk preempt` all run when that is asked; with `--bulk stop` what is
measured are the two events with which each of them then ends. `memoryMb` is what the process grew
by meanwhile; `stallMs` is the most processor time for which nothing else got a turn in this
process, `stallP99Ms` what all but one of a hundred turns kept below. The database must be one that
may be emptied. The last line is one JSON object.
"""

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import asyncpg
import msgspec
import psutil

from fairlead_common.db import open_pool
from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import Producer, Record, topics
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.service import clock
from fairlead_lookout.service.fold_loop import FoldLoop
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store.event_streams import StreamWriter
from fairlead_lookout.store.view_progress import ViewProgress
from fairlead_lookout.store.view_schema import SCHEMA, migrate_schema

SETS = 100
QUEUES = 10
SLICE_S = 0.002
PRIORITY = 7
RUNNING = 3
"""Phases of a life until the job runs."""
BEFORE = {"cancel": 1, "reprioritize": 1, "preempt": RUNNING, "stop": RUNNING}
"""Phases of all jobs that are folded before a bulk request is measured."""
SPEC = (
    b'{"containers":[{"name":"main","image":"python:3.12","command":["python","train.py","--seed",'
    b'"7"],"env":[{"name":"MODE","value":"full"}],"resources":{"requests":{"cpu":"1","memory":'
    b'"2Gi"},"limits":{"cpu":"1","memory":"2Gi"}}}],"terminationGracePeriodSeconds":30}'
)


def life(job_id: ids.JobId, number: int) -> list[list[events.AnyEvent]]:
    """The events of one job by who writes them: submit, scheduler, executor twice, scheduler."""
    shape = shapes.encode(shapes.Shape({"cpu": 1000, "memory": 2 << 30}))
    return [
        [
            events.JobSubmitted(
                job_id=job_id,
                shape=shape,
                spec=msgspec.Raw(SPEC),
                digest="d" * 32,
                client_id=f"trial-{number}",
            )
        ],
        [events.JobRunLeased(job_id=job_id, run=1, executor="cluster-a", node=f"n{number % 997}")],
        [
            events.JobRunPending(job_id=job_id, run=1),
            events.JobRunRunning(job_id=job_id, run=1, at_ms=1),
        ],
        [events.JobRunSucceeded(job_id=job_id, run=1, at_ms=2)],
        [events.JobSucceeded(job_id=job_id)],
    ]


def stopped(job_id: ids.JobId) -> list[list[events.AnyEvent]]:
    """The events with which a preempted job ends: of the executor, and of the scheduler."""
    return [
        [events.JobRunStopped(job_id=job_id, run=1, reason="preempted by request", at_ms=2)],
        [events.JobPreempted(job_id=job_id, reason="preempted by request")],
    ]


def steps(
    first: int, jobs: int, sets: int = SETS, *, preempted: bool = False
) -> Iterator[list[Record]]:
    """The records of a slice of jobs, phase by phase, one message per job set and phase."""
    by_set: dict[tuple[str, str], list[list[list[events.AnyEvent]]]] = {}
    for number in range(first, first + jobs):
        queue, job_set = f"queue-{number % sets % QUEUES}", f"set-{number % sets}"
        partition = ids.job_set_partition(queue, job_set)
        job_id = ids.client_job_id(partition, queue, job_set, str(number))
        phases = life(job_id, number)
        if preempted:
            phases = phases[:RUNNING] + stopped(job_id)
        by_set.setdefault((queue, job_set), []).append(phases)
    for phase in range(5):
        yield [
            record
            for (queue, job_set), lives in by_set.items()
            for record in events.records(
                queue, job_set, "bench", [event for each in lives for event in each[phase]]
            )
        ]


async def run(arguments: argparse.Namespace) -> None:
    """One measurement."""
    settings = Settings(
        database_url=arguments.database,
        redis_url=arguments.redis,
        jobs_known_max=arguments.known,
        fold_events_max=arguments.events,
        fold_interval_s=arguments.interval,
    )
    await _empty(arguments.database)
    log = MemoryLog(clock.now_ms)
    await log.create(topics.jobs())
    producer = await log.producer("bench")
    pool = await open_pool(arguments.database)
    await migrate_schema(pool)
    progress, streams = ViewProgress(pool), StreamWriter(arguments.redis)
    folder, slices = FoldLoop(log, streams, progress, settings), _slices(arguments)
    async with asyncio.TaskGroup() as tasks:
        if arguments.bulk:
            before = BEFORE[arguments.bulk]
            await _append(producer, [phases[:before] for phases in slices])
            folding = tasks.create_task(folder.run())
            await _folded(log, progress)
            await producer.append(_for_all(arguments.bulk))
            if arguments.bulk == "stop":
                await _folded(log, progress)
                await _append(producer, [phases[before:] for phases in slices])
        elif not arguments.rate:
            await _append(producer, slices)
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)  # as the service has it
        own, servers = psutil.Process(), _servers(arguments.database)
        begun = (sum(own.cpu_times()[:2]), _cpu_s(servers), time.perf_counter())
        stalls: list[float] = []
        memory_bytes = [own.memory_info().rss]
        watching = tasks.create_task(_watch(stalls, memory_bytes))
        if not arguments.bulk:
            folding = tasks.create_task(folder.run())
        if arguments.rate:
            await _pace(producer, slices, arguments)
        await _folded(log, progress)
        after = (sum(own.cpu_times()[:2]), _cpu_s(servers), time.perf_counter())
        watching.cancel()
        folding.cancel()
    done = await pool.fetchval(
        f"SELECT count(*) FROM {SCHEMA}.jobs"
        " WHERE state IN ('SUCCEEDED', 'CANCELLED', 'PREEMPTED') OR stopping IS NOT NULL"
        " OR priority = $1",
        PRIORITY,
    )
    size = await pool.fetchval(
        "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n"
        " ON n.oid = c.relnamespace WHERE n.nspname = 'fairlead_lookout' AND c.relkind IN ('r')"
    )
    seconds = after[2] - begun[2]
    stalls.sort()
    print(
        json.dumps(
            {
                "jobs": arguments.jobs,
                "done": done,
                "seconds": round(seconds, 2),
                "jobsPerSecond": round(arguments.jobs / seconds),
                "pythonUsPerJob": round(1e6 * (after[0] - begun[0]) / arguments.jobs),
                "postgresUsPerJob": round(1e6 * (after[1] - begun[1]) / arguments.jobs),
                "bytesPerJob": round(int(size) / arguments.jobs),
                "memoryMb": round((max(memory_bytes) - memory_bytes[0]) / 1e6),
                "stallMs": round(1000 * stalls[-1], 1),
                "stallP99Ms": round(1000 * stalls[len(stalls) * 99 // 100], 1),
            }
        )
    )
    await streams.close()
    await pool.close()


def _slices(arguments: argparse.Namespace) -> list[list[list[Record]]]:
    """The records of all jobs, slice by slice, each phase by phase."""
    return [
        list(
            steps(
                first,
                min(arguments.slice, arguments.jobs - first),
                arguments.sets,
                preempted=arguments.bulk == "stop",
            )
        )
        for first in range(0, arguments.jobs, arguments.slice)
    ]


async def _append(producer: Producer, slices: list[list[list[Record]]]) -> None:
    for phases in slices:
        for records in phases:
            await producer.append(records)


def _for_all(kind: str) -> list[Record]:
    """One request for all jobs of each queue, to every partition."""
    asked: list[Record] = []
    for queue in (f"queue-{number}" for number in range(QUEUES)):
        wanted = events.JobFilter(queue=queue)
        request: events.AnyEvent
        match kind:
            case "cancel":
                request = events.JobsCancelRequested(filter=wanted)
            case "reprioritize":
                request = events.JobsReprioritized(filter=wanted, priority=PRIORITY)
            case _:
                request = events.JobsPreemptRequested(filter=wanted)
        for number in range(topics.JOB_PARTITIONS):
            asked += events.records(queue, "", "bench", [request], partition=number)
    return asked


async def _folded(log: MemoryLog, progress: ViewProgress) -> None:
    target = await log.end_positions(topics.JOBS)
    while not await progress.wait_for(target, 1.0):
        pass


async def _watch(stalls: list[float], memory_bytes: list[int]) -> None:
    """Note the processor time that others used between two turns, and memory now and then."""
    own = psutil.Process()
    while True:
        if len(stalls) % 100 == 0:
            memory_bytes.append(own.memory_info().rss)
        used_s = time.thread_time()
        await asyncio.sleep(SLICE_S)
        stalls.append(time.thread_time() - used_s)


async def _pace(
    producer: Producer, slices: list[list[list[Record]]], arguments: argparse.Namespace
) -> None:
    """Append at the rate asked for, the phases of five slices overlapping."""
    every_s = arguments.slice / arguments.rate
    began = time.perf_counter()
    for tick in range(len(slices) + 4):
        records = [
            record
            for phase in range(5)
            if 0 <= tick - phase < len(slices)
            for record in slices[tick - phase][phase]
        ]
        await producer.append(records)
        await asyncio.sleep(max(0.0, began + (tick + 1) * every_s - time.perf_counter()))


def _servers(database: str) -> list[psutil.Process]:
    """The Postgres that listens on the URL's port, and its children."""
    port = urlsplit(database).port
    for connection in psutil.net_connections("tcp"):
        here = connection.laddr
        if connection.status == "LISTEN" and here and here.port == port and connection.pid:
            parent = psutil.Process(connection.pid)
            return [parent, *parent.children(recursive=True)]
    return []


def _cpu_s(servers: list[psutil.Process]) -> float:
    total = 0.0
    if servers:
        parent = servers[0]
        for process in [parent, *parent.children(recursive=True)]:
            times = process.cpu_times()
            total += times.user + times.system
        total += parent.cpu_times().children_user + parent.cpu_times().children_system
    return total


async def _empty(database: str) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    await connection.close()


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True)
    parser.add_argument("--redis", default="redis://127.0.0.1:1/0")
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--slice", type=int, default=2_000, help="jobs whose phases go together")
    parser.add_argument("--sets", type=int, default=SETS, help="job sets that the jobs are in")
    parser.add_argument("--rate", type=float, default=0.0, help="jobs a second; 0: all at once")
    parser.add_argument("--known", type=int, default=100_000, help="jobs in memory")
    parser.add_argument("--events", type=int, default=30_000, help="events of a batch")
    parser.add_argument("--interval", type=float, default=0.2, help="seconds between batches")
    parser.add_argument("--bulk", choices=tuple(BEFORE), help="all by one filter")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
