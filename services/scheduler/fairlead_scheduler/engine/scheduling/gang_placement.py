"""Gangs: all or nothing, on one value of a label where they require it (N7 to N9)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import separate
from fairlead_scheduler.engine.scheduling.placement import (
    place_job,
)
from fairlead_scheduler.engine.snapshot import TOTAL_MAX
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    EVICTED,
    INSUFFICIENT,
    N_GROUP_SHAPE,
    N_JOURNAL,
    N_WORK,
    NO_REASON,
    PREEMPTION_LIMIT,
    QUEUED,
    exceeds_class_limit,
)
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_URGENCY,
    FREE,
    can_return,
    find_preemptor,
    preempt_gang,
    preempt_run,
    remove_placement,
    restore_run,
    return_preemption_token,
    return_run,
    undo_allocation,
)


class Attempt(NamedTuple):
    """The result of placing members."""

    placed: int
    limited: bool
    """whether the missing members lack only preemption tokens (L8)"""


@separate
def sum_members(model: RoundModel, g: int, first: int, last: int, state: int, need: int) -> int:
    """Sum up in `gangs.offer_request` what the first `need` members in this state request; returns
    the lowest class value of all members in it (R4)."""
    for r in range(model.gangs.offer_request.size):
        model.gangs.offer_request[r] = 0
    value = np.iinfo(np.int64).max
    model.counters[N_WORK] += last - first
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
    """Undo the entries of the journal after `mark`, last first."""
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
    model.counters[N_WORK] += model.gangs.first[g + 1] - model.gangs.queued_first[g]
    placed = 0
    held_back = 0
    missed = -1
    why = NO_REASON
    for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
        if placed == need:
            break
        j = model.gangs.members[i]
        if model.runs.state[j] != QUEUED:
            continue
        if model.jobs.shape[j] != missed:
            code = place_job(model, j, after, label, value, top)
            if code == NO_REASON:
                placed += 1
                continue
            missed = int(model.jobs.shape[j])
            why = code
        if why == PREEMPTION_LIMIT:
            held_back += 1
    return Attempt(placed, placed < need <= placed + held_back)


@separate
def place_further_member(model: RoundModel, j: int) -> int:
    """Place a further member beside those that run, on tier (a): `NO_REASON`, or the code of why
    not."""
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
        preempt_gang(model, g, for_job)


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
