"""Rules N1 to N6 and N10: where a job goes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead_scheduler.engine import EngineSettings, schedule
from fairlead_scheduler.engine.snapshot import Code
from tests.unit.engine.pools import BALANCE, placed, pool, preempted, run


def test_a_job_avoids_the_node_that_returned_it_and_fails_when_no_other_is_eligible() -> None:
    made, names = pool({"id": "a", "queue": "A", "cpu": 1})
    once = replace(made, avoid_job=np.array([0], np.int32), avoid_node=np.array([0], np.int32))
    plan = schedule(once, BALANCE)
    assert (placed(plan, names), plan.placed_node.tolist()) == (["a0"], [1])
    both = replace(made, avoid_job=np.zeros(2, np.int32), avoid_node=np.arange(2, dtype=np.int32))
    plan = schedule(both, BALANCE)
    assert plan.failed_job.tolist() == [0]
    assert plan.failed_code.tolist() == [Code.ALL_NODES_TRIED]


def test_spread_chooses_the_emptiest_node_and_best_fit_the_fullest() -> None:
    made, _ = pool(run("x", "A", "n1", cpu=1), {"id": "a", "queue": "A", "cpu": 1})
    assert schedule(made, BALANCE).placed_node.tolist() == [1]
    spread = EngineSettings(placement="spread")
    assert schedule(made, spread).placed_node.tolist() == [0]


def test_pack_fills_the_node_that_is_used_most_and_best_fit_the_one_with_the_least_free() -> None:
    nodes = [
        {"name": "big", "resources": {"cpu": 64, "memory": "9Gi"}},
        {"name": "small", "resources": {"cpu": 7, "memory": "2Gi"}},
        {"name": "even", "resources": {"cpu": 8, "memory": "2Gi"}},
    ]
    made, _ = pool(run("x", "A", "big0", cpu=32), {"id": "a", "queue": "A", "cpu": 4}, nodes=nodes)
    assert schedule(made, EngineSettings(placement="best-fit")).placed_node.tolist() == [1]
    assert schedule(made, EngineSettings(placement="pack")).placed_node.tolist() == [0]


def test_a_gang_fails_as_a_whole_when_too_few_of_its_members_have_a_node_left() -> None:
    """N10."""
    made, names = pool({"id": "g", "queue": "A", "count": 2, "cpu": 1, "gang": {}})
    avoided = replace(
        made, avoid_job=np.zeros(2, np.int32), avoid_node=np.arange(2, dtype=np.int32)
    )
    plan = schedule(avoided, BALANCE)
    assert [names[j] for j in plan.failed_job] == ["g0", "g1"]
    assert set(plan.failed_code.tolist()) == {Code.ALL_NODES_TRIED}


def test_of_victims_with_equal_lost_work_the_fewest_are_chosen() -> None:
    """N4 and R9: 2 cores for 1, 2 and 3 seconds are as much work as 6 cores for 2 seconds."""
    nodes = [
        {"name": name, "resources": {"cpu": cpu, "memory": "9Gi"}}
        for name, cpu in (("three", 8), ("one", 10), ("full", 7))
    ]
    jobs = [
        run(f"small{age}x", "A", "three0", cpu=2) | {"running": {"onNode": "three0", "since": age}}
        for age in (7, 8, 9)
    ]
    jobs.append(run("large", "A", "one0", cpu=6) | {"running": {"onNode": "one0", "since": 8}})
    for node, cpu in (("three0", 2), ("one0", 4), ("full0", 7)):
        jobs.append(run(f"peer-{node}x", "A", node, cpu=cpu, priorityClass="p1"))
    urgent = {"id": "u", "queue": "A", "cpu": 5, "priorityClass": "p1"}
    made, names = pool(*jobs, urgent, nodes=nodes)
    plan = schedule(made, EngineSettings())
    assert (placed(plan, names), preempted(plan, names)) == (["u0"], ["large0"])


def test_a_job_that_did_not_fit_is_tried_again_before_later_ones_once_capacity_is_freed() -> None:
    """Section 5: `a` leaves for `np` only after `c0` was tried, and leaves room for one of `c`."""
    nodes = [{"name": "n", "resources": {"cpu": 7, "memory": "64Gi"}}]
    made, names = pool(
        run("a", "A", "n0", cpu=4, priorityClass="p1"),
        {"id": "np", "queue": "B", "cpu": 4, "priorityClass": "p2np"},
        {"id": "c", "queue": "C", "cpu": 2, "count": 2, "priorityClass": "p1"},
        nodes=nodes,
        queues={"A": {"weight": 2}, "B": {}, "C": {}},
    )
    plan = schedule(made, BALANCE)
    assert (placed(plan, names), preempted(plan, names)) == (["c0", "np0"], ["a0"])


def test_victim_search_in_a_large_pool_finds_the_cheapest_node() -> None:
    """N4: 80 nodes, each with a run that loses another amount of work; two of them tie."""
    nodes = [{"name": "n", "count": 80, "resources": {"cpu": 1, "memory": "4Gi"}}]
    runs = [
        {
            "id": f"r{n}x",
            "queue": "A",
            "cpu": 1,
            "running": {"onNode": f"n{n}", "since": (n * 37) % 79 / 10},
        }
        for n in range(80)
    ]
    made, names = pool(
        *runs, {"id": "u", "queue": "A", "count": 5, "cpu": 1, "priorityClass": "p1"}, nodes=nodes
    )
    plan = schedule(made, BALANCE)
    youngest = sorted(range(80), key=lambda n: (-((n * 37) % 79), -n))[:5]
    assert preempted(plan, names) == sorted(f"r{n}x0" for n in youngest)
