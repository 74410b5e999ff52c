"""R3 and G9: the order inside a queue, sorted from scratch or updated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead_scheduler.domain import surplus_priority
from fairlead_scheduler.engine import Snapshot, tiny_pools
from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.engine.snapshot import Int32


def pool(jobs: int, seed: int) -> Snapshot:
    """Random queued and running jobs of two classes and two queues."""
    chance = np.random.default_rng(seed)
    return replace(
        tiny_pools.make_tiny_pool(plain=True),
        job_queue=chance.integers(0, 2, jobs).astype(np.int32),
        job_shape=chance.integers(0, 2, jobs).astype(np.int32),
        job_priority=chance.integers(-2, 3, jobs),
        job_submission=chance.permutation(jobs).astype(np.int64),
        job_node=chance.integers(-2, 2, jobs).astype(np.int32),
        job_started_ms=chance.integers(0, 5, jobs),
    )


def by_hand(snapshot: Snapshot, *, live: bool) -> list[int]:
    rows = [j for j, n in enumerate(snapshot.job_node) if (n >= 0 if live else n == -1)]
    return sorted(
        rows,
        key=lambda j: (
            snapshot.job_queue[j],
            -snapshot.class_value[snapshot.shape_class[snapshot.job_shape[j]]],
            -snapshot.job_priority[j],
            snapshot.job_started_ms[j] if live else 0,
            snapshot.job_submission[j],
        ),
    )


def fair_pool(jobs: int, seed: int) -> Snapshot:
    """As `pool`, with surplus members, and weighted running times in one of the queues."""
    chance = np.random.default_rng(seed)
    made = pool(jobs, seed)
    rank = np.where(chance.random(jobs) < 0.3, chance.integers(1, 4, jobs), 0)
    times = np.where(made.job_queue == 1, chance.integers(0, 3, jobs) / 3, 0.0)
    priority = surplus_priority.lower_priority(made.job_priority, rank)
    return replace(made, job_priority=priority, job_weighted_time=times)


def test_in_a_fair_queue_the_weighted_running_time_comes_after_the_surplus_rank() -> None:
    """G9, G2."""
    made = fair_pool(300, 1)
    times = made.job_weighted_time
    assert times is not None
    rows = [j for j, n in enumerate(made.job_node) if n == -1]
    rank = [-((int(p) + (1 << 31)) >> 32) for p in made.job_priority]
    want = sorted(
        rows,
        key=lambda j: (
            made.job_queue[j],
            -made.class_value[made.shape_class[made.job_shape[j]]],
            rank[j],
            times[j],
            -made.job_priority[j],
            made.job_submission[j],
        ),
    )
    assert job_order.order_queued(made).tolist() == want
    assert job_order.order_running(made).tolist() == by_hand(made, live=True)


def test_an_order_follows_running_times_that_change() -> None:
    """G9: what moves is removed under its old time and inserted under its new one."""
    for seed in range(20):
        made = fair_pool(200, seed)
        chance = np.random.default_rng(seed)
        order = job_order.JobOrder()
        order.change(np.zeros(200, np.bool_), job_order.order_queued(made), made, live=False)
        moved = np.flatnonzero((made.job_node == -1) & (chance.random(200) < 0.4)).astype(np.int32)
        assert made.job_weighted_time is not None
        made.job_weighted_time[moved] = chance.integers(0, 3, moved.size) / 3
        out_of_place = np.zeros(200, np.bool_)
        out_of_place[moved] = True
        order.change(out_of_place, moved, made, live=False)
        assert order.rows.tolist() == job_order.order_queued(made).tolist()


def test_jobs_are_ordered_by_class_then_priority_then_start_or_submission() -> None:
    made = pool(300, 1)
    assert job_order.order_queued(made).tolist() == by_hand(made, live=False)
    assert job_order.order_running(made).tolist() == by_hand(made, live=True)


def test_an_updated_order_equals_a_sorted_one() -> None:
    for seed in range(20):
        made = pool(200, seed)
        chance = np.random.default_rng(seed)
        for live in (False, True):
            full = job_order.order_running(made) if live else job_order.order_queued(made)
            new: Int32 = full[chance.random(full.size) < 0.3]
            gone = chance.random(200) < 0.2
            old = full[~np.isin(full, new)]
            want = [j for j in full if not gone[j] or j in new]
            gone[new] = False
            job_orders = job_order.JobOrder()
            job_orders.change(np.zeros(200, np.bool_), old, made, live=live)
            assert job_orders.rows.tolist() == old.tolist()
            job_orders.change(gone, new, made, live=live)
            assert job_orders.rows.tolist() == want


def test_queue_bounds_are_where_each_queue_begins() -> None:
    queue = np.array([0, 0, 2, 2, 2], np.int32)
    assert job_order.find_queue_bounds(np.arange(5, dtype=np.int32), queue, 4).tolist() == [
        0,
        2,
        2,
        5,
        5,
    ]
