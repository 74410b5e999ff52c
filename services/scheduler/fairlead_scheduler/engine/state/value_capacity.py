"""What is free on the nodes of each label value together (N7), kept up to date for gangs.

A node that accepts no new jobs counts as 0, and so does a node whose runs hold more than it has.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.state.capacity_tree import fill_tree, update_path
from fairlead_scheduler.engine.state.round_model import RoundModel

FREE: Final = 0
WITH_PREEMPTIBLE: Final = 1


@inlined
def count_position(model: RoundModel, p: int, r: int, kind: int) -> int:
    """What position `p` adds to its values of resource `r`: what is free there, and with kind
    `WITH_PREEMPTIBLE` also what preemptible runs hold."""
    size = model.capacity.tree_types.size // 2
    amount = model.capacity.tree[size + p, r]
    if kind == WITH_PREEMPTIBLE:
        for lv in range(model.capacity.runs_at_level.size):
            amount += model.capacity.evicted[p, lv, r] + model.capacity.preemptible[p, lv, r]
    return max(0, amount)


@inlined
def has_value(model: RoundModel, p: int, label: int, value: int) -> bool:
    """Whether the position accepts new jobs and has this value of the label."""
    rank = model.values.rank[label, p]
    return rank >= 0 and model.values.value[label, rank] == value


@separate
def add_changes(model: RoundModel, p: int) -> None:
    """Add to the values of position `p` what changed there since it was last counted."""
    values = model.values
    size = values.free.shape[1] // 2
    last = values.value.shape[1] - 1
    free_differs = False
    preemptible_differs = False
    for r in range(model.shapes.request.shape[1]):
        free = count_position(model, p, r, FREE) - values.counted[0, p, r]
        preemptible = count_position(model, p, r, WITH_PREEMPTIBLE) - values.counted[1, p, r]
        values.counted[0, p, r] += free
        values.counted[1, p, r] += preemptible
        free_differs = free_differs or free != 0
        preemptible_differs = preemptible_differs or preemptible != 0
        for u in range(values.rank.shape[0]):
            rank = values.rank[u, p]
            if rank >= 0:
                values.free[u, size + rank, r] += free
                values.preemptible[u, size + last - rank, r] += preemptible
    for u in range(values.rank.shape[0]):
        rank = values.rank[u, p]
        if rank >= 0 and free_differs:
            update_path(values.free[u], rank)
        if rank >= 0 and preemptible_differs:
            update_path(values.preemptible[u], last - rank)


@inlined
def update_value_capacity(model: RoundModel, p: int) -> None:
    """Count a position again after its runs or its free capacity changed."""
    if model.values.rank.shape[0] > 0:
        add_changes(model, p)


def count_values(model: RoundModel) -> None:
    """Count all positions when the round starts; `counted` is 0 until then."""
    values, capacity = model.values, model.capacity
    if values.rank.shape[0] == 0:
        return
    leaves = capacity.tree_types.size // 2
    free = capacity.tree[leaves : leaves + model.nodes.node_type.size]
    values.counted[:] = free
    if capacity.runs_at_level.size:
        values.counted[WITH_PREEMPTIBLE] += (capacity.evicted + capacity.preemptible).sum(axis=1)
    np.maximum(values.counted, 0, out=values.counted)
    size = values.free.shape[1] // 2
    for u in range(values.rank.shape[0]):
        ranked = np.flatnonzero(values.rank[u] >= 0)
        rank = values.rank[u, ranked]
        other = values.value.shape[1] - 1 - rank
        np.add.at(values.free[u], size + rank, values.counted[FREE, ranked])
        np.add.at(values.preemptible[u], size + other, values.counted[WITH_PREEMPTIBLE, ranked])
        fill_tree(values.free[u])
        fill_tree(values.preemptible[u])
