"""Chooses the domains in which gangs with a topology start and further members join (T2 to T4).

The domains of a level are values of a label in the tables of N7, which also contain what is free on
the nodes of each domain. A scope starts on free capacity, in the narrowest level that has a domain
with enough of it. Only if no level has such a domain, a required one is freed by preemption.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.gang_placement import (
    Attempt,
    is_needed,
    place_counted,
    place_further_member,
    set_needed_members,
    sum_new_gang,
    sum_preemptions,
    undo_offer,
)
from fairlead_scheduler.engine.scheduling.gang_start import SEARCHED_GANG, SEARCHING, start_gang
from fairlead_scheduler.engine.scheduling.placement import ANY_VALUE, place_job
from fairlead_scheduler.engine.scheduling.strict_gain import is_gain_of_gang, measure_offer
from fairlead_scheduler.engine.snapshot import TOTAL_MAX
from fairlead_scheduler.engine.state.capacity_tree import find_first_fit
from fairlead_scheduler.engine.state.domain_tables import (
    BEST_RANK,
    BEST_VALUE,
    BEST_VICTIMS,
    DOMAINS_CONSIDERED_MAX,
    DOMAINS_TRIED_MAX,
    LIMITED,
    NEXT_AFTER,
    NO_DOMAIN,
    NOBODY,
    REQUIRED,
    SCOPE,
    TRIED,
)
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    DOES_NOT_FIT,
    INSUFFICIENT,
    N_JOURNAL,
    N_MEMBER_SHAPE,
    N_WORK,
    N_WORK_END,
    NO_REASON,
    PREEMPTION_LIMIT,
    QUEUED,
    TOPOLOGY_LEVEL,
)
from fairlead_scheduler.engine.state.run_states import FREE, URGENCY

ALL_ROLES: Final = -1
"""Instead of a role: the scope is the whole gang."""
ALL_MEMBERS: Final = -1
"""Instead of a job: all members that the scope needs."""


class DomainRating(NamedTuple):
    """What T3 compares of a required domain that preemption would free."""

    value: int
    """`NO_DOMAIN` if the members fit in no domain that was tried; `SEARCHING`"""
    rank: int
    """the rank of this value in `ValueCapacity.value`"""
    victims: int
    """runs that would be preempted, and members that would run on top of less urgent runs"""
    lost_work: float
    """in steps of `eviction.LOST_STEPS`"""
    limited: bool
    """whether in any domain that was tried only the limit of preemptions (L8) prevented the
    start"""


@separate
def start_gang_in_domains(model: RoundModel, g: int, after: float, top: int) -> int:
    """Place the members that a gang with a topology needs to start, or nothing: `NO_REASON`, the
    code of the reason why it does not start, or `SEARCHING`. With `top` = `FREE` nothing is
    preempted.

    It returns `SEARCHING` when the pass has to return (L6) between two domains that it tries to
    free. The next call for the gang continues there.
    """
    if model.values.domains.mode[g] == REQUIRED and model.values.domains.widest[g] < 0:
        return TOPOLOGY_LEVEL
    if top > FREE and model.values.search[SEARCHED_GANG] != g + 1:
        model.values.search[SEARCHED_GANG] = g + 1
        model.values.domains.search[SCOPE] = 0
        for role in range(model.gangs.roles.first[g], model.gangs.roles.first[g + 1]):
            model.values.domains.freed[role] = NO_DOMAIN
    mark = model.counters[N_JOURNAL]
    code = NO_REASON
    if model.values.domains.whole[g]:
        code = start_scope(model, g, ALL_ROLES, after, top)
    else:
        for role in range(model.gangs.roles.first[g], model.gangs.roles.first[g + 1]):
            if code == NO_REASON and model.gangs.roles.minimum[role] > 0:
                code = start_scope(model, g, role, after, top)
    if code == NO_REASON and top > FREE and not is_gain_of_gang(model, g, mark, after):
        code = DOES_NOT_FIT
    if code != NO_REASON:
        undo_offer(model, mark)
    if top > FREE and code != SEARCHING:
        model.values.search[SEARCHED_GANG] = 0
    return code


@separate
def start_scope(model: RoundModel, g: int, role: int, after: float, top: int) -> int:
    """Place the members of a scope, of one role or `ALL_ROLES`, that the gang needs to start. It
    returns as `start_gang_in_domains`."""
    scope = model.gangs.roles.first[g] if role < 0 else role
    sum_scope_request(model, g, role)
    freeing = top > FREE and (
        model.values.domains.freed[scope] >= 0 or model.values.domains.search[SCOPE] == scope + 1
    )
    if not freeing and place_on_free_capacity(model, g, role, ALL_MEMBERS):
        return NO_REASON
    need = count_needed(model, g, role)
    mark = model.counters[N_JOURNAL]
    if model.values.domains.mode[g] != REQUIRED:
        attempt = place_needed(model, g, role, after, ANY_VALUE, ANY_VALUE, top)
        if attempt.placed == need:
            return NO_REASON
        undo_offer(model, mark)
        return PREEMPTION_LIMIT if attempt.limited else DOES_NOT_FIT
    limited = False
    if top > FREE and model.values.domains.freed[scope] < 0:
        found = choose_freed_domain(model, g, role, after)
        if found.value == SEARCHING:
            return SEARCHING
        limited = found.limited
        model.values.domains.freed[scope] = found.value
    if top > FREE and model.values.domains.freed[scope] >= 0:
        label = model.values.domains.label[model.values.domains.widest[g]]
        value = model.values.domains.freed[scope]
        if place_needed(model, g, role, after, label, value, top).placed == need:
            return NO_REASON
        undo_offer(model, mark)
    if role >= 0:
        model.gangs.roles.fitting[role] = max(model.gangs.roles.fitting[role], 0)
    return PREEMPTION_LIMIT if limited else DOES_NOT_FIT


@inlined
def count_needed(model: RoundModel, g: int, role: int) -> int:
    """The number of members of a scope, of one role or `ALL_ROLES`, that the gang needs to
    start."""
    return model.gangs.min_size[g] if role < 0 else model.gangs.roles.minimum[role]


@inlined
def set_needed_of_scope(model: RoundModel, g: int, role: int) -> None:
    """Set `roles.left` to the members of a scope, of one role or `ALL_ROLES`, that the gang needs
    to start."""
    set_needed_members(model, g, model.gangs.min_size[g])
    if role >= 0:
        for other in range(model.gangs.roles.first[g], model.gangs.roles.first[g + 1]):
            if other != role:
                model.gangs.roles.left[other] = 0


@separate
def place_needed(
    model: RoundModel, g: int, role: int, after: float, label: int, value: int, top: int
) -> Attempt:
    """Place the members of a scope, of one role or `ALL_ROLES`, that the gang needs to start, on
    nodes with this `value` of the label."""
    set_needed_of_scope(model, g, role)
    need = count_needed(model, g, role)
    return place_counted(model, g, need, after, label, value, top)


@separate
def sum_scope_request(model: RoundModel, g: int, role: int) -> None:
    """Set `gangs.waiting_request` to what the members of a scope, of one role or `ALL_ROLES`, that
    the gang needs to start request of nodes together."""
    for r in range(model.gangs.waiting_request.size):
        model.gangs.waiting_request[r] = 0
    set_needed_of_scope(model, g, role)
    model.counters[N_WORK] += model.gangs.first[g + 1] - model.gangs.queued_first[g]
    for i in range(model.gangs.queued_first[g], model.gangs.first[g + 1]):
        j = model.gangs.members[i]
        if model.runs.state[j] != QUEUED or not is_needed(model, g, j):
            continue
        model.gangs.roles.left[model.jobs.role[j]] -= 1
        for r in range(model.gangs.waiting_request.size):
            model.gangs.waiting_request[r] = min(
                model.gangs.waiting_request[r] + model.shapes.request[model.jobs.shape[j], r],
                TOTAL_MAX,
            )


@separate
def place_on_free_capacity(model: RoundModel, g: int, role: int, j: int) -> bool:
    """T3: place job `j`, or `ALL_MEMBERS` of a scope that the gang needs to start, in the narrowest
    level that has a domain with free capacity for them. False, with nothing placed, if none has.

    `gangs.waiting_request` is what they request together; the scope is one role or `ALL_ROLES`.
    """
    widest = model.values.domains.widest[g] if model.values.domains.mode[g] == REQUIRED else 0
    for h in range(model.values.domains.label.size - 1, widest - 1, -1):
        if place_in_level(model, g, role, j, h):
            return True
    return False


@separate
def place_in_level(model: RoundModel, g: int, role: int, j: int, h: int) -> bool:
    """`place_on_free_capacity` in level `h`, in the domain with the least free capacity in which
    the members fit.

    Of the first `DOMAINS_CONSIDERED_MAX` domains with enough capacity in all, in the order of what
    was free when the round started, at most `DOMAINS_TRIED_MAX` are tried.
    """
    label = model.values.domains.label[h]
    count = 0
    rank = -1
    while count < DOMAINS_CONSIDERED_MAX:
        rank = find_first_fit(
            model.values.free[label],
            model.values.bits[label],
            model.gangs.waiting_request,
            np.uint64(1),
            rank + 1,
            model.counters,
        )
        if rank < 0:
            break
        model.values.domains.candidates[count] = rank
        count += 1
    mark = model.counters[N_JOURNAL]
    for _ in range(min(count, DOMAINS_TRIED_MAX)):
        at = find_best_candidate(model, label, count)
        value = model.values.value[label, model.values.domains.candidates[at]]
        model.values.domains.candidates[at] = -1
        if j >= 0:
            model.counters[N_MEMBER_SHAPE] = 0
            if place_job(model, j, 0.0, label, value, FREE) == NO_REASON:
                return True
        elif place_needed(model, g, role, 0.0, label, value, FREE).placed == count_needed(
            model, g, role
        ):
            return True
        undo_offer(model, mark)
    return False


@separate
def find_best_candidate(model: RoundModel, label: int, count: int) -> int:
    """The place among the first `count` candidates of the domain with the least free capacity; of
    equal ones, the one with the first name."""
    best = -1
    candidates = model.values.domains.candidates
    model.counters[N_WORK] += count
    for i in range(count):
        if candidates[i] >= 0 and (
            best < 0 or is_fuller(model, label, candidates[i], candidates[best])
        ):
            best = i
    return best


@separate
def is_fuller(model: RoundModel, label: int, a: int, b: int) -> bool:
    """Whether the domain of rank `a` has less free capacity than the domain of rank `b`, compared
    by resource in the order of N3; if they are equal, whether its name is first."""
    leaf = model.values.free.shape[1] // 2
    for i in range(model.nodes.waste_order.size):
        r = model.nodes.waste_order[i]
        if model.values.free[label, leaf + a, r] != model.values.free[label, leaf + b, r]:
            return model.values.free[label, leaf + a, r] < model.values.free[label, leaf + b, r]
    return model.values.value[label, a] < model.values.value[label, b]


@separate
def choose_freed_domain(model: RoundModel, g: int, role: int, after: float) -> DomainRating:
    """T3: the required domain in which the fewest runs are preempted, and of these the cheapest.

    It tries domains in which enough could be freed, the most free first: at most
    `DOMAINS_TRIED_MAX`, and at least one before it returns `SEARCHING`. `gangs.waiting_request` is
    what the members request together.
    """
    search = model.values.domains.search
    scope = model.gangs.roles.first[g] if role < 0 else role
    if search[SCOPE] != scope + 1:
        search[SCOPE] = scope + 1
        search[TRIED] = 0
        save_search(model, -1, DomainRating(NO_DOMAIN, 0, 0, 0.0, False))
    best = DomainRating(
        search[BEST_VALUE],
        search[BEST_RANK],
        search[BEST_VICTIMS],
        model.values.domains.best_lost_work[0],
        search[LIMITED] != 0,
    )
    label = model.values.domains.label[model.values.domains.widest[g]]
    place = search[NEXT_AFTER]
    while search[TRIED] < DOMAINS_TRIED_MAX:
        place = find_first_fit(
            model.values.preemptible[label],
            model.values.bits[label],
            model.gangs.waiting_request,
            np.uint64(1),
            place + 1,
            model.counters,
        )
        if place < 0:
            break
        search[TRIED] += 1
        best = try_to_free(model, best, g, role, after, model.values.value.shape[1] - 1 - place)
        if model.counters[N_WORK] >= model.counters[N_WORK_END]:
            save_search(model, place, best)
            return DomainRating(SEARCHING, 0, 0, 0.0, False)
    search[SCOPE] = 0
    return best


@inlined
def save_search(model: RoundModel, at: int, best: DomainRating) -> None:
    """Save the progress of the search for a domain to free; `at` is the place of the last one that
    was tried."""
    search = model.values.domains.search
    search[NEXT_AFTER] = at
    search[BEST_VALUE] = best.value
    search[BEST_RANK] = best.rank
    search[BEST_VICTIMS] = best.victims
    search[LIMITED] = best.limited
    model.values.domains.best_lost_work[0] = best.lost_work


@separate
def try_to_free(
    model: RoundModel, best: DomainRating, g: int, role: int, after: float, rank: int
) -> DomainRating:
    """Place the members in the required domain of this rank, compare what that preempts with the
    best domain, and undo it; returns the better of the two."""
    label = model.values.domains.label[model.values.domains.widest[g]]
    value = model.values.value[label, rank]
    mark = model.counters[N_JOURNAL]
    attempt = place_needed(model, g, role, after, label, value, URGENCY)
    limited = best.limited or attempt.limited
    result = DomainRating(best.value, best.rank, best.victims, best.lost_work, limited)
    if attempt.placed == count_needed(model, g, role):
        cost = sum_preemptions(model, mark)
        rated = DomainRating(value, rank, cost.victims, cost.lost_work, limited)
        if best.value < 0 or is_cheaper_domain(model, label, rated, best):
            result = rated
    undo_offer(model, mark)
    return result


@inlined
def is_cheaper_domain(model: RoundModel, label: int, a: DomainRating, b: DomainRating) -> bool:
    """Whether `a` is better than `b`: by fewer victims, less lost work, less free capacity."""
    if a.victims != b.victims:
        return a.victims < b.victims
    if a.lost_work != b.lost_work:
        return a.lost_work < b.lost_work
    return is_fuller(model, label, a.rank, b.rank)


@separate
def start_offered_gang(model: RoundModel, q: int, g: int) -> int:
    """Start gang `g` of queue `q`, with or without a topology. It returns as `start_gang`."""
    if model.values.domains.mode[g] == 0:
        return start_gang(model, q, g)
    sum_new_gang(model, g)
    after = measure_offer(model, q, model.gangs.offer_request)
    mark = model.counters[N_JOURNAL]
    code = start_gang_in_domains(model, g, after, URGENCY)
    for i in range(mark, model.counters[N_JOURNAL]):
        if model.placements.journal[i] > 0:
            join_scope(model, model.placements.journal[i] - 1)
    return code


@inlined
def find_scope(model: RoundModel, j: int) -> int:
    """The number of the scope of member `j`."""
    g = model.jobs.gang[j]
    return model.gangs.roles.first[g] if model.values.domains.whole[g] else model.jobs.role[j]


@separate
def join_scope(model: RoundModel, j: int) -> None:
    """After member `j` was placed: keep only the common domains of its scope that it is in, too."""
    scope = find_scope(model, j)
    for h in range(model.values.domains.label.size):
        label = model.values.domains.label[h]
        rank = model.values.rank[label, model.runs.position[j]]
        value = model.values.value[label, rank] if rank >= 0 else NO_DOMAIN
        if model.values.domains.common[scope, h] == NOBODY:
            model.values.domains.common[scope, h] = value
        elif model.values.domains.common[scope, h] != value:
            model.values.domains.common[scope, h] = NO_DOMAIN


@separate
def place_joining_member(model: RoundModel, j: int) -> int:
    """T4: place a further member near the others of its scope, on tier (a): `NO_REASON`, or the
    code of the reason why it was not placed.

    It is placed in the narrowest domain that contains all others and has free capacity for it, no
    wider than the required level. For the first member of a scope, a domain is chosen as by T3.
    """
    g = model.jobs.gang[j]
    if model.values.domains.mode[g] == 0:
        return place_further_member(model, j)
    required = model.values.domains.mode[g] == REQUIRED
    if required and model.values.domains.widest[g] < 0:
        return TOPOLOGY_LEVEL
    scope = find_scope(model, j)
    levels = model.values.domains.label.size
    if levels > 0 and model.values.domains.common[scope, 0] == NOBODY:
        for r in range(model.gangs.waiting_request.size):
            model.gangs.waiting_request[r] = model.shapes.request[model.jobs.shape[j], r]
        if place_on_free_capacity(model, g, ALL_ROLES, j):
            return NO_REASON
    else:
        widest = model.values.domains.widest[g] if required else 0
        for h in range(levels - 1, widest - 1, -1):
            label = model.values.domains.label[h]
            value = model.values.domains.common[scope, h]
            model.counters[N_MEMBER_SHAPE] = 0
            if value >= 0 and place_job(model, j, 0.0, label, value, FREE) == NO_REASON:
                return NO_REASON
    if required:
        return INSUFFICIENT
    model.counters[N_MEMBER_SHAPE] = 0
    return place_job(model, j, 0.0, ANY_VALUE, ANY_VALUE, FREE)
