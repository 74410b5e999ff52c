"""The ladder for one job (N2, N4, N6): free room, then balance of shares, then urgency."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import inlined, internal
from fairlead_scheduler.engine.scheduling.eligibility import has_capacity, is_eligible
from fairlead_scheduler.engine.scheduling.node_victims import BEST, FOR_SHARE, FOR_URGENCY
from fairlead_scheduler.engine.scheduling.victim_search import NOWHERE, find_cheapest_node
from fairlead_scheduler.engine.state.capacity_tree import find_first_fit
from fairlead_scheduler.engine.state.round_state import (
    INSUFFICIENT,
    N_CHOSEN,
    N_GROUP_AT,
    N_GROUP_SHAPE,
    N_JOURNAL,
    N_REOPENED,
    NOT_TRIED,
    PREEMPTION_LIMIT,
    TOLERANCE,
    Model,
    Tables,
    allocate,
)
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_FAIR_SHARE,
    CAUSE_GANG,
    FAIR_SHARE,
    FREE,
    URGENCY,
    Runs,
    add_placement,
    is_live,
    preempt_run,
)

ANY_VALUE: Final = -1


@inlined
def find_free_node(t: Tables, m: Model, s: int, w: int) -> int:
    """Rung (a): the first position in the order of N3 with room beside everything, or -1.

    Of nodes that the shape prefers one that is preferred most (N1).

    Free room only falls while the pass goes on, so the search goes on where it last ended; what
    gives room back resets the cursors of the shapes that it could serve.
    """
    for k in range(t.bits.shape[2]):
        start = m.cursor[s, w, k]
        while True:
            p = find_first_fit(m.tree, t.types, t.request[s], t.bits[s, w, k], start)
            if p < 0:
                m.cursor[s, w, k] = t.types.size // 2
                break
            if t.rank[s, w, t.leaf_type[p]] == k:
                m.cursor[s, w, k] = p
                return p
            start = p + 1
    return NOWHERE


@internal
def find_free_node_for_member(
    t: Tables, m: Model, v: Runs, j: int, s: int, w: int, label: int, value: int
) -> int:
    """Rung (a) for a job of a gang, maybe bound to a label value, or one that avoids some nodes.

    It moves no cursor: what a gang tries may be undone. Within a label value the search goes on
    where the member before it ended, as long as they are of one shape.
    """
    if label >= 0:
        return find_free_node_with_label(t, m, v, j, s, w, label, value)
    for k in range(t.bits.shape[2]):
        start = m.cursor[s, w, k]
        while start >= 0:
            p = find_first_fit(m.tree, t.types, t.request[s], t.bits[s, w, k], start)
            if p >= 0 and t.rank[s, w, t.leaf_type[p]] == k and is_eligible(t, v, j, s, w, p):
                return p
            start = p + 1 if p >= 0 else NOWHERE
    return NOWHERE


@inlined
def find_free_node_with_label(
    t: Tables, m: Model, v: Runs, j: int, s: int, w: int, label: int, value: int
) -> int:
    """The first position with room and this value of a label, of those preferred most."""
    first = v.value_first[label, value]
    if m.number[N_GROUP_SHAPE] == s + 1:
        first = m.number[N_GROUP_AT]
    best = NOWHERE
    for i in range(first, v.value_first[label, value + 1]):
        p = v.value_rows[label, i]
        if not has_capacity(t, m, s, p) or not is_eligible(t, v, j, s, w, p):
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


@internal
def can_preempt_for_share(t: Tables, m: Model, v: Runs, q: int, after: float) -> bool:
    """Whether any other queue has evicted runs and so much that R13 could allow to take some."""
    for k in range(t.weight.size):
        if k != q and v.pending[k] > 0:
            held = 0.0
            for r in range(t.factor.size):
                held = max(held, v.held[k, r] * t.factor[r])
            if after < held / t.weight[k] - TOLERANCE:
                return True
    return False


@internal
def can_preempt_for_urgency(v: Runs, level: int) -> bool:
    """Whether anything preemptible runs below this level."""
    for lv in range(level):  # noqa: SIM110 - kernels have no generators
        if v.low[lv] > 0:
            return True
    return False


@internal
def preempt_chosen(t: Tables, m: Model, v: Runs, j: int) -> None:
    """The chosen victims of tier (b) give way to `j`, mates with them, each for a token (L8)."""
    for k in range(m.number[N_CHOSEN]):
        victim = v.chosen[k]
        preempt_run(t, m, v, victim, CAUSE_FAIR_SHARE, j)
        m.tokens[m.tokens.size - 1] -= 1.0
        if v.chosen_gang[k]:
            g = int(v.gang[victim])
            for i in range(v.gang_first[g], v.gang_first[g + 1]):
                mate = v.members[i]
                if is_live(v.state[mate]):
                    preempt_run(t, m, v, mate, CAUSE_GANG, j)
                    m.tokens[m.tokens.size - 1] -= 1.0


@inlined
def is_preemption_limited(m: Model, v: Runs) -> bool:
    """L8: whether there is no token left for the offer's first victim; its others may overdraw."""
    if m.tokens[m.tokens.size - 1] >= 1.0 - TOLERANCE:
        return False
    for i in range(m.number[N_JOURNAL]):  # noqa: SIM110 - kernels have no generators
        if v.journal[i] < 0:
            return False
    return True


@internal
def place_job(
    t: Tables, m: Model, v: Runs, j: int, after: float, label: int, value: int, top: int
) -> int:
    """Place a queued job on the first tier that has a node, at home or away, no higher than `top`.

    Returns 0, or the code that says why it found no place. `after` is the share / weight of its
    queue with the whole offer placed; `label` and `value` bind it to a part of the pool.
    """
    s = int(t.job_shape[j])
    q = int(v.queue[j])
    code = INSUFFICIENT
    bound = v.gang[j] >= 0 or (v.avoid_first.size > 0 and v.avoid_first[j] >= 0)
    for w in range(t.level.shape[1]):
        level = t.level[s, w]
        if level < 0:
            continue
        tier = FREE
        p = (
            find_free_node_for_member(t, m, v, j, s, w, label, value)
            if bound
            else find_free_node(t, m, s, w)
        )
        if p < 0 and top >= FAIR_SHARE and can_preempt_for_share(t, m, v, q, after):
            tier = FAIR_SHARE
            p = find_cheapest_node(t, m, v, j, w, after, FOR_SHARE, label, value)
            if p >= 0 and is_preemption_limited(m, v):
                code = PREEMPTION_LIMIT
                p = NOWHERE
            elif p >= 0:
                preempt_chosen(t, m, v, j)
        if p < 0 and top >= URGENCY and can_preempt_for_urgency(v, level):
            tier = URGENCY
            p = find_cheapest_node(t, m, v, j, w, after, FOR_URGENCY, label, value)
        if p >= 0:
            mark = m.number[N_JOURNAL]
            allocate(t, m, q, j, s, w, p)
            add_placement(t, m, v, j, w, p, tier)
            v.urged[j] = v.key[BEST, 3] if tier == URGENCY else 0.0
            if tier == FAIR_SHARE:
                reopen_shapes(t, m, v, mark)
            return 0
    return code


@internal
def reopen_shapes(t: Tables, m: Model, v: Runs, mark: int) -> None:
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
            if not has_capacity(t, m, s, p):
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
