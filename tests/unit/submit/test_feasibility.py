"""Whether a job could ever run, as a dry run says."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.scheduling import shapes
from fairlead_common.domain.scheduling.priority_classes import AwayNodeType, PriorityClass
from fairlead_common.domain.scheduling.shapes import (
    Preference,
    Requirement,
    SelectorTerm,
    Shape,
    Taint,
    Toleration,
)
from fairlead_submit.domain.feasibility import job_feasibility

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
    "more than a queue without an own limit may hold in the class": Case(
        Shape({"cpu": 5000}),
        False,
        [node()],
        {"memory": "8Gi"},
        PriorityClass(name="default", value=0, limits={"cpu": 0.5}),
    ),
    "as much as the queue may hold beyond the limit of the class": Case(
        Shape({"cpu": 5000}),
        True,
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
def test_feasibility_of_a_shape(case: Case) -> None:
    kind = job_feasibility.JobKind(bytes(shapes.encode(case.shape)), "default", "default")
    queue = Queue(name="q", limits={"default": dict(case.limits)})
    classes = {"default": case.priority_class}
    said = job_feasibility.check_feasibility([kind, kind], case.nodes, queue, classes)[kind]
    assert said.feasible is case.want, said.why
    assert (said.why is None) == (case.want is True)


def test_an_infeasible_answer_names_the_insufficient_resource() -> None:
    kind = job_feasibility.JobKind(bytes(shapes.encode(Shape({"cpu": 9000}))), "default", "default")
    said = job_feasibility.check_feasibility(
        [kind], [node(), node("n1", 4)], Queue(name="q"), {"default": PLAIN}
    )
    assert said[kind].why == ("needs 9 cpu on one node; the largest of the 2 eligible nodes has 8")


@pytest.mark.parametrize(
    ("members", "label", "why"),
    [
        (4, None, None),
        (5, None, "need 10 cpu; the 2 eligible nodes have 8, with space for 4 of them"),
        (2, "rack", None),
        (3, "rack", "the largest of the 2 domains of 'rack', 'a', has 4, with space for 2 of them"),
        (2, "row", "need nodes with one value of 'row', and no eligible node has that label"),
    ],
)
def test_a_gang_is_feasible_if_its_members_fit_together(
    members: int, label: str | None, why: str | None
) -> None:
    nodes = [node("n0", 4, labels={"rack": "a"}), node("n1", 4, labels={"rack": "b"})]
    shape = bytes(shapes.encode(Shape({"cpu": 2000})))
    kind = job_feasibility.JobKind(shape, "default", "default", members, label)
    verdict = job_feasibility.check_feasibility([kind], nodes, Queue(name="q"), {"default": PLAIN})[
        kind
    ]
    assert verdict.feasible is (why is None)
    assert (why or "") in (verdict.why or "")
