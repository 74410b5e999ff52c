"""Which queue is next (rule R4): a binary heap of queues, compared by their offers."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import inlined, separate
from fairlead_scheduler.engine.scheduling.gang_placement import count_returning, sum_members
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
def goes_before(model: RoundModel, a: int, b: int) -> bool:
    """Whether the offer of queue `a` goes before that of queue `b`, by R4 (1) to (5)."""
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


@inlined
def sift_down(model: RoundModel, i: int) -> None:
    """Move the queue at heap place `i` down to where it belongs."""
    size = model.counters[N_QUEUES]
    q = model.offers.heap[i]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and goes_before(
            model, model.offers.heap[child + 1], model.offers.heap[child]
        ):
            child += 1
        if not goes_before(model, model.offers.heap[child], q):
            break
        model.offers.heap[i] = model.offers.heap[child]
        i = child
    model.offers.heap[i] = q


@inlined
def was_handled(model: RoundModel, q: int, at: int) -> bool:
    """Whether the job at this place of the order was handled before an earlier one (R4)."""
    return at < model.progress.next_within[q] and model.progress.handled[model.jobs.order[at]] != 0


@inlined
def examine_next(model: RoundModel, q: int) -> int:
    """The next queued job to examine, by its place in the order, or -1 when the queue is done."""
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
        j = int(model.jobs.order[at])
        s = int(model.jobs.shape[j])
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
    """Offer the queue's next evicted run, or a gang at the place of its last evicted member that it
    needs."""
    while model.progress.next_evicted[q] < model.evicted.end[q]:
        j = model.evicted.rows[model.progress.next_evicted[q]]
        g = int(model.jobs.gang[j])
        if g < 0:
            if model.runs.state[j] == EVICTED:
                return offer_job(model, q, j, EVICTED_RUN)
        elif model.gangs.returned[g]:
            if model.groups.grouped[g] and model.runs.state[j] == EVICTED:
                return offer_job(model, q, j, EVICTED_RUN)
        elif j == model.gangs.last_evicted[g] and model.gangs.live[g] > 0:
            offer_evicted_gang(model, q, j)
            return True
        model.progress.next_evicted[q] += 1
    return False


@separate
def offer_evicted_gang(model: RoundModel, q: int, j: int) -> None:
    """Offer the evicted members that a gang needs, at the place of its last one, `j`."""
    g = int(model.jobs.gang[j])
    count_returning(model, g)
    value = sum_members(model, g, model.gangs.first[g], model.gangs.queued_first[g], EVICTED)
    model.offers.kind[q] = EVICTED_GANG
    model.offers.job[q] = j
    rank_offer(model, q, model.gangs.offer_request, value, True)


@separate
def offer_next_member(model: RoundModel, q: int) -> bool:
    """Offer the next further member of the gang that the queue is at."""
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
    """Offer a queued member of a gang, or the gang, where the queue has reached it; False for
    neither.

    Members that must start together are counted by the look-back (L5) at the place of the last one,
    so that it never cuts a gang.
    """
    g = int(model.jobs.gang[j])
    if joins_alone(model, g, j):
        if is_tried(model, q, j):
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
def is_tried(model: RoundModel, q: int, j: int) -> bool:
    """Whether a further member can still be placed: nothing holds back its shape or, of a surplus
    member, its group (G7) or its role (G8), and if a member of its role found no free capacity,
    runs were preempted since."""
    g, role = int(model.jobs.gang[j]), int(model.jobs.role[j])
    if is_surplus(model, j):
        if model.groups.frozen[g] != 0:
            model.gangs.code[g] = GROUP_FROZEN
            return False
        if model.roles.step_left[role] <= 0:
            model.gangs.code[g] = GROUP_STEP
            return False
    full = model.roles.full[role]
    return model.progress.skip_code[q, model.jobs.shape[j]] == NO_REASON and (
        full == 0 or full != model.counters[N_PREEMPTED] + 1
    )


@separate
def start_queues(model: RoundModel) -> None:
    """Find every queue's first offer and make the heap."""
    model.counters[N_STARTED] = 1
    for q in range(model.entitlements.weight.size):
        model.offers.kind[q] = NO_OFFER
        if find_offer(model, q):
            model.offers.heap[model.counters[N_QUEUES]] = q
            model.counters[N_QUEUES] += 1
    make_heap(model)


@separate
def renew_offers(model: RoundModel) -> None:
    """Find new offers for queues whose own offer was preempted, in whole or in part, by this one.

    The heap compares queues by their offers, so an offer that no longer exists must be replaced.
    """
    for i in range(model.counters[N_JOURNAL]):
        if model.journal[i] >= 0:
            continue
        j = -model.journal[i] - 1
        q = int(model.jobs.queue[j])
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
    """Check again the first offers over budget that fitted on free capacity, before the offer of
    queue `top`, which is over budget too; True if any queue has another offer now.

    An offer is checked again after as many placements as the check costs (`count_tries`).
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
    """Where the queue is in the heap, or -1."""
    model.counters[N_WORK] += model.counters[N_QUEUES]
    for i in range(model.counters[N_QUEUES]):
        if model.offers.heap[i] == q:
            return i
    return -1


@separate
def reorder_heap(model: RoundModel, i: int, found: bool) -> None:
    """The queue at heap place `i` has another offer (`found`) or leaves the heap."""
    if not found:
        model.offers.kind[model.offers.heap[i]] = NO_OFFER
        size = model.counters[N_QUEUES] - 1
        model.counters[N_QUEUES] = size
        model.offers.heap[i] = model.offers.heap[size]
        if i == size:
            return
    while i > 0 and goes_before(model, model.offers.heap[i], model.offers.heap[(i - 1) // 2]):
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
    """Return queues to the heap that have something to try again since capacity was freed."""
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
        while i > 0 and goes_before(model, q, model.offers.heap[(i - 1) // 2]):
            model.offers.heap[i] = model.offers.heap[(i - 1) // 2]
            i = (i - 1) // 2
        model.offers.heap[i] = q


@inlined
def replace_top(model: RoundModel, found: bool) -> None:
    """After the top queue was handled: it has a new offer (`found`) or leaves the heap."""
    if not found:
        model.offers.kind[model.offers.heap[0]] = NO_OFFER
        size = model.counters[N_QUEUES] - 1
        model.counters[N_QUEUES] = size
        model.offers.heap[0] = model.offers.heap[size]
        if size == 0:
            return
    sift_down(model, 0)
