"""Gangs: all or nothing, on one value of a label where they require it (N7 to N9)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
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
    CAUSE_SURPLUS,
    CAUSE_URGENCY,
    FREE,
    breaks_gang,
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
from fairlead_scheduler.engine.state.surplus import is_surplus


class Attempt(NamedTuple):
    """The result of placing members."""

    placed: int
    limited: bool
    """whether the missing members lack only preemption tokens (L8)"""


@inlined
def start_counting(model: RoundModel, g: int, need: int) -> None:
    """Set how many members the gang needs of each role: `need` of the only one of a gang that is no
    group, else the minima."""
    for role in range(model.roles.first[g], model.roles.first[g + 1]):
        model.roles.left[role] = model.roles.minimum[role] if model.groups.grouped[g] else need


@inlined
def is_needed(model: RoundModel, g: int, j: int) -> bool:
    """Whether member `j` is one of those that the gang needs, after those that came before."""
    if model.groups.grouped[g] and model.runs.state[j] == QUEUED and is_surplus(model, j):
        return False
    return model.roles.left[model.jobs.role[j]] > 0


@separate
def sum_members(model: RoundModel, g: int, first: int, last: int, state: int) -> int:
    """Sum up in `gangs.offer_request` what the members in this state request that the gang needs by
    `roles.left`; returns the lowest class value of all members in the state, of a group of the
    needed ones (R4)."""
    for r in range(model.gangs.offer_request.size):
        model.gangs.offer_request[r] = 0
    value = np.iinfo(np.int64).max
    model.counters[N_WORK] += last - first
    for i in range(first, last):
        j = model.gangs.members[i]
        if model.runs.state[j] != state:
            continue
        s = int(model.jobs.shape[j])
        needed = is_needed(model, g, j)
        if needed or not model.groups.grouped[g]:
            value = min(value, model.shapes.class_value[s])
        if needed:
            model.roles.left[model.jobs.role[j]] -= 1
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
        start_counting(model, g, need)
        for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
            j = model.gangs.members[i]
            if model.runs.state[j] != QUEUED or not is_needed(model, g, j):
                continue
            model.roles.left[model.jobs.role[j]] -= 1
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
            if model.runs.cause[j] != CAUSE_SURPLUS:
                return_preemption_token(model)


@separate
def place_members(
    model: RoundModel, g: int, need: int, after: float, value: int, top: int
) -> Attempt:
    """Place up to `need` queued members within a label value; of a group those that it needs.

    Members of a shape that was not placed are not tried again. A group stops at the first role that
    does not fit, and how many of it did is written to `roles.fitting` (G11).
    """
    start_counting(model, g, need)
    return place_counted(model, g, need, after, int(model.gangs.label[g]), value, top)


@separate
def place_counted(
    model: RoundModel, g: int, need: int, after: float, label: int, value: int, top: int
) -> Attempt:
    """`place_members` of as many of each role as `roles.left` says, within a value of any label."""
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
        if model.runs.state[j] != QUEUED or not is_needed(model, g, j):
            continue
        role = int(model.jobs.role[j])
        if model.jobs.shape[j] != missed:
            code = place_job(model, j, after, label, value, top)
            if code == NO_REASON:
                placed += 1
                model.roles.left[role] -= 1
                continue
            missed = int(model.jobs.shape[j])
            why = code
            if model.groups.grouped[g]:
                model.roles.fitting[role] = model.roles.minimum[role] - model.roles.left[role]
                return Attempt(placed, why == PREEMPTION_LIMIT)
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
    whole = breaks_gang(model, j)
    preempt_run(model, j, CAUSE_URGENCY, for_job)
    if whole:
        preempt_gang(model, int(model.jobs.gang[j]), for_job)


@inlined
def count_returning(model: RoundModel, g: int) -> int:
    """Set how many members of each role the gang needs to go on; returns their number."""
    need = 0
    for role in range(model.roles.first[g], model.roles.first[g + 1]):
        model.roles.left[role] = min(model.roles.minimum[role], model.roles.live[role])
        need += model.roles.left[role]
    return need


@separate
def return_gang(model: RoundModel, g: int) -> None:
    """Return as many evicted members as the gang needs to their nodes, or preempt all."""
    need = count_returning(model, g)
    for i in range(model.gangs.first[g], model.gangs.queued_first[g]):
        j = model.gangs.members[i]
        if need == 0:
            return
        if model.runs.state[j] == EVICTED and model.roles.left[model.jobs.role[j]] > 0:
            if can_return(model, j):
                return_run(model, j)
                model.roles.left[model.jobs.role[j]] -= 1
                need -= 1
            else:
                preempt_evicted_run(model, j)
