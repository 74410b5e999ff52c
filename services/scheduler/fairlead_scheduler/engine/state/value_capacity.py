"""What is free on the nodes of each label value together (N7), kept up to date for gangs.

Nodes that get nothing new count nothing, and a node whose runs hold more than it has counts as
full.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import entry_point, inlined, separate
from fairlead_scheduler.engine.state.capacity_tree import update_path
from fairlead_scheduler.engine.state.round_model import RoundModel

FREE: Final = 0
WITH_PREEMPTIBLE: Final = 1


@inlined
def count_position(model: RoundModel, p: int, r: int, kind: int) -> int:
    """What the position adds to its values: what is free, also with what is preemptible."""
    size = model.capacity.tree_types.size // 2
    amount = model.capacity.tree[size + p, r]
    if kind == WITH_PREEMPTIBLE:
        for lv in range(model.capacity.runs_at_level.size):
            amount += model.capacity.evicted[p, lv, r] + model.capacity.preemptible[p, lv, r]
    return max(0, amount)


@separate
def add_changes(model: RoundModel, u: int, p: int) -> None:
    """Add to the value of a position what changed there since it was counted."""
    values = model.values
    size = values.free.shape[1] // 2
    rank = values.rank[u, p]
    other = values.value.shape[1] - 1 - rank
    for r in range(model.shapes.request.shape[1]):
        values.free[u, size + rank, r] += (
            count_position(model, p, r, FREE) - values.counted[0, p, r]
        )
        values.preemptible[u, size + other, r] += (
            count_position(model, p, r, WITH_PREEMPTIBLE) - values.counted[1, p, r]
        )
    update_path(values.free[u], rank)
    update_path(values.preemptible[u], other)


@inlined
def update_value_capacity(model: RoundModel, p: int) -> None:
    """Count a position again after its runs or its free capacity changed."""
    if model.values.rank.shape[0] == 0:
        return
    for u in range(model.values.rank.shape[0]):
        if model.values.rank[u, p] >= 0:
            add_changes(model, u, p)
    for r in range(model.shapes.request.shape[1]):
        model.values.counted[0, p, r] = count_position(model, p, r, FREE)
        model.values.counted[1, p, r] = count_position(model, p, r, WITH_PREEMPTIBLE)


@entry_point
def count_values(model: RoundModel) -> None:
    """Count all positions when the round starts; `counted` is 0 until then."""
    values = model.values
    if values.rank.shape[0] == 0:
        return
    size = values.free.shape[1] // 2
    resources = model.shapes.request.shape[1]
    for p in range(model.nodes.node_type.size):
        for r in range(resources):
            values.counted[0, p, r] = count_position(model, p, r, FREE)
            values.counted[1, p, r] = count_position(model, p, r, WITH_PREEMPTIBLE)
            for u in range(values.rank.shape[0]):
                rank = values.rank[u, p]
                if rank >= 0:
                    other = values.value.shape[1] - 1 - rank
                    values.free[u, size + rank, r] += values.counted[0, p, r]
                    values.preemptible[u, size + other, r] += values.counted[1, p, r]
    for u in range(values.rank.shape[0]):
        for i in range(size - 1, 0, -1):
            for r in range(resources):
                values.free[u, i, r] = max(values.free[u, 2 * i, r], values.free[u, 2 * i + 1, r])
                values.preemptible[u, i, r] = max(
                    values.preemptible[u, 2 * i, r], values.preemptible[u, 2 * i + 1, r]
                )
