"""Whether a node is eligible for a shape by taints and labels, as in Kubernetes. Pure.

Amounts, cordons and load are not considered.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fairlead_common.domain.scheduling.shapes import (
    Requirement,
    SelectorTerm,
    Shape,
    Taint,
    Toleration,
)

NODE_NAME: Final = "metadata.name"
"""The one field that `matchFields` knows."""

BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
"""Taint effects that keep jobs out; PreferNoSchedule only ranks."""


def tolerates(
    tolerations: Sequence[Toleration], taints: Iterable[Taint], extra: Sequence[Taint] = ()
) -> bool:
    """Whether every blocking taint is tolerated; `extra` are tolerated besides, key and value.

    An extra taint without value tolerates every value of its key.
    """
    return all(
        tolerates_one(tolerations, taint)
        or any(e.key == taint.key and e.value in ("", taint.value) for e in extra)
        for taint in taints
        if taint.effect in BLOCKING
    )


def tolerates_one(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether any of them tolerates the taint, whatever its effect."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty key with Exists tolerates every taint, an empty effect every effect."""
    if toleration.effect not in ("", taint.effect):
        return False
    match toleration.operator:
        case "Exists":
            return toleration.key in ("", taint.key)
        case "Equal" | "":
            return toleration.key == taint.key and toleration.value == taint.value
        case "Gt" | "Lt":
            have, bound = integer(taint.value), integer(toleration.value)
            if toleration.key not in ("", taint.key) or have is None or bound is None:
                return False
            return have > bound if toleration.operator == "Gt" else have < bound
        case _:
            return False


def is_selected(shape: Shape, labels: Mapping[str, str]) -> bool:
    """Whether the node has every label of the selector."""
    return all(labels.get(key) == value for key, value in shape.node_selector.items())


def has_affinity(shape: Shape, labels: Mapping[str, str], name: str) -> bool:
    """Whether the node meets one of the required terms, or no term is required."""
    return not shape.affinity or any(meets(term, labels, name) for term in shape.affinity)


def meets(term: SelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether the node meets all of a term; no node meets a term without requirements."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {NODE_NAME: name}
    return all(_holds(r, labels.get(r.key)) for r in term.match_expressions) and all(
        _holds(r, fields.get(r.key)) for r in term.match_fields
    )


def _holds(requirement: Requirement, value: str | None) -> bool:
    """Whether a label with this value (None = absent) meets the requirement."""
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or len(requirement.values) != 1:
                return False
            have, bound = integer(value), integer(requirement.values[0])
            if have is None or bound is None:
                return False
            return have > bound if requirement.operator == "Gt" else have < bound
        case _:
            return False


def integer(text: str) -> int | None:
    """A label as the integer Kubernetes reads in it (ASCII digits with a sign), else None."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
