"""The engine decides what a plain reading of the rules decides, round after round (hypothesis)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.engine.snapshot import Preemption
from tests.example_numbers import EXAMPLES
from tests.properties.engine.reading import Plain
from tests.properties.engine.worlds import BOUNDED

CLASSES = (
    ("p0", 0, Preemption.ANY),
    ("p1", 1, Preemption.ANY),
    ("p2np", 2, Preemption.NONE),
    ("p2u", 2, Preemption.URGENCY),
    ("p3", 3, Preemption.ANY),
)
ROUND_MS = 1_000


@dataclass
class Job:
    """A row of the snapshot."""

    queue: int
    shape: int
    priority: int
    submission: int
    node: int = -1
    started_ms: int = 0


@dataclass
class Pool:
    """A small pool of random nodes, shapes and queues, and its jobs."""

    chance: random.Random
    jobs: list[Job] = field(default_factory=list)
    now_ms: int = 0
    submitted: int = 0

    def __post_init__(self) -> None:
        draw = self.chance
        self.queues = draw.randint(1, 4)
        nodes = draw.choice([draw.randint(1, 6), draw.randint(9, 14)])
        types, shapes = draw.randint(1, 2), draw.randint(1, 6)
        self.request = [[draw.randint(1, 6), draw.randint(1, 12)] for _ in range(shapes)]
        self.shape_class = [draw.randrange(draw.choice([2, 5])) for _ in range(shapes)]
        self.match = [
            [[0 if draw.random() < 0.85 else 2 for _ in range(types)]] for _ in range(shapes)
        ]
        self.allocatable = [[draw.randint(4, 16), draw.randint(8, 48)] for _ in range(nodes)]
        self.node_type = [draw.randrange(types) for _ in range(nodes)]
        self.weight = [draw.choice([1.0, 1.0, 2.0, 0.5]) for _ in range(self.queues)]
        self.flags, self.cordoned = [0] * nodes, [False] * self.queues
        self.protected = draw.choice([0, 0, 0.5, 1.0])
        self.requeues = draw.random() < 0.6

    def happen(self) -> None:
        """Time passes: jobs come, some runs end, now and then a node or a queue changes."""
        draw = self.chance
        self.now_ms += ROUND_MS
        for _ in range(draw.randint(0, 4)):
            queue, shape = draw.randrange(self.queues), draw.randrange(len(self.request))
            priority = draw.choice([0, 0, 0, 1, -1])
            for _ in range(draw.randint(1, max(6, 2 * len(self.flags)))):
                self.jobs.append(Job(queue, shape, priority, self.submitted))
                self.submitted += 1
        node = draw.randrange(len(self.flags))
        if draw.random() < 0.2:
            self.flags[node] = draw.choice([0, 1, 2, 4])
        if draw.random() < 0.1:
            self.allocatable[node] = [amount // 2 for amount in self.allocatable[node]]
        if draw.random() < 0.1:
            queue = draw.randrange(self.queues)
            self.cordoned[queue] = not self.cordoned[queue]
        if draw.random() < 0.3:
            self.jobs = [job for job in self.jobs if job.node < 0 or draw.random() < 0.7]

    def follow(self, plan: Plan) -> None:
        """What was placed runs; what was preempted waits again, or is gone."""
        for row, node in zip(plan.placed_job.tolist(), plan.placed_node.tolist(), strict=True):
            self.jobs[row].node, self.jobs[row].started_ms = node, self.now_ms
        stopped = set(plan.preempted_job.tolist())
        for row in stopped:
            self.jobs[row].node = -1
        if not self.requeues:
            self.jobs = [job for row, job in enumerate(self.jobs) if row not in stopped]

    def snapshot(self) -> Snapshot:
        """The pool as the engine takes it."""
        return Snapshot(
            pool="pool",
            now_ms=self.now_ms,
            resources=("cpu", "memory"),
            queue_names=tuple(f"q{i}" for i in range(self.queues)),
            queue_weight=np.array(self.weight),
            queue_cordoned=np.array(self.cordoned),
            class_names=tuple(name for name, _, _ in CLASSES),
            class_value=np.array([value for _, value, _ in CLASSES], np.int64),
            class_preemption=np.array([kind for _, _, kind in CLASSES], np.uint8),
            shape_request=np.array(self.request, np.int64),
            shape_class=np.array(self.shape_class, np.int32),
            shape_match=np.array(self.match, np.uint8),
            node_number=np.arange(len(self.flags), dtype=np.int64),
            node_allocatable=np.array(self.allocatable, np.int64),
            node_type=np.array(self.node_type, np.int32),
            node_flags=np.array(self.flags, np.uint8),
            job_queue=np.array([job.queue for job in self.jobs], np.int32),
            job_shape=np.array([job.shape for job in self.jobs], np.int32),
            job_priority=np.array([job.priority for job in self.jobs], np.int64),
            job_submission=np.array([job.submission for job in self.jobs], np.int64),
            job_node=np.array([job.node for job in self.jobs], np.int32),
            job_started_ms=np.array([job.started_ms for job in self.jobs], np.int64),
        )


@settings(BOUNDED, max_examples=EXAMPLES or 75)
@given(st.randoms(use_true_random=False))
def test_every_round_equals_the_plain_reading_of_the_rules(chance: random.Random) -> None:
    pool = Pool(chance)
    for _ in range(chance.randint(1, 5)):
        pool.happen()
        if not pool.jobs:
            continue
        snapshot = pool.snapshot()
        plan = schedule(snapshot, EngineSettings(protected_fraction=pool.protected))
        read = Plain(snapshot, pool.protected).decide()
        assert np.allclose(plan.shares.fair, read.fair, atol=1e-5)
        assert np.allclose(plan.shares.actual, read.actual)
        placed = dict(zip(plan.placed_job.tolist(), plan.placed_node.tolist(), strict=True))
        assert placed == read.placed
        assert set(plan.preempted_job.tolist()) == read.preempted
        pool.follow(plan)
