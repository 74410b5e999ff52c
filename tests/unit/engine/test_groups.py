"""Groups of roles: what their reasons say (G11), and what a round leaves of them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from fairlead_scheduler.cases.case_file import Case
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.domain import surplus_priority
from fairlead_scheduler.engine import EngineSettings, schedule
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.snapshot import Snapshot
from fairlead_scheduler.engine.state import surplus


def planned(group: dict[str, Any], *jobs: dict[str, Any], **node: Any) -> tuple[Snapshot, Plan]:
    """The round of one node and a group, after the round of these jobs."""
    resources = {"cpu": 4, **node}
    case = msgspec.convert(
        {
            "name": "one group",
            "nodes": [{"name": "n", "resources": resources}],
            "rounds": [
                {"submit": list(jobs)},
                {"groups": [{"id": "g", "queue": "A", **group}]},
            ],
        },
        Case,
    )
    world = World(case)
    for turn in case.rounds:
        world.begin(turn, 0)
        built = world.build()
        plan = schedule(built.snapshot, EngineSettings())
        world.settle(built, plan)
    return built.snapshot, plan


def sentence(snapshot: Snapshot, plan: Plan) -> str:
    (row,) = np.flatnonzero(plan.reasons.gang >= 0)
    return reason_texts.describe_reason(snapshot, plan, int(row))


def test_a_group_that_can_never_run_names_the_role_and_how_much_there_is() -> None:
    small = {"name": "ps", "min": 1, "max": 1, "cpu": "50m"}
    large = {"name": "trainer", "min": 2, "max": 3, "cpu": 64}
    assert sentence(*planned({"roles": [small, large]})).endswith(
        ": 3 members must start together, and each member of role trainer needs 64 CPUs on one"
        " node; the largest node that matches has 4. Request less, or ask an operator for larger"
        " nodes."
    )
    many = {"name": "trainer", "min": 2, "max": 3, "cpu": "3"}
    assert sentence(*planned({"roles": [small, many]})).endswith(
        ": 3 members must start together, and they need 6.05 CPUs together; the nodes that match"
        " have 4. Request less, lower the minimum, or ask an operator for more nodes."
    )
    gpu = {"name": "trainer", "min": 1, "max": 1, "cpu": "1", "gpu": 1}
    assert (
        "each member of role trainer needs 1 nvidia.com/gpu on one node; the largest"
        in sentence(*planned({"roles": [small, gpu]}))
    )


def test_the_reason_names_the_role_that_does_not_fit() -> None:
    """G11."""
    roles = [
        {"name": "ps", "min": 1, "max": 1, "cpu": "100m"},
        {"name": "trainer", "min": 4, "max": 8, "cpu": "500m", "gpu": 1},
    ]
    running = {"id": "a", "queue": "A", "cpu": "500m", "gpu": 1}
    snapshot, plan = planned({"roles": roles}, running, gpu=4)
    assert sentence(snapshot, plan).startswith(
        "The group does not fit: role trainer: 4 of 4 needed on nodes with nvidia.com/gpu, 3 fit. "
    )


def test_the_reason_of_surplus_says_how_large_the_group_is() -> None:
    """G11."""
    roles = [{"name": "trainer", "min": 2, "max": 16, "cpu": 1}]
    snapshot, plan = planned({"roles": roles})
    assert sentence(snapshot, plan) == (
        "Waits for free capacity; the group runs with 4 of at most 16 members of role trainer. "
        "All 4 CPUs of pool default are in use; each member of the group needs 1 CPU."
    )


def test_the_reason_names_the_step() -> None:
    """G11."""
    roles = [{"name": "trainer", "min": 1, "max": 16, "cpu": 1}]
    snapshot, plan = planned({"roles": roles, "stepMax": 1})
    assert sentence(snapshot, plan) == (
        "This round started as many members of the role as `stepMax` permits; "
        "the group runs with 2 of at most 16 members of role trainer."
    )
    assert plan.limited, "the next round goes on"


def test_the_engine_finds_the_surplus_whose_priority_the_state_lowered() -> None:
    given = np.array([surplus_priority.PRIORITY_MIN, 0, 7, -1 - surplus_priority.PRIORITY_MIN])
    for rank in (0, 1, 9_999):
        ranks = np.full(given.size, rank)
        counted = surplus_priority.lower_priority(given, ranks)
        assert (surplus.find_surplus(counted) == (rank > 0)).all()
