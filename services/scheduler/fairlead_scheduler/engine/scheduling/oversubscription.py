"""After the pass: oversubscribed nodes are made to fit (R6), and preempted runs return (R7)."""

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import entry_point, inlined, separate
from fairlead_scheduler.engine.scheduling.eligibility import has_capacity
from fairlead_scheduler.engine.scheduling.node_victims import choose_victims
from fairlead_scheduler.engine.scheduling.offers import rank_offer
from fairlead_scheduler.engine.scheduling.queue_selection import is_next_queue
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    EVICTED_RUN,
    N_WORK,
    NO_OFFER,
    PREEMPTED,
    RESTORED,
    TO_FIT,
)
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_URGENCY,
    find_preemptor,
    is_live,
    preempt_gang,
    preempt_run,
    restore_run,
    undo_restore,
)


@entry_point
def resolve_oversubscription(model: RoundModel, position: int, work: int) -> int:
    """R6: where a job was placed on top of less urgent runs, preempt as many of them as needed for
    the node to fit.

    It examines nodes from `position` on, and returns once it has examined `work` positions and
    runs: the position at which the next call continues.
    """
    size = model.capacity.tree_types.size // 2
    end = model.counters[N_WORK] + work
    for p in range(position, model.nodes.node_type.size):
        if model.counters[N_WORK] >= end:
            return p
        model.counters[N_WORK] += 1
        if model.capacity.tree_types[size + p] == 0:
            continue
        fit_node(model, p)
    return model.nodes.node_type.size


@separate
def fit_node(model: RoundModel, p: int) -> None:
    """R6 for one position: preempt as many of the less urgent runs below a job as needed."""
    size = model.capacity.tree_types.size // 2
    fits = True
    for r in range(model.shapes.request.shape[1]):
        if model.capacity.tree[size + p, r] < 0:
            fits = False
    if fits:
        return
    found = choose_victims(model, -1, p, model.capacity.runs_at_level.size, 0.0, TO_FIT)
    for k in range(found.victim_count):
        j = model.victims.taken[k]
        if not is_live(model.runs.state[j]):
            continue
        for_job = find_preemptor(model, p, model.runs.level[j])
        preempt_run(model, j, CAUSE_URGENCY, for_job)
        if model.victims.takes_gang[k]:
            preempt_gang(model, model.jobs.gang[j], for_job)


@inlined
def fits_on_own_node(model: RoundModel, j: int) -> bool:
    """Whether job `j` is a preempted run that fits on its own node beside all other runs."""
    return model.runs.state[j] == PREEMPTED and has_capacity(
        model, model.jobs.shape[j], model.runs.position[j]
    )


@separate
def is_below_need(model: RoundModel, g: int) -> bool:
    """Whether any role of the gang has fewer live runs than the gang needs to continue."""
    for role in range(model.gangs.roles.first[g], model.gangs.roles.first[g + 1]):
        if model.gangs.roles.live[role] < model.gangs.roles.need[role]:
            return True
    return False


@separate
def restore_gang(model: RoundModel, g: int) -> None:
    """Restore the preempted members of a gang that fit on their nodes if the gang can then
    continue, otherwise none of them.

    Members that a gang does not need return one by one instead (`restore_next`).
    """
    for i in range(model.gangs.first[g], model.gangs.queued_first[g]):
        j = model.gangs.members[i]
        role = model.jobs.role[j]
        if (
            model.gangs.groups.grouped[g]
            and model.gangs.roles.live[role] >= model.gangs.roles.need[role]
        ):
            continue
        if fits_on_own_node(model, j):
            restore_run(model, j, RESTORED)
            model.victims.mark[j] = 1
    enough = not is_below_need(model, g)
    for i in range(model.gangs.first[g], model.gangs.queued_first[g]):
        j = model.gangs.members[i]
        if model.victims.mark[j]:
            model.victims.mark[j] = 0
            if not enough:
                undo_restore(model, j)


@entry_point
def start_second_pass(model: RoundModel, rows: Int64, first: Int64) -> None:
    """Find the first run of each queue that could return. Parameters as of `run_second_pass`."""
    for q in range(model.entitlements.weight.size):
        model.offers.kind[q] = NO_OFFER
        offer_next_preempted(model, rows, first, q)


@inlined
def offer_next_preempted(model: RoundModel, rows: Int64, first: Int64, q: int) -> None:
    """Offer the queue's next run that fits on its node, or is a member of a gang."""
    model.offers.kind[q] = NO_OFFER
    while model.progress.next_queued[q] < first[q + 1]:
        model.counters[N_WORK] += 1
        j = rows[model.progress.next_queued[q]]
        if model.jobs.gang[j] >= 0 or fits_on_own_node(model, j):
            s = model.jobs.shape[j]
            model.offers.kind[q] = EVICTED_RUN
            model.offers.job[q] = j
            rank_offer(model, q, model.shapes.full_request[s], model.runs.level[j], True)
            return
        model.progress.next_queued[q] += 1


@entry_point
def run_second_pass(
    model: RoundModel, rows: Int64, first: Int64, to_come: Int64, work: int, late: int
) -> bool:
    """R7: return preempted runs to their own nodes if they still fit. False if `work` was used up
    before all runs were handled; then it must be called again.

    `rows` are the preempted runs, ordered by queue, the value at which they run, priority, start
    and submission; `first` [Q+1] is where each queue begins in them. The next queue is that of R4,
    by the value at which its run runs. The members that a gang needs are handled together at the
    place of the last of them; `to_come` [G] is how many of them have not been reached. When time is
    up (`late`, L6) the other runs return queue by queue.
    """
    if late:
        for q in range(model.entitlements.weight.size):
            while model.progress.next_queued[q] < first[q + 1]:
                restore_next(model, rows[model.progress.next_queued[q]], q, to_come)
        return True
    end = model.counters[N_WORK] + work
    while model.counters[N_WORK] < end:
        best = -1
        model.counters[N_WORK] += model.entitlements.weight.size
        for q in range(model.entitlements.weight.size):
            if model.offers.kind[q] == NO_OFFER:
                continue
            j = model.offers.job[q]
            if model.jobs.gang[j] < 0 and not fits_on_own_node(model, j):
                offer_next_preempted(model, rows, first, q)
                if model.offers.kind[q] == NO_OFFER:
                    continue
            if best < 0 or is_next_queue(model, q, best):
                best = q
        if best < 0:
            return True
        restore_next(model, model.offers.job[best], best, to_come)
        offer_next_preempted(model, rows, first, best)
    return False


@inlined
def restore_next(model: RoundModel, j: int, q: int, to_come: Int64) -> None:
    """Restore run `j`, the next of queue `q`, if it fits on its node. The members that a gang needs
    are restored with the last of them."""
    model.progress.next_queued[q] += 1
    g = model.jobs.gang[j]
    base = g >= 0 and model.gangs.roles.base[j] != 0
    if base:
        to_come[g] -= 1
    if g >= 0 and is_below_need(model, g):
        if base and to_come[g] == 0:
            restore_gang(model, g)
    elif fits_on_own_node(model, j):
        restore_run(model, j, RESTORED)
