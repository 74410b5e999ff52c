"""After the pass: nodes that hold too much are made to fit (R6), and who may return does (R7)."""

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import entry_point, internal
from fairlead_scheduler.engine.scheduling.eligibility import has_capacity
from fairlead_scheduler.engine.scheduling.node_victims import TO_FIT, choose_victims
from fairlead_scheduler.engine.scheduling.queue_selection import goes_before, rank_offer
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state.round_state import N_TAKEN, Model, Tables
from fairlead_scheduler.engine.state.run_states import (
    CAUSE_GANG,
    CAUSE_URGENCY,
    PREEMPTED,
    RETURNED,
    Runs,
    count_run,
    find_preemptor,
    is_live,
    preempt_run,
    restore_run,
)


@entry_point
def resolve_oversubscription(t: Tables, m: Model, v: Runs) -> None:
    """R6: wherever something was put on top of less urgent pieces, as few of them as needed go."""
    size = t.types.size // 2
    for p in range(t.leaf_type.size):
        if t.types[size + p] == 0:
            continue
        fits = True
        for r in range(t.request.shape[1]):
            if m.tree[size + p, r] < 0:
                fits = False
        if fits or not choose_victims(t, m, v, -1, p, v.low.size, 0.0, TO_FIT):
            continue
        for k in range(m.number[N_TAKEN]):
            j = v.taken[k]
            if not is_live(v.state[j]):
                continue
            for_job = find_preemptor(v, p, v.level[j])
            preempt_run(t, m, v, j, CAUSE_URGENCY, for_job)
            if v.whole_gang[k]:
                g = int(v.gang[j])
                for i in range(v.gang_first[g], v.gang_first[g + 1]):
                    if is_live(v.state[v.members[i]]):
                        preempt_run(t, m, v, v.members[i], CAUSE_GANG, for_job)


@internal
def fits_on_own_node(t: Tables, m: Model, v: Runs, j: int) -> bool:
    """Whether a run that gave way has room on its own node beside everything."""
    return v.state[j] == PREEMPTED and has_capacity(t, m, int(t.job_shape[j]), v.at[j])


@internal
def restore_gang(t: Tables, m: Model, v: Runs, g: int) -> None:
    """Members of a gang that gave way return, if that makes it as large as it must be, or none.

    A gang that lost only members above `minSize` takes them back one by one.
    """
    for i in range(v.gang_first[g], v.gang_queued[g]):
        j = v.members[i]
        if fits_on_own_node(t, m, v, j):
            restore_run(t, m, v, j, RETURNED)
            v.out[j] = 1
    enough = v.gang_live[g] >= v.gang_need[g]
    for i in range(v.gang_first[g], v.gang_queued[g]):
        j = v.members[i]
        if v.out[j]:
            v.out[j] = 0
            if not enough:
                count_run(t, m, v, j, -1)
                v.state[j] = PREEMPTED


@entry_point
def run_second_pass(t: Tables, m: Model, v: Runs, rows: Int64, first: Int64, away: Int64) -> None:
    """R7: runs that gave way return to their own nodes where there is still room.

    `rows` are those runs by queue, value they run at, priority, start, submission; `first` [Q+1]
    is where each queue begins and is moved on. The queue that goes next is the one of R4, with
    the value that the run runs at. A gang that is too small stands where the last of its members
    stands; `away` [G] is how many of them are still to come.
    """
    while True:
        best = -1
        for q in range(t.weight.size):
            while m.next[q] < first[q + 1]:
                j = rows[m.next[q]]
                if v.gang[j] >= 0 or fits_on_own_node(t, m, v, j):
                    break
                m.next[q] += 1
            if m.next[q] == first[q + 1]:
                continue
            j = rows[m.next[q]]
            s = int(t.job_shape[j])
            rank_offer(t, m, q, t.whole[s], v.level[j], True)
            if best < 0 or goes_before(t, m, q, best):
                best = q
        if best < 0:
            return
        j = rows[m.next[best]]
        m.next[best] += 1
        g = int(v.gang[j])
        if g >= 0:
            away[g] -= 1
        if g >= 0 and v.gang_live[g] < v.gang_need[g]:
            if away[g] == 0:
                restore_gang(t, m, v, g)
        elif fits_on_own_node(t, m, v, j):
            restore_run(t, m, v, j, RETURNED)
