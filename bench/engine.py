"""Times the scheduling engine on large pools: `python bench/engine.py --case NAME --json`.

One process, one case; the last line of output is one JSON object. Snapshots are made before the
clock starts; the round is what is measured, with reasons made (`nothing` and `churn` measure the
service around it, see ticks.py). The first round (compiling, filling
caches) is not counted. `calibrationMs` is a fixed loop on this machine, so that figures of
different machines can be distinguished.

    python bench/engine.py --all --table     # each case in a process of its own, as Markdown rows
    python bench/engine.py --all --write     # the same, into docs/performance.md
    python bench/engine.py --all --check     # against bench/limits.yaml; exit code 1 if missed
    python bench/engine.py --adversarial     # the cases of adversarial.py, 60 s of CPU for each
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / "fairlead-bench-numba"))

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import adversarial, limits, ticks
from fairlead_scheduler.domain.surplus_priority import lower_priority
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.engine.topology import Topology, TopologyMode
from fairlead_scheduler.kernels import compilation

GI = 1 << 30
PARTS = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
"""Of the time of a round: where its time limit is put."""
DATA = Path(__file__).parent / "data"


def snapshot(
    *,
    queues: int,
    nodes: np.ndarray,
    requests: np.ndarray,
    job_queue: np.ndarray,
    job_shape: np.ndarray,
    job_node: np.ndarray | None = None,
    resources: tuple[str, ...] = ("cpu", "memory"),
    **more: Any,
) -> Snapshot:
    """A pool of one class and one node type; what else it needs is in `more`."""
    jobs = job_queue.size
    values: dict[str, Any] = {
        "pool": "bench",
        "now_ms": 1_000_000,
        "resources": resources,
        "queue_names": tuple(f"q{i:04d}" for i in range(queues)),
        "queue_weight": np.ones(queues),
        "queue_cordoned": np.zeros(queues, np.bool_),
        "class_names": ("p0",),
        "class_value": np.zeros(1, np.int64),
        "class_preemption": np.zeros(1, np.uint8),
        "shape_request": requests.astype(np.int64),
        "shape_class": np.zeros(requests.shape[0], np.int32),
        "shape_match": np.zeros((requests.shape[0], 1, 1), np.uint8),
        "node_number": np.arange(nodes.shape[0], dtype=np.int64),
        "node_allocatable": nodes.astype(np.int64),
        "node_type": np.zeros(nodes.shape[0], np.int32),
        "node_flags": np.zeros(nodes.shape[0], np.uint8),
        "job_queue": job_queue.astype(np.int32),
        "job_shape": job_shape.astype(np.int32),
        "job_priority": np.zeros(jobs, np.int64),
        "job_submission": np.arange(jobs, dtype=np.int64),
        "job_node": np.full(jobs, -1, np.int32) if job_node is None else job_node.astype(np.int32),
        "job_started_ms": np.zeros(jobs, np.int64),
    }
    values.update(more)
    made = Snapshot(**values)
    return with_orders(made)


def with_orders(made: Snapshot) -> Snapshot:
    """The same with the orders that the service keeps between rounds."""
    queued, running = job_order.order_queued(made), job_order.order_running(made)
    return replace(made, queued_order=queued, running_order=running)


def fill(jobs: int, nodes: int, queues: int = 10) -> Snapshot:
    """One-core jobs onto empty nodes of 32 cores."""
    return snapshot(
        queues=queues,
        nodes=np.tile([32_000, 256 * GI], (nodes, 1)),
        requests=np.array([[1_000, 4 * GI]]),
        job_queue=np.arange(jobs) % queues,
        job_shape=np.zeros(jobs),
    )


def fill_mix() -> Snapshot:
    """A million jobs of a thousand shapes on nodes of four kinds."""
    chance = np.random.default_rng(1)
    shapes, jobs, nodes = 1_000, 1_000_000, 31_250
    requests = np.stack(
        [chance.integers(1, 9, shapes) * 250, chance.integers(1, 65, shapes) * (GI // 4)], axis=1
    )
    kinds = np.array(
        [[32_000, 256 * GI], [64_000, 512 * GI], [96_000, 384 * GI], [16_000, 128 * GI]]
    )
    return snapshot(
        queues=10,
        nodes=kinds[np.arange(nodes) % 4],
        requests=requests,
        job_queue=chance.integers(0, 10, jobs),
        job_shape=chance.integers(0, shapes, jobs),
    )


def mix() -> Snapshot:
    """The 50,000 jobs of `data/mix-50k.csv` on a thousand nodes."""
    with (DATA / "mix-50k.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return _from_rows(rows)


def _from_rows(rows: list[dict[str, str]]) -> Snapshot:
    names = sorted({row["queue"] for row in rows})
    shapes: dict[tuple[int, int], int] = {}
    shape = np.empty(len(rows), np.int32)
    for i, row in enumerate(rows):
        key = (round(float(row["cpu"]) * 1000), round(float(row["memory_gib"]) * GI))
        shape[i] = shapes.setdefault(key, len(shapes))
    return snapshot(
        queues=len(names),
        nodes=np.tile([32_000, 256 * GI], (1_000, 1)),
        requests=np.array(list(shapes)),
        job_queue=np.array([names.index(row["queue"]) for row in rows]),
        job_shape=shape,
    )


def gpu() -> Snapshot:
    """200,000 jobs, half of them with 1 to 8 GPUs, on 10,000 nodes, 6,000 of them with 8."""
    chance = np.random.default_rng(2)
    jobs, nodes = 200_000, 10_000
    gpus = np.where(chance.random(jobs) < 0.5, 1 << chance.integers(0, 4, jobs), 0)
    cpus = np.where(gpus > 0, gpus * 4, chance.integers(1, 9, jobs))
    shapes, shape = np.unique(
        np.stack([cpus * 1_000, cpus * 4 * GI, gpus], axis=1), axis=0, return_inverse=True
    )
    allocatable = np.tile([64_000, 512 * GI, 0], (nodes, 1))
    allocatable[:6_000, 2] = 8
    return snapshot(
        queues=50,
        resources=("cpu", "memory", "nvidia.com/gpu"),
        nodes=allocatable,
        requests=shapes,
        job_queue=chance.integers(0, 50, jobs),
        job_shape=shape.reshape(-1),
    )


def full(queues: int, more_from: int, running: int = 32_000) -> Snapshot:
    """A full pool of one-core jobs, 100,000 more queued by queues from `more_from` on."""
    waiting = 100_000
    queue = np.concatenate(
        [np.arange(running) % 10, more_from + np.arange(waiting) % (queues - more_from)]
    )
    node = np.concatenate([np.arange(running) // 32, np.full(waiting, -1)])
    return snapshot(
        queues=queues,
        nodes=np.tile([32_000, 256 * GI], (running // 32, 1)),
        requests=np.array([[1_000, 4 * GI]]),
        job_queue=queue,
        job_shape=np.zeros(queue.size),
        job_node=node,
    )


def displaced(classes: list[int], queues: int) -> Snapshot:
    """32,000 one-core jobs run on 1,000 nodes; 16,000 of two cores, of the last class, want in."""
    running, waiting = 32_000, 16_000
    return snapshot(
        queues=queues,
        nodes=np.tile([32_000, 256 * GI], (1_000, 1)),
        requests=np.array([[1_000, 4 * GI], [2_000, 8 * GI]]),
        job_queue=np.concatenate([np.arange(running) % 10, queues - 10 + np.arange(waiting) % 10]),
        job_shape=np.repeat([0, 1], [running, waiting]),
        job_node=np.concatenate([np.arange(running) // 32, np.full(waiting, -1)]),
        class_names=tuple(f"p{value}" for value in classes),
        class_value=np.array(classes, np.int64),
        class_preemption=np.zeros(len(classes), np.uint8),
        shape_class=np.array([0, len(classes) - 1], np.int32),
    )


def alone() -> Snapshot:
    """One queue holds 31,250 nodes with a million runs, and waits with a thousand shapes more."""
    running, nodes, shapes = 1_000_000, 31_250, 1_000
    larger = np.stack([5_000 + np.arange(shapes), np.full(shapes, GI)], axis=1)
    return snapshot(
        queues=2,
        nodes=np.tile([32_000, 256 * GI], (nodes, 1)),
        requests=np.concatenate([[[1_000, 4 * GI]], larger]),
        job_queue=np.zeros(running + shapes),
        job_shape=np.concatenate([np.zeros(running), 1 + np.arange(shapes)]),
        job_node=np.concatenate([np.arange(running) % nodes, np.full(shapes, -1)]),
    )


def gangs() -> Snapshot:
    """2,000 gangs of 2 to 64 that ask for one value of a label with 100 values, 3,000 nodes."""
    chance = np.random.default_rng(3)
    number, nodes = 2_000, 3_000
    sizes = chance.integers(2, 65, number)
    gang = np.repeat(np.arange(number), sizes)
    cpus = chance.integers(1, 5, number)
    return snapshot(
        queues=20,
        nodes=np.tile([32_000, 256 * GI], (nodes, 1)),
        requests=np.array([[1_000 * i, 4 * GI * i] for i in range(1, 5)]),
        job_queue=(gang % 20),
        job_shape=cpus[gang] - 1,
        job_gang=gang.astype(np.int32),
        label_names=("rack",),
        node_label=(np.arange(nodes, dtype=np.int32) % 100)[None, :],
        gang_min=sizes.astype(np.int32),
        gang_label=np.zeros(number, np.int32),
        gang_rest=np.zeros(number, np.uint8),
        gang_started=np.zeros(number, np.bool_),
        gang_submitted_ms=np.zeros(number, np.int64),
    )


def groups_elastic() -> Snapshot:
    """5,000 groups of 2 to 64 members on 10,000 nodes: one of each is a server, and half of the
    groups run with half of their workers."""
    chance = np.random.default_rng(4)
    number, queues = 5_000, 20
    sizes = chance.integers(2, 65, number)
    group = np.repeat(np.arange(number), sizes)
    index = np.arange(group.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # 0 = the server
    workers = sizes - 1
    minima = np.where(np.arange(number) % 2 == 0, (workers + 1) // 2, workers)
    rank = np.maximum(index - minima[group], 0)
    cpus = chance.integers(1, 4, number)
    gang = np.arange(number, dtype=np.int32)
    return snapshot(
        queues=queues,
        nodes=np.tile([32_000, 256 * GI], (10_000, 1)),
        requests=np.array([[1_000 * i, 4 * GI * i] for i in range(1, 5)]),
        job_queue=group % queues,
        job_shape=np.where(index == 0, 3, cpus[group] - 1),
        job_priority=lower_priority(np.zeros(group.size, np.int64), rank.astype(np.int64)),
        job_gang=group.astype(np.int32),
        job_role=(2 * group + (index > 0)).astype(np.int32),
        gang_min=(1 + minima).astype(np.int32),
        gang_label=np.full(number, -1, np.int32),
        gang_rest=np.zeros(number, np.uint8),
        gang_started=np.zeros(number, np.bool_),
        gang_submitted_ms=np.zeros(number, np.int64),
        role_names=("server", "worker") * number,
        role_gang=np.repeat(gang, 2),
        role_place=np.tile(np.array([0, 1], np.int32), number),
        role_min=np.stack([np.ones(number), minima], axis=1).reshape(-1).astype(np.int32),
        role_max=np.stack([np.ones(number), workers], axis=1).reshape(-1).astype(np.int32),
    )


def groups_elastic_fair() -> Snapshot:
    """As `groups_elastic` with `order: fair`: half of the groups have run for different times."""
    made, times = groups_elastic(), np.maximum(np.arange(5_000) * 7.0 % 5_000 - 2_500, 0)
    return with_orders(replace(made, job_weighted_time=times[made.job_gang], queued_order=None))


def groups_topology(mode: TopologyMode) -> Snapshot:
    """The groups of `groups_elastic` with three levels: 5 zones, 250 racks of 40 nodes, and nodes.
    Of each the members of a role must be in a rack or are as close as possible."""
    made = groups_elastic()
    number, nodes = 5_000, 10_000
    node = np.arange(nodes, dtype=np.int32)
    rack = node // 40
    topology = Topology(
        names=("zone", "rack", "hostname"),
        label=np.arange(3, dtype=np.int32),
        domains=tuple(tuple(f"d{i:05d}" for i in range(count)) for count in (5, 250, nodes)),
        hops=(4, 2, 0, 6),
        gang_mode=np.full(number, mode, np.uint8),
        gang_level=np.ones(number, np.int32),
        gang_whole=np.zeros(number, np.uint8),
    )
    return replace(
        made,
        label_names=topology.names,
        node_label=np.stack([rack // 50, rack, node]).astype(np.int32),
        topology=topology,
    )


CASES: dict[str, Callable[[], Snapshot]] = {
    "fill-32k": lambda: fill(32_000, 1_000),
    "fill-320k": lambda: fill(320_000, 10_000),
    "fill-1m": lambda: fill(1_000_000, 31_250),
    "fill-1m-mix": fill_mix,
    "mix": mix,
    "gpu": gpu,
    "steady": lambda: full(10, 0),
    "steady-protected": lambda: full(10, 0),
    "rebalance": lambda: full(20, 10),
    "steady-320k": lambda: full(10, 0, 320_000),
    "urgency": lambda: displaced([0, 1], 10),
    "rebalance-large": lambda: displaced([0], 20),
    "gangs": gangs,
    "groups-elastic": groups_elastic,
    "groups-elastic-fair": groups_elastic_fair,
    "groups-rack": lambda: groups_topology(TopologyMode.REQUIRED),
    "groups-near": lambda: groups_topology(TopologyMode.PREFERRED),
    "alone": alone,
}
ADVERSARIAL = adversarial.cases(snapshot)
CPU_S_MAX = 60
"""How long a round of an adversarial case runs before the bench gives it up."""


def figures(made: Snapshot, plan: Plan) -> dict[str, Any]:
    """What the round did, and how well the pool is filled."""
    shape = made.job_shape[plan.placed_job]
    used = made.shape_request[shape].sum(axis=0)
    running = made.job_node >= 0
    used = used + made.shape_request[made.job_shape[running]].sum(axis=0)
    used = used - made.shape_request[made.job_shape[plan.preempted_job]].sum(axis=0)
    total = made.node_allocatable.sum(axis=0)
    queue = np.concatenate(
        [made.job_queue[plan.placed_job], made.job_queue[np.flatnonzero(running)]]
    )
    shapes = np.concatenate([shape, made.job_shape[np.flatnonzero(running)]])
    cores = np.bincount(
        queue, weights=made.shape_request[shapes, 0], minlength=len(made.queue_names)
    )
    cores -= np.bincount(
        made.job_queue[plan.preempted_job],
        weights=made.shape_request[made.job_shape[plan.preempted_job], 0],
        minlength=len(made.queue_names),
    )
    return {
        "placed": int(plan.placed_job.size),
        "preempted": int(plan.preempted_job.size),
        "waiting": int(plan.queue_waiting.sum()),
        "reasons": int(plan.reasons.code.size),
        "filled": {
            name: round(float(u / t), 4)
            for name, u, t in zip(made.resources, used, total, strict=True)
            if t
        },
        "queueCores": [round(cores.min() / 1000, 1), round(cores.max() / 1000, 1)],
    }


def calibration_ms() -> float:
    """A fixed loop of this interpreter: tells how fast the machine is just now."""
    start = time.perf_counter()
    total = 0
    for i in range(2_000_000):
        total += i & 7
    return (time.perf_counter() - start) * 1000


def measure(name: str, turns: int) -> dict[str, Any]:
    """Run a case and return what is printed."""
    if name in ticks.CASES:
        return {**ticks.measure(name, turns), "calibrationMs": round(calibration_ms(), 1)}
    if name in ADVERSARIAL:
        return measure_adversarial(name)
    made = CASES[name]()
    settings = SETTINGS.get(name, EngineSettings())
    start = time.perf_counter()
    plan = schedule(made, settings)
    first = (time.perf_counter() - start) * 1000
    rounds = []
    for _ in range(turns):
        start = time.perf_counter()
        plan = schedule(made, settings, clock_s=time.perf_counter)
        rounds.append((time.perf_counter() - start) * 1000)
    return {
        "case": name,
        "roundMs": round(statistics.median(rounds), 2),
        "fastestMs": round(min(rounds), 2),
        "slowestMs": round(max(rounds), 2),
        "firstMs": round(first, 1),
        "rounds": turns,
        "stepsMs": {step: round(ms, 2) for step, ms in plan.steps_ms.items()},
        **figures(made, plan),
        "peakMemoryMb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "calibrationMs": round(calibration_ms(), 1),
    }


def overrun_s(made: Snapshot, limit_s: float) -> float:
    """How long a round goes on after its time limit, in CPU seconds; below 0 if it ends before."""
    end = time.process_time() + limit_s
    schedule(made, adversarial.SETTINGS, expired=lambda: time.process_time() > end)
    return time.process_time() - end


def measure_adversarial(name: str) -> dict[str, Any]:
    """CPU time of one warm round, and how long it works without asking the clock (L6).

    `firstCheckMs` is the time to the first call of `expired`, `betweenChecksMs` the longest from
    one call to the next or to the end, `overrunMs` the longest that a round went on after a time
    limit, at several parts of its time. After `CPU_S_MAX` the process is ended by SIGVTALRM.
    """
    made = ADVERSARIAL[name]()
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S_MAX)
    checks: list[float] = []

    def expired() -> bool:
        checks.append(time.process_time())
        return False

    start = time.process_time()
    plan = schedule(made, adversarial.SETTINGS, expired=expired, clock_s=time.process_time)
    end = time.process_time()
    checks.append(end)
    return {
        "case": name,
        "cpuMs": round(1000 * (end - start), 1),
        "firstCheckMs": round(1000 * (checks[0] - start), 1),
        "betweenChecksMs": round(1000 * float(np.diff(checks).max(initial=0)), 1),
        "overrunMs": round(1000 * max(overrun_s(made, (end - start) * part) for part in PARTS), 1),
        "stepsMs": {step: round(ms, 1) for step, ms in plan.steps_ms.items()},
        **figures(made, plan),
        "peakMemoryMb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


SETTINGS: dict[str, EngineSettings] = {
    "steady": EngineSettings(protected_fraction=0.0),
    "steady-protected": EngineSettings(protected_fraction=1.0),
    "rebalance": EngineSettings(protected_fraction=0.0),
    "steady-320k": EngineSettings(protected_fraction=0.0),
    "rebalance-large": EngineSettings(protected_fraction=0.0),
}


def main() -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description="Times the scheduling engine.")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--case", choices=sorted([*CASES, *ADVERSARIAL, *ticks.CASES]))
    chosen.add_argument("--adversarial", action="store_true", help="every adversarial case")
    chosen.add_argument("--all", action="store_true", help="every case, in processes of their own")
    parser.add_argument("--table", action="store_true", help="with --all: print Markdown rows")
    parser.add_argument("--write", action="store_true", help="with --all: into docs/performance.md")
    parser.add_argument("--check", action="store_true", help="exit code 1 where a limit is missed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options = parser.parse_args()
    if options.adversarial:
        for name in ADVERSARIAL:
            command = [sys.executable, __file__, "--case", name, "--json"]
            if subprocess.run(command, check=False).returncode:
                print(json.dumps({"case": name, "givenUpAfterS": CPU_S_MAX}), flush=True)
        return 0
    if options.all:
        cases = [*CASES, *ticks.CASES]
        results = [limits.apart(__file__, name, options.rounds) for name in cases]
        if options.table:
            print(limits.table(results))
        if options.write:
            limits.write(results)
        return limits.check(results) if options.check else 0
    compilation.load_kernels()
    result = measure(options.case, options.rounds)
    if options.check and limits.check([result]):
        return 1
    if options.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:>14}  {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
