"""Whether a round could place a job, in pools of one or two nodes."""

from __future__ import annotations

import numpy as np
import pytest

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
from fairlead_scheduler.engine.preparation.pool import fair_shares
from tests.unit.engine.shares import divide

SIZES = np.array([[1], [2], [4]])
"""Shapes by their cores."""
VALUES = np.array([0, 5, 9])
"""Priority classes; the last one cannot be preempted."""


class Pool:
    """Two nodes; `runs` are (queue, shape, class, node) in the order of R3 by queue,
    `waiting` (queue, shape, class)."""

    def __init__(
        self,
        runs: list[tuple[int, int, int, int]],
        waiting: list[tuple[int, int, int]],
        cores: int = 4,
    ) -> None:
        groups = sorted({run[:3] for run in runs} | set(waiting))
        queue, shape, kind = np.array(groups, np.int32).T.copy()
        used, held, demanded = (np.zeros((2, 1), np.int64) for _ in range(3))
        for q, s, _, node in runs:
            used[node] += SIZES[s]
            held[q] += SIZES[s]
        demanded += held
        for q, s, _ in waiting:
            demanded[q] += SIZES[s]
        self.check = PlacementCheck(
            groups=JobGroups(
                queue=queue,
                shape=shape,
                priority_class=kind,
                waiting=np.array([waiting.count(group) for group in groups]),
                running=np.array([[run[:3] for run in runs].count(group) for group in groups]),
                examined=np.ones(len(groups), np.bool_),
            ),
            pool=PoolAmounts(
                capacity=np.full((2, 1), cores),
                used=used,
                request=SIZES,
                class_value=VALUES,
                preemptible=np.array([True, True, False]),
                reachable=np.zeros((2, 1), np.int64),
                compared=np.zeros(len(SIZES), np.bool_),
            ),
            queues=QueueAmounts(
                held=held,
                demanded=demanded,
                running=np.array([sum(run[0] == q for run in runs) for q in (0, 1)]),
                queued=np.array([sum(job[0] == q for job in waiting) for q in (0, 1)]),
                weight=np.ones(2),
                by_name=np.arange(2),
                factor=np.array([1 / (2 * cores)]),
                protected=np.ones(1),
            ),
            shares=make_shares(2),
        )
        rows = [*((run[0], run[1], run[3]) for run in runs), *((q, s, -1) for q, s, _ in waiting)]
        of_queue, of_shape, node_of = np.array(rows, np.int32).T.copy()
        count = len(runs)
        self.jobs = CheckedJobs(
            queue=of_queue,
            shape=of_shape,
            node=node_of,
            run_share=np.zeros(count),
            run_held=np.zeros((count, 1), np.int64),
        )
        self.runs = np.argsort(of_queue[:count], kind="stable").astype(np.int32)
        self.first = np.full(2, -1, np.int32)
        for at in range(len(rows) - 1, count - 1, -1):
            self.first[of_queue[at]] = at

    def frees_enough(self, *, any_order: bool = False) -> bool:
        """Whether evicted runs would free enough for a queued job."""
        measure_shares(self.check.queues, self.check.shares, True)
        return may_place_by_eviction(self.check, self.jobs, self.runs, self.first, any_order)


FULL = [(0, 1, 0, 0), (0, 1, 0, 0), (0, 1, 0, 1), (0, 1, 0, 1)]
"""Queue 0 holds both nodes with four runs of two cores."""


def test_a_job_fits_what_is_free_on_one_node_but_not_on_two_together() -> None:
    assert may_place_without_eviction(Pool(FULL[:3], [(1, 1, 0)]).check)
    assert not may_place_without_eviction(Pool([FULL[0], FULL[2]], [(1, 2, 0)]).check)


def test_a_job_that_no_round_has_examined_may_be_refused() -> None:
    pool = Pool(FULL, [(1, 1, 0)])
    assert not may_place_without_eviction(pool.check)
    pool.check.groups.examined[:] = False
    assert may_place_without_eviction(pool.check)


def test_a_node_that_shrank_may_lose_runs() -> None:
    pool = Pool(FULL, [(1, 1, 0)])
    pool.check.pool.capacity[1] = 3
    assert may_place_without_eviction(pool.check)


@pytest.mark.parametrize(("of_run", "of_job", "may"), [(0, 1, True), (1, 1, False), (2, 1, False)])
def test_a_more_urgent_job_may_preempt_what_can_be_preempted(
    of_run: int, of_job: int, may: bool
) -> None:
    runs = [(queue, shape, of_run, node) for queue, shape, _, node in FULL]
    assert may_place_without_eviction(Pool(runs, [(1, 1, of_job)]).check) is may


def test_a_queue_above_its_share_may_lose_runs_to_one_below_it() -> None:
    assert Pool(FULL, [(1, 1, 0)]).frees_enough()
    assert Pool(FULL, [(1, 2, 0)]).frees_enough(), "both runs of a node are enough"


def test_nobody_loses_runs_to_a_queue_that_would_hold_as_much() -> None:
    runs = [(0, 1, 0, 0), (0, 1, 0, 0), (0, 1, 0, 1), (1, 1, 0, 1)]
    assert Pool(runs, [(1, 1, 0), (0, 1, 0)]).frees_enough()
    assert not Pool(runs, [(1, 2, 0), (0, 1, 0)]).frees_enough()


def test_runs_that_return_before_an_offer_over_budget_free_nothing() -> None:
    """Queue 1 would hold 9 of 16 cores, more than its budget: queue 0 has that much again before
    its last two runs return, and these leave only 3 cores on a node."""
    runs = [(0, 2, 0, 0), (0, 2, 0, 0), (0, 1, 0, 1), (0, 0, 0, 1), (1, 2, 0, 1), (1, 0, 0, 1)]
    pool = Pool(runs, [(0, 0, 0), (1, 2, 0)], cores=8)
    assert not pool.frees_enough()
    assert pool.frees_enough(any_order=True), "classes can come before shares"


def test_runs_that_return_before_an_offer_within_budget_free_nothing() -> None:
    """Queue 1 holds 2 of 12 cores and wants 4: queue 0 holds less until its runs of 1 and 4 cores
    have returned, and the last one leaves only 3 cores on its node."""
    runs = [(0, 0, 0, 0), (0, 2, 0, 1), (0, 1, 0, 0), (1, 1, 0, 0)]
    pool = Pool(runs, [(1, 2, 0)], cores=6)
    assert not pool.frees_enough()
    assert pool.frees_enough(any_order=True), "classes can come before shares"


def test_shares_are_those_of_the_engine() -> None:
    pool = Pool([(0, 2, 0, 0), (0, 1, 0, 1)], [(1, 1, 0), (1, 0, 0)])
    queues, shares = pool.check.queues, pool.check.shares
    for waiting in (False, True):
        measure_shares(queues, shares, waiting)
        amounts = queues.demanded if waiting else queues.held
        part = (queues.running > 0) | (waiting & (queues.queued > 0))
        demand = fair_shares.dominant_share(amounts, queues.factor)
        wanted = divide(queues.weight, demand, part)
        assert shares.weight.tolist() == wanted[fair_shares.WEIGHT].tolist()
        assert shares.fair.tolist() == wanted[fair_shares.FAIR].tolist()
