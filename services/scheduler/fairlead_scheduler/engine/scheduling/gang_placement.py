"""Places, undoes and returns members of gangs (N7, N8, G1)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.placement import place_job
from fairlead_scheduler.engine.snapshot import TOTAL_MAX
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    EVICTED,
    INSUFFICIENT,
    N_JOURNAL,
    N_MEMBER_SHAPE,
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
    URGENCY,
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
    """The result of an attempt to place members."""

    placed: int
    """the number of members placed"""
    limited: bool
    """whether the others were not placed only for a lack of preemption tokens (L8)"""


@separate
def set_needed_members(model: RoundModel, g: int, need: int) -> None:
    """Set `roles.left` to the members that gang `g` needs of each role: the minimum of each role of
    a group, `need` for the only role of a plain gang."""
    for role in range(model.gangs.roles.first[g], model.gangs.roles.first[g + 1]):
        model.gangs.roles.left[role] = (
            model.gangs.roles.minimum[role] if model.gangs.groups.grouped[g] else need
        )


@inlined
def is_needed(model: RoundModel, g: int, j: int) -> bool:
    """Whether the gang needs member `j` beside the members that were subtracted from
    `roles.left`."""
    if model.gangs.groups.grouped[g] and model.runs.state[j] == QUEUED and is_surplus(model, j):
        return False
    return model.gangs.roles.left[model.jobs.role[j]] > 0


@separate
def sum_members(model: RoundModel, g: int, first: int, last: int, state: int) -> int:
    """Sum up in `gangs.offer_request` what the needed members request.

    Those are members of gang `g` from place `first` up to `last`, in this state, that the gang
    needs by `roles.left`. Returns the class value of the offer (R4): the lowest one of all members
    in this state; of a group, of the needed ones.
    """
    for r in range(model.gangs.offer_request.size):
        model.gangs.offer_request[r] = 0
    value = np.iinfo(np.int64).max
    model.counters[N_WORK] += last - first
    for i in range(first, last):
        j = model.gangs.members[i]
        if model.runs.state[j] != state:
            continue
        s = model.jobs.shape[j]
        needed = is_needed(model, g, j)
        if needed or not model.gangs.groups.grouped[g]:
            value = min(value, model.shapes.class_value[s])
        if needed:
            model.gangs.roles.left[model.jobs.role[j]] -= 1
            for r in range(model.gangs.offer_request.size):
                model.gangs.offer_request[r] = min(
                    model.gangs.offer_request[r] + model.shapes.full_request[s, r], TOTAL_MAX
                )
    return value


@separate
def sum_new_gang(model: RoundModel, g: int) -> int:
    """Sum up in `gangs.offer_request` what the queued members request that gang `g` needs to start;
    returns the class value of the offer (R4)."""
    set_needed_members(model, g, model.gangs.min_size[g])
    return sum_members(model, g, model.gangs.queued_first[g], model.gangs.first[g + 1], QUEUED)


@separate
def gang_exceeds_class_limit(model: RoundModel, q: int, g: int, need: int) -> bool:
    """L2 for a gang: whether its first `need` queued members exceed the limit of queue `q` for any
    of their classes. It overwrites `gangs.offer_request`."""
    for c in range(model.entitlements.class_limit.shape[1]):
        for r in range(model.gangs.offer_request.size):
            model.gangs.offer_request[r] = 0
        set_needed_members(model, g, need)
        for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
            j = model.gangs.members[i]
            if model.runs.state[j] != QUEUED or not is_needed(model, g, j):
                continue
            model.gangs.roles.left[model.jobs.role[j]] -= 1
            s = model.jobs.shape[j]
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
        entry = model.placements.journal[model.counters[N_JOURNAL]]
        if entry > 0:
            j = entry - 1
            undo_allocation(model, model.jobs.queue[j], model.jobs.shape[j], model.runs.position[j])
            remove_placement(model, j)
        else:
            j = -entry - 1
            restore_run(model, j, model.runs.state_before[j])
            if model.runs.cause[j] != CAUSE_SURPLUS:
                return_preemption_token(model)


class PreemptionCost(NamedTuple):
    """What the placements of an offer preempt."""

    victims: int
    """runs that are preempted, and placements on top of less urgent runs"""
    lost_work: float
    """in steps of `eviction.LOST_STEPS`"""


@separate
def sum_preemptions(model: RoundModel, mark: int) -> PreemptionCost:
    """Sum up the preemptions in the journal after `mark`. A placement on tier (c) counts as one,
    with the work that would be lost below it."""
    victims = 0
    lost_work = 0.0
    for i in range(mark, model.counters[N_JOURNAL]):
        entry = model.placements.journal[i]
        if entry < 0:
            victims += 1
            lost_work += model.runs.lost_work[-entry - 1]
        elif model.runs.tier[entry - 1] == URGENCY:
            victims += 1
            lost_work += model.runs.urgency_loss[entry - 1]
    return PreemptionCost(victims, lost_work)


@separate
def place_members(
    model: RoundModel, g: int, need: int, after: float, value: int, top: int
) -> Attempt:
    """Place up to `need` queued members of gang `g` on nodes with this `value` of its label; of a
    group, the members that it needs.

    After a member was not placed, the next members of its shape are not tried. The attempt ends at
    the first role of a group that does not fit; `roles.fitting` is then the number of its members
    that did (G11).
    """
    set_needed_members(model, g, need)
    return place_counted(model, g, need, after, model.gangs.label[g], value, top)


@separate
def place_counted(
    model: RoundModel, g: int, need: int, after: float, label: int, value: int, top: int
) -> Attempt:
    """`place_members`, with the members of each role that `roles.left` says, on nodes with this
    `value` of any `label`."""
    roles = model.gangs.roles
    model.counters[N_MEMBER_SHAPE] = 0
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
        role = model.jobs.role[j]
        if model.jobs.shape[j] != missed:
            code = place_job(model, j, after, label, value, top)
            if code == NO_REASON:
                placed += 1
                roles.left[role] -= 1
                continue
            missed = model.jobs.shape[j]
            why = code
            if model.gangs.groups.grouped[g]:
                roles.fitting[role] = roles.minimum[role] - roles.left[role]
                return Attempt(placed, why == PREEMPTION_LIMIT)
        if why == PREEMPTION_LIMIT:
            held_back += 1
    return Attempt(placed, placed < need <= placed + held_back)


@separate
def place_further_member(model: RoundModel, j: int) -> int:
    """Place a further member of a gang that runs, on tier (a): `NO_REASON`, or the code of the
    reason why it was not placed."""
    g = model.jobs.gang[j]
    model.counters[N_MEMBER_SHAPE] = 0
    if model.gangs.label[g] >= 0 and model.gangs.value[g] < 0:
        return INSUFFICIENT
    return place_job(model, j, 0.0, model.gangs.label[g], model.gangs.value[g], FREE)


@separate
def preempt_evicted_run(model: RoundModel, j: int) -> None:
    """Preempt an evicted run that no longer fits on its node, because a more urgent job was placed
    there (R5). If its gang would be too small without it, all members are preempted (N8)."""
    for_job = find_preemptor(model, model.runs.position[j], model.runs.level[j])
    whole = breaks_gang(model, j)
    preempt_run(model, j, CAUSE_URGENCY, for_job)
    if whole:
        preempt_gang(model, model.jobs.gang[j], for_job)


@separate
def set_returning_members(model: RoundModel, g: int) -> int:
    """Set `roles.left` to the evicted members of each role that gang `g` needs to continue; returns
    the sum."""
    need = 0
    for role in range(model.gangs.roles.first[g], model.gangs.roles.first[g + 1]):
        model.gangs.roles.left[role] = min(
            model.gangs.roles.minimum[role], model.gangs.roles.live[role]
        )
        need += model.gangs.roles.left[role]
    return need


@separate
def return_gang(model: RoundModel, g: int) -> None:
    """Return the evicted members that gang `g` needs to their nodes. If one of them does not fit
    and the gang would be too small without it, the gang is preempted."""
    need = set_returning_members(model, g)
    for i in range(model.gangs.first[g], model.gangs.queued_first[g]):
        j = model.gangs.members[i]
        if need == 0:
            return
        if model.runs.state[j] == EVICTED and model.gangs.roles.left[model.jobs.role[j]] > 0:
            if can_return(model, j):
                return_run(model, j)
                model.gangs.roles.left[model.jobs.role[j]] -= 1
                need -= 1
            else:
                preempt_evicted_run(model, j)
