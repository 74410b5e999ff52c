"""The levels of a pool: distances, and what groups mean by a level or a distance (T1, T2)."""

import pytest

from fairlead_common.domain.records.group_terms import Topology, TopologyMode
from fairlead_scheduler.state.pool_topology import NO_LEVEL, AskedLevel, find_level, measure_hops

FOUR = ("topology.kubernetes.io/zone", "block", "example.com/rack", "hostname")


def test_distances_count_the_levels_above_the_nodes() -> None:
    assert measure_hops(FOUR) == (6, 4, 2, 0, 8)
    assert measure_hops(FOUR[:3]) == (6, 4, 2, 8)
    assert measure_hops(("hostname",)) == (0, 2)
    assert measure_hops(()) == (2,)


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        (Topology(level="zone"), AskedLevel(True, 0)),
        (Topology(level="example.com/rack"), AskedLevel(True, 2)),
        (Topology(level="row"), AskedLevel(True, NO_LEVEL)),
        (Topology(level="rack", mode=TopologyMode.PREFERRED), AskedLevel(False, 2)),
        (Topology(max_hops=0), AskedLevel(True, 3)),
        (Topology(max_hops=3), AskedLevel(True, 2)),
        (Topology(max_hops=4), AskedLevel(True, 1)),
        (Topology(max_hops=8), AskedLevel(False, 0)),
    ],
)
def test_a_group_means_a_level_by_its_name_or_by_a_distance(
    asked: Topology, level: AskedLevel
) -> None:
    assert find_level(FOUR, asked) == level


def test_one_node_is_no_level_unless_it_is_listed() -> None:
    assert find_level(FOUR[:3], Topology(max_hops=0)) == AskedLevel(True, NO_LEVEL)
