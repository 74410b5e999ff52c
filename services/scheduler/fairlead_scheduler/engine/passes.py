"""The pass over all offers: the queue that R4 names places its next job where N2 and N3 say."""

from __future__ import annotations

from typing import Final

from .compiled import part, steady
from .model import (
    FLOATING_LIMIT,
    INSUFFICIENT,
    NOT_TRIED,
    QUEUE_LIMIT,
    QUEUES,
    RATE_LIMIT,
    ROUND_LIMIT,
    STOP,
    TOLERANCE,
    Model,
    Tables,
    handled,
    pass_over,
    place,
)
from .queues import advance, replace_top
from .tree import first_fit

DONE: Final = 0
MORE: Final = 1


@steady
def run(t: Tables, m: Model, stretch: int) -> int:
    """Handle up to `stretch` offers. `DONE` when none is left, else `MORE`."""
    for _ in range(stretch):
        if m.number[QUEUES] == 0 or m.number[STOP] != NOT_TRIED:
            return DONE
        q = m.heap[0]
        j = t.order[m.next[q]]
        s = t.job_shape[j]
        code = limited(t, m, q, s)
        if code == NOT_TRIED:
            p = free_room(t, m, s)
            if p >= 0:
                place(t, m, q, j, s, 0, p)
            else:
                pass_over(m, q, s, INSUFFICIENT)
        if m.number[STOP] != NOT_TRIED:
            return DONE
        handled(m, q, s)
        m.next[q] += 1
        replace_top(t, m, advance(t, m, q))
    return MORE


@part
def limited(t: Tables, m: Model, q: int, s: int) -> int:
    """Rules L2 to L4 and L7 for an offer of one queued job: 0, or the code of what it met.

    What stops the round is written to number[STOP], what stops the queue to `queue_stop`.
    """
    for r in range(t.factor.size):
        if m.fresh[r] > t.round_limit[r]:
            m.number[STOP] = ROUND_LIMIT
            pass_over(m, q, s, ROUND_LIMIT)
            return ROUND_LIMIT
    if m.tokens[0] < 1.0 - TOLERANCE:
        m.number[STOP] = RATE_LIMIT
        pass_over(m, q, s, RATE_LIMIT)
        return RATE_LIMIT
    if m.tokens[1 + q] < 1.0 - TOLERANCE:
        m.queue_stop[q] = RATE_LIMIT
        return RATE_LIMIT
    for r in range(t.factor.size):
        if m.fresh[r] + t.whole[s, r] > t.beside[r]:
            pass_over(m, q, s, FLOATING_LIMIT)
            return FLOATING_LIMIT
    if t.limit.size > 0:
        c = t.shape_class[s]
        for r in range(t.factor.size):
            after = m.class_held[q, c, r] + t.whole[s, r]
            if t.whole[s, r] > 0 and after > t.limit[q, c, r] * (1.0 + TOLERANCE):
                pass_over(m, q, s, QUEUE_LIMIT)
                return QUEUE_LIMIT
    return NOT_TRIED


@part
def free_room(t: Tables, m: Model, s: int) -> int:
    """Rung (a): the first position in the order of N3 with room beside everything, or -1."""
    start = m.cursor[s, 0]
    while True:
        p = first_fit(m.tree, t.types, t.request[s], t.bits[s, 0], start)
        if p < 0:
            m.cursor[s, 0] = t.types.size // 2
            return -1
        if t.match[s, 0, t.leaf_type[p]] == 0:
            m.cursor[s, 0] = p
            return p
        start = p + 1
