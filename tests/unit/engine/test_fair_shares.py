"""S1 to S6: who is entitled to what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead_scheduler.engine import schedule
from fairlead_scheduler.engine.preparation.pool import fair_shares
from fairlead_scheduler.engine.snapshot import TOTAL_MAX
from tests.unit.engine.pools import BALANCE, pool
from tests.unit.engine.shares import divide

ALL = np.ones(3, np.bool_)


def test_shares_follow_weights_when_everybody_wants_more() -> None:
    fair = divide([1.0, 2.0, 5.0], [9.0, 9.0, 9.0], ALL)[fair_shares.FAIR]
    assert fair.tolist() == [0.125, 0.25, 0.625]


def test_unused_share_of_a_queue_is_split_among_the_others_by_weight() -> None:
    fair = divide([1.0, 1.0, 1.0], [0.01, 0.4, 10.0], ALL)[fair_shares.FAIR]
    assert fair == pytest.approx([0.01, 0.4, 0.59], abs=1e-6)


def test_the_uncapped_share_is_what_a_queue_would_get_if_it_wanted_everything() -> None:
    uncapped = divide([1.0, 1.0, 1.0], [0.01, 0.4, 10.0], ALL)[fair_shares.UNCAPPED]
    assert uncapped == pytest.approx([1 / 3, 0.495, 0.59], abs=1e-6)


def test_a_queue_without_jobs_has_no_share_and_does_not_reduce_others() -> None:
    part = np.array([True, False, True])
    shares = divide([1.0, 5.0, 1.0], [1.0, 1.0, 1.0], part)
    assert shares[fair_shares.WEIGHT].tolist() == [0.5, 0.0, 0.5]
    assert shares[fair_shares.FAIR].tolist() == [0.5, 0.0, 0.5]
    assert shares[fair_shares.UNCAPPED].tolist() == [0.5, 0.0, 0.5]


def test_shares_never_exceed_demand_or_the_pool() -> None:
    chance = np.random.default_rng(5)
    for _ in range(200):
        weight, demand = chance.uniform(0.1, 9, 20), chance.uniform(0, 0.2, 20)
        fair = divide(weight, demand, np.ones(20, np.bool_))[fair_shares.FAIR]
        assert (fair <= demand + 1e-12).all()
        assert fair.sum() <= 1 + 1e-9
        assert fair.sum() >= min(1.0, demand.sum()) - 1e-6


def test_the_cost_is_the_dominant_share_and_an_ignored_resource_costs_nothing() -> None:
    factor = fair_shares.cost_factors(np.array([10, 100, 0]), np.array([1.0, 2.0, 1.0]))
    assert fair_shares.dominant_share(np.array([[5, 10, 7], [1, 40, 0]]), factor).tolist() == [
        0.5,
        0.8,
    ]
    assert (
        fair_shares.dominant_share(
            np.array([9, 9]), fair_shares.cost_factors(np.array([9, 9]), np.zeros(2))
        )
        == 0.0
    )


def test_demand_beyond_a_limit_is_no_demand() -> None:
    made, _ = pool(
        {"id": "a", "queue": "A", "count": 8, "cpu": 1},
        settings={"classLimits": {"p0": {"cpu": 0.25}}},
    )
    assert schedule(made, BALANCE).shares.demand.tolist() == [0.25]


def test_demand_is_capped_at_the_greatest_total() -> None:
    most = 1 << 53
    made, _ = pool(
        {"id": "a", "queue": "A", "count": 2, "cpu": 1},
        {"id": "b", "queue": "B", "count": 3, "cpu": 1},
    )
    large = replace(
        made,
        shape_request=np.full_like(made.shape_request, most),
        node_allocatable=np.full_like(made.node_allocatable, most),
        queued_beside=np.array([[1 << 12], [1]], np.int64),
    )
    demand = schedule(large, BALANCE).shares.demand
    assert demand.tolist() == [TOTAL_MAX / (2 * most), 2.0]


def test_shares_are_bitwise_equal_whatever_the_order_of_jobs() -> None:
    """S6: sums go over names in ascending order."""
    groups = [
        {"id": name.lower(), "queue": name, "count": count, "cpu": cpu}
        for name, count, cpu in (("A", 3, "0.1"), ("B", 7, "0.3"), ("C", 2, "0.7"), ("D", 9, "1.1"))
    ]
    weights = {"A": {"weight": 0.1}, "B": {"weight": 0.7}, "C": {"weight": 1 / 3}}
    results = []
    for order in (groups, groups[::-1], [groups[n] for n in (2, 0, 3, 1)]):
        made, _ = pool(*order, queues=weights)
        seen = schedule(made, BALANCE).shares
        columns = (seen.weight, seen.fair, seen.uncapped, seen.actual, seen.demand)
        results.append([column.tobytes() for column in columns])
    assert results[0] == results[1] == results[2]
