"""Whether a node suits a shape by taints and labels, as Kubernetes means it."""

import pytest

from fairlead_common.domain.scheduling import node_eligibility
from fairlead_common.domain.scheduling.shapes import (
    Requirement,
    SelectorTerm,
    Shape,
    Taint,
    Toleration,
)

RED = Taint("team", "red", "NoSchedule")
SLA = Taint("sla", "950", "NoSchedule")
GONE = Taint("gone", "", "NoExecute")
LABELS = {"disk": "ssd", "size": "12"}


TOLERATIONS = {
    "an untainted node suits all": ((), (), True),
    "a taint keeps out what tolerates nothing": ((RED,), (), False),
    "key and value are tolerated": ((RED,), (Toleration("team", "Equal", "red"),), True),
    "another value is not": ((RED,), (Toleration("team", "Equal", "blue"),), False),
    "Exists tolerates every value": ((RED,), (Toleration("team", "Exists"),), True),
    "no key with Exists tolerates everything": ((RED, GONE), (Toleration("", "Exists"),), True),
    "another effect is not tolerated": (
        (RED,),
        (Toleration("team", "Exists", "", "NoExecute"),),
        False,
    ),
    "every taint must be tolerated": ((RED, GONE), (Toleration("team", "Exists"),), False),
    "a preference keeps nobody out": ((Taint("x", "", "PreferNoSchedule"),), (), True),
    "Gt tolerates greater values": ((SLA,), (Toleration("sla", "Gt", "900"),), True),
    "Gt does not tolerate an equal value": ((SLA,), (Toleration("sla", "Gt", "950"),), False),
    "Lt tolerates smaller values": ((SLA,), (Toleration("sla", "Lt", "1000"),), True),
    "Gt tolerates its own key only": ((SLA,), (Toleration("team", "Gt", "1"),), False),
    "Gt tolerates numbers only": ((RED,), (Toleration("team", "Gt", "1"),), False),
    "an unknown operator tolerates nothing": ((RED,), (Toleration("team", "Like", "red"),), False),
}


@pytest.mark.parametrize(("taints", "tolerations", "want"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_taints(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], want: bool) -> None:
    assert node_eligibility.tolerates(tolerations, taints) is want


def test_extra_taints_are_tolerated_by_key_and_value_and_any_value_where_they_have_none() -> None:
    assert node_eligibility.tolerates((), (RED,), (RED,))
    assert node_eligibility.tolerates((), (RED,), (Taint("team"),))
    assert not node_eligibility.tolerates((), (RED,), (Taint("team", "blue"),))
    assert not node_eligibility.tolerates((), (RED, GONE), (RED,))


OPERATORS = {
    "In holds for one of the values": (Requirement("disk", "In", ("hdd", "ssd")), True),
    "In fails for an absent label": (Requirement("zone", "In", ("a",)), False),
    "NotIn fails for one of the values": (Requirement("disk", "NotIn", ("ssd",)), False),
    "NotIn holds for an absent label": (Requirement("zone", "NotIn", ("a",)), True),
    "Exists holds for a label": (Requirement("disk", "Exists"), True),
    "Exists fails for an absent label": (Requirement("zone", "Exists"), False),
    "DoesNotExist holds for an absent label": (Requirement("zone", "DoesNotExist"), True),
    "DoesNotExist fails for a label": (Requirement("disk", "DoesNotExist"), False),
    "Gt compares numbers, not text": (Requirement("size", "Gt", ("9",)), True),
    "Gt fails at equal": (Requirement("size", "Gt", ("12",)), False),
    "Lt compares numbers": (Requirement("size", "Lt", ("100",)), True),
    "a number may have a sign": (Requirement("size", "Gt", ("-3",)), True),
    "Gt fails for what is no number": (Requirement("disk", "Gt", ("1",)), False),
    "Gt fails for a bound that is none": (Requirement("size", "Gt", ("1x",)), False),
    "Gt fails for a number beyond 64 bits": (Requirement("size", "Lt", ("9" * 19,)), False),
    "Gt fails without its one bound": (Requirement("size", "Gt", ("1", "2")), False),
    "an unknown operator fails": (Requirement("disk", "Like", ("ssd",)), False),
}


@pytest.mark.parametrize(("requirement", "want"), OPERATORS.values(), ids=OPERATORS)
def test_operators(requirement: Requirement, want: bool) -> None:
    assert node_eligibility.meets(SelectorTerm((requirement,)), LABELS, "n0") is want


def test_one_matching_term_with_all_requirements_is_sufficient() -> None:
    right = SelectorTerm((Requirement("disk", "Exists"),))
    half = SelectorTerm((Requirement("disk", "Exists"), Requirement("x", "Exists")))
    assert node_eligibility.has_affinity(Shape({}, affinity=(half, right)), LABELS, "n0")
    assert not node_eligibility.has_affinity(Shape({}, affinity=(half,)), LABELS, "n0")
    assert node_eligibility.has_affinity(Shape({}), LABELS, "n0")


def test_an_empty_term_matches_nothing() -> None:
    assert not node_eligibility.has_affinity(Shape({}, affinity=(SelectorTerm(),)), LABELS, "n0")


def test_a_field_names_one_node() -> None:
    term = SelectorTerm(match_fields=(Requirement("metadata.name", "In", ("n0",)),))
    assert node_eligibility.meets(term, {}, "n0")
    assert not node_eligibility.meets(term, {}, "n1")


def test_a_selector_needs_every_label() -> None:
    shape = Shape({}, node_selector={"disk": "ssd", "size": "12"})
    assert node_eligibility.is_selected(shape, LABELS)
    assert not node_eligibility.is_selected(shape, {"disk": "ssd"})
