"""What could be stopped, and for whom: the part of the model that preemption and gangs need.

Runs and new placements are *pieces* on a position, linked per position. A piece is in one of these
states; `LIVE` ones hold room.

    QUEUED    waits                                  -> PLACED
    RUNNING   runs, was not evicted                  -> PREEMPTED
    EVICTED   runs, off its node in thought (R2)     -> RETURNED, PREEMPTED
    RETURNED  was evicted and is back (R5, R7)       -> PREEMPTED
    PLACED    new in this round                      -> DISPLACED
    PREEMPTED gave way; preempted unless it returns
    DISPLACED was new, gave way in the same round: waits on
    EXCLUDED  takes no part: runs on lost nodes
    FAILED    waited and ends now (`rest: fail`, all nodes tried)
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead_scheduler.engine.compiler.decorators import by_address, inlined, internal
from fairlead_scheduler.engine.snapshot import Byte, Cause, Float, Int32, Int64, Tier
from fairlead_scheduler.engine.state.capacity_tree import subtract_request
from fairlead_scheduler.engine.state.round_state import N_FREED, N_JOURNAL, Model, Tables

QUEUED: Final = 0
RUNNING: Final = 1
EVICTED: Final = 2
RETURNED: Final = 3
PLACED: Final = 4
PREEMPTED: Final = 5
DISPLACED: Final = 6
EXCLUDED: Final = 7
FAILED: Final = 8

FREE: Final = int(Tier.FREE)
FAIR_SHARE: Final = int(Tier.FAIR_SHARE)
URGENCY: Final = int(Tier.URGENCY)

CAUSE_FAIR_SHARE: Final = int(Cause.FAIR_SHARE)
CAUSE_URGENCY: Final = int(Cause.URGENCY)
CAUSE_GANG: Final = int(Cause.GANG)

NON_PREEMPTIBLE: Final = 2
"""`Preemption.NONE` as a number of the kernels."""

MIXED_PRIORITIES: Final = (1 << 63) - 1
"""`one_priority` of queues whose evicted runs differ in priority."""

SHARE_STEPS: Final = 1e9
"""How far above its share a queue is, is compared in steps of 1e-9 (a total order, see R4)."""

SHARE_STEPS_MAX: Final = 2.0**62
"""No queue is further above its share than so many steps."""

# What a gang's queued members are offered as (`Runs.gang_mode`).
GANG_WAITS: Final = 0
GANG_RUNS: Final = 1
SINGLES: Final = 2
GANG_NOT_OFFERED: Final = 3


@by_address
class Runs(NamedTuple):
    """Pieces, gangs, and room to work in. L levels: the distinct values that anything runs at."""

    active: int
    """0 when nothing can be stopped and there are no gangs: then no other field is looked at."""
    state: Byte
    """[J]"""
    at: Int64
    """[J] position of the piece; this and the next four mean nothing for what is no piece"""
    level: Int64
    """[J] row of the value it runs at"""
    kind: Byte
    """[J] `Preemption`, the strictest of its gang (also before it is a piece), NONE for a run that
    is stopping"""
    lost: Float
    """[J] R9: work lost by stopping it now, in steps of `evict.LOST_STEPS`"""
    started: Int64
    """[J] when its run started; now for what is new"""
    priority: Int64
    submission: Int64
    queue: Int32
    head: Int64
    """[N] last piece of each position, -1"""
    link: Int64
    """[J] the piece before it on the same position, -1"""
    kept: Int64
    """[N, L, R] held by preemptible pieces that are not evicted ones"""
    away: Int64
    """[N, L, R] held by evicted runs"""
    low: Int64
    """[L] preemptible pieces by level, evicted or not"""
    held: Int64
    """[Q, R+F] as `Model.stands`, with evicted runs not yet taken (R13)"""
    entitled: Float
    """[Q] max(fair share, weight share)"""
    above: Int64
    """[Q] held / entitled in steps of 1e-9 (N2b)"""
    pending: Int64
    """[Q] evicted runs that are not back"""
    evicted: Int64
    """Evicted rows in the order of R3, queue by queue"""
    evicted_next: Int64
    evicted_end: Int64
    cheap: Int64
    """Evicted rows by queue, level, gangs last, lost work, start, id: N4 for a single victim"""
    cheap_next: Int64
    """[Q] the first of them that may still be evicted"""
    cheap_first: Int64
    """[Q+1]"""
    one_priority: Int64
    """[Q] the priority of all the queue's evicted runs; a huge number where they differ"""
    gang: Int32
    """[J] or -1"""
    gang_first: Int64
    """[G+1] where a gang's members begin in `members`: first live runs, then queued jobs, as R3"""
    gang_queued: Int64
    """[G] where its queued members begin"""
    members: Int64
    gang_min: Int64
    gang_rest: Byte
    gang_need: Int64
    """[G] how many must be live for it to go on: `minSize`, or as many as ran when fewer did"""
    gang_live: Int64
    """[G] live pieces"""
    gang_seen: Int64
    """[G, 2] members passed in the order: evicted, queued"""
    gang_mode: Byte
    """[G]"""
    gang_code: Byte
    """[G] why it waits, 0 = not tried"""
    gang_label: Int64
    gang_value: Int64
    """[G] value of the label that the gang is bound to, -1 = free to choose"""
    gang_gone: Int64
    """[G] scratch of node_victims.py"""
    out: Byte
    """[J] scratch of node_victims.py"""
    value_first: Int64
    """[U, V+1] where the positions with a value begin in `value_rows`"""
    value_rows: Int64
    """[U, N] positions by value, in the order of N3"""
    sub: Int64
    """[Q] place in `members` of the gang's further members that the queue offers now"""
    sub_end: Int64
    avoid_first: Int64
    """[J] last pair of the job, -1; [0] when there are no pairs"""
    avoid_link: Int64
    avoid_at: Int64
    tier: Byte
    """[J] of what is new"""
    cause: Byte
    """[J] of what gave way"""
    for_job: Int64
    """[J] whom it made room for"""
    share_before: Float
    """[J] E5: how far its queue was above its share before the run was taken"""
    was: Int64
    """[J] state before it gave way"""
    journal: Int64
    """row + 1 placed, -row - 1 gave way: what an offer did, to undo it or to clear up after it"""
    candidates: Int64
    taken: Int64
    chosen: Int64
    whole_gang: Int64
    chosen_gang: Int64
    less: Int64
    """[Q, R+F] scratch: what a queue would hold less"""
    need: Int64
    """[R] scratch"""
    asked: Int64
    """[R] scratch"""
    unit: Int64
    """[R+F] scratch"""
    urged: Float
    """[J] work that would be lost for what was put on top of less urgent pieces"""
    bid: Float
    """[slots, N, 7] N4 per position for each kind of preemptor; none = every node is examined"""
    winner: Int64
    """[slots, 2*size] the tournament over them"""
    slot: Int64
    """[slots, 6] shape, column, tier, queue; when it was used last; how much of `freed` it read"""
    slot_after: Float
    """[slots] greatest share / weight of a taker (R13) for which a position gave no room"""
    freed: Int64
    """positions where somebody gave way or was put back, as a ring; number[N_FREED] in all"""
    key: Float
    """[2, 7] scratch: N4 of the position at hand and of the best so far"""
    weighed: Float
    """[2, 3+R] scratch: N7 of the label value at hand and of the best so far"""


@inlined
def is_live(state: int) -> bool:
    """Whether a piece in this state holds room."""
    return RUNNING <= state <= PLACED


@inlined
def to_share_steps(held: float, entitled: float) -> int:
    """How far what is held is above what its queue is entitled to."""
    return int(min(held / max(entitled, 1e-9) * SHARE_STEPS, SHARE_STEPS_MAX) + 0.5)


@inlined
def update_share(t: Tables, v: Runs, q: int) -> None:
    """Recompute how far the queue is above what it is entitled to."""
    above = 0.0
    for r in range(t.factor.size):
        above = max(above, (v.held[q, r] - v.less[q, r]) * t.factor[r])
    v.above[q] = to_share_steps(above, v.entitled[q])


@inlined
def record_change(m: Model, v: Runs, p: int) -> None:
    """The position may give room more cheaply than it did."""
    if v.freed.size > 0:
        v.freed[m.number[N_FREED] % v.freed.size] = p
        m.number[N_FREED] += 1


@internal
def add_placement(t: Tables, m: Model, v: Runs, j: int, w: int, p: int, tier: int) -> None:
    """A queued job becomes a piece on position `p` (round_state.py's `place` does the rest)."""
    q = int(v.queue[j])
    s = int(t.job_shape[j])
    v.state[j] = PLACED
    v.tier[j] = tier
    v.level[j] = t.level[s, w]
    if v.gang[j] < 0:
        v.kind[j] = t.shape_kind[s]
    v.started[j] = t.now_ms
    v.lost[j] = 0.0
    v.at[j] = p
    v.link[j] = v.head[p]
    v.head[p] = j
    if v.kind[j] < NON_PREEMPTIBLE:
        v.low[v.level[j]] += 1
        for r in range(t.request.shape[1]):
            v.kept[p, v.level[j], r] += t.request[s, r]
    for r in range(t.factor.size):
        v.held[q, r] += t.whole[s, r]
    update_share(t, v, q)
    if v.gang[j] >= 0:
        v.gang_live[v.gang[j]] += 1
    v.journal[m.number[N_JOURNAL]] = j + 1
    m.number[N_JOURNAL] += 1


@internal
def remove_placement(t: Tables, m: Model, v: Runs, j: int) -> None:
    """Undo `put`. What was put last on a position must be undone first."""
    q = int(v.queue[j])
    s = int(t.job_shape[j])
    p = v.at[j]
    v.head[p] = v.link[j]
    if v.kind[j] < NON_PREEMPTIBLE:
        v.low[v.level[j]] -= 1
        for r in range(t.request.shape[1]):
            v.kept[p, v.level[j], r] -= t.request[s, r]
    for r in range(t.factor.size):
        v.held[q, r] -= t.whole[s, r]
    update_share(t, v, q)
    if v.gang[j] >= 0:
        v.gang_live[v.gang[j]] -= 1
    v.state[j] = QUEUED
    record_change(m, v, p)


@internal
def count_run(t: Tables, m: Model, v: Runs, j: int, sign: int) -> None:
    """Take a live piece off its position (sign -1) or put it back into its state (sign 1)."""
    s = int(t.job_shape[j])
    q = int(v.queue[j])
    p = v.at[j]
    c = t.shape_class[s]
    subtract_request(m.tree, p, t.request[s], sign)
    record_change(m, v, p)
    if v.kind[j] < NON_PREEMPTIBLE:
        v.low[v.level[j]] += sign
        for r in range(t.request.shape[1]):
            if v.state[j] == EVICTED:
                v.away[p, v.level[j], r] += sign * t.request[s, r]
            else:
                v.kept[p, v.level[j], r] += sign * t.request[s, r]
    for r in range(t.factor.size):
        amount = sign * t.whole[s, r]
        v.held[q, r] += amount
        m.class_held[q, c, r] += amount
        if v.state[j] != EVICTED:
            m.stands[q, r] += amount
    if v.state[j] == EVICTED:
        v.pending[q] += sign
    update_share(t, v, q)
    if v.gang[j] >= 0:
        v.gang_live[v.gang[j]] += sign


@internal
def preempt_run(t: Tables, m: Model, v: Runs, j: int, cause: int, for_job: int) -> None:
    """A live piece gives way: its room is free, and it is written down for whom."""
    q = int(v.queue[j])
    v.share_before[j] = v.above[q] / SHARE_STEPS
    count_run(t, m, v, j, -1)
    v.was[j] = v.state[j]
    v.state[j] = DISPLACED if v.state[j] == PLACED else PREEMPTED
    v.cause[j] = cause
    v.for_job[j] = for_job
    v.journal[m.number[N_JOURNAL]] = -j - 1
    m.number[N_JOURNAL] += 1


@internal
def restore_run(t: Tables, m: Model, v: Runs, j: int, state: int) -> None:
    """Undo `give_way`, into this state."""
    v.state[j] = state
    if state == EVICTED:
        v.cheap_next[v.queue[j]] = v.cheap_first[v.queue[j]]
    count_run(t, m, v, j, 1)


@internal
def return_run(t: Tables, m: Model, v: Runs, j: int) -> None:
    """An evicted run is back on its own node (R5): it was counted there all along."""
    s = int(t.job_shape[j])
    q = int(v.queue[j])
    v.state[j] = RETURNED
    v.pending[q] -= 1
    for r in range(t.request.shape[1]):
        v.away[v.at[j], v.level[j], r] -= t.request[s, r]
        v.kept[v.at[j], v.level[j], r] += t.request[s, r]
    for r in range(t.factor.size):
        m.stands[q, r] += t.whole[s, r]


@internal
def can_return(t: Tables, m: Model, v: Runs, j: int) -> bool:
    """R5: whether an evicted run finds room on its node when what is less urgent does not count.

    Nodes that get nothing new have lost nothing either, so runs always return there.
    """
    p = v.at[j]
    size = t.types.size // 2
    if t.types[size + p] == 0:
        return True
    s = int(t.job_shape[j])
    for r in range(t.request.shape[1]):
        room = m.tree[size + p, r]
        for lv in range(v.low.size):
            room += v.away[p, lv, r]
            if lv < v.level[j]:
                room += v.kept[p, lv, r]
        if t.request[s, r] > room:
            return False
    return True


@internal
def find_preemptor(v: Runs, p: int, level: int) -> int:
    """The job placed last on top of less urgent ones at `p`, more urgent than `level`, or -1."""
    j = v.head[p]
    found = -1
    while j >= 0:
        if v.state[j] == PLACED and v.tier[j] == URGENCY:
            if v.level[j] > level:
                return j
            found = int(j)
        j = v.link[j]
    return found
