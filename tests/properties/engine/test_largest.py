"""Rounds over the largest amounts that the service accepts: no sum of them may overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.scheduling.quantities import AMOUNT_MAX
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.engine.preparation.pool import array_types, snapshot_checks
from fairlead_scheduler.engine.snapshot import TOTAL_MAX
from tests.properties.engine.worlds import BOUNDED

QUEUES = 3
AMOUNTS = (0, 1, 7, AMOUNT_MAX // 3, AMOUNT_MAX - 1, AMOUNT_MAX)
MANY = 1_200
"""So many of the largest amounts are more than an int64 holds."""
MULTIPLIERS = {"cpu": 1.0, "memory": 1e6, "licences": 0.5}


@st.composite
def pools(draw: st.DrawFn) -> Snapshot:
    """Nodes, runs and queued jobs, any of which may be as large as anything can be."""
    amount = st.sampled_from(AMOUNTS)
    row = st.tuples(amount, amount)
    kinds = np.array(draw(st.lists(row, min_size=1, max_size=3)), np.int64)
    shapes = draw(st.integers(1, 4))
    request = np.array(draw(st.lists(row, min_size=shapes, max_size=shapes)), np.int64)
    nodes = draw(st.sampled_from([0, 1, 5, MANY]))
    allocatable = kinds[np.arange(nodes) % len(kinds)]
    runs = min(nodes, draw(st.sampled_from([0, 4, MANY])))
    queued = draw(st.sampled_from([0, 3, MANY]))
    jobs = runs + queued
    chance = np.random.default_rng(draw(st.integers(0, 1000)))
    job_shape = chance.integers(0, shapes, jobs).astype(np.int32)
    node = np.full(jobs, -1, np.int32)
    for j in range(runs):  # one run on a node, where it fits
        fits = (request[job_shape[j]] <= allocatable[j]).all()
        node[j] = j if fits else -1
    size = draw(st.integers(1, 40))
    gang = np.where(node < 0, np.arange(jobs) // size, -1).astype(np.int32)
    gangs = int(gang.max(initial=-1)) + 1
    lone = draw(st.booleans())
    more: dict[str, Any] = {}
    if not lone and gangs:
        queue = np.where(gang >= 0, gang % QUEUES, np.arange(jobs) % QUEUES)
        more = {
            "job_gang": gang,
            "gang_min": np.full(gangs, draw(st.integers(1, size)), np.int32),
            "gang_label": np.full(gangs, -1, np.int32),
            "gang_rest": np.zeros(gangs, np.uint8),
            "gang_started": np.zeros(gangs, np.bool_),
            "gang_submitted_ms": np.zeros(gangs, np.int64),
        }
    else:
        queue = np.arange(jobs) % QUEUES
    if draw(st.booleans()):
        limit = draw(st.sampled_from([0.5, float(AMOUNT_MAX), 1e30]))
        more["queue_limit_amount"] = np.full((QUEUES, 2, 3), limit)
    return Snapshot(
        pool="pool",
        now_ms=1_000,
        resources=("cpu", "memory"),
        floating=("licences",),
        floating_total=np.array([draw(amount)], np.int64),
        queue_names=("a", "b", "c"),
        queue_weight=np.array(draw(st.tuples(*[st.sampled_from([1e-6, 1.0, 1e6])] * QUEUES))),
        queue_cordoned=np.zeros(QUEUES, np.bool_),
        class_names=("low", "high"),
        class_value=np.array([0, 1], np.int64),
        class_preemption=np.zeros(2, np.uint8),
        shape_request=request,
        shape_floating=np.array(
            [[draw(st.sampled_from([0, 0, AMOUNT_MAX]))] for _ in range(shapes)], np.int64
        ),
        shape_class=chance.integers(0, 2, shapes).astype(np.int32),
        shape_match=np.zeros((shapes, 1, 1), np.uint8),
        node_number=np.arange(nodes, dtype=np.int64),
        node_allocatable=allocatable,
        node_type=np.zeros(nodes, np.int32),
        node_flags=np.full(nodes, draw(st.sampled_from([0, 0, 1])), np.uint8),
        job_queue=queue.astype(np.int32),
        job_shape=job_shape,
        job_priority=np.zeros(jobs, np.int64),
        job_submission=np.arange(jobs, dtype=np.int64),
        job_node=node,
        job_started_ms=np.zeros(jobs, np.int64),
        **more,
    )


@BOUNDED
@given(pools(), st.sampled_from([0.0, 1.0]), st.sampled_from(["best-fit", "pack"]))
def test_the_largest_amounts_are_counted_correctly(
    snapshot: Snapshot, protected: float, placement: Any
) -> None:
    assert snapshot_checks.list_problems(snapshot) == []
    settings = EngineSettings(
        protected_fraction=protected, placement=placement, cost_multipliers=MULTIPLIERS
    )
    plan = schedule(snapshot, settings)
    check_room(array_types.convert_arrays(snapshot), plan)
    check_shares(array_types.convert_arrays(snapshot), plan)


def check_room(snapshot: Snapshot, plan: Plan) -> None:
    """No node gets more than it has; numbers that people are told are amounts."""
    held = [[0, 0] for _ in range(snapshot.node_number.size)]
    stopped = set(plan.preempted_job.tolist())
    where = dict(enumerate(snapshot.job_node.tolist()))
    where |= dict(zip(plan.placed_job.tolist(), plan.placed_node.tolist(), strict=True))
    new = set(plan.placed_node.tolist())
    for j, n in where.items():
        if n >= 0 and j not in stopped:
            asked = snapshot.shape_request[snapshot.job_shape[j]].tolist()
            held[n] = [a + b for a, b in zip(held[n], asked, strict=True)]
    for n in new:
        has = snapshot.node_allocatable[n].tolist()
        assert all(a <= b for a, b in zip(held[n], has, strict=True)), f"node {n} holds too much"
    assert (plan.reasons.needed >= 0).all()
    assert (plan.reasons.counts.sum(axis=1) == snapshot.node_number.size).all()


def check_shares(snapshot: Snapshot, plan: Plan) -> None:
    """What is held and what is there, added up by whole numbers that know no bound."""
    there = snapshot.node_flags == 0
    nodes = snapshot.node_allocatable[there].astype(object).sum(axis=0)
    capacity = [*(nodes.tolist() if there.any() else [0, 0]), int(snapshot.floating_total[0])]
    assert plan.capacity.tolist() == capacity
    assert max(capacity) <= TOTAL_MAX
    for shares in (plan.shares.fair, plan.shares.demand, plan.shares.actual, plan.shares.uncapped):
        assert np.isfinite(shares).all()
        assert (shares >= 0).all()
    assert plan.shares.fair.sum() <= 1 + 1e-6
    holds = np.concatenate([snapshot.shape_request, snapshot.shape_floating], axis=1).astype(object)
    running = snapshot.job_node >= 0
    running[running] = there[snapshot.job_node[running]]
    able = (snapshot.job_node == -1) & plan.shape_feasible[snapshot.job_shape]
    for q in range(QUEUES):
        mine = snapshot.job_queue == q
        held = holds[snapshot.job_shape[mine & running]].sum(axis=0)
        asked = 0
        for c in range(snapshot.class_value.size):  # each class is bounded by itself
            of_class = mine & able & (snapshot.shape_class[snapshot.job_shape] == c)
            asked = asked + np.minimum(holds[snapshot.job_shape[of_class]].sum(axis=0), TOTAL_MAX)
        assert np.isclose(plan.shares.actual[q], share(held, capacity), rtol=1e-9)
        if snapshot.job_gang is None and snapshot.queue_limit_amount is None and any(capacity):
            want = share(held + asked, capacity)
            assert np.isclose(plan.shares.demand[q], want, rtol=1e-9)


def share(amounts: Any, capacity: list[int]) -> float:
    """Dominant share of whole numbers; [] and 0 are none."""
    parts = zip(MULTIPLIERS.values(), np.atleast_1d(amounts).tolist(), capacity, strict=False)
    return max((m * (a / c) for m, a, c in parts if c), default=0.0)
