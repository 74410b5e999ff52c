"""How a gang starts: all or nothing, on the label value that it chooses (N7)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.gang_placement import (
    place_members,
    start_counting,
    sum_members,
    undo_offer,
)
from fairlead_scheduler.engine.scheduling.placement import (
    ANY_VALUE,
    can_preempt_for_share,
    can_preempt_for_urgency,
)
from fairlead_scheduler.engine.snapshot import TOTAL_MAX, Int64
from fairlead_scheduler.engine.state.capacity_tree import find_first_fit
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    DOES_NOT_FIT,
    N_JOURNAL,
    N_WORK,
    N_WORK_END,
    NO_REASON,
    PREEMPTION_LIMIT,
    QUEUED,
    cost_with,
)
from fairlead_scheduler.engine.state.run_states import FREE, URGENCY

VALUES_TRIED_MAX: Final = 16
"""How many label values are tried for a gang on free capacity, and then with preemption."""
VALUES_CONSIDERED_MAX: Final = 64
"""How many values whose nodes have enough together are considered for being tried."""

SEARCHING: Final = -2
"""Instead of a label value or a code: the search for a value continues in the next call."""

# The progress of the search for a label value, by index into `ValueCapacity.search`.
SEARCHED_GANG: Final = 0
"""gang + 1; 0 = no search is in progress"""
STAGE: Final = 1
NEXT_AFTER: Final = 2
CONSIDERED: Final = 3
TRIED: Final = 4
TRIED_FREE: Final = 5
PREEMPTS: Final = 6
BEST_VALUE: Final = 7
BEST_PLACED: Final = 8
BEST_PREEMPTS: Final = 9
LIMITED: Final = 10
SEARCH_NUMBERS: Final = 11

FREE_VALUES: Final = 0
PREEMPTIBLE_VALUES: Final = 1


class ValueRating(NamedTuple):
    """What N7 compares of a label value. Free capacity is in `ValueCapacity.least_waste`."""

    value: int
    """`ANY_VALUE` when the gang fits on no value so far"""
    placed: int
    preempts: int
    """whether any run would be preempted"""
    lost_work: float
    limited: bool
    """whether on any value so far only the limit of preemptions (L8) prevented the start"""


class PreemptionCost(NamedTuple):
    """What placing the members of a gang preempts."""

    preempts: int
    """whether any run is preempted"""
    lost_work: float


class LabelValue(NamedTuple):
    """The label value that N7 chooses."""

    value: int
    """-1 when the gang fits on no value"""
    limited: bool
    """whether on some value only the limit of preemptions (L8) prevented the start"""


@separate
def choose_label_value(model: RoundModel, q: int, g: int, need: int, after: float) -> LabelValue:
    """N7: the best of the label values that are tried for the gang.

    First it tries values with free capacity for all queued members, the least free first, and
    skips values on which more would stay free than on the best so far. Unless all members were
    placed without preemption, it then tries values on which enough could be freed, the most free
    first. It tries at most `VALUES_TRIED_MAX` values each time.

    It returns `SEARCHING` between two values when the pass has to return (L6), and continues there
    when it is called again for the gang.
    """
    search = model.values.search
    waiting = sum_waiting(model, g, model.gangs.first[g + 1] - model.gangs.queued_first[g])
    if search[SEARCHED_GANG] != g + 1:
        search[SEARCHED_GANG] = g + 1
        save_search(model, FREE_VALUES, -1, ValueRating(ANY_VALUE, 0, 0, 0.0, False))
        search[CONSIDERED] = 0
        search[TRIED] = 0
    best = ValueRating(
        search[BEST_VALUE],
        search[BEST_PLACED],
        search[BEST_PREEMPTS],
        model.values.best_lost_work[0],
        search[LIMITED] != 0,
    )
    if search[STAGE] == FREE_VALUES:
        best = try_free_values(model, best, g, need, after, waiting)
        if best.value == SEARCHING:
            return LabelValue(SEARCHING, False)
        preempting = can_preempt_for_share(model, q, after) or can_preempt_for_urgency(
            model, find_highest_level(model, g)
        )
        all_free = best.placed == waiting and best.preempts == 0
        all_tried = need == waiting and not preempting and search[TRIED] < VALUES_TRIED_MAX
        if all_free or all_tried:
            search[SEARCHED_GANG] = 0
            return LabelValue(best.value, best.limited)
        search[TRIED_FREE] = search[TRIED]
        search[CONSIDERED] = 0
        search[TRIED] = 0
        search[PREEMPTS] = preempting
        save_search(model, PREEMPTIBLE_VALUES, -1, best)
    sum_waiting(model, g, need)
    best = try_preemptible_values(model, best, g, need, after)
    if best.value != SEARCHING:
        search[SEARCHED_GANG] = 0
    return LabelValue(best.value, best.limited)


@inlined
def save_search(model: RoundModel, stage: int, at: int, best: ValueRating) -> None:
    """Save the progress of the search for a label value."""
    search = model.values.search
    search[STAGE] = stage
    search[NEXT_AFTER] = at
    search[BEST_VALUE] = best.value
    search[BEST_PLACED] = best.placed
    search[BEST_PREEMPTS] = best.preempts
    search[LIMITED] = best.limited
    model.values.best_lost_work[0] = best.lost_work


@inlined
def try_free_values(
    model: RoundModel, best: ValueRating, g: int, need: int, after: float, waiting: int
) -> ValueRating:
    """Try values on which all queued members could find free capacity, the least free first; at
    least one before the pass returns."""
    label = model.gangs.label[g]
    search = model.values.search
    rank = search[NEXT_AFTER]
    while True:
        rank = find_next_value(model, model.values.free[label], label, rank + 1)
        if rank < 0:
            break
        value = model.values.value[label, rank]
        all_free = best.placed == waiting and best.preempts == 0
        if all_free and not could_be_better(model, label, rank):
            continue
        model.values.tried[search[TRIED]] = value
        search[TRIED] += 1
        best = try_value(model, best, g, need, after, value, rank)
        if model.counters[N_WORK] >= model.counters[N_WORK_END]:
            save_search(model, FREE_VALUES, rank, best)
            return ValueRating(SEARCHING, 0, 0, 0.0, False)
    return best


@inlined
def try_preemptible_values(
    model: RoundModel, best: ValueRating, g: int, need: int, after: float
) -> ValueRating:
    """Try values on which enough could be freed, the most free first; at least one before the pass
    returns."""
    label = model.gangs.label[g]
    search = model.values.search
    place = search[NEXT_AFTER]
    while True:
        place = find_next_value(model, model.values.preemptible[label], label, place + 1)
        if place < 0:
            break
        rank = model.values.value.shape[1] - 1 - place
        value = model.values.value[label, rank]
        if was_tried_free(model, value):
            continue
        if not search[PREEMPTS] and not has_free_capacity(model, label, rank):
            continue
        search[TRIED] += 1
        best = try_value(model, best, g, need, after, value, rank)
        if model.counters[N_WORK] >= model.counters[N_WORK_END]:
            save_search(model, PREEMPTIBLE_VALUES, place, best)
            return ValueRating(SEARCHING, 0, 0, 0.0, False)
    return best


@inlined
def was_tried_free(model: RoundModel, value: int) -> bool:
    """Whether `try_free_values` tried the label value."""
    for i in range(model.values.search[TRIED_FREE]):  # noqa: SIM110 - kernels have no generators
        if model.values.tried[i] == value:
            return True
    return False


@inlined
def find_next_value(model: RoundModel, tree: Int64, label: int, start: int) -> int:
    """The first leaf from `start` on whose label value has, on its nodes together, what the gang at
    hand needs; -1 without one, or when no more values are considered or tried."""
    search = model.values.search
    if search[CONSIDERED] == VALUES_CONSIDERED_MAX:
        return -1
    search[CONSIDERED] += 1
    found = find_first_fit(
        tree,
        model.values.bits[label],
        model.gangs.waiting_request,
        np.uint64(1),
        start,
        model.counters,
    )
    return -1 if search[TRIED] == VALUES_TRIED_MAX else found


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
    """Place the gang on a label value, compare the result with the best so far, and undo it."""
    label = model.gangs.label[g]
    mark = model.counters[N_JOURNAL]
    attempt = place_members(model, g, need, after, value, URGENCY)
    limited = best.limited or attempt.limited
    result = ValueRating(best.value, best.placed, best.preempts, best.lost_work, limited)
    if attempt.placed == need:
        cost = sum_preemptions(model, mark)
        more = model.gangs.first[g + 1] - model.gangs.queued_first[g]
        placed = need + place_members(model, g, more, after, value, FREE).placed
        rated = ValueRating(value, placed, cost.preempts, cost.lost_work, limited)
        if best.value < 0 or is_better_value(model, rated, best, label, rank):
            result = rated
            leaf = model.values.free.shape[1] // 2 + rank
            for r in range(model.values.least_waste.size):
                model.values.least_waste[r] = model.values.free[label, leaf, r]
    undo_offer(model, mark)
    return result


@inlined
def sum_preemptions(model: RoundModel, mark: int) -> PreemptionCost:
    """Sum up the preemptions in the journal after `mark`, with the runs below jobs on tier (c)."""
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
    return PreemptionCost(preempts, lost_work)


@inlined
def is_better_value(
    model: RoundModel, a: ValueRating, b: ValueRating, label: int, rank: int
) -> bool:
    """N7: whether `a`, the value of this rank with the gang placed on it, is better than `b`, the
    best so far."""
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
    if need < waiting:
        for r in range(model.gangs.waiting_request.size):
            least = find_least_request(model, g, r)
            model.gangs.waiting_request[r] = min(model.gangs.waiting_request[r], need * least)
    return waiting


@inlined
def find_least_request(model: RoundModel, g: int, r: int) -> int:
    """The least that any queued member of the gang requests of a resource."""
    least = TOTAL_MAX
    for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
        j = model.gangs.members[i]
        if model.runs.state[j] == QUEUED:
            least = min(least, model.shapes.request[model.jobs.shape[j], r])
    return least


@inlined
def has_free_capacity(model: RoundModel, label: int, rank: int) -> bool:
    """Whether the nodes of the value have enough free capacity together for the gang at hand."""
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
    """Place the `minSize` members that a gang needs, or nothing: `NO_REASON`, the code of why
    not, or `SEARCHING`."""
    need = model.gangs.min_size[g]
    start_counting(model, g, need)
    sum_members(model, g, model.gangs.queued_first[g], model.gangs.first[g + 1], QUEUED)
    after = (
        cost_with(model.usage.held[q], model.gangs.offer_request, model.entitlements.cost_factor)
        / model.entitlements.weight[q]
    )
    value = model.gangs.value[g]
    limited = False
    if model.gangs.label[g] >= 0 and value < 0:
        found = choose_label_value(model, q, g, need, after)
        if found.value == SEARCHING:
            return SEARCHING
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
    return NO_REASON
