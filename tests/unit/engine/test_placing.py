"""Rules N1 to N6 and N10: where a job goes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead_scheduler.engine import EngineSettings, schedule
from fairlead_scheduler.engine.snapshot import Code
from tests.unit.engine.pools import BALANCE, placed, pool, run


def test_a_job_avoids_the_node_that_returned_it_and_fails_when_no_other_suits() -> None:
    made, names = pool({"id": "a", "queue": "A", "cpu": 1})
    once = replace(made, avoid_job=np.array([0], np.int32), avoid_node=np.array([0], np.int32))
    plan = schedule(once, BALANCE)
    assert (placed(plan, names), plan.placed_node.tolist()) == (["a0"], [1])
    both = replace(made, avoid_job=np.zeros(2, np.int32), avoid_node=np.arange(2, dtype=np.int32))
    plan = schedule(both, BALANCE)
    assert plan.failed_job.tolist() == [0]
    assert plan.failed_code.tolist() == [Code.ALL_NODES_TRIED]


def test_spread_takes_the_emptiest_node_where_best_fit_takes_the_fullest() -> None:
    made, _ = pool(run("x", "A", "n1", cpu=1), {"id": "a", "queue": "A", "cpu": 1})
    assert schedule(made, BALANCE).placed_node.tolist() == [1]
    spread = EngineSettings(placement="spread")
    assert schedule(made, spread).placed_node.tolist() == [0]


def test_pack_fills_the_node_that_is_used_most_and_fragmentation_leaves_no_crumbs() -> None:
    nodes = [
        {"name": "big", "resources": {"cpu": 64, "memory": "9Gi"}},
        {"name": "small", "resources": {"cpu": 7, "memory": "2Gi"}},
        {"name": "even", "resources": {"cpu": 8, "memory": "2Gi"}},
    ]
    made, _ = pool(run("x", "A", "big0", cpu=32), {"id": "a", "queue": "A", "cpu": 4}, nodes=nodes)
    assert schedule(made, EngineSettings(placement="best-fit")).placed_node.tolist() == [1]
    assert schedule(made, EngineSettings(placement="pack")).placed_node.tolist() == [0]
    assert schedule(made, EngineSettings(placement="fragmentation")).placed_node.tolist() == [2]
