"""Where room is cheapest (N4): on tier (b) from evicted runs, on tier (c) from less urgent ones.

In a pool of up to `FEW` nodes every node is looked at for every job. In a larger one each kind of
taker has a *slot*: what room on each node would cost it, and a tournament over that. What was
worked out may have become too good, so the winner is worked out anew and must win again; where
somebody gave way or was put back a node may have become better, and is told to every slot.
Decision 0012 says where this may differ from looking at every node.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, internal
from fairlead_scheduler.engine.scheduling.eligibility import is_eligible
from fairlead_scheduler.engine.scheduling.node_victims import (
    BEST,
    CURRENT,
    FIRST_VICTIM,
    FOR_SHARE,
    FOR_URGENCY,
    KEYS,
    assumed_cost,
    choose_victims,
    compare_ids,
    compare_with_best,
)
from fairlead_scheduler.engine.state.round_state import (
    N_CHOSEN,
    N_FREED,
    N_TAKEN,
    N_TURN,
    TOLERANCE,
    Model,
    Tables,
)
from fairlead_scheduler.engine.state.run_states import EVICTED, MIXED_PRIORITIES, Runs

SINGLE_VICTIMS_MAX: Final = 64
"""How many runs are looked at before all nodes are."""
SCANNED_NODES_MAX: Final = 64
"""In pools of so many nodes all are looked at each time."""
SLOTS: Final = 16
"""How many kinds of takers are remembered; the one used longest ago makes room."""

NOWHERE: Final = -1
ANY_QUEUE: Final = -1
"""In place of the queue, for takers of which no run is evicted."""


@internal
def find_sufficient_level(
    t: Tables, m: Model, v: Runs, s: int, p: int, level: int, mode: int
) -> int:
    """The lowest level up to which pieces must be gone for the request to fit, or -1."""
    size = t.types.size // 2
    top = level + 1 if mode == FOR_SHARE else level
    for r in range(v.need.size):
        v.need[r] = t.request[s, r] - m.tree[size + p, r]
    for lv in range(top):
        enough = True
        for r in range(v.need.size):
            v.need[r] -= v.away[p, lv, r]
            if mode == FOR_URGENCY:
                v.need[r] -= v.kept[p, lv, r]
            if v.need[r] > 0:
                enough = False
        if enough:
            return lv
    return NOWHERE


@internal
def find_cheapest_node(
    t: Tables,
    m: Model,
    v: Runs,
    j: int,
    w: int,
    after: float,
    mode: int,
    label: int,
    value: int,
) -> int:
    """N4: the position with the cheapest victims on tier (b) or (c), or -1.

    The victims are left in `chosen`[:number[N_CHOSEN]] with `chosen_gang`.
    """
    s = int(t.job_shape[j])
    level = t.level[s, w]
    best = NOWHERE
    if mode == FOR_SHARE and label < 0:
        best = find_single_victim(t, m, v, j, w, after)
        if best >= 0:
            return best
    avoids = v.avoid_first.size > 0 and v.avoid_first[j] >= 0
    if label < 0 and not avoids and v.bid.shape[0] > 0:
        return find_cheapest_in_index(t, m, v, j, w, after, mode)
    first = 0
    last = t.leaf_type.size
    if label >= 0:
        first = v.value_first[label, value]
        last = v.value_first[label, value + 1]
    for i in range(first, last):
        p = i if label < 0 else v.value_rows[label, i]
        if not is_eligible(t, v, j, s, w, p):
            continue
        least = find_sufficient_level(t, m, v, s, p, level, mode)
        if least < 0:
            continue
        if best >= 0 and least > v.key[BEST, 0] and not is_oversubscribed(t, m, p):
            continue
        if not choose_victims(t, m, v, j, p, level, after, mode):
            continue
        if best >= 0:
            order = compare_with_best(v)
            if order > 0 or (order == 0 and t.number_at[p] > t.number_at[best]):
                continue
        best = p
        choose_node(m, v)
    return best


@inlined
def is_oversubscribed(t: Tables, m: Model, p: int) -> bool:
    """Whether something was put on top of others there (tier c): what goes for that counts no more
    against the node."""
    size = t.types.size // 2
    for r in range(t.request.shape[1]):  # noqa: SIM110 - kernels have no generators
        if m.tree[size + p, r] < 0:
            return True
    return False


@inlined
def choose_node(m: Model, v: Runs) -> None:
    """What was worked out last is the best so far."""
    for k in range(KEYS):
        v.key[BEST, k] = v.key[CURRENT, k]
    for k in range(m.number[N_TAKEN]):
        v.chosen[k] = v.taken[k]
        v.chosen_gang[k] = v.whole_gang[k]
    m.number[N_CHOSEN] = m.number[N_TAKEN]


@internal
def find_cheapest_in_index(
    t: Tables, m: Model, v: Runs, j: int, w: int, after: float, mode: int
) -> int:
    """N4 by the tournament: the position, with its victims in `chosen`, or -1."""
    slot = find_slot(t, m, v, j, w, after, mode)
    while True:
        p = v.winner[slot, 1]
        if p < 0 or v.bid[slot, p, 0] == np.inf:
            return NOWHERE
        rate_node(t, m, v, slot, j, w, p, after, mode)
        update_index(t, v, slot, p)
        if v.winner[slot, 1] == p and v.bid[slot, p, 0] < np.inf:
            choose_node(m, v)
            return p


@internal
def find_slot(t: Tables, m: Model, v: Runs, j: int, w: int, after: float, mode: int) -> int:
    """The slot of this kind of taker, made or brought up to date."""
    s = int(t.job_shape[j])
    q = int(v.queue[j]) if mode == FOR_SHARE and v.pending[v.queue[j]] > 0 else ANY_QUEUE
    m.number[N_TURN] += 1
    slot = 0
    known = False
    for i in range(v.slot.shape[0]):
        if v.slot[i, 0] == s and v.slot[i, 1] == w and v.slot[i, 2] == mode and v.slot[i, 3] == q:
            slot = i
            known = True
            break
        if v.slot[i, 4] < v.slot[slot, 4]:
            slot = i
    v.slot[slot, 4] = m.number[N_TURN]
    missed = m.number[N_FREED] - v.slot[slot, 5]
    if not known or missed > v.freed.size or after < v.slot_after[slot] - TOLERANCE:
        v.slot[slot, 0] = s
        v.slot[slot, 1] = w
        v.slot[slot, 2] = mode
        v.slot[slot, 3] = q
        v.slot_after[slot] = -1.0
        build_index(t, m, v, slot, j, w, after, mode)
    else:
        for i in range(v.slot[slot, 5], m.number[N_FREED]):
            p = v.freed[i % v.freed.size]
            rate_node(t, m, v, slot, j, w, p, after, mode)
            update_index(t, v, slot, p)
    v.slot[slot, 5] = m.number[N_FREED]
    return slot


@internal
def rate_node(
    t: Tables, m: Model, v: Runs, slot: int, j: int, w: int, p: int, after: float, mode: int
) -> None:
    """Work out what room for the job on position `p` costs; infinity where it gives none."""
    s = int(t.job_shape[j])
    level = t.level[s, w]
    v.bid[slot, p, 0] = np.inf
    if not is_eligible(t, v, j, s, w, p) or find_sufficient_level(t, m, v, s, p, level, mode) < 0:
        return
    if choose_victims(t, m, v, j, p, level, after, mode):
        for k in range(KEYS):
            v.bid[slot, p, k] = v.key[CURRENT, k]
    elif mode == FOR_SHARE:
        v.slot_after[slot] = max(v.slot_after[slot], after)


@inlined
def cheaper_node(t: Tables, v: Runs, slot: int, a: int, b: int) -> int:
    """The cheaper of two positions (N4), -1 = none."""
    if a < 0 or b < 0:
        return max(a, b)
    for k in range(FIRST_VICTIM):
        if v.bid[slot, a, k] != v.bid[slot, b, k]:
            return a if v.bid[slot, a, k] < v.bid[slot, b, k] else b
        if v.bid[slot, a, k] == np.inf:
            return a
    order = compare_ids(v, v.bid[slot, a, FIRST_VICTIM], v.bid[slot, b, FIRST_VICTIM])
    if order == 0:
        order = t.number_at[a] - t.number_at[b]
    return a if order < 0 else b


@internal
def update_index(t: Tables, v: Runs, slot: int, p: int) -> None:
    """The matches of one position, up to the final."""
    i = (v.winner.shape[1] // 2 + p) // 2
    while i:
        v.winner[slot, i] = cheaper_node(
            t, v, slot, v.winner[slot, 2 * i], v.winner[slot, 2 * i + 1]
        )
        i //= 2


@internal
def build_index(
    t: Tables, m: Model, v: Runs, slot: int, j: int, w: int, after: float, mode: int
) -> None:
    """All matches, from new bids of all positions."""
    size = v.winner.shape[1] // 2
    for p in range(size):
        v.winner[slot, size + p] = NOWHERE
        if p < t.leaf_type.size:
            v.winner[slot, size + p] = p
            rate_node(t, m, v, slot, j, w, p, after, mode)
    for i in range(size - 1, 0, -1):
        v.winner[slot, i] = cheaper_node(
            t, v, slot, v.winner[slot, 2 * i], v.winner[slot, 2 * i + 1]
        )


@inlined
def is_cheaper_run(v: Runs, a: int, b: int) -> bool:
    """The end of N4 for single victims of one value: lost work, younger, greater id."""
    if (v.gang[a] >= 0) != (v.gang[b] >= 0):
        return v.gang[b] >= 0
    if v.lost[a] != v.lost[b]:
        return v.lost[a] < v.lost[b]
    if v.started[a] != v.started[b]:
        return v.started[a] > v.started[b]
    return v.submission[a] > v.submission[b]


@internal
def find_single_victim(t: Tables, m: Model, v: Runs, j: int, w: int, after: float) -> int:
    """N4 on tier (b) where one run is enough, without looking at every node; -1 = look at all.

    Among the queues that R13 allows to take from, and that have evicted runs at the lowest level
    any of them has, the one furthest above its share gives: its cheapest run that is on a node
    which suits and makes room enough is what looking at every node would find, provided that it is
    no member of a gang, that priorities do not differ, and that no cheaper one would do only
    together with others. Where one of that does not hold, all nodes are looked at.
    """
    s = int(t.job_shape[j])
    size = t.types.size // 2
    giver = -1
    first = -1
    tied = 0
    for q in range(t.weight.size):
        if q == v.queue[j] or v.pending[q] == 0:
            continue
        if after >= assumed_cost(t, v, q) / t.weight[q] - TOLERANCE:
            continue
        while v.state[v.cheap[v.cheap_next[q]]] != EVICTED:
            v.cheap_next[q] += 1
        k = v.cheap[v.cheap_next[q]]
        if giver < 0 or v.level[k] < v.level[first]:
            giver, first, tied = q, k, 0
            continue
        if v.level[k] > v.level[first] or v.above[q] < v.above[giver]:
            continue
        if v.above[q] == v.above[giver]:
            if v.one_priority[q] != v.one_priority[giver]:
                return NOWHERE
            tied = 1
            if not is_cheaper_run(v, k, first):
                continue
        else:
            tied = 0
        giver, first = q, k
    if giver < 0 or v.level[first] > t.level[s, w] or v.one_priority[giver] == MIXED_PRIORITIES:
        return NOWHERE
    for i in range(
        v.cheap_next[giver], min(v.cheap_next[giver] + SINGLE_VICTIMS_MAX, v.cheap_first[giver + 1])
    ):
        k = v.cheap[i]
        if v.state[k] != EVICTED:
            continue
        if not is_eligible(t, v, j, s, w, v.at[k]):
            if tied:
                return NOWHERE
            continue
        if v.gang[k] >= 0 or v.level[k] != v.level[first]:
            return NOWHERE
        for r in range(t.request.shape[1]):
            room = m.tree[size + v.at[k], r] + t.request[t.job_shape[k], r]
            if t.request[s, r] > room:
                return NOWHERE
        v.chosen[0] = k
        v.chosen_gang[0] = 0
        m.number[N_CHOSEN] = 1
        return v.at[k]
    return NOWHERE
