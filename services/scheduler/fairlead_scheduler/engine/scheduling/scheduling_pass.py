"""The pass over all offers: the queue that R4 names places its next job where N2 and N3 say."""

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import entry_point, inlined, internal
from fairlead_scheduler.engine.scheduling.gang_placement import (
    gang_exceeds_class_limit,
    place_further_member,
    preempt_evicted_run,
    return_gang,
    start_gang,
    sum_members,
)
from fairlead_scheduler.engine.scheduling.placement import find_free_node, place_job, reopen_shapes
from fairlead_scheduler.engine.scheduling.queue_selection import (
    find_offer,
    find_plain_offer,
    renew_offers,
    replace_top,
    return_queues,
)
from fairlead_scheduler.engine.scheduling.victim_search import NOWHERE
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state.round_state import (
    EVICTED_GANG,
    EVICTED_RUN,
    FLOATING_LIMIT,
    FURTHER_MEMBER,
    INSUFFICIENT,
    N_JOURNAL,
    N_QUEUES,
    N_REOPENED,
    N_STOP,
    NEW_JOB,
    NOT_TRIED,
    QUEUE_LIMIT,
    RATE_LIMIT,
    ROUND_LIMIT,
    TOLERANCE,
    Model,
    Tables,
    allocate,
    cost_with,
    count_handled,
    exceeds_class_limit,
    skip_shape,
)
from fairlead_scheduler.engine.state.run_states import (
    EVICTED,
    FAILED,
    QUEUED,
    URGENCY,
    Runs,
    can_return,
    return_run,
)

DONE: Final = 0
MORE: Final = 1


@entry_point
def run_pass(t: Tables, m: Model, v: Runs, offers: int) -> int:
    """Handle up to `offers` offers. `DONE` when none is left, else `MORE`."""
    for _ in range(offers):
        if m.number[N_QUEUES] == 0:
            return DONE
        q = m.heap[0]
        kind = m.offer_kind[q]
        m.number[N_JOURNAL] = 0
        if kind == NEW_JOB:
            if m.number[N_STOP] != NOT_TRIED:
                replace_top(t, m, False)
                continue
            handle_new_job(t, m, v, q, m.offer_job[q])
        elif not handle_other_offer(t, m, v, q, kind, m.offer_job[q]):
            replace_top(t, m, False)
            continue
        replace_top(t, m, find_offer(t, m, v, q))
        if m.number[N_JOURNAL] > 0:
            renew_offers(t, m, v)
        if m.number[N_REOPENED]:
            return_queues(t, m, v)
    return MORE


@entry_point
def run_plain_pass(t: Tables, m: Model, offers: int) -> int:
    """As `run`, for rounds in which nothing can be stopped and there are no gangs."""
    for _ in range(offers):
        if m.number[N_QUEUES] == 0 or m.number[N_STOP] != NOT_TRIED:
            return DONE
        q = m.heap[0]
        j = m.offer_job[q]
        s = int(t.job_shape[j])
        if check_limits(t, m, q, s, t.whole[s], 1) == NOT_TRIED:
            p = find_free_node(t, m, s, 0)
            if p >= 0:
                allocate(t, m, q, j, s, 0, p)
            else:
                skip_shape(m, q, s, INSUFFICIENT)
        count_handled(m, q, s)
        m.next[q] += 1
        replace_top(t, m, find_plain_offer(t, m, q))
    return MORE


@inlined
def handle_new_job(t: Tables, m: Model, v: Runs, q: int, j: int) -> None:
    """Try to place a queued job."""
    s = int(t.job_shape[j])
    if check_limits(t, m, q, s, t.whole[s], 1) == NOT_TRIED:
        after = cost_with(v.held[q], t.whole[s], t.factor) / t.weight[q]
        code = place_job(t, m, v, j, after, NOWHERE, NOWHERE, URGENCY)
        avoids = v.avoid_first.size > 0 and v.avoid_first[j] >= 0
        if code != NOT_TRIED and not avoids:
            # The job keeps its place: when nothing behind it can be tried either, it is the first
            # to be tried again once room was given back.
            skip_shape(m, q, s, code)
            m.examined[q] -= 1
            return
    count_handled(m, q, s)
    m.next[q] += 1


@internal
def handle_other_offer(t: Tables, m: Model, v: Runs, q: int, kind: int, j: int) -> bool:
    """Handle an offer of something evicted or of a gang; False when the queue is to stop."""
    g = int(v.gang[j])
    if kind == EVICTED_RUN:
        if v.state[j] == EVICTED:
            if can_return(t, m, v, j):
                return_run(t, m, v, j)
            else:
                preempt_evicted_run(t, m, v, j)
                reopen_shapes(t, m, v, m.number[N_JOURNAL])
        skip_evicted(v, q, j)
        return True
    if kind == EVICTED_GANG:
        return_gang(t, m, v, g)
        reopen_shapes(t, m, v, m.number[N_JOURNAL])
        v.sub[q] = v.gang_first[g]
        v.sub_end[q] = v.gang_queued[g]
        v.evicted_next[q] += 1
        return True
    if m.number[N_STOP] != NOT_TRIED:
        return False
    s = int(t.job_shape[j])
    if kind == FURTHER_MEMBER:
        if v.gang_live[g] > 0 and check_limits(t, m, q, s, t.whole[s], 1) == NOT_TRIED:
            code = place_further_member(t, m, v, q, j)
            if code != NOT_TRIED:
                v.gang_code[g] = code
                if v.gang_rest[g] and code == INSUFFICIENT:
                    v.state[j] = FAILED
        if v.sub[q] < v.sub_end[q] and v.members[v.sub[q]] == j:
            v.sub[q] += 1
        else:
            m.next[q] += 1
        return True
    need = v.gang_min[g]
    sum_members(t, v, g, v.gang_queued[g], v.gang_first[g + 1], QUEUED, need)
    v.gang_code[g] = check_limits(t, m, q, -1, v.unit, need)
    limits = t.limit.size > 0 and v.gang_code[g] == NOT_TRIED
    if limits and gang_exceeds_class_limit(t, m, v, q, g, need):
        v.gang_code[g] = QUEUE_LIMIT
    if v.gang_code[g] == NOT_TRIED:
        v.gang_code[g] = start_gang(t, m, v, q, g)
        if v.gang_code[g] == NOT_TRIED:
            v.sub[q] = v.gang_queued[g]
            v.sub_end[q] = v.gang_first[g + 1]
    m.next[q] += 1
    return True


@inlined
def skip_evicted(v: Runs, q: int, j: int) -> None:
    """Go on behind an evicted run, in the order or among the members of its gang."""
    if v.sub[q] < v.sub_end[q] and v.members[v.sub[q]] == j:
        v.sub[q] += 1
    else:
        v.evicted_next[q] += 1


@inlined
def check_limits(t: Tables, m: Model, q: int, s: int, whole: Int64, jobs: int) -> int:
    """Rules L2 to L4 and L7 for an offer of queued jobs: 0, or the code of what it met.

    What stops the round is written to number[N_STOP], what stops the queue to `queue_stop`, what
    holds back single jobs of shape `s` to `pair_code`. A gang (s = -1) is only skipped, and L2 is
    looked at elsewhere, for its members may be of several classes.
    """
    code = NOT_TRIED
    for r in range(t.factor.size):
        if m.fresh[r] > t.round_limit[r]:
            code = ROUND_LIMIT
    if code == NOT_TRIED and m.tokens[0] < 1.0 - TOLERANCE:
        code = RATE_LIMIT
    if code != NOT_TRIED:
        m.number[N_STOP] = code
    elif m.tokens[1 + q] < 1.0 - TOLERANCE:
        m.queue_stop[q] = RATE_LIMIT
        code = RATE_LIMIT
    elif min(m.tokens[0], m.tokens[1 + q]) < jobs - TOLERANCE:
        code = RATE_LIMIT
    else:
        for r in range(t.factor.size):
            if m.fresh[r] + whole[r] > t.beside[r]:
                code = FLOATING_LIMIT
        if (
            code == NOT_TRIED
            and s >= 0
            and t.limit.size > 0
            and exceeds_class_limit(t, m, q, t.shape_class[s], whole)
        ):
            code = QUEUE_LIMIT
    if code != NOT_TRIED and s >= 0:
        skip_shape(m, q, s, code)
    return code
