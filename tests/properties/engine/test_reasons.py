"""In pools that are full the reasons say what the rules do when read plainly (hypothesis)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead_scheduler.cases.case_file import CaseRound
from fairlead_scheduler.engine import EngineSettings, schedule
from tests.properties.engine.plain import Pool
from tests.properties.engine.plain_reasons import check_reasons
from tests.properties.engine.worlds import BOUNDED
from tests.unit.engine import pools

CLASSES = ["p0", "p0", "p0", "p1", "p2np", "p2u"]


@st.composite
def groups(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Runs of three queues fill three nodes of eight cores; all, and a fourth, want more."""
    made: list[dict[str, Any]] = []
    for node in range(3):
        left = 8
        while left:
            cpu = min(left, draw(st.integers(1, 4)))
            left -= cpu
            made.append(
                {
                    "id": f"r{len(made)}x",
                    "queue": draw(st.sampled_from("ABC")),
                    "cpu": cpu,
                    "priorityClass": draw(st.sampled_from(CLASSES)),
                    "running": {"onNode": f"n{node}", "since": draw(st.integers(0, 9))},
                }
            )
    for number in range(draw(st.integers(1, 6))):
        made.append(
            {
                "id": f"q{number}x",
                "queue": draw(st.sampled_from("ABCD")),
                "count": draw(st.integers(1, 3)),
                "cpu": draw(st.integers(1, 8)),
                "priorityClass": draw(st.sampled_from(CLASSES)),
            }
        )
    return made


@BOUNDED
@given(groups(), st.sampled_from([0.0, 0.5, 1.0, 1.5]), st.sampled_from([1, 0.5, 3]))
def test_reasons_distinguish_waiting_for_capacity_and_for_a_share(
    given_groups: list[dict[str, Any]], protected: float, weight: float
) -> None:
    """E1, E3."""
    nodes = [{"name": "n", "count": 3, "resources": {"cpu": 8, "memory": "64Gi"}}]
    world = pools.world(*given_groups, nodes=nodes, queues={"A": {"weight": weight}})
    for _ in range(2):
        built = world.build()
        settings = EngineSettings(protected_fraction=protected)
        plan = schedule(built.snapshot, settings)
        check_reasons(Pool(built.snapshot, settings), plan)
        world.settle(built, plan)
        world.begin(CaseRound(), 0)
