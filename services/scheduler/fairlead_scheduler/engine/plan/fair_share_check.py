"""Whether a job waits for its queue's share rather than for room (`over-fair-share`, E1).

When the round ends: would a node that suits have room if runs of class `any`, of other queues and
of no higher value, were gone that were evicted by R2 or belong to queues which hold no more per
weight than this queue would with the job?
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import by_address, inlined, internal, kernel
from fairlead_scheduler.engine.snapshot import Bool, Byte, Float, Int32, Int64
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
    pieces = np.empty(nodes.size, np.int32)
    for i in range(nodes.size):
        pieces[at[nodes[i]]] = i
        at[nodes[i]] += 1
    return first, pieces


@by_address
class Allocations(NamedTuple):
    """What holds room when the round ends, by node.

    In a round in which something could be stopped all pieces are linked by position (`Runs`).
    Otherwise the runs are linked as in `Sums`, and what is new is listed by node.
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


@inlined
def counts_as_victim(x: Allocations, j: int) -> bool:
    """Whether the piece, of a round in which something could be stopped, is live and `any`."""
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
    room: Int64,
) -> None:
    """Add to `room` what queue `q` may reckon with on node `n`, see above."""
    j = x.head[x.place[n]] if x.active else x.run_head[n]
    while j >= 0:
        if x.active:
            if counts_as_victim(x, j):
                own = x.levels[x.level[j]]
                evicted = x.balance[x.queue[j]] and x.node[j] >= 0
                add_run(x, j, own, evicted, q, value, per_weight, after, request, room)
            j = x.link[j]
        else:
            s = x.shape[j]
            if x.soft[s]:
                own = x.value[j] if x.value.size else x.shape_value[s]
                add_run(
                    x, j, own, x.balance[x.queue[j]], q, value, per_weight, after, request, room
                )
            j = x.run_link[j]
    if not x.active:
        for i in range(x.new_first[n], x.new_first[n + 1]):
            j = x.new_job[x.new_rows[i]]
            s = x.shape[j]
            if x.soft[s]:
                own = x.shape_value[s]
                add_run(x, j, own, False, q, value, per_weight, after, request, room)


@inlined
def add_run(
    x: Allocations,
    j: int,
    own: int,
    evicted: bool,
    q: int,
    value: int,
    per_weight: Float,
    after: float,
    request: Int64,
    room: Int64,
) -> None:
    """Add one piece of class `any` that runs at `own`, if `q` may reckon with it."""
    other = x.queue[j]
    if other == q or own > value:
        return
    if not evicted and per_weight[other] > after + TOLERANCE:
        return
    for r in range(room.size):
        room[r] += request[x.shape[j], r]


@kernel
def waits_for_share(
    x: Allocations,
    queue: Int32,
    shape: Int32,
    request: Int64,
    whole: Int64,
    match: Byte,
    node_type: Int32,
    bar: Byte,
    free: Int64,
    held: Int64,
    weight: Float,
    factor: Float,
) -> Bool:
    """[M] for each waiting (queue, shape), by queue.

    Before the pieces of a node are looked at for a shape, its room without any of other queues is:
    that is found once per queue, and where the queue itself holds all there is nothing to look at.
    """
    result = np.zeros(queue.size, np.bool_)
    resources = request.shape[1]
    per_weight = np.empty(weight.size, np.float64)
    nothing = np.zeros(factor.size, np.int64)
    for q in range(weight.size):
        per_weight[q] = cost_with(held[q], nothing, factor) / weight[q]
    most = np.full((node_type.size, resources), -1, np.int64)
    seen = np.zeros(node_type.size, np.bool_)
    hint = np.zeros(request.shape[0], np.int64)
    room = np.empty(resources, np.int64)
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
            if bar[n] != 255 or match[s, 0, node_type[n]] != 0:
                continue
            if not seen[n]:
                seen[n] = True
                for r in range(resources):
                    most[n, r] = free[n, r]
                add_node(x, n, q, GREATEST, per_weight, np.inf, request, most[n])
            fits = True
            for r in range(resources):
                room[r] = free[n, r]
                if request[s, r] > most[n, r]:
                    fits = False
            if not fits:
                continue
            add_node(x, n, q, x.shape_value[s], per_weight, after, request, room)
            for r in range(resources):
                if request[s, r] > room[r]:
                    fits = False
            if fits:
                result[m] = True
                hint[s] = n
                break
    return result
