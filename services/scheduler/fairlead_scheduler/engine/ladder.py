"""The ladder for one job (N2, N4, N6): free room, then balance of shares, then urgency."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from .compiled import part, steady
from .model import (
    INSUFFICIENT,
    N_CHOSEN,
    N_GROUP_AT,
    N_GROUP_SHAPE,
    N_JOURNAL,
    N_REOPENED,
    N_TAKEN,
    NOT_TRIED,
    PREEMPTION_LIMIT,
    TOLERANCE,
    UNSUITED,
    Model,
    Tables,
    place,
)
from .stopping import (
    BY_GANG,
    BY_SHARE,
    EVICTED,
    FAIR,
    FREE,
    MIXED,
    URGENT,
    Runs,
    give_way,
    live,
    put,
)
from .tree import first_fit
from .victims import BEST, FOR_SHARE, FOR_URGENCY, KEYS, NOW, compare, held_by, victims

NEAR: Final = 64
"""How many runs are looked at before all nodes are."""

ANYWHERE: Final = -1
NOWHERE: Final = -1


@part
def free_room(t: Tables, m: Model, s: int, w: int) -> int:
    """Rung (a): the first position in the order of N3 with room beside everything, or -1.

    Of nodes that the shape prefers one that is preferred most (N1).

    Free room only falls while the pass goes on, so the search goes on where it last ended; what
    gives room back resets the cursors of the shapes that it could serve.
    """
    for k in range(t.bits.shape[2]):
        start = m.cursor[s, w, k]
        while True:
            p = first_fit(m.tree, t.types, t.request[s], t.bits[s, w, k], start)
            if p < 0:
                m.cursor[s, w, k] = t.types.size // 2
                break
            if t.rank[s, w, t.leaf_type[p]] == k:
                m.cursor[s, w, k] = p
                return p
            start = p + 1
    return NOWHERE


@part
def suits(t: Tables, v: Runs, j: int, s: int, w: int, p: int) -> bool:
    """Whether the position may get the job at all, room aside (N1, N10)."""
    size = t.types.size // 2
    if t.types[size + p] == 0 or t.rank[s, w, t.leaf_type[p]] == UNSUITED:
        return False
    if v.avoid_first.size > 0:
        pair = v.avoid_first[j]
        while pair >= 0:
            if v.avoid_at[pair] == p:
                return False
            pair = v.avoid_link[pair]
    return True


@part
def has_room(t: Tables, m: Model, s: int, p: int) -> bool:
    """Whether the request fits beside everything."""
    size = t.types.size // 2
    for r in range(t.request.shape[1]):  # noqa: SIM110 - kernels have no generators
        if t.request[s, r] > m.tree[size + p, r]:
            return False
    return True


@steady
def free_among(t: Tables, m: Model, v: Runs, j: int, s: int, w: int, label: int, value: int) -> int:
    """Rung (a) for a job of a gang, maybe bound to a label value, or one that avoids some nodes.

    It moves no cursor: what a gang tries may be undone. Within a label value the search goes on
    where the member before it ended, as long as they are of one shape.
    """
    if label >= 0:
        return free_in_value(t, m, v, j, s, w, label, value)
    for k in range(t.bits.shape[2]):
        start = m.cursor[s, w, k]
        while start >= 0:
            p = first_fit(m.tree, t.types, t.request[s], t.bits[s, w, k], start)
            if p >= 0 and t.rank[s, w, t.leaf_type[p]] == k and suits(t, v, j, s, w, p):
                return p
            start = p + 1 if p >= 0 else NOWHERE
    return NOWHERE


@part
def free_in_value(
    t: Tables, m: Model, v: Runs, j: int, s: int, w: int, label: int, value: int
) -> int:
    """The first position with room and this value of a label, of those preferred most."""
    first = v.value_first[label, value]
    if m.number[N_GROUP_SHAPE] == s + 1:
        first = m.number[N_GROUP_AT]
    best = NOWHERE
    for i in range(first, v.value_first[label, value + 1]):
        p = v.value_rows[label, i]
        if not has_room(t, m, s, p) or not suits(t, v, j, s, w, p):
            continue
        if best < 0:
            m.number[N_GROUP_SHAPE] = s + 1
            m.number[N_GROUP_AT] = i
            best = p
        elif t.rank[s, w, t.leaf_type[p]] < t.rank[s, w, t.leaf_type[best]]:
            best = p
        if t.rank[s, w, t.leaf_type[best]] == 0:
            return best
    return best


@steady
def reach(t: Tables, m: Model, v: Runs, s: int, p: int, level: int, mode: int) -> int:
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


@steady
def cheapest(
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
    """N4: the position with the cheapest victims on rung (b) or (c), or -1.

    The victims are left in `chosen`[:number[N_CHOSEN]] with `chosen_gang`.
    """
    s = t.job_shape[j]
    level = t.level[s, w]
    best = NOWHERE
    if mode == FOR_SHARE and label < 0:
        best = one_victim(t, m, v, j, w, after)
        if best >= 0:
            return best
    first = 0
    last = t.leaf_type.size
    if label >= 0:
        first = v.value_first[label, value]
        last = v.value_first[label, value + 1]
    for i in range(first, last):
        p = i if label < 0 else v.value_rows[label, i]
        if not suits(t, v, j, s, w, p):
            continue
        least = reach(t, m, v, s, p, level, mode)
        if least < 0:
            continue
        if best >= 0 and least > v.key[BEST, 0] and not has_too_much(t, m, p):
            continue
        if not victims(t, m, v, j, p, level, after, mode):
            continue
        if best >= 0:
            order = compare(v)
            if order > 0 or (order == 0 and t.number_at[p] > t.number_at[best]):
                continue
        best = p
        for k in range(KEYS):
            v.key[BEST, k] = v.key[NOW, k]
        for k in range(m.number[N_TAKEN]):
            v.chosen[k] = v.taken[k]
            v.chosen_gang[k] = v.whole_gang[k]
        m.number[N_CHOSEN] = m.number[N_TAKEN]
    return best


@part
def has_too_much(t: Tables, m: Model, p: int) -> bool:
    """Whether something was put on top of others there (rung c): what goes for that counts no more
    against the node."""
    size = t.types.size // 2
    for r in range(t.request.shape[1]):  # noqa: SIM110 - kernels have no generators
        if m.tree[size + p, r] < 0:
            return True
    return False


@part
def cheaper(v: Runs, a: int, b: int) -> bool:
    """The end of N4 for single victims of one value: lost work, younger, greater id."""
    if (v.gang[a] >= 0) != (v.gang[b] >= 0):
        return v.gang[b] >= 0
    if v.lost[a] != v.lost[b]:
        return v.lost[a] < v.lost[b]
    if v.started[a] != v.started[b]:
        return v.started[a] > v.started[b]
    return v.submission[a] > v.submission[b]


@steady
def one_victim(t: Tables, m: Model, v: Runs, j: int, w: int, after: float) -> int:
    """N4 on rung (b) where one run is enough, without looking at every node; -1 = look at all.

    Among the queues that R13 allows to take from, and that have evicted runs at the lowest level
    any of them has, the one furthest above its share gives: its cheapest run that is on a node
    which suits and makes room enough is what looking at every node would find, provided that it is
    no member of a gang, that priorities do not differ, and that no cheaper one would do only
    together with others. Where one of that does not hold, all nodes are looked at.
    """
    s = t.job_shape[j]
    size = t.types.size // 2
    giver = -1
    first = -1
    tied = 0
    for q in range(t.weight.size):
        if q == v.queue[j] or v.pending[q] == 0:
            continue
        if after >= held_by(t, v, q) / t.weight[q] - TOLERANCE:
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
            if not cheaper(v, k, first):
                continue
        else:
            tied = 0
        giver, first = q, k
    if giver < 0 or v.level[first] > t.level[s, w] or v.one_priority[giver] == MIXED:
        return NOWHERE
    for i in range(v.cheap_next[giver], min(v.cheap_next[giver] + NEAR, v.cheap_first[giver + 1])):
        k = v.cheap[i]
        if v.state[k] != EVICTED:
            continue
        if not suits(t, v, j, s, w, v.at[k]):
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


@steady
def may_balance(t: Tables, m: Model, v: Runs, q: int, after: float) -> bool:
    """Whether any other queue has evicted runs and so much that R13 could allow to take some."""
    for k in range(t.weight.size):
        if k != q and v.pending[k] > 0:
            held = 0.0
            for r in range(t.factor.size):
                held = max(held, v.held[k, r] * t.factor[r])
            if after < held / t.weight[k] - TOLERANCE:
                return True
    return False


@steady
def may_urge(v: Runs, level: int) -> bool:
    """Whether anything preemptible runs below this level."""
    for lv in range(level):  # noqa: SIM110 - kernels have no generators
        if v.low[lv] > 0:
            return True
    return False


@steady
def make_way(t: Tables, m: Model, v: Runs, j: int) -> None:
    """The chosen victims of rung (b) give way to `j`, mates with them, each for a token (L8)."""
    for k in range(m.number[N_CHOSEN]):
        victim = v.chosen[k]
        give_way(t, m, v, victim, BY_SHARE, j)
        m.tokens[m.tokens.size - 1] -= 1.0
        if v.chosen_gang[k]:
            g = v.gang[victim]
            for i in range(v.gang_first[g], v.gang_first[g + 1]):
                mate = v.members[i]
                if live(v.state[mate]):
                    give_way(t, m, v, mate, BY_GANG, j)
                    m.tokens[m.tokens.size - 1] -= 1.0


@steady
def climb(
    t: Tables, m: Model, v: Runs, j: int, after: float, label: int, value: int, top: int
) -> int:
    """Place a queued job on the first rung that has a node, at home or away, no higher than `top`.

    Returns 0, or the code that says why it found no place. `after` is the share / weight of its
    queue with the whole offer placed; `label` and `value` bind it to a part of the pool.
    """
    s = t.job_shape[j]
    q = v.queue[j]
    code = INSUFFICIENT
    bound = v.gang[j] >= 0 or (v.avoid_first.size > 0 and v.avoid_first[j] >= 0)
    for w in range(t.level.shape[1]):
        level = t.level[s, w]
        if level < 0:
            continue
        rung = FREE
        p = free_among(t, m, v, j, s, w, label, value) if bound else free_room(t, m, s, w)
        if p < 0 and top >= FAIR and may_balance(t, m, v, q, after):
            rung = FAIR
            p = cheapest(t, m, v, j, w, after, FOR_SHARE, label, value)
            if p >= 0 and m.tokens[m.tokens.size - 1] < 1.0 - TOLERANCE:
                code = PREEMPTION_LIMIT
                p = NOWHERE
            elif p >= 0:
                make_way(t, m, v, j)
        if p < 0 and top >= URGENT and may_urge(v, level):
            rung = URGENT
            p = cheapest(t, m, v, j, w, after, FOR_URGENCY, label, value)
        if p >= 0:
            mark = m.number[N_JOURNAL]
            place(t, m, q, j, s, w, p)
            put(t, m, v, j, w, p, rung)
            v.urged[j] = v.key[BEST, 3] if rung == URGENT else 0.0
            if rung == FAIR:
                reopen(t, m, v, mark)
            return 0
    return code


@steady
def reopen(t: Tables, m: Model, v: Runs, mark: int) -> None:
    """Room was given back by what the journal says before `mark`: whom could it serve?

    Cursors of those shapes go back to it, and where they were passed over they are tried again.
    """
    size = t.types.size // 2
    while mark > 0 and v.journal[mark - 1] < 0:
        mark -= 1
        p = v.at[-v.journal[mark] - 1]
        useful = True
        for r in range(t.request.shape[1]):
            if m.tree[size + p, r] < t.least[r]:
                useful = False
        if not useful:
            continue
        for s in range(t.request.shape[0]):
            if not has_room(t, m, s, p):
                continue
            for w in range(t.level.shape[1]):
                for k in range(t.bits.shape[2]):
                    m.cursor[s, w, k] = min(m.cursor[s, w, k], p)
            for q in range(t.weight.size):
                if m.pair_code[q, s] == INSUFFICIENT:
                    m.pair_code[q, s] = NOT_TRIED
                    if m.pair_left[q, s] > 0:
                        m.open_pairs[q] += 1
                        m.number[N_REOPENED] = 1
