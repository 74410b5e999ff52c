"""Matches shapes with node types by taints and labels (rule N1): `Snapshot.shape_match`.

Nodes that are equal in everything that a shape can require are one *type*, so a million jobs on ten
thousand nodes cost a few thousand checks. `find_relevant_labels` lists the labels that shapes name,
`make_node_type` reduces a node to its type, and `match_shapes` and `rank_types` make the columns of
the snapshot. Sizes are not compared here: the engine compares amounts.

If one job requires a node by its name, every node is a type of its own. So a shape is compared with
the columns of all types at once, and shapes with equal constraints are compared once.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling.node_eligibility import (
    BLOCKING,
    NODE_NAME,
    tolerates,
    tolerates_one,
)
from fairlead_common.domain.scheduling.shapes import SelectorTerm, Shape, Taint, Toleration
from fairlead_scheduler.engine.snapshot import Match
from fairlead_scheduler.snapshots.tables.node_types import NodeType, Types

RANKS_MAX: Final = 16
"""The number of preference ranks per shape."""


class ShapeConstraints(NamedTuple):
    """What a shape requires of a node, amounts aside. `away`: for each away entry of its class, the
    taints that are tolerated under it."""

    shape: Shape
    away: tuple[tuple[Taint, ...], ...] = ()


def find_relevant_labels(shapes: Iterable[ShapeConstraints]) -> frozenset[str]:
    """The label keys that any of the shapes names; with `NODE_NAME` if a shape names a node."""
    keys: set[str] = set()
    for shape, _ in shapes:
        keys.update(shape.node_selector)
        for term in (*shape.affinity, *(preference.term for preference in shape.preferred)):
            keys.update(requirement.key for requirement in term.match_expressions)
            if term.match_fields:
                keys.add(NODE_NAME)
    return frozenset(keys)


def make_node_type(node: Node, relevant: frozenset[str]) -> NodeType:
    """The type of a node: its taints, its relevant labels and, if relevant, its name, in a fixed
    order."""
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

    Where a shape has fewer away entries than K the cells are TAINT: no type is eligible. `first`:
    the number of the first type to match.
    """
    width = 1 + max((len(away) for _, away in shapes), default=0)
    rows: dict[_Constraints, int] = {}
    row_of = [rows.setdefault(_extract_constraints(shape), len(rows)) for shape in shapes]
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
    """The constraints of a shape, amounts aside, in a form that can be compared; many shapes share
    them."""

    selected: tuple[tuple[str, str], ...]
    affinity: tuple[SelectorTerm, ...]
    tolerations: tuple[Toleration, ...]
    away: tuple[tuple[Taint, ...], ...]


def _extract_constraints(constraints: ShapeConstraints) -> _Constraints:
    shape, away = constraints
    selected = tuple(sorted(shape.node_selector.items()))
    return _Constraints(selected, shape.affinity, shape.tolerations, away)


def _match_beside_taints(constraints: _Constraints, types: Types) -> npt.NDArray[np.uint8]:
    result = np.full(len(types), Match.ELIGIBLE, np.uint8)
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
            place = np.unique(_score_types(shape, types), return_inverse=True)[1]
            found[asked] = np.minimum(place, RANKS_MAX - 1).astype(np.uint8)
        result[s] = found[asked]
    return result


def _score_types(shape: Shape, types: Types) -> npt.NDArray[np.int64]:
    """[T] smaller is preferred."""
    soft_taints = types.soft_taints.of(
        lambda taints: sum(not tolerates_one(shape.tolerations, taint) for taint in taints)
    )
    met = np.zeros(len(types), np.int64)
    for preference in shape.preferred:
        met += preference.weight * types.meet(preference.term)
    return (soft_taints << 32) - met
