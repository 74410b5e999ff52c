"""Which queue goes next (rule R4): a binary heap of queues by the standing of their offers."""

from __future__ import annotations

import numpy as np

from .compiled import part, steady
from .model import (
    LOOKBACK_LIMIT,
    NOT_TRIED,
    QUEUES,
    TOLERANCE,
    Model,
    Tables,
    handled,
    share,
    share_with,
)


@part
def before(t: Tables, m: Model, a: int, b: int) -> bool:
    """Whether the offer of queue `a` goes before that of queue `b`, by R4 (1) to (5)."""
    if m.key_value[a] != m.key_value[b]:
        return m.key_value[a] > m.key_value[b]
    if m.key_over[a] != m.key_over[b]:
        return m.key_over[b]
    if abs(m.key_amount[a] - m.key_amount[b]) > TOLERANCE:
        return m.key_amount[a] < m.key_amount[b]
    if not m.key_over[a] and abs(m.key_size[a] - m.key_size[b]) > TOLERANCE:
        return m.key_size[a] > m.key_size[b]
    if abs(t.start[a] - t.start[b]) > TOLERANCE:
        return t.start[a] < t.start[b]
    if m.key_live[a] != m.key_live[b]:
        return m.key_live[a]
    return a < b


@part
def sift_down(t: Tables, m: Model, i: int) -> None:
    """Move the queue at heap place `i` down to where it belongs."""
    size = m.number[QUEUES]
    q = m.heap[i]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and before(t, m, m.heap[child + 1], m.heap[child]):
            child += 1
        if not before(t, m, m.heap[child], q):
            break
        m.heap[i] = m.heap[child]
        i = child
    m.heap[i] = q


@part
def stand(t: Tables, m: Model, q: int, s: int) -> None:
    """Compute the standing of a queue whose offer is one queued job of shape `s`."""
    weight = t.weight[q]
    proposed = share_with(m.stands[q], t.whole[s], t.factor) / weight
    over = proposed > t.budget[q] + TOLERANCE
    m.key_value[q] = t.shape_value[s]
    m.key_over[q] = over
    m.key_amount[q] = proposed if over else share(m.stands[q], t.factor) / weight
    m.key_size[q] = t.shape_cost[s] * weight
    m.key_live[q] = False


@part
def advance(t: Tables, m: Model, q: int) -> bool:
    """Find the queue's next offer from `next` on; False when it has none."""
    if m.queue_stop[q] != NOT_TRIED:
        return False
    while m.next[q] < t.end[q]:
        if m.open_pairs[q] == 0 and t.lookback == 0:
            return False
        if t.lookback > 0 and m.examined[q] >= t.lookback:
            m.queue_stop[q] = LOOKBACK_LIMIT
            return False
        s = t.job_shape[t.order[m.next[q]]]
        m.examined[q] += 1
        if m.pair_code[q, s] == NOT_TRIED:
            stand(t, m, q, s)
            return True
        handled(m, q, s)
        m.next[q] += 1
    return False


@steady
def begin(t: Tables, m: Model) -> None:
    """Find every queue's first offer and make the heap."""
    n = 0
    for q in range(t.weight.size):
        if advance(t, m, q):
            m.heap[n] = q
            n += 1
    m.number[QUEUES] = n
    for i in range(n // 2 - 1, -1, -1):
        sift_down(t, m, np.int64(i))


@part
def replace_top(t: Tables, m: Model, found: bool) -> None:
    """After the top queue was handled: it has a new offer (`found`) or leaves the heap."""
    if not found:
        size = m.number[QUEUES] - 1
        m.number[QUEUES] = size
        m.heap[0] = m.heap[size]
        if size == 0:
            return
    sift_down(t, m, 0)
