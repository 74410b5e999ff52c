"""Tiny pools whose rounds call every kernel of the engine, so that scheduling them compiles all.

Compiling takes half a minute of one core; the result stays in NUMBA_CACHE_DIR. `kernels.warm_up`
schedules these pools when the program is installed (a set-up step, the build of an image) and when
a service starts or has compiled them.
"""

from __future__ import annotations

import numpy as np

from fairlead_scheduler.engine.placement_check import (
    CheckedJobs,
    JobGroups,
    PlacementCheck,
    PoolAmounts,
    QueueAmounts,
    make_shares,
    may_place_by_eviction,
    may_place_without_eviction,
    measure_shares,
)
from fairlead_scheduler.engine.round import schedule
from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.snapshot import EngineSettings, NodeFlag, Snapshot


def schedule_tiny_pools() -> tuple[Plan, Plan]:
    """Schedule two tiny pools: one with nothing but queued single jobs, one with everything."""
    settings = EngineSettings(protected_fraction=0.0)
    check_tiny_pool()
    return (
        schedule(make_tiny_pool(plain=True), settings),
        schedule(make_tiny_pool(plain=False), settings),
    )


def check_tiny_pool() -> bool:
    """Check whether a round could place the job that waits in a tiny pool; a run has its node."""
    check = PlacementCheck(
        groups=JobGroups(
            queue=np.arange(2, dtype=np.int32),
            shape=np.zeros(2, np.int32),
            priority_class=np.zeros(2, np.int32),
            waiting=np.array([0, 1]),
            running=np.array([1, 0]),
            examined=np.ones(2, np.bool_),
        ),
        pool=PoolAmounts(
            capacity=np.ones((1, 1), np.int64),
            used=np.ones((1, 1), np.int64),
            request=np.ones((1, 1), np.int64),
            class_value=np.zeros(1, np.int64),
            preemptible=np.ones(1, np.bool_),
            reachable=np.zeros((1, 1), np.int64),
            compared=np.zeros(1, np.bool_),
        ),
        queues=QueueAmounts(
            held=np.array([[1], [0]]),
            demanded=np.ones((2, 1), np.int64),
            running=np.array([1, 0]),
            queued=np.array([0, 1]),
            weight=np.ones(2),
            by_name=np.arange(2),
            factor=np.ones(1),
            protected=np.ones(1),
        ),
        shares=make_shares(2),
    )
    jobs = CheckedJobs(
        queue=np.arange(2, dtype=np.int32),
        shape=np.zeros(2, np.int32),
        node=np.array([0, -1], np.int32),
        run_share=np.zeros(1),
        run_held=np.zeros((1, 1), np.int64),
    )
    measure_shares(check.queues, check.shares, True)
    runs, first = np.zeros(1, np.int32), np.array([-1, 1], np.int32)
    return may_place_without_eviction(check) or may_place_by_eviction(
        check, jobs, runs, first, False
    )


def make_tiny_pool(*, plain: bool) -> Snapshot:
    """Three nodes, one of them lost. Queue `a` runs jobs on all, jobs and a gang of queue `b` wait.
    With `plain` only two queued jobs of `a`."""
    jobs = 2 if plain else 9
    node = np.array([0, 0, 1, 1, 2, -1, -1, -1, -1], np.int32)
    gangs = np.array([-1, -1, -1, -1, -1, -1, -1, 0, 0], np.int32)
    return Snapshot(
        pool="warm",
        now_ms=1_000,
        resources=("cpu", "memory"),
        queue_names=("a", "b"),
        queue_weight=np.ones(2),
        queue_cordoned=np.zeros(2, np.bool_),
        class_names=("low", "high"),
        class_value=np.array([0, 1]),
        class_preemption=np.zeros(2, np.uint8),
        shape_request=np.array([[1, 1], [1, 1]]),
        shape_class=np.array([0, 1], np.int32),
        shape_match=np.zeros((2, 1, 1), np.uint8),
        shape_rank=None if plain else np.zeros((2, 1), np.uint8),
        node_number=np.arange(3),
        node_allocatable=np.full((3, 2), 2),
        node_type=np.zeros(3, np.int32),
        node_flags=np.array([0, 0, NodeFlag.LOST], np.uint8),
        label_names=("rack",),
        node_label=np.zeros((1, 3), np.int32),
        job_queue=np.array([0, 0, 0, 0, 1, 1, 1, 1, 1], np.int32)[:jobs],
        job_shape=np.array([0, 0, 0, 0, 0, 0, 1, 1, 1], np.int32)[:jobs],
        job_priority=np.zeros(jobs, np.int64),
        job_submission=np.arange(jobs),
        job_node=np.full(jobs, -1, np.int32) if plain else node,
        job_gang=None if plain else gangs,
        job_started_ms=np.zeros(jobs, np.int64),
        avoid_job=None if plain else np.array([5], np.int32),
        avoid_node=None if plain else np.array([2], np.int32),
        gang_min=np.full(1, 2, np.int32),
        gang_label=np.zeros(1, np.int32),
        gang_rest=np.zeros(1, np.uint8),
        gang_started=np.zeros(1, np.bool_),
        gang_submitted_ms=np.zeros(1, np.int64),
    )
