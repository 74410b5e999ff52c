"""The order in which N4 examines nodes, and what preemption could free on each of them.

Nodes are ordered by the cheapest preemptible run on each when the round started. Trees over this
order hold, per level, what would be free on a node if a preemptor of that level preempted all runs
that it can. So the next node on which a job would fit is found in one descent. The order and the
trees are made when a round first needs them. A tree of tier (b) can overestimate a node to which
evicted runs have returned; `correct_amounts` repairs it.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state.capacity_tree import find_first_marked_fit, update_path
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    FOR_SHARE,
    NON_PREEMPTIBLE,
    PREEMPTED,
    RESTORED,
    RUNNING,
)
from fairlead_scheduler.engine.state.surplus import SURPLUS_VICTIM, victim_kind
from fairlead_scheduler.engine.state.victim_tables import VictimOrder

LEVELS_MAX: Final = 16
"""Trees per tier. The last one is for all further levels, and counts the runs of all levels."""
NO_QUEUE: Final = -1
QUEUE_BITS: Final = 64
"""Queues with numbers that are equal modulo this have the same bit."""


@inlined
def ran_before(state: int) -> bool:
    """Whether a run in this state ran when the round started."""
    return RUNNING <= state <= RESTORED or state == PREEMPTED


@inlined
def is_cheaper_run(model: RoundModel, a: int, b: int) -> bool:
    """Whether run `a` is a cheaper victim than run `b` of the same value, by the last criteria of
    N4: surplus members before single runs before other members, among surplus members the one with
    the highest rank; then less lost work, later start, greater id."""
    kind = victim_kind(model, a)
    if kind != victim_kind(model, b):
        return kind < victim_kind(model, b)
    if kind == SURPLUS_VICTIM and model.jobs.priority[a] != model.jobs.priority[b]:
        return model.jobs.priority[a] < model.jobs.priority[b]
    if model.runs.lost_work[a] != model.runs.lost_work[b]:
        return model.runs.lost_work[a] < model.runs.lost_work[b]
    if model.runs.started[a] != model.runs.started[b]:
        return model.runs.started[a] > model.runs.started[b]
    return model.jobs.submission[a] > model.jobs.submission[b]


@inlined
def is_earlier_node(model: RoundModel, a: int, b: int) -> bool:
    """Whether position `a` comes before `b`: by the cheaper run; positions without a run come last,
    by node number."""
    run_a, run_b = model.victims.order.cheapest[a], model.victims.order.cheapest[b]
    if run_a < 0 or run_b < 0:
        if run_a < 0 and run_b < 0:
            return model.nodes.number[a] < model.nodes.number[b]
        return run_b < 0
    if model.runs.level[run_a] != model.runs.level[run_b]:
        return model.runs.level[run_a] < model.runs.level[run_b]
    return is_cheaper_run(model, run_a, run_b)


@inlined
def counts_for_order(model: RoundModel, j: int) -> bool:
    """Whether the job is a preemptible run that ran when the round started."""
    return ran_before(model.runs.state[j]) and model.runs.preemption[j] < NON_PREEMPTIBLE


@separate
def find_cheapest_runs(model: RoundModel) -> None:
    """Find the cheapest preemptible run of each position, and the largest requests."""
    order = model.victims.order
    for p in range(model.nodes.node_type.size):
        order.node[p] = p
        order.cheapest[p] = -1
    for j in range(model.runs.state.size):
        if counts_for_order(model, j):
            p = model.runs.position[j]
            k = order.cheapest[p]
            lower = k < 0 or model.runs.level[j] < model.runs.level[k]
            equal = not lower and model.runs.level[j] == model.runs.level[k]
            if lower or (equal and is_cheaper_run(model, j, k)):
                order.cheapest[p] = j
            for r in range(model.shapes.request.shape[1]):
                order.largest[model.runs.level[j], r] = max(
                    order.largest[model.runs.level[j], r],
                    model.shapes.request[model.jobs.shape[j], r],
                )


@separate
def sift_node(model: RoundModel, i: int, size: int) -> None:
    """Heap sort: move the node at heap place `i` of `size` down to where it belongs."""
    node = model.victims.order.node
    p = node[i]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and is_earlier_node(model, node[child], node[child + 1]):
            child += 1
        if not is_earlier_node(model, p, node[child]):
            break
        node[i] = node[child]
        i = child
    node[i] = p


@separate
def make_order(model: RoundModel) -> None:
    """Sort the nodes, and record the node type and the queues with runs of each."""
    find_cheapest_runs(model)
    order = model.victims.order
    count = model.nodes.node_type.size
    for i in range(count // 2 - 1, -1, -1):
        sift_node(model, i, count)
    for last in range(count - 1, 0, -1):
        order.node[0], order.node[last] = order.node[last], order.node[0]
        sift_node(model, 0, last)
    size = order.types.size // 2
    for i in range(count):
        p = order.node[i]
        order.place[p] = i
        order.types[size + i] = model.capacity.tree_types[model.capacity.tree_types.size // 2 + p]
    for j in range(model.runs.state.size):
        if counts_for_order(model, j):
            leaf = size + order.place[model.runs.position[j]]
            order.queues[leaf] |= np.uint64(1) << np.uint64(model.jobs.queue[j] % QUEUE_BITS)
    for i in range(size - 1, 0, -1):
        order.types[i] = order.types[2 * i] | order.types[2 * i + 1]
        order.queues[i] = order.queues[2 * i] | order.queues[2 * i + 1]
    order.made[order.made.size - 1] = 1


@inlined
def require_order(model: RoundModel) -> None:
    """Make the order of nodes if it does not exist yet."""
    order = model.victims.order
    if not order.made[order.made.size - 1]:
        make_order(model)


@inlined
def set_amounts(model: RoundModel, tree: int, p: int) -> None:
    """Set the leaf of position `p`: what is free there after the preemption of all runs that the
    level of the tree can preempt."""
    order = model.victims.order
    per_tier = order.made.size // 2
    levels = model.capacity.runs_at_level.size
    below = tree % per_tier
    if below == per_tier - 1:
        below = levels
    leaf = order.types.size // 2 + order.place[p]
    size = model.capacity.tree_types.size // 2
    for r in range(model.shapes.request.shape[1]):
        amount = model.capacity.tree[size + p, r]
        for lv in range(below):
            amount += model.capacity.evicted[p, lv, r]
            if tree >= per_tier:
                amount += model.capacity.preemptible[p, lv, r]
        order.amounts[tree, leaf, r] = amount


@separate
def choose_tree(model: RoundModel, level: int, mode: int) -> int:
    """The number of the tree for preemptors of this level; it is made if it does not exist yet."""
    order = model.victims.order
    per_tier = order.made.size // 2
    below = level + 1 if mode == FOR_SHARE else level
    tree = mode * per_tier + min(below, per_tier - 1)
    require_order(model)
    if not order.made[tree]:
        order.made[tree] = 1
        for p in range(model.nodes.node_type.size):
            set_amounts(model, tree, p)
        for i in range(order.types.size // 2 - 1, 0, -1):
            for r in range(model.shapes.request.shape[1]):
                order.amounts[tree, i, r] = max(
                    order.amounts[tree, 2 * i, r], order.amounts[tree, 2 * i + 1, r]
                )
    return tree


@inlined
def update_victim_order(model: RoundModel, p: int) -> None:
    """Bring the trees up to date after the runs or the free capacity on a position changed."""
    for tree in range(model.victims.order.made.size - 1):
        if model.victims.order.made[tree]:
            correct_amounts(model, tree, p)


@separate
def correct_amounts(model: RoundModel, tree: int, p: int) -> None:
    """Bring one tree up to date after the runs or the free capacity on a position changed."""
    set_amounts(model, tree, p)
    update_path(model.victims.order.amounts[tree], model.victims.order.place[p])


@inlined
def find_next_node(
    order: VictimOrder,
    request: Int64,
    tree: int,
    bits: np.uint64,
    q: int,
    start: int,
    counters: Int64,
) -> int:
    """The first place from `start` on where the request would fit, with one of these node types and
    runs of queue `q` (`NO_QUEUE`: of any); -1 = none. Types and queues are compared modulo 64."""
    marks, mark_bits = order.types, bits
    if q >= 0:
        marks, mark_bits = order.queues, np.uint64(1) << np.uint64(q % QUEUE_BITS)
    return find_first_marked_fit(
        order.amounts[tree], order.types, request, bits, marks, mark_bits, start, counters
    )
