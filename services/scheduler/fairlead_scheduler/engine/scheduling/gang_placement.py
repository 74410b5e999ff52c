"""Gangs: all or nothing, on one value of a label where they require it (N7 to N9)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.placement import (
    ANY_VALUE,
    can_preempt_for_share,
    can_preempt_for_urgency,
    place_job,
)
from fairlead_scheduler.engine.snapshot import TOTAL_MAX, Int64
from fairlead_scheduler.engine.state.capacity_tree import find_first_fit
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    DOES_NOT_FIT,
    INSUFFICIENT,
    N_GROUP_SHAPE,
    N_JOURNAL,
    N_WORK,
    NOT_TRIED,
    PREEMPTION_LIMIT,
    cost_with,
    exceeds_class_limit,
)
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_GANG,
    CAUSE_URGENCY,
    EVICTED,
    FREE,
    QUEUED,
    URGENCY,
    can_return,
    find_preemptor,
    is_live,
    preempt_run,
    remove_placement,
    restore_run,
    return_preemption_token,
    return_run,
    undo_allocation,
)

VALUES_TRIED_MAX: Final = 16
"""How many label values are tried for a gang on free capacity, and then with preemption."""
VALUES_CONSIDERED_MAX: Final = 64
"""How many values are found for that whose nodes could have enough together."""


class Attempt(NamedTuple):
    """What placing members came to."""

    placed: int
    limited: bool
    """whether only the limit of preemptions (L8) holds back those that are missing"""


class ValueRating(NamedTuple):
    """What N7 compares of a label value; what would stay free is in `ValueCapacity.least_waste`."""

    value: int
    """`ANY_VALUE` when the gang fits on no value so far"""
    placed: int
    preempts: int
    """whether any run would be preempted"""
    lost_work: float
    limited: bool
    """whether on any value so far only the limit of preemptions (L8) held the gang back"""


class LabelValue(NamedTuple):
    """What N7 chooses."""

    value: int
    """-1 when the gang fits on no value"""
    limited: bool
    """whether on one of them only the limit of preemptions (L8) held it back"""


@separate
def sum_members(model: RoundModel, g: int, first: int, last: int, state: int, need: int) -> int:
    """Sum up in `gangs.offer_request` what the first `need` members in this state request; returns
    the lowest class value of all members in it (R4)."""
    for r in range(model.gangs.offer_request.size):
        model.gangs.offer_request[r] = 0
    value = np.iinfo(np.int64).max
    for i in range(first, last):
        j = model.gangs.members[i]
        if model.runs.state[j] != state:
            continue
        s = int(model.jobs.shape[j])
        value = min(value, model.shapes.class_value[s])
        if need > 0:
            need -= 1
            for r in range(model.gangs.offer_request.size):
                model.gangs.offer_request[r] = min(
                    model.gangs.offer_request[r] + model.shapes.full_request[s, r], TOTAL_MAX
                )
    return value


@separate
def gang_exceeds_class_limit(model: RoundModel, q: int, g: int, need: int) -> bool:
    """L2 for a gang: whether its first `need` queued members are too many for any of their classes.

    It uses `gangs.offer_request`.
    """
    for c in range(model.entitlements.class_limit.shape[1]):
        for r in range(model.gangs.offer_request.size):
            model.gangs.offer_request[r] = 0
        left = need
        for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
            j = model.gangs.members[i]
            if model.runs.state[j] != QUEUED or left == 0:
                continue
            left -= 1
            s = int(model.jobs.shape[j])
            if model.shapes.priority_class[s] == c:
                for r in range(model.gangs.offer_request.size):
                    model.gangs.offer_request[r] = min(
                        model.gangs.offer_request[r] + model.shapes.full_request[s, r], TOTAL_MAX
                    )
        if exceeds_class_limit(model, q, c, model.gangs.offer_request):
            return True
    return False


@separate
def undo_offer(model: RoundModel, mark: int) -> None:
    """Undo what the journal says after `mark`, last first."""
    while model.counters[N_JOURNAL] > mark:
        model.counters[N_JOURNAL] -= 1
        entry = model.journal[model.counters[N_JOURNAL]]
        if entry > 0:
            j = entry - 1
            undo_allocation(
                model, int(model.jobs.queue[j]), int(model.jobs.shape[j]), model.runs.position[j]
            )
            remove_placement(model, j)
        else:
            j = -entry - 1
            restore_run(model, j, model.runs.state_before[j])
            return_preemption_token(model)


@separate
def place_members(
    model: RoundModel, g: int, need: int, after: float, value: int, top: int
) -> Attempt:
    """Place up to `need` queued members within a label value.

    Members of a shape that was not placed are not tried again.
    """
    label = model.gangs.label[g]
    model.counters[N_GROUP_SHAPE] = 0
    placed = 0
    held_back = 0
    missed = -1
    why = NOT_TRIED
    for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
        if placed == need:
            break
        j = model.gangs.members[i]
        if model.runs.state[j] != QUEUED:
            continue
        if model.jobs.shape[j] != missed:
            code = place_job(model, j, after, label, value, top)
            if code == NOT_TRIED:
                placed += 1
                continue
            missed = int(model.jobs.shape[j])
            why = code
        if why == PREEMPTION_LIMIT:
            held_back += 1
    return Attempt(placed, placed < need <= placed + held_back)


@separate
def choose_label_value(model: RoundModel, q: int, g: int, need: int, after: float) -> LabelValue:
    """N7: the best of the label values that are tried for the gang.

    First those are tried on which all its queued members could find free capacity, the least free
    first; a value on which more would stay free than on the best so far is passed over. Unless all
    of them were placed that way without preemption, those are tried then on which enough could be
    freed, the most free first. At most `VALUES_TRIED_MAX` values are tried each time.
    """
    label = model.gangs.label[g]
    more = model.gangs.first[g + 1] - model.gangs.queued_first[g]
    waiting = sum_waiting(model, g, more)
    best = ValueRating(ANY_VALUE, 0, 0, 0.0, False)
    tried = 0
    rank = -1
    for _ in range(VALUES_CONSIDERED_MAX):
        rank = find_next_value(model, model.values.free[label], label, rank + 1)
        if rank < 0 or tried == VALUES_TRIED_MAX:
            break
        value = model.values.value[label, rank]
        all_free = best.placed == waiting and best.preempts == 0
        if all_free and not could_be_better(model, label, rank):
            continue
        model.values.tried[tried] = value
        tried += 1
        best = try_value(model, best, g, need, after, value, rank)
    if best.placed == waiting and best.preempts == 0:
        return LabelValue(best.value, best.limited)
    preempting = can_preempt_for_share(model, q, after) or can_preempt_for_urgency(
        model, find_highest_level(model, g)
    )
    if need == waiting and not preempting and tried < VALUES_TRIED_MAX:
        return LabelValue(best.value, best.limited)
    sum_waiting(model, g, need)
    before = tried
    tried = 0
    place = -1
    for _ in range(VALUES_CONSIDERED_MAX):
        place = find_next_value(model, model.values.preemptible[label], label, place + 1)
        if place < 0 or tried == VALUES_TRIED_MAX:
            break
        rank = model.values.value.shape[1] - 1 - place
        value = model.values.value[label, rank]
        known = not preempting and not has_free_capacity(model, label, rank)
        for i in range(before):
            if model.values.tried[i] == value:
                known = True
        if not known:
            tried += 1
            best = try_value(model, best, g, need, after, value, rank)
    return LabelValue(best.value, best.limited)


@inlined
def find_next_value(model: RoundModel, tree: Int64, label: int, start: int) -> int:
    """The first leaf from `start` on where what the gang at hand needs is no more than the value's
    nodes have together, or -1."""
    model.counters[N_WORK] += 1
    return find_first_fit(
        tree, model.values.bits[label], model.gangs.waiting_request, np.uint64(1), start
    )


@separate
def try_value(
    model: RoundModel,
    best: ValueRating,
    g: int,
    need: int,
    after: float,
    value: int,
    rank: int,
) -> ValueRating:
    """Place the gang on a label value, compare that with the best so far, and undo it."""
    label = model.gangs.label[g]
    mark = model.counters[N_JOURNAL]
    attempt = place_members(model, g, need, after, value, URGENCY)
    limited = best.limited or attempt.limited
    result = ValueRating(best.value, best.placed, best.preempts, best.lost_work, limited)
    if attempt.placed == need:
        preempts = 0
        lost_work = 0.0
        for i in range(mark, model.counters[N_JOURNAL]):
            entry = model.journal[i]
            if entry < 0:
                preempts = 1
                lost_work += model.runs.lost_work[-entry - 1]
            elif model.runs.tier[entry - 1] == URGENCY:
                preempts = 1
                lost_work += model.runs.urgency_loss[entry - 1]
        more = model.gangs.first[g + 1] - model.gangs.queued_first[g]
        placed = need + place_members(model, g, more, after, value, FREE).placed
        rated = ValueRating(value, placed, preempts, lost_work, limited)
        if best.value < 0 or is_better_value(model, rated, best, label, rank):
            result = rated
            leaf = model.values.free.shape[1] // 2 + rank
            for r in range(model.values.least_waste.size):
                model.values.least_waste[r] = model.values.free[label, leaf, r]
    undo_offer(model, mark)
    return result


@inlined
def is_better_value(
    model: RoundModel, a: ValueRating, b: ValueRating, label: int, rank: int
) -> bool:
    """N7: whether `a`, of this rank and with the gang placed on it, is better than the best so
    far, `b`."""
    if a.placed != b.placed:
        return a.placed > b.placed
    if a.preempts != b.preempts:
        return a.preempts < b.preempts
    if a.lost_work != b.lost_work:
        return a.lost_work < b.lost_work
    leaf = model.values.free.shape[1] // 2 + rank
    for i in range(model.nodes.waste_order.size):
        r = model.nodes.waste_order[i]
        if model.values.free[label, leaf, r] != model.values.least_waste[r]:
            return model.values.free[label, leaf, r] < model.values.least_waste[r]
    return a.value < b.value


@inlined
def find_highest_level(model: RoundModel, g: int) -> int:
    """The highest level of the gang's queued members, at home."""
    level = 0
    for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
        s = int(model.jobs.shape[model.gangs.members[i]])
        level = max(level, model.shapes.level[s, 0])
    return level


@separate
def sum_waiting(model: RoundModel, g: int, need: int) -> int:
    """Set `gangs.waiting_request` to the least that `need` of the queued members can need of nodes
    together; returns how many are queued.

    That is what all of them need, or `need` times the least of each resource.
    """
    for r in range(model.gangs.waiting_request.size):
        model.gangs.waiting_request[r] = 0
    waiting = 0
    for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
        j = model.gangs.members[i]
        if model.runs.state[j] == QUEUED:
            waiting += 1
            for r in range(model.gangs.waiting_request.size):
                model.gangs.waiting_request[r] = min(
                    model.gangs.waiting_request[r] + model.shapes.request[model.jobs.shape[j], r],
                    TOTAL_MAX,
                )
    if need >= waiting:
        return waiting
    for r in range(model.gangs.waiting_request.size):
        least = model.gangs.waiting_request[r]
        for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
            j = model.gangs.members[i]
            if model.runs.state[j] == QUEUED:
                least = min(least, model.shapes.request[model.jobs.shape[j], r])
        model.gangs.waiting_request[r] = min(model.gangs.waiting_request[r], need * least)
    return waiting


@inlined
def has_free_capacity(model: RoundModel, label: int, rank: int) -> bool:
    """Whether what the gang at hand needs is free on the nodes of the value together."""
    leaf = model.values.free.shape[1] // 2 + rank
    for r in range(model.gangs.waiting_request.size):
        if model.gangs.waiting_request[r] > model.values.free[label, leaf, r]:
            return False
    return True


@inlined
def could_be_better(model: RoundModel, label: int, rank: int) -> bool:
    """Whether less would stay free on the value than on the best, with all queued members on it."""
    leaf = model.values.free.shape[1] // 2 + rank
    for i in range(model.nodes.waste_order.size):
        r = model.nodes.waste_order[i]
        left = model.values.free[label, leaf, r] - model.gangs.waiting_request[r]
        if left != model.values.least_waste[r]:
            return left < model.values.least_waste[r]
    return False


@separate
def start_gang(model: RoundModel, q: int, g: int) -> int:
    """Place the `minSize` members that a gang needs, or nothing: 0 or the code of why not."""
    need = model.gangs.min_size[g]
    sum_members(model, g, model.gangs.queued_first[g], model.gangs.first[g + 1], QUEUED, need)
    after = (
        cost_with(model.usage.held[q], model.gangs.offer_request, model.entitlements.cost_factor)
        / model.entitlements.weight[q]
    )
    value = model.gangs.value[g]
    limited = False
    if model.gangs.label[g] >= 0 and value < 0:
        found = choose_label_value(model, q, g, need, after)
        value = found.value
        limited = found.limited
        if value < 0:
            return PREEMPTION_LIMIT if limited else DOES_NOT_FIT
    mark = model.counters[N_JOURNAL]
    attempt = place_members(model, g, need, after, value, URGENCY)
    if attempt.placed < need:
        undo_offer(model, mark)
        return PREEMPTION_LIMIT if limited or attempt.limited else DOES_NOT_FIT
    model.gangs.value[g] = value
    return NOT_TRIED


@separate
def place_further_member(model: RoundModel, j: int) -> int:
    """Place a further member beside those that run, on tier (a): 0 or the code of why not."""
    g = int(model.jobs.gang[j])
    model.counters[N_GROUP_SHAPE] = 0
    if model.gangs.label[g] >= 0 and model.gangs.value[g] < 0:
        return INSUFFICIENT
    return place_job(model, j, 0.0, model.gangs.label[g], model.gangs.value[g], FREE)


@separate
def preempt_evicted_run(model: RoundModel, j: int) -> None:
    """Preempt an evicted run whose own node has no capacity: something more urgent is there (R5).

    The other members go with it where the gang would have fewer than `minSize` left (N8).
    """
    for_job = find_preemptor(model, model.runs.position[j], model.runs.level[j])
    g = int(model.jobs.gang[j])
    whole = g >= 0 and model.gangs.live[g] <= model.gangs.min_size[g]
    preempt_run(model, j, CAUSE_URGENCY, for_job)
    if whole:
        for i in range(model.gangs.first[g], model.gangs.first[g + 1]):
            if is_live(model.runs.state[model.gangs.members[i]]):
                preempt_run(model, model.gangs.members[i], CAUSE_GANG, for_job)


@separate
def return_gang(model: RoundModel, g: int) -> None:
    """Return as many evicted members as the gang needs to their nodes, or preempt all."""
    need = min(model.gangs.min_size[g], model.gangs.live[g])
    back = 0
    for i in range(model.gangs.first[g], model.gangs.queued_first[g]):
        j = model.gangs.members[i]
        if back == need:
            return
        if model.runs.state[j] == EVICTED:
            if can_return(model, j):
                return_run(model, j)
                back += 1
            else:
                preempt_evicted_run(model, j)
