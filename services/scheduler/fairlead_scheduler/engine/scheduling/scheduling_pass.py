"""The scheduling pass: handles the offers of queues in the order of R4."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

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
    sum_new_gang,
)
from fairlead_scheduler.engine.scheduling.gang_start import SEARCHED_GANG, SEARCHING
from fairlead_scheduler.engine.scheduling.offers import reset_fit
from fairlead_scheduler.engine.scheduling.placement import (
    ANY_VALUE,
    find_free_node,
    place_job,
    reopen_shapes,
)
from fairlead_scheduler.engine.scheduling.queue_selection import (
    find_offer,
    recheck_fitting_offers,
    renew_offers,
    replace_top,
    return_queues,
    start_queues,
)
from fairlead_scheduler.engine.scheduling.strict_gain import measure_offer
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
    """Handle offers: at most `offers` of them, and until `counters[N_WORK]` has grown by `work`.
    Returns `DONE` if no offer is left, else `MORE`.

    It also returns while a gang searches for a label value or a domain.
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
            reset_fit(model, q)
        kind = model.offers.kind[q]
        model.counters[N_JOURNAL] = 0
        if kind == NEW_JOB:
            continues = handle_new_job(model, q, model.offers.job[q])
        else:
            continues = handle_run_or_gang(model, q, kind, model.offers.job[q])
            if model.values.search[SEARCHED_GANG] != 0:
                return MORE
        if model.counters[N_JOURNAL] > 0:
            freeze_yielding_groups(model)
        replace_top(model, continues and find_offer(model, q))
        if model.counters[N_JOURNAL] > 0:
            renew_offers(model)
        if model.counters[N_REOPENED]:
            return_queues(model)
    return MORE


@inlined
def freeze_yielding_groups(model: RoundModel) -> None:
    """G10: freeze groups with `freezeSeconds` that lost surplus members to the present offer."""
    for i in range(model.counters[N_JOURNAL]):
        j = -model.placements.journal[i] - 1
        if j >= 0 and model.runs.cause[j] == CAUSE_SURPLUS:
            g = model.jobs.gang[j]
            if model.gangs.groups.gives_once[g] and model.gangs.groups.frozen[g] == 0:
                model.gangs.groups.frozen[g] = FROZEN


@inlined
def handle_new_job(model: RoundModel, q: int, j: int) -> bool:
    """Try to place queued job `j`; False if queue `q` must stop."""
    if model.counters[N_STOP] != NO_REASON:
        return False
    s = model.jobs.shape[j]
    permitted = check_limits(model, q, s, model.shapes.full_request[s], 1) == NO_REASON
    if permitted and not model.runs.active:
        p = find_free_node(model, s, 0)
        if p >= 0:
            allocate(model, q, j, s, 0, p)
        else:
            skip_shape(model, q, s, INSUFFICIENT)
    elif permitted:
        after = measure_offer(model, q, model.shapes.full_request[s])
        code = place_job(model, j, after, ANY_VALUE, ANY_VALUE, URGENCY)
        if code != NO_REASON and not avoids_nodes(model, j):
            # The job keeps its place in the order: once capacity was freed it is tried again first.
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
    return model.jobs.avoided.first.size > 0 and model.jobs.avoided.first[j] >= 0


@inlined
def pass_offer(model: RoundModel, q: int, j: int) -> None:
    """Let queue `q` continue behind its offer of queued jobs, whose last job is `j`."""
    if model.offers.replaces_first[q]:
        model.progress.handled[j] = 1
        model.progress.next_within[q] += 1
    else:
        model.progress.next_queued[q] += 1


@separate
def handle_run_or_gang(model: RoundModel, q: int, kind: int, j: int) -> bool:
    """Handle an offer of an evicted run or of a gang; False if queue `q` must stop."""
    if kind == EVICTED_RUN:
        handle_evicted_run(model, q, j)
    elif kind == EVICTED_GANG:
        handle_evicted_gang(model, q, model.jobs.gang[j])
    elif model.counters[N_STOP] != NO_REASON:
        return False
    elif kind == FURTHER_MEMBER:
        handle_further_member(model, q, j)
    else:
        handle_new_gang(model, q, j)
    return True


@inlined
def handle_evicted_run(model: RoundModel, q: int, j: int) -> None:
    """Return evicted run `j` to its node, or preempt it (R5)."""
    if model.runs.state[j] == EVICTED:
        if can_return(model, j):
            return_run(model, j)
        else:
            preempt_evicted_run(model, j)
            reopen_shapes(model, model.counters[N_JOURNAL])
    if is_at_member(model, q, j):
        model.progress.next_member[q] += 1
    else:
        model.progress.next_evicted[q] += 1


@separate
def handle_evicted_gang(model: RoundModel, q: int, g: int) -> None:
    """Return the evicted members that gang `g` needs, or preempt them (R5, N8). The other evicted
    members of a plain gang are offered next."""
    return_gang(model, g)
    reopen_shapes(model, model.counters[N_JOURNAL])
    model.evicted.gang_returned[g] = 1
    if not model.gangs.groups.grouped[g]:
        model.progress.next_member[q] = model.gangs.first[g]
        model.progress.members_end[q] = model.gangs.queued_first[g]
    model.progress.next_evicted[q] += 1


@separate
def handle_further_member(model: RoundModel, q: int, j: int) -> None:
    """Try to place further member `j` beside the running ones of its gang (N7, N8, G3)."""
    g = model.jobs.gang[j]
    s = model.jobs.shape[j]
    if (
        is_started(model, g)
        and check_limits(model, q, s, model.shapes.full_request[s], 1) == NO_REASON
    ):
        code = place_joining_member(model, j)
        if code == NO_REASON and model.values.domains.mode[g] != 0:
            join_scope(model, j)
        if code == NO_REASON and is_surplus(model, j):
            model.gangs.roles.step_left[model.jobs.role[j]] -= 1
        if code != NO_REASON:
            model.gangs.code[g] = code
            if (
                code == INSUFFICIENT
                and model.gangs.groups.grouped[g]
                and not avoids_nodes(model, j)
            ):
                model.gangs.roles.full[model.jobs.role[j]] = model.counters[N_PREEMPTED] + 1
            if model.gangs.rest[g] and code == INSUFFICIENT:
                fail_job(model, j)
    if is_at_member(model, q, j):
        model.progress.next_member[q] += 1
    else:
        pass_offer(model, q, j)


@inlined
def is_at_member(model: RoundModel, q: int, j: int) -> bool:
    """Whether queue `q` offers the further members of a gang one by one and is at member `j`."""
    return (
        model.progress.next_member[q] < model.progress.members_end[q]
        and model.gangs.members[model.progress.next_member[q]] == j
    )


@separate
def handle_new_gang(model: RoundModel, q: int, j: int) -> None:
    """Try to start the gang of queued member `j` (N7, G1). The further members of a plain gang that
    started are offered next. While the gang searches for a label value or a domain, its offer stays
    as it is."""
    g = model.jobs.gang[j]
    need = model.gangs.min_size[g]
    sum_new_gang(model, g)
    model.gangs.code[g] = check_limits(model, q, -1, model.gangs.offer_request, need)
    limits = model.entitlements.class_limit.size > 0 and model.gangs.code[g] == NO_REASON
    if limits and gang_exceeds_class_limit(model, q, g, need):
        model.gangs.code[g] = QUEUE_LIMIT
    if model.gangs.code[g] == NO_REASON:
        started = start_offered_gang(model, q, g)
        if started == SEARCHING:
            return
        model.gangs.code[g] = started
        if started == NO_REASON and not model.gangs.groups.grouped[g]:
            model.progress.next_member[q] = model.gangs.queued_first[g]
            model.progress.members_end[q] = model.gangs.first[g + 1]
    pass_offer(model, q, j)


@inlined
def check_limits(model: RoundModel, q: int, s: int, more: Int64, jobs: int) -> int:
    """Rules L2 to L4 and L7 for an offer of this number of queued jobs that needs `more`:
    `NO_REASON`, or the code of the limit that it exceeds.

    The code is also written to counters[N_STOP] if the limit stops the round, to
    `progress.stop_code` if it stops the queue, and to `progress.skip_code` for single jobs of shape
    `s`. For a gang (s = -1) L2 is not checked: `gang_exceeds_class_limit` does that.
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
        code = find_offer_limit(model, q, s, more, jobs)
    if code != NO_REASON and s >= 0:
        skip_shape(model, q, s, code)
    return code
