"""Times the service's tick with two million live jobs: `nothing`, `churn` and `node`.

Reached as `python bench/engine.py --case nothing|churn|node --json`. A million jobs run and fill
31,250 nodes of 32 cores, a million more are queued. `nothing`: the clock moves, every node reports
what it reported before, and nothing changed: what is due and the rounds of all pools. `churn`: 1 %
of the runs ended and 10,000 jobs are new since the last round: from the messages as the log gives
them to the plan. `node`: one node reports other amounts, and an executor is cordoned or no longer.
Everything is the service's own code; only Postgres and the log are left out.
"""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from fairlead_common.domain.ids import (
    JobId,
    RunId,
    job_set_partition,
    new_job_id,
    submission_number,
)
from fairlead_common.domain.lifecycle import JobState, RunState
from fairlead_common.domain.records import clusters as cluster_records
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.configuration import Cordon
from fairlead_common.domain.records.leases import DesiredState
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import Entry, Record
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_scheduler.rules import lease_changes
from fairlead_scheduler.rules.append_batches import AppendBatch, group_into_appends
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.service import follower
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedNames
from fairlead_scheduler.state.checkpoint.checkpoint_parts import CheckpointParts
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.pool_rules import Rate, Rules

JOBS: Final = 1_000_000
"""As many run, and as many are queued."""
NODES: Final = 31_250
CORES: Final = 32
EXECUTORS: Final = 32
QUEUES: Final = 10
SETS: Final = 10
SHAPES: Final = 8
CHURN: Final = 10_000
PER_REQUEST: Final = 100
"""Jobs of one request to submit, which come as one message."""
BEGAN_MS: Final = 1_800_000_000_000
GI: Final = 1 << 30
CASES: Final = ("nothing", "churn", "node")


class World:
    """A scheduler's state with two million jobs, and a log that is a counter per partition."""

    def __init__(self, jobs: int = JOBS) -> None:
        self.chance = np.random.default_rng(4)
        self.now_ms = BEGAN_MS
        self.positions: dict[int, int] = {}
        self.saved_names = SavedNames()
        self.leases = lease_changes.Leases()
        self.settings = SchedulerSettings(
            rules=Rules(
                rate=Rate(per_second=50_000, burst=200_000),
                queue_rate=Rate(per_second=50_000, burst=200_000),
            )
        )
        self.harness = SchedulerHarness(self.settings.rules)
        self.view, self.clusters = self.harness.view, self.harness.clusters
        self.jobs = jobs
        self.placed = 0
        self.report_nodes()
        self._fill()
        self.decider = self.harness.make_decider(
            self.settings, leases=self.leases, began_ms=BEGAN_MS
        )

    def node_entries(self) -> list[Entry]:
        """What the executors report, as the log gives it: their nodes, and that they live."""
        nodes = self.jobs // CORES
        records = [
            cluster_records.node_record(
                cluster_records.Node(
                    executor=f"cluster-{number % EXECUTORS:02d}",
                    name=f"node-{number:05d}",
                    labels={"kubernetes.io/hostname": f"node-{number:05d}"},
                    allocatable={"cpu": 1000 * CORES, "memory": 256 * GI},
                )
            )
            for number in range(nodes)
        ]
        records += [
            cluster_records.heartbeat_record(
                cluster_records.Heartbeat(executor=f"cluster-{number:02d}")
            )
            for number in range(EXECUTORS)
        ]
        return [Entry(0, at, r.key, r.value, self.now_ms) for at, r in enumerate(records)]

    def report_nodes(self) -> None:
        """Every executor reports everything."""
        self.clusters.fold(self.node_entries())

    def _fill(self) -> None:
        """Put the jobs into the columns directly: folding two million events would take minutes."""
        jobs = self.view.jobs
        sets = [
            job_table.JobSet(f"queue-{q}", f"set-{s}") for q in range(QUEUES) for s in range(SETS)
        ]
        partition = np.array([job_set_partition(*name) for name in sets])
        set_numbers = np.array([jobs.job_sets.number(name) for name in sets])
        queue_numbers = np.array([jobs.queues.number(name.queue) for name in sets])
        shape_numbers = np.array([jobs.shapes.number(shape) for shape in _shapes()])
        node_numbers = np.array(
            [
                jobs.nodes.number(
                    job_table.NodeName(f"cluster-{n % EXECUTORS:02d}", f"node-{n:05d}")
                )
                for n in range(self.jobs // CORES)
            ]
        )
        count = 2 * self.jobs
        rows = jobs.allocate(count)
        which = np.arange(count) % len(sets)
        running = np.arange(count) < self.jobs
        jobs.flags[rows] = 0
        jobs.state[rows] = np.where(
            running, job_table.STATE_CODE[JobState.RUNNING], job_table.QUEUED
        )
        jobs.run_state[rows] = np.where(
            running, job_table.RUN_CODE[RunState.RUNNING], job_table.NO_RUN
        )
        jobs.partition[rows] = partition[which]
        jobs.pool[rows] = jobs.pools.number("default")
        jobs.queue[rows] = queue_numbers[which]
        jobs.job_set[rows] = set_numbers[which]
        jobs.shape[rows] = shape_numbers[self.chance.integers(0, SHAPES, count)]
        jobs.node[rows] = np.where(
            running, node_numbers[np.arange(count) // CORES % len(node_numbers)], -1
        )
        jobs.run[rows] = running
        jobs.grace_s[rows] = 30
        jobs.submitted_ms[rows] = BEGAN_MS - 2_000_000 + np.arange(count)
        jobs.leased_ms[rows] = np.where(running, jobs.submitted_ms[rows] + 60_000, 0)
        jobs.queue_until_ms[rows] = job_table.NEVER_MS
        jobs.number[rows] = [
            submission_number(at_ms, int(partition[w]), i >> 9, i & 511)
            for i, (at_ms, w) in enumerate(
                zip(jobs.submitted_ms[rows].tolist(), which.tolist(), strict=True)
            )
        ]
        at_ms = jobs.submitted_ms[rows].tolist()
        ids = [
            new_job_id(int(partition[of]), at_ms[row], row)
            for row, of in zip(rows.tolist(), which.tolist(), strict=True)
        ]
        jobs.rows.add(ids, rows)
        jobs.digest[rows] = [b"%032x" % row for row in rows.tolist()]
        for row in range(self.jobs):
            executor = f"cluster-{row // CORES % EXECUTORS:02d}"
            self.leases.by_run[RunId(f"{ids[row]}-1")] = lease_changes.lease_state(
                executor, DesiredState.RUN
            )

    # What happens -----------------------------------------------------------------------------

    def ends(self, count: int) -> list[Record]:
        """Runs that succeed, as executors tell it: a message per executor and job set."""
        jobs = self.view.jobs
        live = np.flatnonzero(
            (jobs.run_state[: jobs.used] == job_table.RUN_CODE[RunState.RUNNING])
            & ((jobs.flags[: jobs.used] & job_table.FREE) == 0)
        )
        facts: dict[tuple[str, job_table.JobSet], list[ev.AnyEvent]] = {}
        for row in self.chance.choice(live, count, replace=False).tolist():
            key = (
                jobs.nodes.values[jobs.node[row]].executor,
                jobs.job_sets.values[jobs.job_set[row]],
            )
            event = ev.JobRunSucceeded(
                job_id=jobs.rows.id_at(row), run=int(jobs.run[row]), at_ms=self.now_ms
            )
            facts.setdefault(key, []).append(event)
        return [
            record
            for (executor, (queue, job_set)), events in facts.items()
            for record in ev.records(queue, job_set, executor, events)
        ]

    def arrivals(self, count: int) -> list[Record]:
        """New jobs, as submit writes them: a message per request."""
        made = []
        kinds = _shapes()
        for request in range(count // PER_REQUEST):
            queue, job_set = f"queue-{request % QUEUES}", f"set-{request // QUEUES % SETS}"
            partition = job_set_partition(queue, job_set)
            events: list[ev.AnyEvent] = []
            for _ in range(PER_REQUEST):
                kind = kinds[int(self.chance.integers(0, SHAPES))]
                number = int(self.chance.integers(0, 1 << 60))
                events.append(
                    ev.JobSubmitted(
                        job_id=new_job_id(partition, self.now_ms, number),
                        shape=msgspec.Raw(kind.raw),
                        spec=SPEC,
                        digest=f"{number:032x}",
                        client_id=f"client-{number}",
                        labels={"app": "simulation", "owner": "somebody"},
                    )
                )
            made += ev.records(queue, job_set, "submit", events)
        return made

    def entries(self, records: Sequence[Record]) -> list[Entry]:
        """The records as a reader gets them."""
        found = []
        for record in records:
            if record.topic != "fairlead.jobs":
                continue
            assert record.partition is not None
            position = self.positions.get(record.partition, 0)
            self.positions[record.partition] = position + 1
            found.append(Entry(record.partition, position, record.key, record.value, self.now_ms))
        return found

    def fold(self, entries: Sequence[Entry]) -> None:
        """As the follower does, but that nothing is looked up in Postgres."""
        messages = job_fold.decode_batch(entries)
        job_fold.find_ids_to_look_up(self.view, messages)
        job_fold.find_specs_to_load(self.view, messages)
        job_fold.fold_messages(self.view, messages, {})

    def write(self, batches: Sequence[AppendBatch]) -> None:
        """Append what was decided and fold it back; executors start what they were given."""
        for append in group_into_appends(batches):
            self.leases.apply(append.leases)
            self.fold(self.entries(append.records))
        started = [
            (job_set, event)
            for batch in batches
            for job_set, event in batch.facts
            if isinstance(event, ev.JobRunLeased)
        ]
        reports: list[AppendBatch] = []
        for kind in (ev.JobRunPending, ev.JobRunRunning):
            reports += [
                AppendBatch(((job_set, kind(job_id=event.job_id, run=event.run)),))
                for job_set, event in started
            ]
        for append in group_into_appends(reports):
            self.fold(self.entries(append.records))
        left = CheckpointParts(self.view, self.saved_names, [0] * JOB_PARTITIONS)
        while not left.is_done:
            changes = left.take_next()
            assert sum(1 for _ in changes.specs or ()) >= 0  # encoded as they are written
            self.view.specs.end_save()
        follower.trim_caches(self.view)

    def tick(self) -> tuple[int, int, list[AppendBatch], dict[str, float]]:
        """One turn of the leader: what is due, then a round for each pool."""
        begun = time.perf_counter()
        housekeeping = self.decider.decide_housekeeping(self.now_ms)
        due = time.perf_counter()
        steps = {"due": due - begun}
        placed = rounds = 0
        decided = []
        for pool in self.decider.pools():
            found = self.decider.decide_round(pool, housekeeping, self.now_ms, time.perf_counter)
            if found is not None:
                rounds += 1
                placed += len(found.plan.placed_job)
                decided.append(found)
                for step, seconds in found.steps_s.items():
                    steps[step] = steps.get(step, 0.0) + seconds
        steps["tick"] = time.perf_counter() - begun
        begun = time.perf_counter()
        batches = list(housekeeping.batches())
        steps["housekeepingBatches"] = time.perf_counter() - begun
        for found in decided:
            self._load_specs(found.placed_ids)
            begun = time.perf_counter()
            batches += self.decider.make_batches(found)
            steps["planBatches"] = steps.get("planBatches", 0.0) + time.perf_counter() - begun
        return rounds, placed, batches, steps

    def _load_specs(self, ids: Sequence[JobId]) -> None:
        """As from Postgres."""
        jobs = self.view.jobs
        found = {}
        for job_id in ids:
            if job_id not in self.view.specs:
                shape = msgspec.Raw(jobs.shapes.values[jobs.shape[jobs.rows[job_id]]].raw)
                submitted = ev.JobSubmitted(job_id=job_id, shape=shape, spec=SPEC, digest="")
                found[job_id] = msgspec.json.encode(submitted)
        self.view.specs.add_saved(found)

    def settle(self) -> None:
        """Cycles until nothing changes any more."""
        for _ in range(10):
            self.now_ms += 1_000
            _, placed, batches, _ = self.tick()
            self.write(batches)
            if not placed and not batches:
                return
        raise AssertionError("the rounds have not come to rest")


SPEC: Final = msgspec.Raw(
    msgspec.json.encode(
        {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.org/team/simulation:2026.11",
                    "command": ["simulate", "--steps", "100000"],
                    "env": [{"name": "MODE", "value": "fast"}],
                    "resources": {"requests": {"cpu": "1", "memory": "4Gi"}},
                }
            ],
            "restartPolicy": "Never",
        }
    )
)


def _shapes() -> list[job_table.ShapeClass]:
    return [
        job_table.ShapeClass(
            bytes(shapes.encode(shapes.Shape(requests={"cpu": 1000, "memory": (1 + n) * GI}))),
            "default",
        )
        for n in range(SHAPES)
    ]


def measure(name: str, turns: int, jobs: int = JOBS) -> dict[str, Any]:
    """Run a case and return what is printed."""
    world = World(jobs)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # as the service has it
    world.settle()
    cases = {"nothing": _nothing, "churn": _churn, "node": _node}
    made = list(cases[name](world, turns))
    steps: dict[str, list[float]] = {}
    for turn in made:
        for step, seconds in turn.items():
            steps.setdefault(step, []).append(seconds)
    rounds = [1000 * s for s in steps.pop("all")]
    return {
        "case": name,
        "roundMs": round(statistics.median(rounds), 3),
        "fastestMs": round(min(rounds), 3),
        "slowestMs": round(max(rounds), 3),
        "rounds": turns,
        "partsMs": {step: round(1000 * statistics.median(s), 3) for step, s in steps.items()},
        "placed": world.placed,
        "peakMemoryMb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _nothing(world: World, turns: int) -> Iterator[dict[str, float]]:
    """Ticks of a service at rest. Before each one all nodes report again, outside the clock."""
    for _ in range(turns):
        world.now_ms += 1_000
        world.report_nodes()
        begun = time.perf_counter()
        rounds, _, batches, steps = world.tick()
        assert not rounds, "a round was made although nothing changed"
        assert not batches
        yield {"all": time.perf_counter() - begun, "due": steps["due"]}


def _churn(world: World, turns: int) -> Iterator[dict[str, float]]:
    """1 % of the runs end and as many jobs come, folded together, then a tick."""
    count = world.jobs // 100
    for _ in range(turns):
        world.now_ms += 1_000
        entries = world.entries(world.ends(count) + world.arrivals(count))
        begun = time.perf_counter()
        world.fold(entries)
        folded = time.perf_counter()
        _, placed, batches, steps = world.tick()
        world.placed = placed
        whole = folded - begun + steps.pop("tick")
        yield {"all": whole, "fold": folded - begun, **steps}
        world.write(batches)


def _node(world: World, turns: int) -> Iterator[dict[str, float]]:
    """A node reports less memory than before; a cluster is cordoned every other time."""
    entry = world.node_entries()[77]
    assert entry.value is not None
    node = cluster_records.decode(entry.value)
    assert isinstance(node, cluster_records.Node)
    for turn in range(turns):
        world.now_ms += 1_000
        offered = {**node.allocatable, "memory": node.allocatable["memory"] - turn - 1}
        record = cluster_records.node_record(msgspec.structs.replace(node, allocatable=offered))
        begun = time.perf_counter()
        world.clusters.fold([Entry(0, 0, record.key, record.value, world.now_ms)])
        world.clusters.cordon(Cordon(executor="cluster-01", cordoned=turn % 2 == 0))
        rounds, _, _, steps = world.tick()
        assert rounds == 1
        yield {"all": time.perf_counter() - begun, **steps}
