"""Which node types suit which shapes by taints and labels (rule N1): `Snapshot.shape_match`.

Nodes that agree in everything a shape could ask about are one *type*, so a million jobs on ten
thousand nodes cost a few thousand checks. `relevant_labels` says which labels anybody asks about;
`reduce` turns a node into its type; `table` makes `Snapshot.shape_match`. Sizes are not part of
this: the engine compares amounts itself.

One job that asks for a node by name makes every node a type of its own. So a shape is compared
with the columns of all types at once, and shapes that ask the same are compared once.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.node_eligibility import BLOCKING, NODE_NAME, tolerates, tolerates_one
from fairlead_common.domain.records.clusters import Node, Taint
from fairlead_common.domain.shapes import SelectorTerm, Shape, Toleration
from fairlead_scheduler.engine.snapshot import Match
from fairlead_scheduler.snapshots.node_types import NodeType, Types

RANKS_MAX: Final = 16
"""The number of preference ranks per shape."""


class ShapeConstraints(NamedTuple):
    """What a shape asks of a node beside amounts.

    `away` holds, per away entry of the shape's class in order, the taints that are tolerated under
    it.
    """

    shape: Shape
    away: tuple[tuple[Taint, ...], ...] = ()


def relevant_labels(shapes: Iterable[ShapeConstraints]) -> frozenset[str]:
    """Label keys that any of the shapes asks about; `NODE_NAME` where one asks for the name."""
    keys: set[str] = set()
    for shape, _ in shapes:
        keys.update(shape.node_selector)
        for term in (*shape.affinity, *(preference.term for preference in shape.preferred)):
            keys.update(requirement.key for requirement in term.match_expressions)
            if term.match_fields:
                keys.add(NODE_NAME)
    return frozenset(keys)


def node_type(node: Node, relevant: frozenset[str]) -> NodeType:
    """The type of a node: only what a shape may ask about is kept, in a fixed order."""
    distinct = sorted(set(node.taints), key=lambda taint: (taint.key, taint.value, taint.effect))
    return NodeType(
        taints=tuple(taint for taint in distinct if taint.effect in BLOCKING),
        soft_taints=tuple(taint for taint in distinct if taint.effect not in BLOCKING),
        labels=tuple(sorted(item for item in node.labels.items() if item[0] in relevant)),
        name=node.name if NODE_NAME in relevant else "",
    )


def match_shapes(
    shapes: Sequence[ShapeConstraints], types: Types, first: int = 0
) -> npt.NDArray[np.uint8]:
    """`Snapshot.shape_match`: [S, 1+K, T] of `Match`, K = the most away entries of any shape.

    Where a shape has fewer away entries than K the cells say TAINT: nothing suits there. With
    `first` only of the types from that one on.
    """
    width = 1 + max((len(away) for _, away in shapes), default=0)
    rows: dict[_Constraints, int] = {}
    row_of = [rows.setdefault(_constraints_of(shape), len(rows)) for shape in shapes]
    result = np.full((len(rows), width, len(types) - first), Match.TAINT, np.uint8)
    for constraints, row in rows.items():
        beside_taints = _match_beside_taints(constraints, types)[first:]
        for k, extra in enumerate(((), *constraints.away)):
            tolerated = (
                types.taints.of(partial(tolerates, constraints.tolerations, extra=extra)) > 0
            )
            np.copyto(result[row, k], beside_taints, where=tolerated[first:])
    return result[np.array(row_of, np.intp)]


class _Constraints(NamedTuple):
    """What decides of a shape beside amounts; many shapes have it in common."""

    selected: tuple[tuple[str, str], ...]
    affinity: tuple[SelectorTerm, ...]
    tolerations: tuple[Toleration, ...]
    away: tuple[tuple[Taint, ...], ...]


def _constraints_of(constraints: ShapeConstraints) -> _Constraints:
    shape, away = constraints
    selected = tuple(sorted(shape.node_selector.items()))
    return _Constraints(selected, shape.affinity, shape.tolerations, away)


def _match_beside_taints(constraints: _Constraints, types: Types) -> npt.NDArray[np.uint8]:
    result = np.full(len(types), Match.SUITS, np.uint8)
    if constraints.affinity:
        met = np.zeros(len(types), np.bool_)
        for term in constraints.affinity:
            met |= types.meet(term)
        result[~met] = Match.AFFINITY
    for key, value in constraints.selected:
        result[~types.label(key).among((value,))] = Match.LABEL
    return result


def rank_types(shapes: Sequence[ShapeConstraints], types: Types) -> npt.NDArray[np.uint8]:
    """`Snapshot.shape_rank`: [S, T], zeros for a shape that prefers no type to another.

    The fewest PreferNoSchedule taints that the shape does not tolerate come first, then the
    greatest weight of preferred terms that are met. Ranks beyond `RANKS_MAX` are one.
    """
    result = np.zeros((len(shapes), len(types)), np.uint8)
    any_soft_taints = any(types.soft_taints.values)
    found: dict[object, npt.NDArray[np.uint8]] = {}
    for s, (shape, _) in enumerate(shapes):
        if not shape.preferred and not any_soft_taints:
            continue
        asked = shape.preferred, shape.tolerations
        if asked not in found:
            place = np.unique(_scores(shape, types), return_inverse=True)[1]
            found[asked] = np.minimum(place, RANKS_MAX - 1).astype(np.uint8)
        result[s] = found[asked]
    return result


def _scores(shape: Shape, types: Types) -> npt.NDArray[np.int64]:
    """[T] smaller is preferred."""
    soft_taints = types.soft_taints.of(
        lambda taints: sum(not tolerates_one(shape.tolerations, taint) for taint in taints)
    )
    met = np.zeros(len(types), np.int64)
    for preference in shape.preferred:
        met += preference.weight * types.meet(preference.term)
    return (soft_taints << 32) - met
