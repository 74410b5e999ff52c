"""Columns match shapes and nodes as `node_eligibility` of libs/common does each pair."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import node_eligibility, shapes
from fairlead_common.domain.scheduling.priority_classes import AwayNodeType, PriorityClass
from fairlead_common.domain.scheduling.shapes import (
    Preference,
    Requirement,
    SelectorTerm,
    Shape,
    Taint,
    Toleration,
)
from fairlead_scheduler.engine.snapshot import Match
from fairlead_scheduler.snapshots.tables.class_table import Classes
from fairlead_scheduler.snapshots.tables.node_matching import RANKS_MAX
from fairlead_scheduler.snapshots.tables.node_table import no_nodes
from fairlead_scheduler.snapshots.tables.shape_table import ShapeTable
from fairlead_scheduler.state.jobs.job_table import JobTable, NodeName, ShapeClass

AWAY = (Taint("gpu", "yes", "NoSchedule"),)
CLASSES = [
    PriorityClass(name="home", value=1),
    PriorityClass(name="guest", value=1, away_node_types=(AwayNodeType(taints=AWAY, value=-1),)),
]

keys = st.sampled_from(["disk", "size"])
values = st.sampled_from(["a", "3", "-7", "+3", "9" * 19])
names = st.sampled_from(["n0", "n1", "n2", "n3"])
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
taints = st.builds(Taint, st.sampled_from(["gpu", "team"]), st.sampled_from(["", "yes"]), effects)
tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["", "gpu", "team"]),
    operator=st.sampled_from(["Exists", "Equal", "", "Odd"]),
    value=st.sampled_from(["", "yes"]),
    effect=st.one_of(st.just(""), effects),
)
operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Odd"])
expressions = st.builds(Requirement, keys, operators, st.lists(values, max_size=2).map(tuple))
bounds = st.builds(Requirement, keys, st.sampled_from(["Gt", "Lt"]), st.tuples(values))
fields = st.builds(
    Requirement,
    st.sampled_from([node_eligibility.NODE_NAME, "metadata.odd"]),
    st.sampled_from(["In", "NotIn"]),
    st.tuples(names),
)
terms = st.builds(
    SelectorTerm,
    st.lists(expressions | bounds, max_size=2).map(tuple),
    st.lists(fields, max_size=1).map(tuple),
)
wanted = st.builds(
    Shape,
    st.builds(lambda cpu: {"cpu": cpu}, st.integers(1, 3)),
    node_selector=st.dictionaries(keys, values, max_size=1),
    affinity=st.lists(terms, max_size=2).map(tuple),
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
    preferred=st.lists(st.builds(Preference, st.integers(1, 2), terms), max_size=2).map(tuple),
)
asked = st.tuples(wanted, st.sampled_from(["home", "guest"]))
there = st.lists(
    st.builds(
        Node,
        executor=st.just("e"),
        name=names,
        allocatable=st.just({}),
        labels=st.dictionaries(keys, values, max_size=2),
        taints=st.lists(taints, max_size=2).map(tuple),
    ),
    max_size=4,
)


def plain_match(shape: Shape, away: Sequence[Taint], node: Node) -> Match:
    if not node_eligibility.tolerates(shape.tolerations, node.taints, away):
        return Match.TAINT
    if not node_eligibility.is_selected(shape, node.labels):
        return Match.LABEL
    meets = node_eligibility.has_affinity(shape, node.labels, node.name)
    return Match.ELIGIBLE if meets else Match.AFFINITY


def plain_ranks(shape: Shape, nodes: Sequence[Node]) -> list[int]:
    scores = [
        (
            sum(
                not node_eligibility.tolerates_one(shape.tolerations, taint)
                for taint in set(node.taints)
                if taint.effect not in node_eligibility.BLOCKING
            ),
            -sum(
                preference.weight
                for preference in shape.preferred
                if node_eligibility.meets(preference.term, node.labels, node.name)
            ),
        )
        for node in nodes
    ]
    order = sorted(set(scores))
    return [min(order.index(score), RANKS_MAX - 1) for score in scores]


steps = st.tuples(st.booleans(), there, st.lists(asked, max_size=3))


@given(st.lists(steps, min_size=2, max_size=5))
def test_shapes_and_nodes_that_come_and_go_match_as_each_pair_does(
    steps: list[tuple[bool, list[Node], list[tuple[Shape, str]]]],
) -> None:
    """N1: every label operator, tolerations, names, away entries and wishes."""
    jobs, table = JobTable(), ShapeTable(Classes(CLASSES), ())
    nodes: list[Node] = []
    for version, (stay, more, fresh) in enumerate(steps):
        nodes = [*(nodes if stay else ()), *more]
        numbers = [jobs.shapes.number(ShapeClass(bytes(shapes.encode(s)), c)) for s, c in fresh]
        table.add(jobs, np.array(numbers, np.int32), set())
        known = [(jobs.shape_of(n), jobs.shapes.values[n].priority_class) for n in table.numbers]
        names_of = [NodeName("e", f"{row}") for row in range(len(nodes))]
        row_of = {name: row for row, name in enumerate(names_of)}
        rows = no_nodes(version)._replace(names=names_of, nodes=nodes, row_of=row_of)
        table.match_nodes(rows)
        for row, (shape, class_name) in enumerate(known):
            matches = [plain_match(shape, (), node) for node in nodes]
            assert table.match[row, 0, table.node_type].tolist() == matches
            away = [plain_match(shape, AWAY, node) for node in nodes]
            guest = class_name == "guest"
            if table.match.shape[1] > 1:
                want = away if guest else [Match.TAINT] * len(nodes)
                assert table.match[row, 1, table.node_type].tolist() == want
            else:
                assert not guest
            ranks = plain_ranks(shape, nodes)
            found = np.zeros(len(nodes)) if table.rank is None else table.rank[row, table.node_type]
            assert found.tolist() == ranks
