"""Which queue goes next (rule R4): a binary heap of queues by the standing of their offers."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import entry_point, inlined, internal
from fairlead_scheduler.engine.scheduling.gang_placement import sum_members
from fairlead_scheduler.engine.snapshot import Int64
from fairlead_scheduler.engine.state.round_state import (
    EVICTED_GANG,
    EVICTED_RUN,
    FURTHER_MEMBER,
    LOOKBACK_LIMIT,
    N_JOURNAL,
    N_QUEUES,
    N_REOPENED,
    N_STOP,
    NEW_GANG,
    NEW_JOB,
    NO_OFFER,
    NOT_TRIED,
    TOLERANCE,
    Model,
    Tables,
    cost_of,
    cost_with,
    count_handled,
)
from fairlead_scheduler.engine.state.run_states import (
    EVICTED,
    FAILED,
    GANG_RUNS,
    GANG_WAITS,
    QUEUED,
    Runs,
)


@inlined
def goes_before(t: Tables, m: Model, a: int, b: int) -> bool:
    """Whether the offer of queue `a` goes before that of queue `b`, by R4 (1) to (5)."""
    if m.key_value[a] != m.key_value[b]:
        return m.key_value[a] > m.key_value[b]
    if m.key_over[a] != m.key_over[b]:
        return m.key_over[b]
    if abs(m.key_amount[a] - m.key_amount[b]) > TOLERANCE:
        return m.key_amount[a] < m.key_amount[b]
    if not m.key_over[a] and abs(m.key_size[a] - m.key_size[b]) > TOLERANCE:
        return m.key_size[a] > m.key_size[b]
    if abs(t.start[a] - t.start[b]) > TOLERANCE:
        return t.start[a] < t.start[b]
    if m.key_live[a] != m.key_live[b]:
        return m.key_live[a]
    return a < b


@inlined
def sift_down(t: Tables, m: Model, i: int) -> None:
    """Move the queue at heap place `i` down to where it belongs."""
    size = m.number[N_QUEUES]
    q = m.heap[i]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and goes_before(t, m, m.heap[child + 1], m.heap[child]):
            child += 1
        if not goes_before(t, m, m.heap[child], q):
            break
        m.heap[i] = m.heap[child]
        i = child
    m.heap[i] = q


@inlined
def rank_offer(t: Tables, m: Model, q: int, whole: Int64, value: int, live: bool) -> None:
    """Compute the standing of a queue's offer: amounts, class value, whether it runs already."""
    weight = t.weight[q]
    proposed = cost_with(m.stands[q], whole, t.factor) / weight
    over = proposed > t.budget[q] + TOLERANCE
    m.key_value[q] = value
    m.key_over[q] = over
    m.key_amount[q] = proposed if over else cost_of(m.stands[q], t.factor) / weight
    m.key_size[q] = cost_of(whole, t.factor) * weight
    m.key_live[q] = live


@inlined
def offer_job(t: Tables, m: Model, q: int, j: int, kind: int) -> bool:
    """Offer a single job."""
    s = int(t.job_shape[j])
    m.offer_kind[q] = kind
    m.offer_job[q] = j
    rank_offer(t, m, q, t.whole[s], t.shape_value[s], kind == EVICTED_RUN)
    return True


@inlined
def examine_next(t: Tables, m: Model, q: int) -> int:
    """The next queued job to look at, by its place in the order, or -1 when the queue is done."""
    if m.queue_stop[q] != NOT_TRIED or m.next[q] >= t.end[q]:
        return -1
    if m.open_pairs[q] == 0 and m.gang_left[q] == 0 and t.lookback == 0:
        return -1
    if t.lookback > 0 and m.examined[q] >= t.lookback:
        m.queue_stop[q] = LOOKBACK_LIMIT
        return -1
    m.examined[q] += 1
    return m.next[q]


@inlined
def find_plain_offer(t: Tables, m: Model, q: int) -> bool:
    """Find the next offer of a queue with nothing but single queued jobs; False for none."""
    while True:
        at = examine_next(t, m, q)
        if at < 0:
            return False
        j = int(t.order[at])
        if m.pair_code[q, t.job_shape[j]] == NOT_TRIED:
            return offer_job(t, m, q, j, NEW_JOB)
        count_handled(m, q, int(t.job_shape[j]))
        m.next[q] += 1


@inlined
def find_offer(t: Tables, m: Model, v: Runs, q: int) -> bool:
    """Find the queue's next offer; False when it has none.

    Evicted runs come first (R3), then further members of the gang at hand, then queued jobs.
    """
    if offer_next_member(t, m, v, q):
        return True
    if v.evicted_next[q] < v.evicted_end[q] and offer_next_evicted(t, m, v, q):
        return True
    while True:
        at = examine_next(t, m, q)
        if at < 0:
            return False
        j = int(t.order[at])
        s = int(t.job_shape[j])
        if v.gang[j] >= 0:
            m.gang_left[q] -= 1
            if offer_gang(t, m, v, q, j):
                return True
        elif m.pair_code[q, s] == NOT_TRIED and v.state[j] != FAILED:
            return offer_job(t, m, q, j, NEW_JOB)
        else:
            count_handled(m, q, s)
        m.next[q] += 1


@internal
def offer_next_evicted(t: Tables, m: Model, v: Runs, q: int) -> bool:
    """Offer the queue's next evicted run, or gang where its last evicted member stands."""
    while v.evicted_next[q] < v.evicted_end[q]:
        j = v.evicted[v.evicted_next[q]]
        g = int(v.gang[j])
        if g < 0:
            if v.state[j] == EVICTED:
                return offer_job(t, m, q, j, EVICTED_RUN)
        else:
            v.gang_seen[g, 0] += 1
            if v.gang_seen[g, 0] == v.gang_queued[g] - v.gang_first[g] and v.gang_live[g] > 0:
                offer_evicted_gang(t, m, v, q, j)
                return True
        v.evicted_next[q] += 1
    return False


@internal
def offer_evicted_gang(t: Tables, m: Model, v: Runs, q: int, j: int) -> None:
    """Offer the evicted members that a gang needs, where its last one, `j`, stands."""
    g = int(v.gang[j])
    need = min(v.gang_min[g], v.gang_live[g])
    value = sum_members(t, v, g, v.gang_first[g], v.gang_queued[g], EVICTED, need)
    m.offer_kind[q] = EVICTED_GANG
    m.offer_job[q] = j
    rank_offer(t, m, q, v.unit, value, True)


@internal
def offer_next_member(t: Tables, m: Model, v: Runs, q: int) -> bool:
    """Offer the next further member of the gang that the queue is at."""
    while v.sub[q] < v.sub_end[q]:
        j = v.members[v.sub[q]]
        if v.state[j] == EVICTED:
            return offer_job(t, m, q, j, EVICTED_RUN)
        if v.state[j] == QUEUED and m.pair_code[q, t.job_shape[j]] == NOT_TRIED:
            return offer_job(t, m, q, j, FURTHER_MEMBER)
        v.sub[q] += 1
    return False


@internal
def offer_gang(t: Tables, m: Model, v: Runs, q: int, j: int) -> bool:
    """A queued member of a gang is reached: is it, or its gang, an offer?

    Members that are to start together are counted by the look-back together (L5): where the last of
    them stands, so that it never cuts a gang.
    """
    g = int(v.gang[j])
    if v.gang_mode[g] == GANG_RUNS:
        if v.gang_live[g] > 0 and m.pair_code[q, t.job_shape[j]] == NOT_TRIED:
            return offer_job(t, m, q, j, FURTHER_MEMBER)
        return False
    if v.gang_mode[g] != GANG_WAITS:
        return False
    v.gang_seen[g, 1] += 1
    if v.gang_seen[g, 1] < v.gang_first[g + 1] - v.gang_queued[g]:
        m.examined[q] -= 1
        return False
    m.examined[q] += v.gang_seen[g, 1] - 1
    value = sum_members(t, v, g, v.gang_queued[g], v.gang_first[g + 1], QUEUED, v.gang_min[g])
    m.offer_kind[q] = NEW_GANG
    m.offer_job[q] = j
    rank_offer(t, m, q, v.unit, value, False)
    return True


@entry_point
def start_queues(t: Tables, m: Model, v: Runs) -> None:
    """Find every queue's first offer and make the heap."""
    for q in range(t.weight.size):
        m.offer_kind[q] = NO_OFFER
        if find_offer(t, m, v, q):
            m.heap[m.number[N_QUEUES]] = q
            m.number[N_QUEUES] += 1
    make_heap(t, m)


@entry_point
def start_plain_queues(t: Tables, m: Model) -> None:
    """As `begin`, with nothing but single queued jobs."""
    for q in range(t.weight.size):
        if find_plain_offer(t, m, q):
            m.heap[m.number[N_QUEUES]] = q
            m.number[N_QUEUES] += 1
    make_heap(t, m)


@internal
def renew_offers(t: Tables, m: Model, v: Runs) -> None:
    """Find new offers for queues whose own gave way, in whole or in part, to the one at hand.

    What waits in the heap stands there with what it would take back; left so, its queue would be
    compared by an offer that it does not have any more.
    """
    for i in range(m.number[N_JOURNAL]):
        if v.journal[i] >= 0:
            continue
        j = -v.journal[i] - 1
        q = int(v.queue[j])
        k = m.offer_job[q]
        if v.state[j] == EVICTED:
            continue
        if m.offer_kind[q] == EVICTED_RUN and k == j:
            found = find_offer(t, m, v, q)
        elif m.offer_kind[q] == EVICTED_GANG and v.gang[k] == v.gang[j]:
            found = v.gang_live[v.gang[k]] > 0
            if found:
                offer_evicted_gang(t, m, v, q, k)
            else:
                v.evicted_next[q] += 1
                found = find_offer(t, m, v, q)
        else:
            continue
        reorder_heap(t, m, find_in_heap(m, q), found)


@inlined
def find_in_heap(m: Model, q: int) -> int:
    """Where the queue is in the heap, or -1."""
    for i in range(m.number[N_QUEUES]):
        if m.heap[i] == q:
            return i
    return -1


@internal
def reorder_heap(t: Tables, m: Model, i: int, found: bool) -> None:
    """The queue at heap place `i` has another offer (`found`) or leaves the heap."""
    if not found:
        m.offer_kind[m.heap[i]] = NO_OFFER
        size = m.number[N_QUEUES] - 1
        m.number[N_QUEUES] = size
        m.heap[i] = m.heap[size]
        if i == size:
            return
    while i > 0 and goes_before(t, m, m.heap[i], m.heap[(i - 1) // 2]):
        parent = (i - 1) // 2
        m.heap[i], m.heap[parent] = m.heap[parent], m.heap[i]
        i = parent
    sift_down(t, m, i)


@inlined
def make_heap(t: Tables, m: Model) -> None:
    """Put the queues into heap order."""
    for i in range(m.number[N_QUEUES] // 2 - 1, -1, -1):
        sift_down(t, m, i)


@internal
def return_queues(t: Tables, m: Model, v: Runs) -> None:
    """Queues that had nothing left to try have again, for room was given back."""
    m.number[N_REOPENED] = 0
    for q in range(t.weight.size):
        if (
            m.offer_kind[q] != NO_OFFER
            or m.number[N_STOP] != NOT_TRIED
            or not find_offer(t, m, v, q)
        ):
            continue
        i = m.number[N_QUEUES]
        m.heap[i] = q
        m.number[N_QUEUES] = i + 1
        while i > 0 and goes_before(t, m, q, m.heap[(i - 1) // 2]):
            m.heap[i] = m.heap[(i - 1) // 2]
            i = (i - 1) // 2
        m.heap[i] = q


@inlined
def replace_top(t: Tables, m: Model, found: bool) -> None:
    """After the top queue was handled: it has a new offer (`found`) or leaves the heap."""
    if not found:
        m.offer_kind[m.heap[0]] = NO_OFFER
        size = m.number[N_QUEUES] - 1
        m.number[N_QUEUES] = size
        m.heap[0] = m.heap[size]
        if size == 0:
            return
    sift_down(t, m, 0)
