"""Whether a job waits for its queue's share rather than for room (`over-fair-share`, E1).

When the round ends: would a node that suits have room if runs of class `any`, of other queues and
of no higher value, were gone that were evicted by R2 or belong to queues which hold no more per
weight than this queue would with the job?
"""

from __future__ import annotations

import numpy as np

from .compiled import kernel
from .model import TOLERANCE, share_with
from .snapshot import Bool, Byte, Float, Int32, Int64


@kernel
def by_node(nodes: Int32, count: int) -> tuple[Int64, Int32]:
    """Pieces by node: [N+1] where each node's begin, and the pieces in that order."""
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


@kernel
def waits_for_share(
    queue: Int32,
    shape: Int32,
    first: Int64,
    pieces: Int32,
    piece_queue: Int32,
    piece_shape: Int32,
    piece_value: Int64,
    piece_evicted: Bool,
    request: Int64,
    whole: Int64,
    value: Int64,
    match: Byte,
    node_type: Int32,
    bar: Byte,
    free: Int64,
    held: Int64,
    weight: Float,
    factor: Float,
) -> Bool:
    """[M] for each waiting (queue, shape); the pieces are those of class `any`."""
    result = np.zeros(queue.size, np.bool_)
    resources = request.shape[1]
    per_weight = np.empty(weight.size, np.float64)
    nothing = np.zeros(factor.size, np.int64)
    for q in range(weight.size):
        per_weight[q] = share_with(held[q], nothing, factor) / weight[q]
    most = free.copy()
    for n in range(node_type.size):
        for i in range(first[n], first[n + 1]):
            for r in range(resources):
                most[n, r] += request[piece_shape[pieces[i]], r]
    hint = np.zeros(request.shape[0], np.int64)
    room = np.empty(resources, np.int64)
    for m in range(queue.size):
        q = queue[m]
        s = shape[m]
        after = share_with(held[q], whole[s], factor) / weight[q]
        for turn in range(node_type.size):
            n = hint[s] + turn
            if n >= node_type.size:
                n -= node_type.size
            if bar[n] != 255 or match[s, 0, node_type[n]] != 0:
                continue
            fits = True
            for r in range(resources):
                room[r] = free[n, r]
                if request[s, r] > most[n, r]:
                    fits = False
            if not fits:
                continue
            for i in range(first[n], first[n + 1]):
                k = pieces[i]
                other = piece_queue[k]
                if other == q or piece_value[k] > value[s]:
                    continue
                if piece_evicted[k] or per_weight[other] <= after + TOLERANCE:
                    for r in range(resources):
                        room[r] += request[piece_shape[k], r]
            for r in range(resources):
                if request[s, r] > room[r]:
                    fits = False
            if fits:
                result[m] = True
                hint[s] = n
                break
    return result
