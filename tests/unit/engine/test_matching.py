"""N1: which node types suit which shapes, as Kubernetes means it."""

from __future__ import annotations

import pytest

from fairlead_scheduler.engine import matching
from fairlead_scheduler.engine.matching import (
    NodeType,
    Requirement,
    ShapeRules,
    Taint,
    Term,
    Toleration,
)
from fairlead_scheduler.engine.snapshot import Match

RED = Taint("team", "red", "NoSchedule")
GONE = Taint("gone", "", "NoExecute")
SSD = NodeType(labels=(("disk", "ssd"), ("size", "12")), name="n0")


def asks(*requirements: Requirement) -> ShapeRules:
    return ShapeRules(affinity=(Term(match_expressions=requirements),))


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
    "an unknown operator tolerates nothing": ((RED,), (Toleration("team", "Like", "red"),), False),
}


@pytest.mark.parametrize(("taints", "tolerations", "want"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_taints(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...], want: bool) -> None:
    assert matching.tolerates(tolerations, taints) is want


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
    "Gt fails for what is no number": (Requirement("disk", "Gt", ("1",)), False),
    "an unknown operator fails": (Requirement("disk", "Like", ("ssd",)), False),
}


@pytest.mark.parametrize(("requirement", "want"), OPERATORS.values(), ids=OPERATORS)
def test_operators(requirement: Requirement, want: bool) -> None:
    found = matching.match(asks(requirement), SSD)
    assert found == (Match.SUITS if want else Match.AFFINITY)


def test_one_term_is_enough_and_all_of_its_requirements_must_hold() -> None:
    right = Term(match_expressions=(Requirement("disk", "Exists"),))
    half = Term(match_expressions=(Requirement("disk", "Exists"), Requirement("x", "Exists")))
    assert matching.match(ShapeRules(affinity=(half, right)), SSD) == Match.SUITS
    assert matching.match(ShapeRules(affinity=(half,)), SSD) == Match.AFFINITY


def test_no_term_and_an_empty_term_meet_nothing() -> None:
    assert matching.match(ShapeRules(affinity=()), SSD) == Match.AFFINITY
    assert matching.match(ShapeRules(affinity=(Term(),)), SSD) == Match.AFFINITY


def test_a_field_names_one_node_and_makes_names_part_of_the_type() -> None:
    shape = ShapeRules(
        affinity=(Term(match_fields=(Requirement("metadata.name", "In", ("n0",)),)),)
    )
    relevant = matching.relevant_labels([shape])
    first = matching.reduce("n0", {}, (), relevant)
    second = matching.reduce("n1", {}, (), relevant)
    assert matching.match(shape, first) == Match.SUITS
    assert matching.match(shape, second) == Match.AFFINITY


def test_the_first_thing_that_rules_out_is_named() -> None:
    node = NodeType(taints=(RED,), labels=(("disk", "hdd"),))
    shape = ShapeRules(node_selector=(("disk", "ssd"),))
    assert matching.match(shape, node) == Match.TAINT
    assert matching.match(shape, NodeType(labels=(("disk", "hdd"),))) == Match.LABEL


def test_labels_that_nobody_asks_about_make_no_types() -> None:
    relevant = matching.relevant_labels([ShapeRules(node_selector=(("disk", "ssd"),))])
    types = {
        matching.reduce(f"n{i}", {"disk": "ssd", "host": f"n{i}"}, (), relevant) for i in range(9)
    }
    assert len(types) == 1


def test_an_away_entry_tolerates_its_taints_and_nothing_else() -> None:
    shape = ShapeRules(away=((RED,),))
    table = matching.table([shape, ShapeRules()], [NodeType(taints=(RED,)), NodeType((RED, GONE))])
    assert table.tolist() == [[[1, 1], [0, 1]], [[1, 1], [1, 1]]]
