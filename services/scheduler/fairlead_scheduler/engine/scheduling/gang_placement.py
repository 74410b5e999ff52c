"""Gangs: all or nothing, on one value of a label where they require it (N7 to N9)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import expanded, inlined, internal
from fairlead_scheduler.engine.scheduling.placement import (
    ANY_VALUE,
    can_preempt_for_share,
    place_job,
)
from fairlead_scheduler.engine.snapshot import TOTAL_MAX
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    DOES_NOT_FIT,
    INSUFFICIENT,
    N_GROUP_SHAPE,
    N_JOURNAL,
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

MEASURES: Final = 3


class Attempt(NamedTuple):
    """What placing members came to."""

    placed: int
    limited: bool
    """whether only the limit of preemptions (L8) holds back those that are missing"""


class LabelValue(NamedTuple):
    """What N7 chooses."""

    value: int
    """-1 when the gang fits on no value"""
    limited: bool
    """whether on one of them only the limit of preemptions (L8) held it back"""


@internal
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


@expanded
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


@internal
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


@internal
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


@expanded
def choose_label_value(model: RoundModel, q: int, g: int, need: int, after: float) -> LabelValue:
    """N7: the best label value for the gang.

    Each value is tried. But once all queued members found free capacity on one, only a value on
    which less would stay free can be better, and what would stay free is known beforehand. Values
    are left out only where fair-share preemption is impossible: even undone it reopens shapes.
    """
    label = model.gangs.label[g]
    best = ANY_VALUE
    more = model.gangs.first[g + 1] - model.gangs.queued_first[g]
    waiting = sum_waiting(model, g)
    calm = not can_preempt_for_share(model, q, after)
    all_free = False
    limited = False
    for value in range(model.nodes.value_first.shape[1] - 1):
        if model.nodes.value_first[label, value] == model.nodes.value_first[label, value + 1]:
            continue
        if all_free and not could_be_better(model, label, value):
            continue
        mark = model.counters[N_JOURNAL]
        attempt = place_members(model, g, need, after, value, URGENCY)
        limited = limited or attempt.limited
        placed = attempt.placed
        if placed == need:
            measure_preemption(model, mark)
            placed += place_members(model, g, more, after, value, FREE).placed
            model.gangs.rating[0, 0] = -placed
            measure_free_capacity(model, label, value)
            if best < 0 or is_better(model):
                best = value
                all_free = calm and placed == waiting and model.gangs.rating[0, 1] == 0.0
                for i in range(model.gangs.rating.shape[1]):
                    model.gangs.rating[1, i] = model.gangs.rating[0, i]
        undo_offer(model, mark)
    return LabelValue(best, limited)


@expanded
def measure_preemption(model: RoundModel, mark: int) -> None:
    """Rate whether the journal after `mark` preempts any run, and how much work that loses."""
    model.gangs.rating[0, 1] = 0.0
    model.gangs.rating[0, 2] = 0.0
    for i in range(mark, model.counters[N_JOURNAL]):
        entry = model.journal[i]
        if entry < 0:
            model.gangs.rating[0, 1] = 1.0
            model.gangs.rating[0, 2] += model.runs.lost_work[-entry - 1]
        elif model.runs.tier[entry - 1] == URGENCY:
            model.gangs.rating[0, 1] = 1.0
            model.gangs.rating[0, 2] += model.runs.urgency_loss[entry - 1]


@expanded
def measure_free_capacity(model: RoundModel, label: int, value: int) -> None:
    """What stays free on the value's nodes, by resource in the order of N3."""
    for i in range(model.nodes.waste_order.size):
        model.gangs.rating[0, MEASURES + i] = float(
            free_capacity_of_value(model, label, value, model.nodes.waste_order[i])
        )


@inlined
def free_capacity_of_value(model: RoundModel, label: int, value: int, r: int) -> int:
    """What is free of a resource on the value's nodes together."""
    size = model.capacity.tree_types.size // 2
    total = 0
    for k in range(
        model.nodes.value_first[label, value], model.nodes.value_first[label, value + 1]
    ):
        total += model.capacity.tree[size + model.nodes.value_positions[label, k], r]
    return total


@expanded
def sum_waiting(model: RoundModel, g: int) -> int:
    """Sum up in `gangs.waiting_request` what all queued members need of nodes; returns their
    number."""
    for r in range(model.gangs.waiting_request.size):
        model.gangs.waiting_request[r] = 0
    waiting = 0
    for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
        j = model.gangs.members[i]
        if model.runs.state[j] == QUEUED:
            waiting += 1
            for r in range(model.gangs.waiting_request.size):
                model.gangs.waiting_request[r] += model.shapes.request[model.jobs.shape[j], r]
    return waiting


@expanded
def could_be_better(model: RoundModel, label: int, value: int) -> bool:
    """Whether less would stay free on the value than on the best, with all queued members on it."""
    for i in range(model.nodes.waste_order.size):
        r = model.nodes.waste_order[i]
        left = float(
            free_capacity_of_value(model, label, value, r) - model.gangs.waiting_request[r]
        )
        if left != model.gangs.rating[1, MEASURES + i]:
            return left < model.gangs.rating[1, MEASURES + i]
    return False


@expanded
def is_better(model: RoundModel) -> bool:
    """Whether the value at hand is better than the best so far; equal ones are not."""
    for i in range(model.gangs.rating.shape[1]):
        if model.gangs.rating[0, i] != model.gangs.rating[1, i]:
            return model.gangs.rating[0, i] < model.gangs.rating[1, i]
    return False


@expanded
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


@expanded
def place_further_member(model: RoundModel, q: int, j: int) -> int:
    """Place a further member beside those that run, on tier (a): 0 or the code of why not."""
    g = int(model.jobs.gang[j])
    model.counters[N_GROUP_SHAPE] = 0
    if model.gangs.label[g] >= 0 and model.gangs.value[g] < 0:
        return INSUFFICIENT
    return place_job(model, j, 0.0, model.gangs.label[g], model.gangs.value[g], FREE)


@internal
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


@expanded
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
