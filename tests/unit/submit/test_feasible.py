"""Whether a job could ever run: the same answer as the scheduler's engine would give."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common import shapes
from fairlead_common.classes import AwayNodeType, PriorityClass
from fairlead_common.clusters import Node, Taint
from fairlead_common.configuration import Queue
from fairlead_common.shapes import Preference, Requirement, SelectorTerm, Shape, Toleration
from fairlead_scheduler.engine import matching
from fairlead_scheduler.engine.snapshot import Match
from fairlead_submit import feasible

GPU = "nvidia.com/gpu"
PLAIN = PriorityClass(name="default", value=0)


def node(name: str = "n0", cpu: int = 8, **more: object) -> Node:
    allocatable = {"cpu": cpu * 1000, "memory": 2**33, GPU: int("gpu" in name)}
    return Node(executor="e", name=name, allocatable=allocatable, **more)  # type: ignore[arg-type]


class Case(NamedTuple):
    shape: Shape
    want: bool | None
    nodes: list[Node]
    limits: Mapping[str, float | str] = MappingProxyType({})
    priority_class: PriorityClass = PLAIN


CASES = {
    "a job that fits": Case(Shape({"cpu": 8000}), True, [node()]),
    "one larger than any node": Case(Shape({"cpu": 9000}), False, [node(), node("n1")]),
    "one that no node is large enough for in all": Case(
        Shape({"cpu": 8000, GPU: 1}), False, [node(), node("gpu", cpu=1)]
    ),
    "no node at all": Case(Shape({"cpu": 1}), None, []),
    "nodes of another pool": Case(Shape({"cpu": 1}), None, [node(pool="other")]),
    "what is on no node": Case(Shape({"licence": 1}), None, [node()]),
    "a label that no node has": Case(
        Shape({"cpu": 1}, node_selector={"disk": "ssd"}), False, [node()]
    ),
    "a taint that is tolerated": Case(
        Shape({"cpu": 1}, tolerations=(Toleration("k", "Exists"),)),
        True,
        [node(taints=(Taint("k"),))],
    ),
    "a taint that is not": Case(Shape({"cpu": 1}), False, [node(taints=(Taint("k"),))]),
    "a taint that only ranks": Case(
        Shape({"cpu": 1}), True, [node(taints=(Taint("k", effect="PreferNoSchedule"),))]
    ),
    "a guest": Case(
        Shape({"cpu": 1}),
        True,
        [node(taints=(Taint("k", "v"),))],
        priority_class=PriorityClass(
            name="default",
            value=1,
            away_node_types=(AwayNodeType(taints=(Taint("k", ""),), value=0),),
        ),
    ),
    "more than the queue may hold": Case(Shape({"cpu": 5000}), False, [node()], {"cpu": 0.5}),
    "as much as the queue may hold": Case(Shape({"cpu": 4000}), True, [node()], {"cpu": "4"}),
    "more than the class may hold": Case(
        Shape({"cpu": 5000}),
        False,
        [node()],
        {"cpu": "8"},
        PriorityClass(name="default", value=0, limits={"cpu": 0.5}),
    ),
    "a wish that no node meets": Case(
        Shape(
            {"cpu": 1},
            preferred=(Preference(9, SelectorTerm((Requirement("disk", "Exists"),))),),
        ),
        True,
        [node()],
    ),
    "a node that is cordoned": Case(Shape({"cpu": 1}), True, [node(unschedulable=True)]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_verdict(case: Case) -> None:
    kind = feasible.Kind(bytes(shapes.encode(case.shape)), "default", "default")
    queue = Queue(name="q", limits={"default": dict(case.limits)})
    classes = {"default": case.priority_class}
    said = feasible.verdicts([kind, kind], case.nodes, queue, classes)[kind]
    assert said.feasible is case.want, said.why
    assert (said.why is None) == (case.want is True)


def test_a_verdict_says_what_is_too_small() -> None:
    kind = feasible.Kind(bytes(shapes.encode(Shape({"cpu": 9000}))), "default", "default")
    said = feasible.verdicts([kind], [node(), node("n1", 4)], Queue(name="q"), {"default": PLAIN})
    assert said[kind].why == (
        "needs 9.0 cpu on one node; of the 2 nodes that suit it the largest has 8.0"
    )


keys = st.sampled_from(["a", "b", "metadata.name"])
words = st.sampled_from(["", "x", "y", "1", "-2", "+3", "1x"])
operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
requirements = st.builds(
    Requirement, keys, operators, st.lists(words, max_size=2, unique=True).map(tuple)
)
terms = st.builds(
    SelectorTerm,
    st.lists(requirements, max_size=2).map(tuple),
    st.lists(requirements, max_size=1).map(tuple),
)
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["Equal", "Exists"]),
    words,
    st.one_of(st.just(""), effects),
)
taints = st.builds(Taint, st.sampled_from(["a", "b"]), words, effects)
labels = st.dictionaries(st.sampled_from(["a", "b"]), words, max_size=2)
wishes = st.builds(
    Shape,
    st.just({"cpu": 1}),
    labels,
    st.lists(terms, max_size=2).map(tuple),
    st.lists(tolerations, max_size=2).map(tuple),
    st.lists(st.builds(Preference, st.integers(1, 100), terms), max_size=2).map(tuple),
)


def as_term(term: SelectorTerm) -> matching.Term:
    """The same term in the words of the engine."""
    return matching.Term(
        tuple(matching.Requirement(*msgspec.structs.astuple(r)) for r in term.match_expressions),
        tuple(matching.Requirement(*msgspec.structs.astuple(r)) for r in term.match_fields),
    )


def as_engine(shape: Shape) -> matching.ShapeRules:
    """The same wishes in the words of the engine."""
    return matching.ShapeRules(
        node_selector=tuple(sorted(shape.node_selector.items())),
        affinity=tuple(as_term(term) for term in shape.affinity) or None,
        preferred=tuple((wish.weight, as_term(wish.term)) for wish in shape.preferred),
        tolerations=tuple(
            matching.Toleration(*msgspec.structs.astuple(t)) for t in shape.tolerations
        ),
    )


@given(wishes, labels, st.lists(taints, max_size=2), st.sampled_from(["x", "y"]))
def test_what_suits_is_what_the_engine_thinks_suits(
    shape: Shape, labels: dict[str, str], taints: list[Taint], name: str
) -> None:
    rules = as_engine(shape)
    there = [matching.Taint(*msgspec.structs.astuple(taint)) for taint in taints]
    reduced = matching.reduce(name, labels, there, matching.relevant_labels([rules]))
    one = Node(executor="e", name=name, allocatable={}, labels=labels, taints=tuple(taints))
    assert feasible.suits(shape, one, PLAIN) == (matching.match(rules, reduced) == Match.SUITS)
