"""Topology: what reasons say (G11), which levels groups mean, and nodes whose labels change."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from fairlead_scheduler.cases.case_file import Case
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.engine import EngineSettings, schedule
from fairlead_scheduler.engine.plan import reason_texts

RACKS = [
    {"name": "a", "resources": {"cpu": 4}, "labels": {"zone": "z", "rack": "r1"}},
    {"name": "b", "count": 2, "resources": {"cpu": 3}, "labels": {"zone": "z", "rack": "r2"}},
]
LEVELS = ["zone", "rack"]


def world(topology: dict[str, Any], *roles: dict[str, Any], busy: int = 0) -> World:
    """A group in two racks, of 4 and of 6 CPUs, after `busy` CPUs of the first were taken."""
    jobs = [{"id": "x", "queue": "A", "cpu": busy, "nodeSelector": {"rack": "r1"}}] * (busy > 0)
    group = {"id": "g", "queue": "A", "roles": list(roles), "topology": topology}
    case = {
        "name": "one group",
        "settings": {"topology": LEVELS},
        "nodes": RACKS,
        "rounds": [{"submit": jobs}, {"groups": [group]}],
    }
    made = World(msgspec.convert(case, Case))
    made.begin(made.case.rounds[0], 0)
    made.decide()
    made.begin(made.case.rounds[1], 0)
    return made


def sentence(made: World) -> str:
    """The reason of the group after a round."""
    built = made.build()
    plan = schedule(built.snapshot, EngineSettings())
    (row,) = np.flatnonzero(plan.reasons.gang >= 0)
    return reason_texts.describe_reason(built.snapshot, plan, int(row))


def test_the_reason_names_the_level_the_number_of_domains_and_the_best_one() -> None:
    """G11."""
    made = world({"level": "rack"}, {"name": "w", "min": 4, "max": 4, "cpu": 1}, busy=1)
    made.change_node("b0", unschedulable=True)
    assert sentence(made).startswith(
        "The needed members of role w must be in one domain of level rack and need 4 CPUs together."
        " Of the 2 domains z/r1 has the most free: 3 CPUs. "
    )


def test_the_reason_says_when_a_domain_has_enough_only_in_all() -> None:
    made = world(
        {"level": "rack", "scope": "group"}, {"name": "w", "min": 1, "max": 1, "cpu": 4}, busy=1
    )
    assert sentence(made).startswith(
        "The needed members of the group must be in one domain of level rack, and in none of the 2"
        " domains do the nodes have free capacity for each member. "
    )


def test_the_reason_lists_the_levels_that_the_pool_has() -> None:
    made = world({"level": "block"}, {"name": "w", "min": 1, "max": 1, "cpu": 1})
    assert sentence(made) == (
        "Pool default does not have the level of the topology that the group requires: its levels"
        " are zone (4 hops), rack (2 hops). Submit the group with one of them, or ask an operator"
        " to set `topology` of the pool."
    )


def test_members_stay_and_nobody_joins_when_the_labels_of_their_nodes_change() -> None:
    made = world({"level": "rack"}, {"name": "w", "min": 2, "max": 4, "cpu": 3})
    assert made.decide().placed == {"g/w-0": "b0", "g/w-1": "b1"}
    made.change_node("b1", labels={"zone": "z", "rack": "r3"})
    decided = made.decide()
    assert (decided.placed, decided.preempted, decided.hops) == ({}, {}, {"g/w": 4})
    assert decided.waiting["g/w-2"] == "insufficient-resources"
