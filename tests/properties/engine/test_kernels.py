"""The fast ways give what their plain definitions give (hypothesis)."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead_scheduler.engine.compiler.decorators import entry_point
from fairlead_scheduler.engine.preparation.pool import fair_shares
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state import capacity_tree
from fairlead_scheduler.engine.state.round_state import COUNTERS
from tests.properties.engine.worlds import BOUNDED
from tests.unit.engine import pools
from tests.unit.engine.shares import divide


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[tuple[list[int], int]]]:
    """Free amounts and kinds of leaves, then requests with the kinds that suit them."""
    leaves = draw(st.integers(1, 20))
    free = draw(
        st.lists(
            st.lists(st.integers(-2, 6), min_size=2, max_size=2), min_size=leaves, max_size=leaves
        )
    )
    kinds = draw(st.lists(st.integers(0, 3), min_size=leaves, max_size=leaves))
    asked = draw(
        st.lists(
            st.tuples(st.lists(st.integers(0, 4), min_size=2, max_size=2), st.integers(0, 15)),
            min_size=1,
            max_size=30,
        )
    )
    return free, kinds, asked


@BOUNDED
@given(searches())
def test_the_tree_finds_the_first_leaf_that_a_scan_would_find(
    search: tuple[list[list[int]], list[int], list[tuple[list[int], int]]],
) -> None:
    rows, kinds, asked = search
    counters = np.zeros(COUNTERS, np.int64)
    free = np.array(rows, np.int64)
    bits = np.array([1 << kind for kind in kinds], np.uint64)
    amounts, types = capacity_tree.build_tree(free.copy(), bits)
    for wanted, mask in asked:
        request = np.array(wanted, np.int64)
        eligible = (free >= request).all(axis=1) & ((bits & np.uint64(mask)) != 0)
        want = int(np.argmax(eligible)) if eligible.any() else -1
        found = _find(amounts, types, request, np.uint64(mask), counters)
        assert found == want
        if found >= 0:
            free[found] -= request
            _take(amounts, found, request)


@entry_point
def _find(
    amounts: Int64, types: capacity_tree.Bits, request: Int64, mask: np.uint64, counters: Int64
) -> int:
    """`find_first_fit`, which only kernels can call."""
    return capacity_tree.find_first_fit(amounts, types, request, mask, 0, counters)


@entry_point
def _take(amounts: Int64, p: int, request: Int64) -> None:
    """`subtract_request`, which only kernels can call."""
    capacity_tree.subtract_request(amounts, p, request, 1)


@BOUNDED
@given(
    st.lists(
        st.tuples(st.floats(0.1, 9), st.floats(0, 1.5), st.booleans()), min_size=1, max_size=12
    )
)
def test_water_filling_reaches_one_level_per_weight(
    queues: list[tuple[float, float, bool]],
) -> None:
    weight = np.array([w for w, _, _ in queues])
    demand = np.array([d for _, d, _ in queues])
    part = np.array([p for _, _, p in queues])
    fair = divide(weight, demand, part)[fair_shares.FAIR]
    thirsty = part & (fair < demand - 1e-5)
    levels = (fair / weight)[thirsty]
    assert np.ptp(levels) < 1e-4 if levels.size else True
    assert (fair[~part] == 0).all()


@st.composite
def full_pools(draw: st.DrawFn) -> dict[str, Any]:
    """Two queues fill a few nodes with one-core runs; two others want some of it back."""
    nodes = draw(st.integers(1, 4))
    groups: list[dict[str, Any]] = []
    for node in range(nodes):
        left = 8
        for queue in "AB":
            count = draw(st.integers(0, left))
            left -= count
            if count:
                groups.append(
                    {
                        "id": f"r{queue}{node}x",
                        "queue": queue,
                        "count": count,
                        "cpu": 1,
                        "running": {"onNode": f"n{node}", "since": draw(st.integers(1, 5))},
                    }
                )
    for queue in "CD":
        cpu, count = draw(st.integers(1, 3)), draw(st.integers(0, 5))
        if count:
            groups.append({"id": f"q{queue}x", "queue": queue, "count": count, "cpu": cpu})
    return {"nodes": nodes, "groups": groups}


@BOUNDED
@given(full_pools())
def test_the_single_cheapest_victim_equals_that_of_examining_every_node(
    pool: dict[str, Any],
) -> None:
    assert decided(pool, 0) == decided(pool, 5)


def decided(pool: dict[str, Any], priority: int) -> dict[str, Any]:
    """What a round decides when A and B each have one more run, where nobody else can go.

    It is the first of its queue by its start and by its priority alike. With another priority than
    the rest it keeps the engine from taking the short way (the priorities of what is evicted
    differ), and who is stopped must not depend on it.
    """
    taint = {"key": "kept", "value": "yes", "effect": "NoSchedule"}
    extra = [pools.run(f"extra{queue}", queue, "kept0", cpu=1, priority=priority) for queue in "AB"]
    nodes = [
        {"name": "n", "count": pool["nodes"], "resources": {"cpu": 8, "memory": "64Gi"}},
        {"name": "kept", "resources": {"cpu": 2, "memory": "64Gi"}, "taints": [taint]},
    ]
    got = pools.world(*extra, *pool["groups"], nodes=nodes).decide()
    return {"placed": got.placed, "preempted": got.preempted, "waiting": got.waiting}
