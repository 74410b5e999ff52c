"""Whether a job waits for its queue's share rather than for capacity (`over-fair-share`, E1).

When the round ends: would an eligible node have capacity without the runs of class `any`, of other
queues and of no higher value, that were evicted by R2 or belong to queues which hold no more per
weight than this queue would with the job?
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import (
    by_address,
    expanded,
    inlined,
    internal,
    kernel,
)
from fairlead_scheduler.engine.snapshot import Bool, Byte, Float, Int32, Int64
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import TOLERANCE, cost_with
from fairlead_scheduler.engine.state.run_states import is_live

GREATEST: Final = np.iinfo(np.int64).max


@kernel
def group_by_node(nodes: Int32, count: int) -> tuple[Int64, Int32]:
    """Numbers by node: [N+1] where each node's begin, and the numbers in that order."""
    first = np.zeros(count + 1, np.int64)
    for i in range(nodes.size):
        first[nodes[i] + 1] += 1
    for n in range(count):
        first[n + 1] += first[n]
    at = first[:-1].copy()
    rows = np.empty(nodes.size, np.int32)
    for i in range(nodes.size):
        rows[at[nodes[i]]] = i
        at[nodes[i]] += 1
    return first, rows


@by_address
class Allocations(NamedTuple):
    """Runs and placements when the round ends, by node.

    In a round in which something can be preempted all runs are linked by position (`RunTable`).
    Otherwise the runs are linked as in `JobTotals`, and placements are listed by node.
    """

    active: int
    place: Int32
    """[N] position of the node"""
    head: Int64
    link: Int64
    state: Byte
    kind: Byte
    level: Int64
    levels: Int64
    run_head: Int32
    run_link: Int32
    new_first: Int64
    new_rows: Int32
    new_job: Int32
    node: Int32
    """[J] below 0 for what is new"""
    queue: Int32
    shape: Int32
    value: Int64
    """[J] that live runs run at; [0] when that is the shape's"""
    soft: Bool
    """[S] of class `any`"""
    shape_value: Int64
    balance: Bool
    """[Q] evicted by R2"""


@expanded
def counts_as_victim(x: Allocations, j: int) -> bool:
    """Whether the run, of a round in which something can be preempted, is live and `any`."""
    return x.kind[j] == 0 and is_live(x.state[j])


@internal
def add_node(
    x: Allocations,
    n: int,
    q: int,
    value: int,
    per_weight: Float,
    after: float,
    request: Int64,
    free: Int64,
) -> None:
    """Add to `free` what queue `q` can count on on node `n`, see above."""
    j = x.head[x.place[n]] if x.active else x.run_head[n]
    while j >= 0:
        if x.active:
            if counts_as_victim(x, j):
                own = x.levels[x.level[j]]
                evicted = x.balance[x.queue[j]] and x.node[j] >= 0
                if can_preempt(x, j, own, evicted, q, value, per_weight, after):
                    add_request(request, x.shape[j], free)
            j = x.link[j]
        else:
            s = x.shape[j]
            if x.soft[s]:
                own = x.value[j] if x.value.size else x.shape_value[s]
                if can_preempt(x, j, own, x.balance[x.queue[j]], q, value, per_weight, after):
                    add_request(request, x.shape[j], free)
            j = x.run_link[j]
    if not x.active:
        for i in range(x.new_first[n], x.new_first[n + 1]):
            j = x.new_job[x.new_rows[i]]
            s = x.shape[j]
            if x.soft[s]:
                own = x.shape_value[s]
                if can_preempt(x, j, own, False, q, value, per_weight, after):
                    add_request(request, x.shape[j], free)


@inlined
def can_preempt(
    x: Allocations,
    j: int,
    own: int,
    evicted: bool,
    q: int,
    value: int,
    per_weight: Float,
    after: float,
) -> bool:
    """Whether queue `q` can count on a run of class `any` that runs at value `own`."""
    other = x.queue[j]
    if other == q or own > value:
        return False
    return evicted or per_weight[other] <= after + TOLERANCE


@inlined
def add_request(request: Int64, s: int, free: Int64) -> None:
    """Add the request of a shape to what is free."""
    for r in range(free.size):
        free[r] += request[s, r]


@kernel
def waits_for_share(
    x: Allocations,
    model: RoundModel,
    queue: Int32,
    shape: Int32,
    match: Byte,
    node_type: Int32,
    closed: Byte,
    free: Int64,
) -> Bool:
    """[M] for each waiting (queue, shape), by queue.

    A node's capacity without any run of other queues is computed once per queue; only where a shape
    fits that are the runs of the node examined for it.
    """
    request, whole = model.shapes.request, model.shapes.full_request
    weight, factor = model.entitlements.weight, model.entitlements.cost_factor
    held = model.usage.held if x.active else model.usage.counted
    result = np.zeros(queue.size, np.bool_)
    resources = request.shape[1]
    per_weight = np.empty(weight.size, np.float64)
    nothing = np.zeros(factor.size, np.int64)
    for q in range(weight.size):
        per_weight[q] = cost_with(held[q], nothing, factor) / weight[q]
    most = np.full((node_type.size, resources), -1, np.int64)
    seen = np.zeros(node_type.size, np.bool_)
    hint = np.zeros(request.shape[0], np.int64)
    found = np.empty(resources, np.int64)
    for m in range(queue.size):
        q = queue[m]
        s = shape[m]
        if m > 0 and q != queue[m - 1]:
            seen[:] = False
        after = cost_with(held[q], whole[s], factor) / weight[q]
        for turn in range(node_type.size):
            n = hint[s] + turn
            if n >= node_type.size:
                n -= node_type.size
            if closed[n] != 255 or match[s, 0, node_type[n]] != 0:
                continue
            if not seen[n]:
                seen[n] = True
                for r in range(resources):
                    most[n, r] = free[n, r]
                add_node(x, n, q, GREATEST, per_weight, np.inf, request, most[n])
            fits = True
            for r in range(resources):
                found[r] = free[n, r]
                if request[s, r] > most[n, r]:
                    fits = False
            if not fits:
                continue
            add_node(x, n, q, x.shape_value[s], per_weight, after, request, found)
            for r in range(resources):
                if request[s, r] > found[r]:
                    fits = False
            if fits:
                result[m] = True
                hint[s] = n
                break
    return result
