"""The pass over all offers: the queue of R4 places its next job by N2 and N3."""

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import entry_point, inlined, separate
from fairlead_scheduler.engine.scheduling.domain_choice import (
    join_scope,
    place_joining_member,
    start_offered_gang,
)
from fairlead_scheduler.engine.scheduling.gang_placement import (
    gang_exceeds_class_limit,
    preempt_evicted_run,
    return_gang,
)
from fairlead_scheduler.engine.scheduling.gang_start import SEARCHED_GANG, SEARCHING
from fairlead_scheduler.engine.scheduling.offers import forget_fit, sum_new_gang
from fairlead_scheduler.engine.scheduling.placement import find_free_node, place_job, reopen_shapes
from fairlead_scheduler.engine.scheduling.queue_selection import (
    find_offer,
    recheck_fitting_offers,
    renew_offers,
    replace_top,
    return_queues,
    start_queues,
)
from fairlead_scheduler.engine.scheduling.victim_search import NOWHERE
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    EVICTED,
    EVICTED_GANG,
    EVICTED_RUN,
    FURTHER_MEMBER,
    INSUFFICIENT,
    N_FITS_FREE,
    N_JOURNAL,
    N_PREEMPTED,
    N_QUEUES,
    N_REOPENED,
    N_STARTED,
    N_STOP,
    N_WORK,
    N_WORK_END,
    NEW_JOB,
    NO_REASON,
    QUEUE_LIMIT,
    RATE_LIMIT,
    ROUND_LIMIT,
    TOLERANCE,
    cost_with,
    count_handled,
    find_offer_limit,
    skip_shape,
)
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_SURPLUS,
    FROZEN,
    URGENCY,
    allocate,
    can_return,
    fail_job,
    is_started,
    return_run,
)
from fairlead_scheduler.engine.state.surplus import is_surplus

DONE: Final = 0
MORE: Final = 1


@entry_point
def run_pass(model: RoundModel, offers: int, work: int) -> int:
    """Handle up to `offers` offers, fewer where they need more than `work`. `DONE` when none is
    left, else `MORE`.

    `counters[N_WORK]` counts the jobs that are tried, and the nodes, runs, shapes and label values
    that are examined for them. It also returns between two label values of a gang.
    """
    end = model.counters[N_WORK] + work
    model.counters[N_WORK_END] = end
    if model.counters[N_STARTED] == 0:
        start_queues(model)
    for _ in range(offers):
        if model.counters[N_WORK] >= end:
            return MORE
        if model.counters[N_QUEUES] == 0:
            return DONE
        q = model.offers.heap[0]
        if model.counters[N_FITS_FREE] > 0:
            if model.offers.over_budget[q] and recheck_fitting_offers(model, q):
                continue
            forget_fit(model, q)
        kind = model.offers.kind[q]
        model.counters[N_JOURNAL] = 0
        if kind == NEW_JOB:
            goes_on = handle_new_job(model, q, model.offers.job[q])
        else:
            goes_on = handle_run_or_gang(model, q, kind, model.offers.job[q])
            if model.values.search[SEARCHED_GANG] != 0:
                return MORE
        if model.counters[N_JOURNAL] > 0:
            freeze_givers(model)
        replace_top(model, goes_on and find_offer(model, q))
        if model.counters[N_JOURNAL] > 0:
            renew_offers(model)
        if model.counters[N_REOPENED]:
            return_queues(model)
    return MORE


@inlined
def freeze_givers(model: RoundModel) -> None:
    """G10: a group that gave surplus to the offer at hand gives no more in this round."""
    for i in range(model.counters[N_JOURNAL]):
        j = -model.journal[i] - 1
        if j >= 0 and model.runs.cause[j] == CAUSE_SURPLUS:
            g = int(model.jobs.gang[j])
            if model.groups.gives_once[g] and model.groups.frozen[g] == 0:
                model.groups.frozen[g] = FROZEN


@inlined
def handle_new_job(model: RoundModel, q: int, j: int) -> bool:
    """Try to place a queued job; False when the queue must stop."""
    if model.counters[N_STOP] != NO_REASON:
        return False
    s = int(model.jobs.shape[j])
    permitted = check_limits(model, q, s, model.shapes.full_request[s], 1) == NO_REASON
    if permitted and not model.runs.active:
        p = find_free_node(model, s, 0)
        if p >= 0:
            allocate(model, q, j, s, 0, p)
        else:
            skip_shape(model, q, s, INSUFFICIENT)
    elif permitted:
        after = (
            cost_with(
                model.usage.held[q], model.shapes.full_request[s], model.entitlements.cost_factor
            )
            / model.entitlements.weight[q]
        )
        code = place_job(model, j, after, NOWHERE, NOWHERE, URGENCY)
        if code != NO_REASON and not avoids_nodes(model, j):
            # The job keeps its place: when nothing behind it can be tried either, it is the first
            # to be tried again once capacity was freed.
            skip_shape(model, q, s, code)
            if not model.offers.replaces_first[q]:
                model.progress.examined[q] -= 1
            return True
    count_handled(model, q, s)
    pass_offer(model, q, j)
    return True


@inlined
def avoids_nodes(model: RoundModel, j: int) -> bool:
    """Whether the job avoids nodes (N10)."""
    return model.avoided.first.size > 0 and model.avoided.first[j] >= 0


@inlined
def pass_offer(model: RoundModel, q: int, j: int) -> None:
    """Continue behind an offer of queued jobs that ends with job `j`."""
    if model.offers.replaces_first[q]:
        model.progress.handled[j] = 1
        model.progress.next_within[q] += 1
    else:
        model.progress.next_queued[q] += 1


@separate
def handle_run_or_gang(model: RoundModel, q: int, kind: int, j: int) -> bool:
    """Handle an offer of an evicted run or of a gang; False when the queue must stop."""
    g = int(model.jobs.gang[j])
    if kind == EVICTED_RUN:
        if model.runs.state[j] == EVICTED:
            if can_return(model, j):
                return_run(model, j)
            else:
                preempt_evicted_run(model, j)
                reopen_shapes(model, model.counters[N_JOURNAL])
        skip_evicted(model, q, j)
        return True
    if kind == EVICTED_GANG:
        return_gang(model, g)
        reopen_shapes(model, model.counters[N_JOURNAL])
        model.gangs.returned[g] = 1
        if not model.groups.grouped[g]:
            model.progress.next_member[q] = model.gangs.first[g]
            model.progress.members_end[q] = model.gangs.queued_first[g]
        model.progress.next_evicted[q] += 1
        return True
    if model.counters[N_STOP] != NO_REASON:
        return False
    s = int(model.jobs.shape[j])
    if kind == FURTHER_MEMBER:
        if (
            is_started(model, g)
            and check_limits(model, q, s, model.shapes.full_request[s], 1) == NO_REASON
        ):
            code = place_joining_member(model, j)
            if code == NO_REASON and model.values.domains.mode[g] != 0:
                join_scope(model, j)
            if code == NO_REASON and is_surplus(model, j):
                model.roles.step_left[model.jobs.role[j]] -= 1
            if code != NO_REASON:
                model.gangs.code[g] = code
                if code == INSUFFICIENT and model.groups.grouped[g] and not avoids_nodes(model, j):
                    model.roles.full[model.jobs.role[j]] = model.counters[N_PREEMPTED] + 1
                if model.gangs.rest[g] and code == INSUFFICIENT:
                    fail_job(model, j)
        if (
            model.progress.next_member[q] < model.progress.members_end[q]
            and model.gangs.members[model.progress.next_member[q]] == j
        ):
            model.progress.next_member[q] += 1
        else:
            pass_offer(model, q, j)
        return True
    need = model.gangs.min_size[g]
    sum_new_gang(model, g)
    model.gangs.code[g] = check_limits(model, q, -1, model.gangs.offer_request, need)
    limits = model.entitlements.class_limit.size > 0 and model.gangs.code[g] == NO_REASON
    if limits and gang_exceeds_class_limit(model, q, g, need):
        model.gangs.code[g] = QUEUE_LIMIT
    if model.gangs.code[g] == NO_REASON:
        started = start_offered_gang(model, q, g)
        if started == SEARCHING:
            return True
        model.gangs.code[g] = started
        if started == NO_REASON and not model.groups.grouped[g]:
            model.progress.next_member[q] = model.gangs.queued_first[g]
            model.progress.members_end[q] = model.gangs.first[g + 1]
    pass_offer(model, q, j)
    return True


@inlined
def skip_evicted(model: RoundModel, q: int, j: int) -> None:
    """Continue after an evicted run, in the order or among the members of its gang."""
    if (
        model.progress.next_member[q] < model.progress.members_end[q]
        and model.gangs.members[model.progress.next_member[q]] == j
    ):
        model.progress.next_member[q] += 1
    else:
        model.progress.next_evicted[q] += 1


@inlined
def check_limits(model: RoundModel, q: int, s: int, whole: Int64, jobs: int) -> int:
    """Rules L2 to L4 and L7 for an offer of queued jobs: `NO_REASON`, or the code of the limit.

    What stops the round is written to counters[N_STOP], what stops the queue to
    `progress.stop_code`, what holds back single jobs of shape `s` to `progress.skip_code`. A gang
    (s = -1) is only skipped; its L2 is checked elsewhere, because its members can be of several
    classes.
    """
    code = NO_REASON
    for r in range(model.entitlements.cost_factor.size):
        if model.usage.started[r] > model.entitlements.round_limit[r]:
            code = ROUND_LIMIT
    if code == NO_REASON and model.usage.tokens[0] < 1.0 - TOLERANCE:
        code = RATE_LIMIT
    if code != NO_REASON:
        model.counters[N_STOP] = code
    elif model.usage.tokens[1 + q] < 1.0 - TOLERANCE:
        model.progress.stop_code[q] = RATE_LIMIT
        code = RATE_LIMIT
    else:
        code = find_offer_limit(model, q, s, whole, jobs)
    if code != NO_REASON and s >= 0:
        skip_shape(model, q, s, code)
    return code
