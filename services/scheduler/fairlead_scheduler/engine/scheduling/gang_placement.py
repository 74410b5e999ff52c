"""Gangs: all or nothing, on one value of a label where they ask for it (N7 to N9)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, internal
from fairlead_scheduler.engine.scheduling.placement import (
    ANY_VALUE,
    can_preempt_for_share,
    place_job,
)
from fairlead_scheduler.engine.snapshot import TOTAL_MAX
from fairlead_scheduler.engine.state.round_state import (
    DOES_NOT_FIT,
    INSUFFICIENT,
    N_GROUP_SHAPE,
    N_JOURNAL,
    N_SPENT,
    NOT_TRIED,
    PREEMPTION_LIMIT,
    Model,
    Tables,
    cost_with,
    exceeds_class_limit,
    undo_allocation,
)
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_GANG,
    CAUSE_URGENCY,
    EVICTED,
    FREE,
    QUEUED,
    URGENCY,
    Runs,
    can_return,
    find_preemptor,
    is_live,
    preempt_run,
    remove_placement,
    restore_run,
    return_run,
)

MEASURES: Final = 3


@internal
def sum_members(t: Tables, v: Runs, g: int, first: int, last: int, state: int, need: int) -> int:
    """Sum up in `unit` what the first `need` members in this state ask for; the lowest value of all
    members in it (R4)."""
    for r in range(v.unit.size):
        v.unit[r] = 0
    value = np.iinfo(np.int64).max
    for i in range(first, last):
        j = v.members[i]
        if v.state[j] != state:
            continue
        s = int(t.job_shape[j])
        value = min(value, t.shape_value[s])
        if need > 0:
            need -= 1
            for r in range(v.unit.size):
                v.unit[r] = min(v.unit[r] + t.whole[s, r], TOTAL_MAX)
    return value


@internal
def gang_exceeds_class_limit(t: Tables, m: Model, v: Runs, q: int, g: int, need: int) -> bool:
    """L2 for a gang: whether its first `need` queued members are too many for any of their classes.

    `unit` is what it is worked out in.
    """
    for c in range(t.limit.shape[1]):
        for r in range(v.unit.size):
            v.unit[r] = 0
        left = need
        for i in range(v.gang_queued[g], v.gang_first[g + 1]):
            j = v.members[i]
            if v.state[j] != QUEUED or left == 0:
                continue
            left -= 1
            s = int(t.job_shape[j])
            if t.shape_class[s] == c:
                for r in range(v.unit.size):
                    v.unit[r] = min(v.unit[r] + t.whole[s, r], TOTAL_MAX)
        if exceeds_class_limit(t, m, q, c, v.unit):
            return True
    return False


@internal
def undo_offer(t: Tables, m: Model, v: Runs, mark: int) -> None:
    """Undo what the journal says after `mark`, last first."""
    while m.number[N_JOURNAL] > mark:
        m.number[N_JOURNAL] -= 1
        entry = v.journal[m.number[N_JOURNAL]]
        if entry > 0:
            j = entry - 1
            undo_allocation(t, m, int(v.queue[j]), int(t.job_shape[j]), v.at[j])
            remove_placement(t, m, v, j)
        else:
            j = -entry - 1
            restore_run(t, m, v, j, v.was[j])
            m.tokens[m.tokens.size - 1] += 1.0


@internal
def place_members(
    t: Tables, m: Model, v: Runs, g: int, need: int, after: float, value: int, top: int
) -> int:
    """Place up to `need` queued members within a label value; how many found a place.

    Members of a shape that found none are not tried again. Where the others would be enough with
    those that only the limit of preemptions (L8) holds back, number[N_SPENT] is set.
    """
    label = v.gang_label[g]
    m.number[N_GROUP_SHAPE] = 0
    placed = 0
    held_back = 0
    missed = -1
    why = NOT_TRIED
    for i in range(v.gang_queued[g], v.gang_first[g + 1]):
        if placed == need:
            break
        j = v.members[i]
        if v.state[j] != QUEUED:
            continue
        if t.job_shape[j] != missed:
            code = place_job(t, m, v, j, after, label, value, top)
            if code == NOT_TRIED:
                placed += 1
                continue
            missed = int(t.job_shape[j])
            why = code
        if why == PREEMPTION_LIMIT:
            held_back += 1
    if placed < need <= placed + held_back:
        m.number[N_SPENT] = 1
    return placed


@internal
def choose_label_value(
    t: Tables, m: Model, v: Runs, q: int, g: int, need: int, after: float
) -> int:
    """N7: the label value on which the gang stands best, or -1 when it fits on none.

    Each value is tried. But once all that waits has found free room on one, only a value on which
    less would stay free can be better, and what would stay free is known beforehand. Values are
    left out only where no run could give way for balance: even in vain that opens shapes again.
    """
    label = v.gang_label[g]
    best = ANY_VALUE
    more = v.gang_first[g + 1] - v.gang_queued[g]
    waiting = sum_waiting(t, v, g)
    calm = not can_preempt_for_share(t, m, v, q, after)
    all_free = False
    for value in range(v.value_first.shape[1] - 1):
        if v.value_first[label, value] == v.value_first[label, value + 1]:
            continue
        if all_free and not could_be_better(t, m, v, label, value):
            continue
        mark = m.number[N_JOURNAL]
        placed = place_members(t, m, v, g, need, after, value, URGENCY)
        if placed == need:
            measure_preemption(t, m, v, mark)
            placed += place_members(t, m, v, g, more, after, value, FREE)
            v.weighed[0, 0] = -placed
            measure_free_capacity(t, m, v, label, value)
            if best < 0 or is_better(v):
                best = value
                all_free = calm and placed == waiting and v.weighed[0, 1] == 0.0
                for i in range(v.weighed.shape[1]):
                    v.weighed[1, i] = v.weighed[0, i]
        undo_offer(t, m, v, mark)
    return best


@internal
def measure_preemption(t: Tables, m: Model, v: Runs, mark: int) -> None:
    """Whether the journal after `mark` stops anybody, and how much work that loses."""
    v.weighed[0, 1] = 0.0
    v.weighed[0, 2] = 0.0
    for i in range(mark, m.number[N_JOURNAL]):
        entry = v.journal[i]
        if entry < 0:
            v.weighed[0, 1] = 1.0
            v.weighed[0, 2] += v.lost[-entry - 1]
        elif v.tier[entry - 1] == URGENCY:
            v.weighed[0, 1] = 1.0
            v.weighed[0, 2] += v.urged[entry - 1]


@internal
def measure_free_capacity(t: Tables, m: Model, v: Runs, label: int, value: int) -> None:
    """What stays free on the value's nodes, by resource in the order of N3."""
    for i in range(t.ranked.size):
        v.weighed[0, MEASURES + i] = float(
            free_capacity_of_value(t, m, v, label, value, t.ranked[i])
        )


@inlined
def free_capacity_of_value(t: Tables, m: Model, v: Runs, label: int, value: int, r: int) -> int:
    """What is free of a resource on the value's nodes together."""
    size = t.types.size // 2
    total = 0
    for k in range(v.value_first[label, value], v.value_first[label, value + 1]):
        total += m.tree[size + v.value_rows[label, k], r]
    return total


@internal
def sum_waiting(t: Tables, v: Runs, g: int) -> int:
    """Sum up in `asked` what all queued members ask for of nodes; how many they are."""
    for r in range(v.asked.size):
        v.asked[r] = 0
    waiting = 0
    for i in range(v.gang_queued[g], v.gang_first[g + 1]):
        j = v.members[i]
        if v.state[j] == QUEUED:
            waiting += 1
            for r in range(v.asked.size):
                v.asked[r] += t.request[t.job_shape[j], r]
    return waiting


@internal
def could_be_better(t: Tables, m: Model, v: Runs, label: int, value: int) -> bool:
    """Whether the value, with all that was `asked` on it, would have less free than the best."""
    for i in range(t.ranked.size):
        r = t.ranked[i]
        left = float(free_capacity_of_value(t, m, v, label, value, r) - v.asked[r])
        if left != v.weighed[1, MEASURES + i]:
            return left < v.weighed[1, MEASURES + i]
    return False


@inlined
def is_better(v: Runs) -> bool:
    """Whether the value at hand is better than the best so far; equal ones are not."""
    for i in range(v.weighed.shape[1]):
        if v.weighed[0, i] != v.weighed[1, i]:
            return v.weighed[0, i] < v.weighed[1, i]
    return False


@internal
def start_gang(t: Tables, m: Model, v: Runs, q: int, g: int) -> int:
    """Place the `minSize` members that a gang needs, or nothing: 0 or the code of why not."""
    need = v.gang_min[g]
    m.number[N_SPENT] = 0
    sum_members(t, v, g, v.gang_queued[g], v.gang_first[g + 1], QUEUED, need)
    after = cost_with(v.held[q], v.unit, t.factor) / t.weight[q]
    value = v.gang_value[g]
    if v.gang_label[g] >= 0 and value < 0:
        value = choose_label_value(t, m, v, q, g, need, after)
        if value < 0:
            return PREEMPTION_LIMIT if m.number[N_SPENT] else DOES_NOT_FIT
    mark = m.number[N_JOURNAL]
    if place_members(t, m, v, g, need, after, value, URGENCY) < need:
        undo_offer(t, m, v, mark)
        return PREEMPTION_LIMIT if m.number[N_SPENT] else DOES_NOT_FIT
    v.gang_value[g] = value
    return NOT_TRIED


@internal
def place_further_member(t: Tables, m: Model, v: Runs, q: int, j: int) -> int:
    """Place a further member beside those that run, on tier (a): 0 or the code of why not."""
    g = int(v.gang[j])
    m.number[N_GROUP_SHAPE] = 0
    if v.gang_label[g] >= 0 and v.gang_value[g] < 0:
        return INSUFFICIENT
    return place_job(t, m, v, j, 0.0, v.gang_label[g], v.gang_value[g], FREE)


@internal
def preempt_evicted_run(t: Tables, m: Model, v: Runs, j: int) -> None:
    """An evicted run finds no room on its own node, for something more urgent is there (R5).

    Its mates go with it where the gang would have fewer than `minSize` left (N8).
    """
    for_job = find_preemptor(v, v.at[j], v.level[j])
    g = int(v.gang[j])
    whole = g >= 0 and v.gang_live[g] <= v.gang_min[g]
    preempt_run(t, m, v, j, CAUSE_URGENCY, for_job)
    if whole:
        for i in range(v.gang_first[g], v.gang_first[g + 1]):
            if is_live(v.state[v.members[i]]):
                preempt_run(t, m, v, v.members[i], CAUSE_GANG, for_job)


@internal
def return_gang(t: Tables, m: Model, v: Runs, g: int) -> None:
    """As many evicted members as the gang needs return to their nodes, or all give way."""
    need = min(v.gang_min[g], v.gang_live[g])
    back = 0
    for i in range(v.gang_first[g], v.gang_queued[g]):
        j = v.members[i]
        if back == need:
            return
        if v.state[j] == EVICTED:
            if can_return(t, m, v, j):
                return_run(t, m, v, j)
                back += 1
            else:
                preempt_evicted_run(t, m, v, j)
