"""What a queue offers (rule R4): its first job or gang, or one behind it that is within budget.

If the first offer of a queue is over budget and does not fit on free capacity, the queue offers its
first offer within budget instead. The search for an offer within budget goes through the order of
the queue once in a round: what a queue holds mostly grows, so an offer that was over budget stays
over budget. If runs of the queue were preempted since, only the next round finds it.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.domain_choice import (
    place_joining_member,
    start_gang_in_domains,
)
from fairlead_scheduler.engine.scheduling.gang_placement import (
    gang_exceeds_class_limit,
    place_members,
    sum_new_gang,
    undo_offer,
)
from fairlead_scheduler.engine.scheduling.gang_start import (
    VALUES_TRIED_MAX,
    find_next_value,
    sum_waiting,
)
from fairlead_scheduler.engine.scheduling.placement import ANY_VALUE, find_free_node, place_job
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state.domain_tables import DOMAINS_TRIED_MAX
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    EVICTED_RUN,
    FAILED,
    FURTHER_MEMBER,
    N_FITS_FREE,
    N_JOURNAL,
    N_PLACED,
    N_PREEMPTED,
    N_STOP,
    N_WORK,
    NEW_GANG,
    NEW_JOB,
    NO_OFFER,
    NO_REASON,
    TOLERANCE,
    cost_of,
    cost_with,
    find_offer_limit,
)
from fairlead_scheduler.engine.state.run_states import FREE, GANG_RUNS, GANG_WAITS, is_started
from fairlead_scheduler.engine.state.surplus import is_surplus


@inlined
def rank_offer(model: RoundModel, q: int, more: Int64, value: int, live: bool) -> None:
    """Compute what R4 compares of the offer of queue `q`, which needs `more`: its shares, its class
    value, and whether it is of live runs."""
    weight = model.entitlements.weight[q]
    proposed = cost_with(model.usage.counted[q], more, model.entitlements.cost_factor) / weight
    over = proposed > model.entitlements.budget[q] + TOLERANCE
    model.offers.class_value[q] = value
    model.offers.over_budget[q] = over
    model.offers.share[q] = (
        proposed
        if over
        else cost_of(model.usage.counted[q], model.entitlements.cost_factor) / weight
    )
    model.offers.size[q] = cost_of(more, model.entitlements.cost_factor) * weight
    model.offers.runs[q] = live


@separate
def offer_job(model: RoundModel, q: int, j: int, kind: int) -> bool:
    """Offer job `j` alone; always True."""
    s = model.jobs.shape[j]
    model.offers.kind[q] = kind
    model.offers.job[q] = j
    rank_offer(
        model, q, model.shapes.full_request[s], model.shapes.class_value[s], kind == EVICTED_RUN
    )
    return True


@separate
def offer_new_gang(model: RoundModel, q: int, j: int) -> bool:
    """Offer the gang whose last queued member is `j`; always True."""
    value = sum_new_gang(model, model.jobs.gang[j])
    model.offers.kind[q] = NEW_GANG
    model.offers.job[q] = j
    rank_offer(model, q, model.gangs.offer_request, value, False)
    return True


@inlined
def offer_within_budget(model: RoundModel, q: int) -> bool:
    """If R4 requires it, replace the offer of queue `q`, which is its first one and of queued jobs;
    always True."""
    reset_fit(model, q)
    if (
        model.offers.over_budget[q]
        and model.counters[N_STOP] == NO_REASON
        and model.progress.next_within[q] < model.jobs.order_end[q]
    ):
        replace_offer(model, q)
    return True


@inlined
def reset_fit(model: RoundModel, q: int) -> None:
    """Reset `fits_free_at` of the queue's offer."""
    if model.offers.fits_free_at[q] > 0:
        model.offers.fits_free_at[q] = 0
        model.counters[N_FITS_FREE] -= 1


@separate
def replace_offer(model: RoundModel, q: int) -> None:
    """Replace the offer of queue `q`, which is over budget, by the first one within budget, if
    there is any and the present one does not fit on free capacity."""
    kind = find_within_budget(model, q)
    if kind == NO_OFFER:
        return
    if fits_on_free_capacity(model, q):
        model.offers.fits_free_at[q] = model.counters[N_PLACED] + 1
        model.counters[N_FITS_FREE] += 1
        return
    # The first offer keeps its place, and is examined again (L5).
    model.progress.examined[q] -= count_jobs(model, q)
    if model.offers.kind[q] != NEW_JOB:
        model.progress.members_left[q] += 1
    j = model.jobs.order[model.progress.next_within[q]]
    if kind == NEW_GANG:
        offer_new_gang(model, q, j)
    else:
        offer_job(model, q, j, kind)
    model.offers.replaces_first[q] = True


@inlined
def count_jobs(model: RoundModel, q: int) -> int:
    """The number of queued jobs in the offer of queue `q`."""
    if model.offers.kind[q] != NEW_GANG:
        return 1
    return count_starting(model, model.jobs.gang[model.offers.job[q]])


@inlined
def count_starting(model: RoundModel, g: int) -> int:
    """The number of queued jobs that count as the offer of a gang that starts: all its members; of
    a group, the members that it needs."""
    if model.gangs.groups.grouped[g]:
        return model.gangs.min_size[g]
    return model.gangs.first[g + 1] - model.gangs.queued_first[g]


@separate
def count_tries(model: RoundModel, q: int) -> int:
    """The most jobs that are placed to find out whether the offer of queue `q` fits on free
    capacity; for a gang, its members on each label value that is tried.

    The offer is checked again only after as many placements or preemptions, so the checks never
    cost more than these.
    """
    g = model.jobs.gang[model.offers.job[q]] if model.runs.active else -1
    if model.offers.kind[q] == NEW_GANG and model.gangs.label[g] >= 0 and model.gangs.value[g] < 0:
        return count_jobs(model, q) * VALUES_TRIED_MAX
    if g >= 0 and model.values.domains.mode[g] != 0:
        return count_jobs(model, q) * DOMAINS_TRIED_MAX * max(1, model.values.domains.label.size)
    return count_jobs(model, q)


@inlined
def is_within_budget(model: RoundModel, q: int, more: Int64) -> bool:
    """Whether queue `q` stays within its budget with these further amounts."""
    proposed = cost_with(model.usage.counted[q], more, model.entitlements.cost_factor)
    limit = model.entitlements.budget[q] + TOLERANCE
    return proposed / model.entitlements.weight[q] <= limit


@separate
def find_within_budget(model: RoundModel, q: int) -> int:
    """Move `next_within` on to the first offer behind the queue's first that is of the same class
    value, within budget and within the look-back (L5); returns its kind, or `NO_OFFER`."""
    first = model.progress.next_queued[q]
    end = model.jobs.order_end[q]
    if model.entitlements.lookback > 0:
        before = model.progress.examined[q] - count_jobs(model, q)
        end = min(end, first + model.entitlements.lookback - before)
    at = model.progress.next_within[q]
    if at <= first:
        at = first + 1
        if end - at > model.shapes.cost.size and not has_shape_within_budget(model, q):
            at = model.jobs.order_end[q]
    kind = NO_OFFER
    model.counters[N_WORK] -= at
    while at < end:
        s = model.jobs.shape[model.jobs.order[at]]
        if model.shapes.class_value[s] < model.offers.class_value[q]:
            break
        kind = find_kind_within_budget(model, q, model.jobs.order[at])
        if kind != NO_OFFER:
            break
        at += 1
    model.counters[N_WORK] += at
    model.progress.next_within[q] = at
    return kind


@separate
def has_shape_within_budget(model: RoundModel, q: int) -> bool:
    """Whether any queued job of queue `q` can be within budget. With many jobs of few shapes this
    costs less than examining each job."""
    if model.progress.members_left[q] > 0:
        return True
    model.counters[N_WORK] += model.shapes.cost.size
    for s in range(model.shapes.cost.size):
        if (
            model.progress.jobs_left[q, s] > 0
            and model.progress.skip_code[q, s] == NO_REASON
            and is_within_budget(model, q, model.shapes.full_request[s])
        ):
            return True
    return False


@inlined
def find_kind_within_budget(model: RoundModel, q: int, j: int) -> int:
    """The kind of the offer that queue `q` makes at the place of queued job `j`, if it is within
    budget; else `NO_OFFER`."""
    s = model.jobs.shape[j]
    g = -1
    if model.runs.active:
        g = model.jobs.gang[j]
        if g < 0 and model.runs.state[j] == FAILED:
            return NO_OFFER
    joins = g >= 0 and joins_alone(model, g, j)
    if g >= 0 and model.gangs.mode[g] == GANG_WAITS and not joins:
        if j != model.gangs.last_queued[g]:
            return NO_OFFER
        sum_new_gang(model, g)
        return NEW_GANG if is_within_budget(model, q, model.gangs.offer_request) else NO_OFFER
    if g >= 0 and (not joins or is_held_back(model, j)):
        return NO_OFFER
    if model.progress.skip_code[q, s] != NO_REASON or not is_within_budget(
        model, q, model.shapes.full_request[s]
    ):
        return NO_OFFER
    return NEW_JOB if g < 0 else FURTHER_MEMBER


@inlined
def is_held_back(model: RoundModel, j: int) -> bool:
    """Whether `j` is a surplus member that the freeze (G7) or the step (G8) of its group holds
    back."""
    return is_surplus(model, j) and (
        model.gangs.groups.frozen[model.jobs.gang[j]] != 0
        or model.gangs.roles.step_left[model.jobs.role[j]] <= 0
    )


@inlined
def joins_alone(model: RoundModel, g: int, j: int) -> bool:
    """Whether queued member `j` of gang `g` is offered alone: the gang runs, or `j` is a surplus
    member of a group that started in this round."""
    mode = model.gangs.mode[g]
    return is_started(model, g) and (
        mode == GANG_RUNS
        or (mode == GANG_WAITS and model.gangs.groups.grouped[g] != 0 and is_surplus(model, j))
    )


@separate
def fits_on_free_capacity(model: RoundModel, q: int) -> bool:
    """Whether the offer of queue `q`, of queued jobs, fits on free capacity (N2a) and within the
    limits.

    Free capacity only falls unless something is preempted, so an offer that did not fit is tried
    again only after preemptions (see `count_tries`).
    """
    j = model.offers.job[q]
    preempted = model.counters[N_PREEMPTED] - model.progress.unfit[q, 1]
    if model.progress.unfit[q, 0] == j and preempted < count_tries(model, q):
        return False
    mark = model.counters[N_JOURNAL]
    if not model.runs.active:
        s = model.jobs.shape[j]
        fits = (
            find_offer_limit(model, q, s, model.shapes.full_request[s], 1) == NO_REASON
            and find_free_node(model, s, 0) >= 0
        )
    elif model.offers.kind[q] == NEW_GANG:
        fits = gang_fits_on_free_capacity(model, q, model.jobs.gang[j])
    else:
        s = model.jobs.shape[j]
        fits = find_offer_limit(model, q, s, model.shapes.full_request[s], 1) == NO_REASON
        if fits and model.offers.kind[q] == FURTHER_MEMBER:
            fits = place_joining_member(model, j) == NO_REASON
        elif fits:
            fits = place_job(model, j, 0.0, ANY_VALUE, ANY_VALUE, FREE) == NO_REASON
        undo_offer(model, mark)
    if not fits:
        model.progress.unfit[q, 0] = j
        model.progress.unfit[q, 1] = model.counters[N_PREEMPTED]
    return fits


@separate
def gang_fits_on_free_capacity(model: RoundModel, q: int, g: int) -> bool:
    """Whether the members that gang `g` needs fit on free capacity and within the limits. If the
    gang has to choose a label value, the first values that N7 tries are tried."""
    need = model.gangs.min_size[g]
    sum_new_gang(model, g)
    if find_offer_limit(model, q, -1, model.gangs.offer_request, need) != NO_REASON:
        return False
    if model.entitlements.class_limit.size > 0 and gang_exceeds_class_limit(model, q, g, need):
        return False
    mark = model.counters[N_JOURNAL]
    if model.values.domains.mode[g] != 0:
        started = start_gang_in_domains(model, g, 0.0, FREE)
        undo_offer(model, mark)
        return started == NO_REASON
    label = model.gangs.label[g]
    value = model.gangs.value[g]
    chooses = label >= 0 and value < 0
    if chooses:
        sum_waiting(model, g, model.gangs.first[g + 1] - model.gangs.queued_first[g])
    rank = -1
    for _ in range(VALUES_TRIED_MAX if chooses else 1):
        if chooses:
            rank = find_next_value(model, model.values.free[label], label, rank + 1)
            if rank < 0:
                break
            value = model.values.value[label, rank]
        fits = place_members(model, g, need, 0.0, value, FREE).placed == need
        undo_offer(model, mark)
        if fits:
            return True
    return False
