"""N1: types of nodes, and which of them suit which shapes."""

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling.shapes import (
    Preference,
    Requirement,
    SelectorTerm,
    Shape,
    Taint,
)
from fairlead_scheduler.engine.snapshot import Match
from fairlead_scheduler.snapshots.tables import node_matching
from fairlead_scheduler.snapshots.tables.node_matching import ShapeConstraints
from fairlead_scheduler.snapshots.tables.node_types import NodeType, Types

RED = Taint("team", "red", "NoSchedule")
GONE = Taint("gone", "", "NoExecute")


def types_of(*kinds: NodeType) -> Types:
    types = Types(frozenset(key for kind in kinds for key, _ in kind.labels))
    assert [types.number(kind) for kind in kinds] == list(range(len(kinds)))
    return types


def node(name: str, labels: dict[str, str]) -> Node:
    return Node(executor="e", name=name, allocatable={}, labels=labels)


def test_a_field_makes_names_part_of_the_type() -> None:
    named = SelectorTerm(match_fields=(Requirement("metadata.name", "In", ("n0",)),))
    constraints = ShapeConstraints(Shape({}, affinity=(named,)))
    relevant = node_matching.find_relevant_labels([constraints])
    types = types_of(
        *(node_matching.make_node_type(node(name, {}), relevant) for name in ("n0", "n1"))
    )
    assert node_matching.match_shapes([constraints], types).tolist() == [
        [[Match.ELIGIBLE, Match.AFFINITY]]
    ]


def test_the_first_mismatch_is_reported() -> None:
    constraints = ShapeConstraints(Shape({}, node_selector={"disk": "ssd"}))
    types = types_of(NodeType((RED,), (("disk", "hdd"),)), NodeType(labels=(("disk", "hdd"),)))
    assert node_matching.match_shapes([constraints], types).tolist() == [
        [[Match.TAINT, Match.LABEL]]
    ]


def test_unused_labels_do_not_distinguish_types() -> None:
    relevant = node_matching.find_relevant_labels(
        [ShapeConstraints(Shape({}, node_selector={"disk": "ssd"}))]
    )
    hosts = [node(f"n{i}", {"disk": "ssd", "host": f"n{i}"}) for i in range(9)]
    assert len({node_matching.make_node_type(host, relevant) for host in hosts}) == 1


def test_an_away_entry_tolerates_its_taints_and_nothing_else() -> None:
    constraints = [ShapeConstraints(Shape({}), away=((RED,),)), ShapeConstraints(Shape({}))]
    table = node_matching.match_shapes(
        constraints, types_of(NodeType((RED,)), NodeType((RED, GONE)))
    )
    assert table.tolist() == [[[1, 1], [0, 1]], [[1, 1], [1, 1]]]


def test_preferences_rank_nodes_and_exclude_none() -> None:
    """N1: preferred affinity, by the weight of the terms that are met."""
    fast = SelectorTerm((Requirement("disk", "In", ("ssd",)),))
    constraints = ShapeConstraints(Shape({}, preferred=(Preference(10, fast),)))
    types = types_of(NodeType(), NodeType(labels=(("disk", "ssd"),)))
    assert node_matching.match_shapes([constraints], types).tolist() == [[[0, 0]]]
    assert node_matching.rank_types([constraints], types).tolist() == [[1, 0]]
    assert node_matching.rank_types([ShapeConstraints(Shape({}))], types).tolist() == [[0, 0]]
