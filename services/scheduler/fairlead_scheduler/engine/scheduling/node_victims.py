"""Who would have to give way on one position, and how dear that is (N2b, N4, R6, R9)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import inlined, internal
from fairlead_scheduler.engine.state.round_state import N_TAKEN, TOLERANCE, Model, Tables
from fairlead_scheduler.engine.state.run_states import (
    EVICTED,
    NON_PREEMPTIBLE,
    Runs,
    is_live,
    to_share_steps,
    update_share,
)

FOR_SHARE: Final = 0
"""Rung (b): evicted runs of other queues, of no higher value, under R13."""
FOR_URGENCY: Final = 1
"""Rung (c): preemptible pieces of lower value, evicted or not."""
TO_FIT: Final = 2
"""R6: preemptible pieces of any value, until nothing is on top of anything."""

KEYS: Final = 7
FIRST_VICTIM: Final = 6
CURRENT: Final = 0
BEST: Final = 1

UNTOUCHED: Final = 0
CHOSEN: Final = 1
MATE: Final = 2


@inlined
def goes_first(v: Runs, a: int, b: int) -> bool:
    """The order of N2b: whether `a` gives way before `b`."""
    if v.level[a] != v.level[b]:
        return v.level[a] < v.level[b]
    if v.above[v.queue[a]] != v.above[v.queue[b]]:
        return v.above[v.queue[a]] > v.above[v.queue[b]]
    if v.priority[a] != v.priority[b]:
        return v.priority[a] < v.priority[b]
    if v.lost[a] != v.lost[b]:
        return v.lost[a] < v.lost[b]
    if v.started[a] != v.started[b]:
        return v.started[a] > v.started[b]
    return v.submission[a] > v.submission[b]


@inlined
def is_candidate(v: Runs, j: int, taker: int, level: int, mode: int) -> bool:
    """Whether the piece may be looked at as a victim at all."""
    if v.kind[j] >= NON_PREEMPTIBLE or not is_live(v.state[j]):
        return False
    if mode == TO_FIT:
        return True
    if v.gang[j] >= 0 and v.gang[j] == v.gang[taker]:
        return False
    if mode == FOR_SHARE:
        return v.state[j] == EVICTED and v.level[j] <= level and v.queue[j] != v.queue[taker]
    return v.level[j] < level


@inlined
def is_enough(v: Runs) -> bool:
    """Whether nothing is lacking any more."""
    for r in range(v.need.size):  # noqa: SIM110 - kernels have no generators
        if v.need[r] > 0:
            return False
    return True


@inlined
def assumed_cost(t: Tables, v: Runs, q: int) -> float:
    """Cost of what the queue holds in the model, without what is reckoned as gone."""
    result = 0.0
    for r in range(t.factor.size):
        result = max(result, (v.held[q, r] - v.less[q, r]) * t.factor[r])
    return result


@inlined
def assume_run(t: Tables, v: Runs, j: int, p: int, sign: int) -> None:
    """Reckon with a piece as gone (1) or as there (-1)."""
    s = int(t.job_shape[j])
    if v.at[j] == p:
        for r in range(v.need.size):
            v.need[r] -= sign * t.request[s, r]
    for r in range(t.factor.size):
        v.less[v.queue[j], r] += sign * t.whole[s, r]
    if v.gang[j] >= 0:
        v.gang_gone[v.gang[j]] += sign


@inlined
def assume_preempted(t: Tables, v: Runs, j: int, p: int, whole_gang: int) -> None:
    """Reckon with a victim as gone, and with all its mates if they go with it."""
    v.out[j] = CHOSEN
    assume_run(t, v, j, p, 1)
    if whole_gang:
        g = int(v.gang[j])
        for i in range(v.gang_first[g], v.gang_first[g + 1]):
            k = v.members[i]
            if v.out[k] == UNTOUCHED and is_live(v.state[k]):
                v.out[k] = MATE
                assume_run(t, v, k, p, 1)
    update_share(t, v, int(v.queue[j]))


@internal
def undo_assumption(t: Tables, v: Runs, j: int, p: int, whole_gang: int) -> None:
    """Undo `reckon`."""
    v.out[j] = UNTOUCHED
    assume_run(t, v, j, p, -1)
    if whole_gang:
        g = int(v.gang[j])
        for i in range(v.gang_first[g], v.gang_first[g + 1]):
            k = v.members[i]
            if v.out[k] == MATE:
                v.out[k] = UNTOUCHED
                assume_run(t, v, k, p, -1)
    update_share(t, v, int(v.queue[j]))


@internal
def choose_victims(
    t: Tables, m: Model, v: Runs, taker: int, p: int, level: int, after: float, mode: int
) -> bool:
    """Choose the victims on position `p` for the job `taker`; False when no set is allowed.

    They are left in `taken`[:number[N_TAKEN]], with `whole_gang` where all members go with one,
    and ranked in `key[NOW]`. On tier (c) only those count that are needed beyond what is on top of
    others there already. `after` is the taker's share / weight with its whole offer placed (R13).
    """
    size = t.types.size // 2
    n = 0
    j = v.head[p]
    while j >= 0:
        if is_candidate(v, j, taker, level, mode):
            v.candidates[n] = j
            n += 1
        j = v.link[j]
    for r in range(v.need.size):
        v.need[r] = -m.tree[size + p, r]
    m.number[N_TAKEN] = 0
    covered = 0
    if mode == FOR_URGENCY:
        n = take_until_fit(t, m, v, n, p, after, mode)
        if is_enough(v):
            spare_unneeded(t, m, v, p, 0)
            n = return_spared(m, v, n)
        covered = m.number[N_TAKEN]
    if mode != TO_FIT:
        for r in range(v.need.size):
            v.need[r] += t.request[t.job_shape[taker], r]
    take_until_fit(t, m, v, n, p, after, mode)
    found = is_enough(v)
    if found:
        spare_unneeded(t, m, v, p, covered)
        rank_victims(t, m, v, covered, mode)
    kept = 0
    for k in range(m.number[N_TAKEN]):
        if v.taken[k] < 0:
            continue
        undo_assumption(t, v, v.taken[k], p, v.whole_gang[k])
        if k >= covered:
            v.taken[kept] = v.taken[k]
            v.whole_gang[kept] = v.whole_gang[k]
            kept += 1
    m.number[N_TAKEN] = kept
    return found


@inlined
def take_until_fit(t: Tables, m: Model, v: Runs, n: int, p: int, after: float, mode: int) -> int:
    """Take candidates one by one in the order of N2b until it fits; how many are left."""
    while n > 0 and not is_enough(v):
        first = 0
        for i in range(1, n):
            if goes_first(v, v.candidates[i], v.candidates[first]):
                first = i
        j = v.candidates[first]
        n -= 1
        v.candidates[first] = v.candidates[n]
        if v.out[j] != UNTOUCHED:
            continue
        q = int(v.queue[j])
        if mode == FOR_SHARE and after >= assumed_cost(t, v, q) / t.weight[q] - TOLERANCE:
            continue
        g = int(v.gang[j])
        whole = 0
        if g >= 0 and v.gang_live[g] - v.gang_gone[g] <= v.gang_min[g]:
            whole = 1
        k = m.number[N_TAKEN]
        v.taken[k] = j
        v.whole_gang[k] = whole
        m.number[N_TAKEN] = k + 1
        assume_preempted(t, v, j, p, whole)
    return n


@internal
def spare_unneeded(t: Tables, m: Model, v: Runs, p: int, covered: int) -> None:
    """N2b: what was taken is given back, in the order taken, where it fits without it.

    A gang of which several were taken one after another stays taken: what goes with the last
    depends on those before.
    """
    n = m.number[N_TAKEN]
    for k in range(covered, n):
        j = v.taken[k]
        alone = True
        if v.gang[j] >= 0:
            for i in range(n):
                if i != k and v.taken[i] >= 0 and v.gang[v.taken[i]] == v.gang[j]:
                    alone = False
        if not alone:
            continue
        undo_assumption(t, v, j, p, v.whole_gang[k])
        if is_enough(v):
            v.taken[k] = -1 - j
        else:
            assume_preempted(t, v, j, p, v.whole_gang[k])


@internal
def return_spared(m: Model, v: Runs, n: int) -> int:
    """Put what was given back among the `n` candidates again; how many they are then."""
    kept = 0
    for k in range(m.number[N_TAKEN]):
        if v.taken[k] < 0:
            v.candidates[n] = -1 - v.taken[k]
            n += 1
            continue
        v.taken[kept] = v.taken[k]
        v.whole_gang[kept] = v.whole_gang[k]
        kept += 1
    m.number[N_TAKEN] = kept
    return n


@internal
def rank_victims(t: Tables, m: Model, v: Runs, covered: int, mode: int) -> None:
    """N4 as numbers in `key[NOW]`, smaller is better: greatest value, gang, the queue furthest
    above its share (tier b), lost work, number, youngest first victim; last the row of that one,
    for submission numbers are larger than a double can tell apart."""
    for i in range(KEYS):
        v.key[CURRENT, i] = 0.0
    v.key[CURRENT, 0] = -1.0
    v.key[CURRENT, FIRST_VICTIM] = -1.0
    lead = -1
    for k in range(covered, m.number[N_TAKEN]):
        j = v.taken[k]
        if j < 0:
            continue
        if lead < 0:
            lead = j
        add_to_rank(v, j)
        g = int(v.gang[j])
        if g >= 0:
            v.key[CURRENT, 1] = 1.0
        if v.whole_gang[k]:
            for i in range(v.gang_first[g], v.gang_first[g + 1]):
                if v.out[v.members[i]] == MATE:
                    add_to_rank(v, v.members[i])
    if lead < 0:
        return
    q = int(v.queue[lead])
    if mode == FOR_SHARE:
        above = 0.0
        for r in range(t.factor.size):
            above = max(above, v.held[q, r] * t.factor[r])
        v.key[CURRENT, 2] = -float(to_share_steps(above, v.entitled[q]))
    v.key[CURRENT, 5] = -float(v.started[lead])
    v.key[CURRENT, FIRST_VICTIM] = float(lead)


@inlined
def add_to_rank(v: Runs, j: int) -> None:
    """Add one run that would have to stop."""
    v.key[CURRENT, 0] = max(v.key[CURRENT, 0], float(v.level[j]))
    v.key[CURRENT, 3] += v.lost[j]
    v.key[CURRENT, 4] += 1.0


@inlined
def compare_with_best(v: Runs) -> int:
    """-1 where the position at hand has cheaper victims than the best so far (N4), 1 dearer."""
    for i in range(FIRST_VICTIM):
        if v.key[CURRENT, i] < v.key[BEST, i]:
            return -1
        if v.key[CURRENT, i] > v.key[BEST, i]:
            return 1
    return compare_ids(v, v.key[CURRENT, FIRST_VICTIM], v.key[BEST, FIRST_VICTIM])


@inlined
def compare_ids(v: Runs, a: float, b: float) -> int:
    """The end of N4: -1 where the first victim in row `a` has the greater id, 1 where `b` has."""
    if a < 0.0 or b < 0.0 or a == b:
        return 0
    return -1 if v.submission[int(a)] > v.submission[int(b)] else 1
