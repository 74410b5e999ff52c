"""Which node types suit which shapes by taints and labels (rule N1), as Kubernetes means it.

Nodes that agree in everything a shape could ask about are one *type*, so a million jobs on ten
thousand nodes cost a few thousand checks. `relevant_labels` says which labels anybody asks about;
`reduce` turns a node into its type; `table` makes `Snapshot.shape_match`. Sizes are no part of
this: the engine compares amounts itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from .snapshot import Byte, Match

NODE_NAME: Final = "metadata.name"
"""The one field that `matchFields` knows."""

BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
"""Taint effects that keep jobs out; PreferNoSchedule only ranks."""


RANKS_MAX: Final = 16
"""How many ranks of nodes are told apart for a shape."""


class Taint(msgspec.Struct, frozen=True, order=True):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Toleration(msgspec.Struct, frozen=True, order=True):
    """A toleration of a pod. An empty key with Exists tolerates all, an empty effect any effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(msgspec.Struct, frozen=True, order=True):
    """One expression over a label (or the node's name): operator In, NotIn, Exists, ..."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Term(msgspec.Struct, frozen=True, order=True):
    """Requirements that must all be met. A term without any meets nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class ShapeRules(msgspec.Struct, frozen=True, order=True):
    """What a shape asks of a node beside amounts.

    `affinity` holds the terms of required node affinity, of which one must be met; None = no
    affinity, an empty tuple meets nothing. `preferred` holds terms of preferred node affinity with
    their weights. `away` holds, per away entry of the shape's class in
    order, the taints that are tolerated under it.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    preferred: tuple[tuple[int, Term], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    away: tuple[tuple[Taint, ...], ...] = ()


class NodeType(msgspec.Struct, frozen=True, order=True):
    """What nodes of one type have in common: blocking taints, relevant labels, maybe the name.

    `unloved` are its taints that only rank (PreferNoSchedule).
    """

    taints: tuple[Taint, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    name: str = ""
    unloved: tuple[Taint, ...] = ()


def relevant_labels(shapes: Iterable[ShapeRules]) -> frozenset[str]:
    """Label keys that any of the shapes asks about; `NODE_NAME` where one asks for the name."""
    keys: set[str] = set()
    for shape in shapes:
        keys.update(key for key, _ in shape.node_selector)
        for term in (*(shape.affinity or ()), *(term for _, term in shape.preferred)):
            keys.update(requirement.key for requirement in term.match_expressions)
            if term.match_fields:
                keys.add(NODE_NAME)
    return frozenset(keys)


def reduce(
    name: str, labels: Mapping[str, str], taints: Iterable[Taint], relevant: frozenset[str]
) -> NodeType:
    """The type of a node: only what a shape may ask about is kept, in a fixed order."""
    distinct = sorted(set(taints))
    return NodeType(
        taints=tuple(taint for taint in distinct if taint.effect in BLOCKING),
        unloved=tuple(taint for taint in distinct if taint.effect not in BLOCKING),
        labels=tuple(sorted((k, labels[k]) for k in relevant if k in labels)),
        name=name if NODE_NAME in relevant else "",
    )


def table(shapes: Sequence[ShapeRules], types: Sequence[NodeType]) -> Byte:
    """`Snapshot.shape_match`: [S, 1+K, T] of `Match`, K = the most away entries of any shape.

    Where a shape has fewer away entries than K the cells say TAINT: nothing suits there.
    """
    width = 1 + max((len(shape.away) for shape in shapes), default=0)
    result = np.full((len(shapes), width, len(types)), int(Match.TAINT), np.uint8)
    labels = [dict(node.labels) for node in types]
    for s, shape in enumerate(shapes):
        for t, node in enumerate(types):
            rest = _beside_taints(shape, labels[t], node.name)
            for k in range(1 + len(shape.away)):
                extra = shape.away[k - 1] if k else ()
                result[s, k, t] = rest if tolerates(shape.tolerations, node.taints, extra) else 1
    return result


def ranks(shapes: Sequence[ShapeRules], types: Sequence[NodeType]) -> Byte | None:
    """`Snapshot.shape_rank`: [S, T], or None where no shape prefers any type to another.

    The fewest PreferNoSchedule taints that the shape does not tolerate come first, then the
    greatest weight of preferred terms that are met. Ranks beyond `RANKS_MAX` are one.
    """
    result = np.zeros((len(shapes), len(types)), np.uint8)
    wishes = [node.unloved for node in types]
    for s, shape in enumerate(shapes):
        if not shape.preferred and not any(wishes):
            continue
        scores = [_score(shape, node) for node in types]
        place = {score: k for k, score in enumerate(sorted(set(scores)))}
        result[s] = [min(place[score], RANKS_MAX - 1) for score in scores]
    return result if result.any() else None


def _score(shape: ShapeRules, node: NodeType) -> tuple[int, int]:
    """Smaller is preferred."""
    unloved = sum(
        not any(_tolerates_one(t, taint) for t in shape.tolerations) for taint in node.unloved
    )
    labels = dict(node.labels)
    met = sum(weight for weight, term in shape.preferred if _met(term, labels, node.name))
    return unloved, -met


def match(shape: ShapeRules, node: NodeType) -> Match:
    """The first thing by which the type rules out the shape at home, else `Match.SUITS`."""
    if not tolerates(shape.tolerations, node.taints):
        return Match.TAINT
    return _beside_taints(shape, dict(node.labels), node.name)


def tolerates(
    tolerations: Sequence[Toleration], taints: Iterable[Taint], extra: Sequence[Taint] = ()
) -> bool:
    """Whether every blocking taint is tolerated; `extra` are tolerated besides, key and value.

    An extra taint without value tolerates every value of its key.
    """
    return all(
        any(_tolerates_one(toleration, taint) for toleration in tolerations)
        or any(e.key == taint.key and e.value in ("", taint.value) for e in extra)
        for taint in taints
        if taint.effect in BLOCKING
    )


def _tolerates_one(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    match toleration.operator:
        case "Exists":
            return toleration.key in ("", taint.key)
        case "Equal" | "":
            return toleration.key == taint.key and toleration.value == taint.value
        case _:
            return False


def _beside_taints(shape: ShapeRules, labels: Mapping[str, str], name: str) -> Match:
    if any(labels.get(key) != value for key, value in shape.node_selector):
        return Match.LABEL
    if shape.affinity is not None and not any(_met(t, labels, name) for t in shape.affinity):
        return Match.AFFINITY
    return Match.SUITS


def _met(term: Term, labels: Mapping[str, str], name: str) -> bool:
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
            have, bound = _integer(value), _integer(requirement.values[0])
            if have is None or bound is None:
                return False
            return have > bound if requirement.operator == "Gt" else have < bound
        case _:
            return False


def _integer(text: str) -> int | None:
    """A label as the integer Kubernetes reads in it (ASCII digits with a sign), else None."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
