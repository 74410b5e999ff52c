"""Starts gangs, all or nothing, and chooses the label value on which a gang starts (N7)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.gang_placement import (
    Attempt,
    place_members,
    sum_new_gang,
    sum_preemptions,
    undo_offer,
)
from fairlead_scheduler.engine.scheduling.placement import (
    ANY_VALUE,
    can_preempt_for_share,
    can_preempt_for_urgency,
)
from fairlead_scheduler.engine.scheduling.strict_gain import (
    NO_FAIR_SHARE,
    is_gain_of_gang,
    measure_offer,
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
)
from fairlead_scheduler.engine.state.run_states import FREE, URGENCY

VALUES_TRIED_MAX: Final = 16
"""The most label values that are tried for a gang on free capacity, and then again with
preemption."""
VALUES_CONSIDERED_MAX: Final = 64
"""The most values with enough capacity on all their nodes together that are considered."""

SEARCHING: Final = -2
"""Instead of a label value or a code: the search for a value continues in the next call."""

# The progress of the search for a label value, by index into `ValueCapacity.search`.
SEARCHED_GANG: Final = 0
"""gang + 1; 0 = no search is in progress"""
STAGE: Final = 1
"""`FREE_VALUES` or `PREEMPTIBLE_VALUES`"""
NEXT_AFTER: Final = 2
"""place of the last value that was tried in this stage, -1 = none was"""
CONSIDERED: Final = 3
TRIED: Final = 4
TRIED_FREE: Final = 5
PREEMPTS: Final = 6
BEST_VALUE: Final = 7
BEST_PLACED: Final = 8
BEST_PREEMPTS: Final = 9
LIMITED: Final = 10
SEARCH_NUMBERS: Final = 11

# Stages of the search.
FREE_VALUES: Final = 0
"""Values with free capacity for all queued members, the least free first."""
PREEMPTIBLE_VALUES: Final = 1
"""Values on which preemption could free enough, the most free first."""


class ValueRating(NamedTuple):
    """What N7 compares of a label value, beside its free capacity (`ValueCapacity.least_waste`)."""

    value: int
    """`ANY_VALUE` if the gang fits on no value that was tried"""
    placed: int
    """the number of members placed"""
    preempts: int
    """1 if any run would be preempted"""
    lost_work: float
    """in steps of `eviction.LOST_STEPS`"""
    limited: bool
    """whether on any value that was tried only the limit of preemptions (L8) prevented the start"""


class LabelValue(NamedTuple):
    """The label value that N7 chooses."""

    value: int
    """`ANY_VALUE` if the gang fits on no value; `SEARCHING`"""
    limited: bool
    """whether on any value only the limit of preemptions (L8) prevented the start"""


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


@separate
def try_free_values(
    model: RoundModel, best: ValueRating, g: int, need: int, after: float, waiting: int
) -> ValueRating:
    """The stage `FREE_VALUES`: the best of these values and of `best`. It tries at least one value
    before it returns `SEARCHING`."""
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


@separate
def try_preemptible_values(
    model: RoundModel, best: ValueRating, g: int, need: int, after: float
) -> ValueRating:
    """The stage `PREEMPTIBLE_VALUES`: the best of these values and of `best`. It tries at least one
    value before it returns `SEARCHING`."""
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
    """The first leaf from `start` on whose label value has `gangs.waiting_request` on all its nodes
    together; -1 without such a leaf, or if enough values were considered or tried."""
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
    """Place gang `g` on a label value, compare the result with the best one, and undo it; returns
    the better of the two."""
    label = model.gangs.label[g]
    mark = model.counters[N_JOURNAL]
    attempt = place_needed_members(model, g, need, after, value)
    limited = best.limited or attempt.limited
    result = ValueRating(best.value, best.placed, best.preempts, best.lost_work, limited)
    if attempt.placed == need:
        cost = sum_preemptions(model, mark)
        more = model.gangs.first[g + 1] - model.gangs.queued_first[g]
        placed = need + place_members(model, g, more, after, value, FREE).placed
        rated = ValueRating(value, placed, min(cost.victims, 1), cost.lost_work, limited)
        if best.value < 0 or is_better_value(model, rated, best, label, rank):
            result = rated
            leaf = model.values.free.shape[1] // 2 + rank
            for r in range(model.values.least_waste.size):
                model.values.least_waste[r] = model.values.free[label, leaf, r]
    undo_offer(model, mark)
    return result


@separate
def place_needed_members(model: RoundModel, g: int, need: int, after: float, value: int) -> Attempt:
    """Place the members that gang `g` needs to start on a label value, on all tiers; without tier
    (b) if they would take more on it than R13 permits all of them together."""
    mark = model.counters[N_JOURNAL]
    attempt = place_members(model, g, need, after, value, URGENCY)
    if attempt.placed < need or is_gain_of_gang(model, g, mark, after):
        return attempt
    undo_offer(model, mark)
    return place_members(model, g, need, NO_FAIR_SHARE, value, URGENCY)


@separate
def is_better_value(
    model: RoundModel, a: ValueRating, b: ValueRating, label: int, rank: int
) -> bool:
    """N7: whether `a`, for the value of this `rank` while the gang is placed on it, is better than
    `b`, the best so far."""
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


@separate
def find_highest_level(model: RoundModel, g: int) -> int:
    """The highest level of the gang's queued members, at home."""
    level = 0
    for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
        s = model.jobs.shape[model.gangs.members[i]]
        level = max(level, model.shapes.level[s, 0])
    return level


@separate
def sum_waiting(model: RoundModel, g: int, need: int) -> int:
    """Set `gangs.waiting_request` to a lower bound of what any `need` of the queued members request
    together; returns the number of queued members.

    The bound is what all queued members request, or less: `need` times the least request of any
    member for each resource.
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
    """Whether the nodes of the value have `gangs.waiting_request` free together."""
    leaf = model.values.free.shape[1] // 2 + rank
    for r in range(model.gangs.waiting_request.size):
        if model.gangs.waiting_request[r] > model.values.free[label, leaf, r]:
            return False
    return True


@inlined
def could_be_better(model: RoundModel, label: int, rank: int) -> bool:
    """Whether less would stay free on this value, with all queued members on it, than on the best
    one."""
    leaf = model.values.free.shape[1] // 2 + rank
    for i in range(model.nodes.waste_order.size):
        r = model.nodes.waste_order[i]
        left = model.values.free[label, leaf, r] - model.gangs.waiting_request[r]
        if left != model.values.least_waste[r]:
            return left < model.values.least_waste[r]
    return False


@separate
def start_gang(model: RoundModel, q: int, g: int) -> int:
    """Place the members that a gang without a topology needs to start, or nothing: `NO_REASON`, the
    code of the reason why it does not start, or `SEARCHING`."""
    need = model.gangs.min_size[g]
    sum_new_gang(model, g)
    after = measure_offer(model, q, model.gangs.offer_request)
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
    attempt = place_needed_members(model, g, need, after, value)
    if attempt.placed < need:
        undo_offer(model, mark)
        return PREEMPTION_LIMIT if limited or attempt.limited else DOES_NOT_FIT
    model.gangs.value[g] = value
    return NO_REASON
