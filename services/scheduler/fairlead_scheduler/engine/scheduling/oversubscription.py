"""After the pass: oversubscribed nodes are made to fit (R6), and preempted runs return (R7)."""

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import entry_point, inlined, separate
from fairlead_scheduler.engine.scheduling.eligibility import has_capacity
from fairlead_scheduler.engine.scheduling.node_victims import TO_FIT, choose_victims
from fairlead_scheduler.engine.scheduling.offers import rank_offer
from fairlead_scheduler.engine.scheduling.queue_selection import goes_before
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import (
    EVICTED_RUN,
    N_WORK,
    NO_OFFER,
    PREEMPTED,
    RESTORED,
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
    """R6: preempt as few of the less urgent runs as needed wherever a job was placed on top of
    them. From this position on, until this number of positions and runs was examined; returns the
    position after the last."""
    size = model.capacity.tree_types.size // 2
    end = model.counters[N_WORK] + work
    for p in range(position, model.nodes.node_type.size):
        if model.counters[N_WORK] >= end:
            return p
        model.counters[N_WORK] += 1
        if model.capacity.tree_types[size + p] == 0:
            continue
        fits = True
        for r in range(model.shapes.request.shape[1]):
            if model.capacity.tree[size + p, r] < 0:
                fits = False
        if fits:
            continue
        found = choose_victims(model, -1, p, model.capacity.runs_at_level.size, 0.0, TO_FIT)
        for k in range(found.victim_count):
            j = model.victims.taken[k]
            if not is_live(model.runs.state[j]):
                continue
            for_job = find_preemptor(model, p, model.runs.level[j])
            preempt_run(model, j, CAUSE_URGENCY, for_job)
            if model.victims.takes_gang[k]:
                preempt_gang(model, int(model.jobs.gang[j]), for_job)
    return model.nodes.node_type.size


@inlined
def fits_on_own_node(model: RoundModel, j: int) -> bool:
    """Whether a preempted run fits on its own node beside all other runs."""
    return model.runs.state[j] == PREEMPTED and has_capacity(
        model, int(model.jobs.shape[j]), model.runs.position[j]
    )


@inlined
def is_below_need(model: RoundModel, g: int) -> bool:
    """Whether any role of the gang has too few live runs for it to go on."""
    for role in range(model.roles.first[g], model.roles.first[g + 1]):
        if model.roles.live[role] < model.roles.need[role]:
            return True
    return False


@separate
def restore_gang(model: RoundModel, g: int) -> None:
    """Restore the preempted members of a gang if that makes it as large as it must be, or none.

    A gang that lost only members above `minSize` takes them back one by one, and so does a group
    with those that it does not need.
    """
    for i in range(model.gangs.first[g], model.gangs.queued_first[g]):
        j = model.gangs.members[i]
        role = int(model.jobs.role[j])
        if model.groups.grouped[g] and model.roles.live[role] >= model.roles.need[role]:
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
    """Find the first run of each queue that could return, see `run_second_pass`."""
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
            s = int(model.jobs.shape[j])
            model.offers.kind[q] = EVICTED_RUN
            model.offers.job[q] = j
            rank_offer(model, q, model.shapes.full_request[s], model.runs.level[j], True)
            return
        model.progress.next_queued[q] += 1


@entry_point
def run_second_pass(
    model: RoundModel, rows: Int64, first: Int64, away: Int64, work: int, late: int
) -> bool:
    """R7: preempted runs return to their own nodes where they still fit; True when all were
    handled, False when they need more work than given.

    `rows` are those runs by queue, value they run at, priority, start, submission; `first` [Q+1]
    is where each queue begins. The queue that is next is the one of R4, with the value that the run
    runs at. A gang that is too small takes the place of the last of its members, a group that of
    the last one it needs; `away` [G] is how many of them are still to come. When time is up
    (`late`, L6) the runs that are left return queue by queue.
    """
    if late:
        for q in range(model.entitlements.weight.size):
            while model.progress.next_queued[q] < first[q + 1]:
                restore_next(model, rows[model.progress.next_queued[q]], q, away)
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
            if best < 0 or goes_before(model, q, best):
                best = q
        if best < 0:
            return True
        restore_next(model, model.offers.job[best], best, away)
        offer_next_preempted(model, rows, first, best)
    return False


@inlined
def restore_next(model: RoundModel, j: int, q: int, away: Int64) -> None:
    """Restore the queue's next preempted run where it fits, or its gang with the last member."""
    model.progress.next_queued[q] += 1
    g = int(model.jobs.gang[j])
    base = g >= 0 and model.roles.base[j] != 0
    if base:
        away[g] -= 1
    if g >= 0 and is_below_need(model, g):
        if base and away[g] == 0:
            restore_gang(model, g)
    elif fits_on_own_node(model, j):
        restore_run(model, j, RESTORED)
