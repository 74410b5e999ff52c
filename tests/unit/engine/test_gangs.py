"""Rules N7 to N9: gangs."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from fairlead_scheduler.engine import EngineSettings, schedule
from fairlead_scheduler.engine.snapshot import Code, Rest
from tests.unit.engine.pools import BALANCE, placed, pool


def test_leftover_members_run_alone_or_fail_by_rest() -> None:
    made, names = pool({"id": "g", "queue": "A", "count": 2, "cpu": 1, "gang": {}})
    ended = replace(made, gang_started=np.ones(1, np.bool_))
    assert placed(schedule(ended, BALANCE), names) == ["g0", "g1"]
    fails = replace(ended, gang_rest=np.array([Rest.FAIL], np.uint8))
    plan = schedule(fails, BALANCE)
    assert plan.failed_code.tolist() == [Code.GANG_REST, Code.GANG_REST]


def test_an_incomplete_gang_is_rejected_when_its_time_to_assemble_is_over() -> None:
    made, _ = pool({"id": "g", "queue": "A", "count": 1, "cpu": 1, "gang": {"size": 3}})
    assert schedule(made, BALANCE).rejected_job.tolist() == []
    late = EngineSettings(gang_assembly_timeout_ms=5_000)
    plan = schedule(replace(made, gang_submitted_ms=np.array([4_000])), late)
    assert plan.rejected_code.tolist() == [Code.GANG_INCOMPLETE]


def test_further_members_without_a_node_fail_under_rest_fail() -> None:
    made, names = pool(
        {"id": "g", "queue": "A", "count": 3, "cpu": 4, "gang": {"minSize": 2, "rest": "fail"}}
    )
    plan = schedule(made, BALANCE)
    assert placed(plan, names) == ["g0", "g1"]
    assert [names[j] for j in plan.failed_job] == ["g2"]


@pytest.mark.parametrize("racks", list(permutations([4, 6, 8, 16])), ids=str)
def test_a_gang_is_placed_on_the_rack_with_the_least_waste(
    racks: tuple[int, ...],
) -> None:
    nodes = [
        {"name": f"n{at}", "labels": {"rack": f"r{at}"}, "resources": {"cpu": cpu, "memory": "9Gi"}}
        for at, cpu in enumerate(racks)
    ]
    gang = {"id": "g", "queue": "A", "count": 3, "cpu": 2, "gang": {"uniformityLabel": "rack"}}
    made, _ = pool(gang, nodes=nodes)
    plan = schedule(made, BALANCE)
    assert {racks[node] for node in plan.placed_node.tolist()} == {6}
