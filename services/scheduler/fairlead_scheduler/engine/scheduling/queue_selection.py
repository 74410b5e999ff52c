"""Chooses the next queue (rule R4): a binary heap of queues, ordered by their offers."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.gang_placement import set_returning_members, sum_members
from fairlead_scheduler.engine.scheduling.offers import (
    count_starting,
    count_tries,
    joins_alone,
    offer_job,
    offer_new_gang,
    offer_within_budget,
    rank_offer,
)
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    EVICTED,
    EVICTED_GANG,
    EVICTED_RUN,
    FAILED,
    FURTHER_MEMBER,
    GROUP_FROZEN,
    GROUP_STEP,
    LOOKBACK_LIMIT,
    N_JOURNAL,
    N_PLACED,
    N_PREEMPTED,
    N_QUEUES,
    N_REOPENED,
    N_STARTED,
    N_STOP,
    N_WORK,
    NEW_JOB,
    NO_OFFER,
    NO_REASON,
    QUEUED,
    TOLERANCE,
    count_handled,
)
from fairlead_scheduler.engine.state.run_states import GANG_WAITS
from fairlead_scheduler.engine.state.surplus import is_surplus


@inlined
def is_next_queue(model: RoundModel, a: int, b: int) -> bool:
    """Whether queue `a` comes before queue `b` with their present offers, by R4 (1) to (5)."""
    if model.offers.class_value[a] != model.offers.class_value[b]:
        return model.offers.class_value[a] > model.offers.class_value[b]
    if model.offers.over_budget[a] != model.offers.over_budget[b]:
        return model.offers.over_budget[b]
    if abs(model.offers.share[a] - model.offers.share[b]) > TOLERANCE:
        return model.offers.share[a] < model.offers.share[b]
    if (
        not model.offers.over_budget[a]
        and abs(model.offers.size[a] - model.offers.size[b]) > TOLERANCE
    ):
        return model.offers.size[a] > model.offers.size[b]
    if abs(model.entitlements.initial_share[a] - model.entitlements.initial_share[b]) > TOLERANCE:
        return model.entitlements.initial_share[a] < model.entitlements.initial_share[b]
    if model.offers.runs[a] != model.offers.runs[b]:
        return model.offers.runs[a]
    return a < b


@separate
def sift_down(model: RoundModel, i: int) -> None:
    """Move the queue at heap place `i` down to its place."""
    size = model.counters[N_QUEUES]
    q = model.offers.heap[i]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and is_next_queue(
            model, model.offers.heap[child + 1], model.offers.heap[child]
        ):
            child += 1
        if not is_next_queue(model, model.offers.heap[child], q):
            break
        model.offers.heap[i] = model.offers.heap[child]
        i = child
    model.offers.heap[i] = q


@inlined
def was_handled(model: RoundModel, q: int, at: int) -> bool:
    """Whether the job at place `at` of the order was handled before an earlier one of queue `q`
    (R4)."""
    return at < model.progress.next_within[q] and model.progress.handled[model.jobs.order[at]] != 0


@inlined
def examine_next(model: RoundModel, q: int) -> int:
    """The place in the order of the next queued job of queue `q` to examine; -1 if the queue offers
    no more of them. The job counts for the look-back (L5)."""
    if (
        model.progress.stop_code[q] != NO_REASON
        or model.progress.next_queued[q] >= model.jobs.order_end[q]
    ):
        return -1
    if (
        model.progress.open_shapes[q] == 0
        and model.progress.members_left[q] == 0
        and model.entitlements.lookback == 0
    ):
        return -1
    if (
        model.entitlements.lookback > 0
        and model.progress.examined[q] >= model.entitlements.lookback
    ):
        model.progress.stop_code[q] = LOOKBACK_LIMIT
        return -1
    model.progress.examined[q] += 1
    return model.progress.next_queued[q]


@separate
def find_offer(model: RoundModel, q: int) -> bool:
    """Find the queue's next offer; False when it has none.

    Evicted runs come first (R3), then further members of the gang at hand, then queued jobs.
    """
    model.offers.replaces_first[q] = False
    if offer_next_member(model, q):
        return True
    if model.progress.next_evicted[q] < model.evicted.end[q] and offer_next_evicted(model, q):
        return True
    while True:
        at = examine_next(model, q)
        model.counters[N_WORK] += 1
        if at < 0:
            return False
        j = model.jobs.order[at]
        s = model.jobs.shape[j]
        if model.runs.active and model.jobs.gang[j] >= 0:
            model.progress.members_left[q] -= 1
            if not was_handled(model, q, at) and offer_gang(model, q, j):
                return offer_within_budget(model, q)
        elif was_handled(model, q, at):
            pass
        elif model.progress.skip_code[q, s] == NO_REASON and (
            not model.runs.active or model.runs.state[j] != FAILED
        ):
            offer_job(model, q, j, NEW_JOB)
            return offer_within_budget(model, q)
        else:
            count_handled(model, q, s)
        model.progress.next_queued[q] += 1


@inlined
def offer_next_evicted(model: RoundModel, q: int) -> bool:
    """Offer the next evicted run of queue `q`, or the evicted members that a gang needs, at the
    place of the last of them; False if no evicted run is left."""
    while model.progress.next_evicted[q] < model.evicted.end[q]:
        j = model.evicted.rows[model.progress.next_evicted[q]]
        g = model.jobs.gang[j]
        if g < 0:
            if model.runs.state[j] == EVICTED:
                return offer_job(model, q, j, EVICTED_RUN)
        elif model.evicted.gang_returned[g]:
            if model.gangs.groups.grouped[g] and model.runs.state[j] == EVICTED:
                return offer_job(model, q, j, EVICTED_RUN)
        elif j == model.evicted.gang_last[g] and model.gangs.live[g] > 0:
            offer_evicted_gang(model, q, j)
            return True
        model.progress.next_evicted[q] += 1
    return False


@separate
def offer_evicted_gang(model: RoundModel, q: int, j: int) -> None:
    """Offer the evicted members that the gang of `j`, the last of them, needs."""
    g = model.jobs.gang[j]
    set_returning_members(model, g)
    value = sum_members(model, g, model.gangs.first[g], model.gangs.queued_first[g], EVICTED)
    model.offers.kind[q] = EVICTED_GANG
    model.offers.job[q] = j
    rank_offer(model, q, model.gangs.offer_request, value, True)


@separate
def offer_next_member(model: RoundModel, q: int) -> bool:
    """Offer the next further member of the gang that queue `q` is at; False if none is left."""
    while model.progress.next_member[q] < model.progress.members_end[q]:
        j = model.gangs.members[model.progress.next_member[q]]
        if model.runs.state[j] == EVICTED:
            return offer_job(model, q, j, EVICTED_RUN)
        if (
            model.runs.state[j] == QUEUED
            and model.progress.skip_code[q, model.jobs.shape[j]] == NO_REASON
        ):
            return offer_job(model, q, j, FURTHER_MEMBER)
        model.progress.next_member[q] += 1
    return False


@separate
def offer_gang(model: RoundModel, q: int, j: int) -> bool:
    """At the place of queued member `j`: offer it alone, or offer its gang if `j` is the last of
    the members that start together; False for neither.

    The look-back (L5) counts members that start together at the place of the last one, so that it
    never divides a gang.
    """
    g = model.jobs.gang[j]
    if joins_alone(model, g, j):
        if can_be_placed(model, q, j):
            return offer_job(model, q, j, FURTHER_MEMBER)
        return False
    if model.gangs.mode[g] != GANG_WAITS:
        return False
    if j != model.gangs.last_queued[g]:
        model.progress.examined[q] -= 1
        return False
    model.progress.examined[q] += count_starting(model, g) - 1
    return offer_new_gang(model, q, j)


@inlined
def can_be_placed(model: RoundModel, q: int, j: int) -> bool:
    """Whether further member `j` could still be placed.

    It could not if its shape is skipped, if its role found no free capacity and no run was
    preempted since, or, for a surplus member, if the freeze (G7) or the step (G8) holds it back;
    the last two are recorded as the code of its gang.
    """
    g, role = model.jobs.gang[j], model.jobs.role[j]
    if is_surplus(model, j):
        if model.gangs.groups.frozen[g] != 0:
            model.gangs.code[g] = GROUP_FROZEN
            return False
        if model.gangs.roles.step_left[role] <= 0:
            model.gangs.code[g] = GROUP_STEP
            return False
    full = model.gangs.roles.full[role]
    return model.progress.skip_code[q, model.jobs.shape[j]] == NO_REASON and (
        full == 0 or full != model.counters[N_PREEMPTED] + 1
    )


@separate
def start_queues(model: RoundModel) -> None:
    """Find the first offer of every queue and make the heap."""
    model.counters[N_STARTED] = 1
    for q in range(model.entitlements.weight.size):
        model.offers.kind[q] = NO_OFFER
        if find_offer(model, q):
            model.offers.heap[model.counters[N_QUEUES]] = q
            model.counters[N_QUEUES] += 1
    make_heap(model)


@separate
def renew_offers(model: RoundModel) -> None:
    """Find new offers for queues whose present offer was preempted, in whole or in part, by the
    offer that was just handled.

    The heap orders queues by their offers, so an offer that no longer exists must be replaced.
    """
    for i in range(model.counters[N_JOURNAL]):
        if model.placements.journal[i] >= 0:
            continue
        j = -model.placements.journal[i] - 1
        q = model.jobs.queue[j]
        k = model.offers.job[q]
        if model.runs.state[j] == EVICTED:
            continue
        if model.offers.kind[q] == EVICTED_RUN and k == j:
            found = find_offer(model, q)
        elif model.offers.kind[q] == EVICTED_GANG and model.jobs.gang[k] == model.jobs.gang[j]:
            found = model.gangs.live[model.jobs.gang[k]] > 0
            if found:
                offer_evicted_gang(model, q, k)
            else:
                model.progress.next_evicted[q] += 1
                found = find_offer(model, q)
        else:
            continue
        reorder_heap(model, find_in_heap(model, q), found)


@separate
def recheck_fitting_offers(model: RoundModel, top: int) -> bool:
    """Before an offer over budget of queue `top` is handled, check again the first offers over
    budget that fitted on free capacity; True if any queue has another offer now.

    Each offer is checked again only after as many placements as the check costs (`count_tries`).
    """
    renewed = False
    model.counters[N_WORK] += model.entitlements.weight.size
    for q in range(model.entitlements.weight.size):
        if (
            model.offers.fits_free_at[q] == 0
            or model.offers.class_value[q] != model.offers.class_value[top]
            or model.counters[N_PLACED] < model.offers.fits_free_at[q] - 1 + count_tries(model, q)
        ):
            continue
        offer_within_budget(model, q)
        if model.offers.replaces_first[q]:
            reorder_heap(model, find_in_heap(model, q), True)
            renewed = True
    return renewed


@inlined
def find_in_heap(model: RoundModel, q: int) -> int:
    """The heap place of queue `q`, or -1."""
    model.counters[N_WORK] += model.counters[N_QUEUES]
    for i in range(model.counters[N_QUEUES]):
        if model.offers.heap[i] == q:
            return i
    return -1


@separate
def reorder_heap(model: RoundModel, i: int, found: bool) -> None:
    """Move the queue at heap place `i` after it got another offer (`found`), or remove it."""
    if not found:
        model.offers.kind[model.offers.heap[i]] = NO_OFFER
        size = model.counters[N_QUEUES] - 1
        model.counters[N_QUEUES] = size
        model.offers.heap[i] = model.offers.heap[size]
        if i == size:
            return
    while i > 0 and is_next_queue(model, model.offers.heap[i], model.offers.heap[(i - 1) // 2]):
        parent = (i - 1) // 2
        model.offers.heap[i], model.offers.heap[parent] = (
            model.offers.heap[parent],
            model.offers.heap[i],
        )
        i = parent
    sift_down(model, i)


@separate
def make_heap(model: RoundModel) -> None:
    """Put the queues into heap order."""
    for i in range(model.counters[N_QUEUES] // 2 - 1, -1, -1):
        sift_down(model, i)


@separate
def return_queues(model: RoundModel) -> None:
    """Return queues to the heap that have an offer again because capacity was freed."""
    model.counters[N_REOPENED] = 0
    model.counters[N_WORK] += model.entitlements.weight.size
    for q in range(model.entitlements.weight.size):
        if (
            model.offers.kind[q] != NO_OFFER
            or model.counters[N_STOP] != NO_REASON
            or not find_offer(model, q)
        ):
            continue
        i = model.counters[N_QUEUES]
        model.offers.heap[i] = q
        model.counters[N_QUEUES] = i + 1
        while i > 0 and is_next_queue(model, q, model.offers.heap[(i - 1) // 2]):
            model.offers.heap[i] = model.offers.heap[(i - 1) // 2]
            i = (i - 1) // 2
        model.offers.heap[i] = q


@inlined
def replace_top(model: RoundModel, found: bool) -> None:
    """Move the top queue after its offer was handled and it got another one (`found`), or remove
    it."""
    if not found:
        model.offers.kind[model.offers.heap[0]] = NO_OFFER
        size = model.counters[N_QUEUES] - 1
        model.counters[N_QUEUES] = size
        model.offers.heap[0] = model.offers.heap[size]
        if size == 0:
            return
    sift_down(model, 0)
