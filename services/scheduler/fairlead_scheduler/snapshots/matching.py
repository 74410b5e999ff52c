"""Which node types suit which shapes by taints and labels (rule N1): `Snapshot.shape_match`.

Nodes that agree in everything a shape could ask about are one *type*, so a million jobs on ten
thousand nodes cost a few thousand checks. `relevant_labels` says which labels anybody asks about;
`reduce` turns a node into its type; `table` makes `Snapshot.shape_match`. Sizes are no part of
this: the engine compares amounts itself.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_common.clusters import Node, Taint
from fairlead_common.matching import (
    BLOCKING,
    NODE_NAME,
    has_affinity,
    is_selected,
    meets,
    tolerates,
    tolerates_one,
)
from fairlead_common.shapes import Shape
from fairlead_scheduler.engine.snapshot import Match

RANKS_MAX: Final = 16
"""How many ranks of nodes are told apart for a shape."""


class Wishes(NamedTuple):
    """What a shape asks of a node beside amounts.

    `away` holds, per away entry of the shape's class in order, the taints that are tolerated under
    it.
    """

    shape: Shape
    away: tuple[tuple[Taint, ...], ...] = ()


class NodeType(NamedTuple):
    """What nodes of one type have in common: blocking taints, relevant labels, maybe the name.

    `unloved` are its taints that only rank (PreferNoSchedule).
    """

    taints: tuple[Taint, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    name: str = ""
    unloved: tuple[Taint, ...] = ()


def relevant_labels(wishes: Iterable[Wishes]) -> frozenset[str]:
    """Label keys that any of the shapes asks about; `NODE_NAME` where one asks for the name."""
    keys: set[str] = set()
    for shape, _ in wishes:
        keys.update(shape.node_selector)
        for term in (*shape.affinity, *(wish.term for wish in shape.preferred)):
            keys.update(requirement.key for requirement in term.match_expressions)
            if term.match_fields:
                keys.add(NODE_NAME)
    return frozenset(keys)


def reduce(node: Node, relevant: frozenset[str]) -> NodeType:
    """The type of a node: only what a shape may ask about is kept, in a fixed order."""
    distinct = sorted(set(node.taints), key=lambda taint: (taint.key, taint.value, taint.effect))
    return NodeType(
        taints=tuple(taint for taint in distinct if taint.effect in BLOCKING),
        unloved=tuple(taint for taint in distinct if taint.effect not in BLOCKING),
        labels=tuple(sorted((k, node.labels[k]) for k in relevant if k in node.labels)),
        name=node.name if NODE_NAME in relevant else "",
    )


def table(wishes: Sequence[Wishes], types: Sequence[NodeType]) -> npt.NDArray[np.uint8]:
    """`Snapshot.shape_match`: [S, 1+K, T] of `Match`, K = the most away entries of any shape.

    Where a shape has fewer away entries than K the cells say TAINT: nothing suits there.
    """
    width = 1 + max((len(away) for _, away in wishes), default=0)
    result = np.full((len(wishes), width, len(types)), Match.TAINT, np.uint8)
    for s, (shape, away) in enumerate(wishes):
        for t, kind in enumerate(types):
            beside_taints = _match_beside_taints(shape, kind)
            for k, extra in enumerate(((), *away)):
                if tolerates(shape.tolerations, kind.taints, extra):
                    result[s, k, t] = beside_taints
    return result


def _match_beside_taints(shape: Shape, kind: NodeType) -> Match:
    labels = dict(kind.labels)
    if not is_selected(shape, labels):
        return Match.LABEL
    return Match.SUITS if has_affinity(shape, labels, kind.name) else Match.AFFINITY


def ranks(wishes: Sequence[Wishes], types: Sequence[NodeType]) -> npt.NDArray[np.uint8] | None:
    """`Snapshot.shape_rank`: [S, T], or None where no shape prefers any type to another.

    The fewest PreferNoSchedule taints that the shape does not tolerate come first, then the
    greatest weight of preferred terms that are met. Ranks beyond `RANKS_MAX` are one.
    """
    result = np.zeros((len(wishes), len(types)), np.uint8)
    any_unloved = any(kind.unloved for kind in types)
    for s, (shape, _) in enumerate(wishes):
        if not shape.preferred and not any_unloved:
            continue
        scores = [_score(shape, kind) for kind in types]
        place = {score: k for k, score in enumerate(sorted(set(scores)))}
        result[s] = [min(place[score], RANKS_MAX - 1) for score in scores]
    return result if result.any() else None


def _score(shape: Shape, kind: NodeType) -> tuple[int, int]:
    """Smaller is preferred."""
    unloved = sum(not tolerates_one(shape.tolerations, taint) for taint in kind.unloved)
    labels = dict(kind.labels)
    met = sum(wish.weight for wish in shape.preferred if meets(wish.term, labels, kind.name))
    return unloved, -met
