"""The model that a round works on: what the kernels share, in two tuples of arrays.

`Tables` never change within a round, `Model` does. Numbers of nodes in here are *positions*: places
in the order of N3 at the start of the round, which are also the leaves of the tree. W = 1+K: home
and the away entries.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead_scheduler.engine.compiler.decorators import by_address, inlined
from fairlead_scheduler.engine.snapshot import Bool, Byte, Code, Float, Int32, Int64
from fairlead_scheduler.engine.state.capacity_tree import Bits, subtract_request

NOT_ELIGIBLE: Final = 255
"""In `Tables.rank`: nodes of the type never suit the shape."""
TOLERANCE: Final = 1e-9
"""Amounts closer than this are equal (R4, R13)."""

# Scalars of the model, by index into `Model.number`.
N_PLACED: Final = 0
N_STOP: Final = 1
N_QUEUES: Final = 2
N_JOURNAL: Final = 3
N_TAKEN: Final = 4
N_CHOSEN: Final = 5
N_GROUP_SHAPE: Final = 6
N_GROUP_AT: Final = 7
N_REOPENED: Final = 8
N_FREED: Final = 9
N_TURN: Final = 10
N_SPENT: Final = 11
COUNTS: Final = 16

# What a queue offers (`Model.offer_kind`).
NEW_JOB: Final = 0
"""a queued job, on the whole ladder"""
NEW_GANG: Final = 1
"""the first `minSize` queued members of a gang"""
FURTHER_MEMBER: Final = 2
"""a further member of a gang that runs: tier (a) only"""
EVICTED_RUN: Final = 3
"""an evicted run"""
EVICTED_GANG: Final = 4
"""the evicted members of a gang, as many as it needs"""
NO_OFFER: Final = 5
"""nothing: the queue has left the heap"""

NOT_TRIED: Final = 0
QUEUE_LIMIT: Final = int(Code.QUEUE_LIMIT)
ROUND_LIMIT: Final = int(Code.ROUND_LIMIT)
RATE_LIMIT: Final = int(Code.RATE_LIMIT)
LOOKBACK_LIMIT: Final = int(Code.LOOKBACK_LIMIT)
FLOATING_LIMIT: Final = int(Code.FLOATING_LIMIT)
PREEMPTION_LIMIT: Final = int(Code.PREEMPTION_LIMIT)
QUEUE_CORDONED: Final = int(Code.QUEUE_CORDONED)
INSUFFICIENT: Final = int(Code.INSUFFICIENT_RESOURCES)
DOES_NOT_FIT: Final = int(Code.GANG_DOES_NOT_FIT)


@by_address
class Tables(NamedTuple):
    """What a round looks things up in."""

    request: Int64
    """[S, R]"""
    whole: Int64
    """[S, R+F]"""
    shape_cost: Float
    """[S] cost of one job."""
    shape_class: Int64
    """[S]"""
    shape_value: Int64
    """[S]"""
    shape_kind: Byte
    """[S] `Preemption`"""
    rank: Byte
    """[S, W, T] place of the type in what the shape prefers, 0 first; `UNSUITED` = it may not."""
    bits: Bits
    """[S, W, P] types that suit, as bits, for each of P ranks."""
    leaf_type: Int64
    """[N] type of the node at a position."""
    types: Bits
    """[2*size] of the tree."""
    factor: Float
    """[R+F]"""
    weight: Float
    """[Q]"""
    budget: Float
    """[Q] fair share / weight."""
    start: Float
    """[Q] actual share / weight when the round started."""
    cordoned: Bool
    """[Q]"""
    limit: Float
    """[Q, C, R+F] or [0, 0, 0] (L2)."""
    round_limit: Float
    """[R+F] L3 in amounts."""
    beside: Int64
    """[R+F] what is left of what is on no node (L7) when the round starts; a huge number for
    resources of nodes."""
    job_shape: Int32
    """[J]"""
    order: Int32
    """Queued rows in the order of R3, queue by queue."""
    end: Int64
    """[Q] where each queue's rows end in `order`."""
    level: Int64
    """[S, W] row of the value that a job runs at, home or away; -1 = no such entry."""
    least: Int64
    """[R] the least that any shape needs."""
    number_at: Int64
    """[N] number for life of the node at a position."""
    ranked: Int64
    """Resource rows in the order in which waste is compared (N3)."""
    now_ms: int
    lookback: int


@by_address
class Model(NamedTuple):
    """What a round changes."""

    number: Int64
    """[COUNTS] scalars, see above."""
    tokens: Float
    """[1+Q+1] left in the global bucket (first), in each queue's, and for balance (last)."""
    tree: Int64
    """[2*size, R] of capacity_tree.py: free beside everything."""
    cursor: Int64
    """[S, W, P] no position of this rank before it has room for the shape."""
    stands: Int64
    """[Q, R+F] what the queue holds by R4: evicted runs only once they are back."""
    class_held: Int64
    """[Q, C, R+F] for L2."""
    fresh: Int64
    """[R+F] new in this round (L3)."""
    pair_code: Byte
    """[Q, S] why jobs of this shape are passed over, 0 = they are not."""
    pair_left: Int32
    """[Q, S] jobs not handled yet, members of gangs aside."""
    open_pairs: Int64
    """[Q] shapes with jobs not handled yet and not passed over."""
    gang_left: Int64
    """[Q] queued members of gangs not passed in the order yet."""
    queue_stop: Byte
    """[Q] the code by which the queue stopped alone, 0 = it did not."""
    examined: Int64
    """[Q] L5."""
    next: Int64
    """[Q] place in `order` of the offer, or where the search for one goes on."""
    offer_kind: Byte
    """[Q]"""
    offer_job: Int64
    """[Q] the job, or a member of the gang."""
    heap: Int64
    """[Q] queues that have an offer, as a binary heap by R4."""
    key_value: Int64
    """[Q] R4 (1), of the queue's offer."""
    key_over: Bool
    """[Q] whether it is over budget with the offer."""
    key_amount: Float
    """[Q] current where within budget, proposed where over it."""
    key_size: Float
    """[Q] cost x weight of the offer."""
    key_live: Bool
    """[Q] whether the offer runs already."""
    placed_job: Int32
    """[P] filled up to number[N_PLACED]."""
    placed_at: Int32
    """[P] position."""
    placed_away: Int32
    """[P] column of W."""


@inlined
def cost_with(stands: Int64, whole: Int64, factor: Float) -> float:
    """Cost of what is held together with `whole`."""
    result = 0.0
    for r in range(factor.size):
        amount = (stands[r] + whole[r]) * factor[r]
        if amount > result:
            result = amount
    return result


@inlined
def cost_of(stands: Int64, factor: Float) -> float:
    """Cost of what is held."""
    result = 0.0
    for r in range(factor.size):
        amount = stands[r] * factor[r]
        if amount > result:
            result = amount
    return result


@inlined
def exceeds_class_limit(t: Tables, m: Model, q: int, c: int, whole: Int64) -> bool:
    """L2: whether the queue's limit for a class does not leave so much."""
    for r in range(t.factor.size):
        after = m.class_held[q, c, r] + whole[r]
        if whole[r] > 0 and after > t.limit[q, c, r] * (1.0 + TOLERANCE):
            return True
    return False


@inlined
def skip_shape(m: Model, q: int, s: int, code: int) -> None:
    """From now on jobs of this shape are not offered by this queue, for this reason."""
    if m.pair_code[q, s] == NOT_TRIED:
        m.pair_code[q, s] = code
        if m.pair_left[q, s] > 0:
            m.open_pairs[q] -= 1


@inlined
def count_handled(m: Model, q: int, s: int) -> None:
    """One job of the shape less to look at."""
    m.pair_left[q, s] -= 1
    if m.pair_left[q, s] == 0 and m.pair_code[q, s] == NOT_TRIED:
        m.open_pairs[q] -= 1


@inlined
def allocate(t: Tables, m: Model, q: int, j: int, s: int, w: int, p: int) -> None:
    """Put a queued job on the node at position `p`."""
    subtract_request(m.tree, p, t.request[s], 1)
    c = t.shape_class[s]
    for r in range(t.factor.size):
        amount = t.whole[s, r]
        m.stands[q, r] += amount
        m.class_held[q, c, r] += amount
        m.fresh[r] += amount
    m.tokens[0] -= 1.0
    m.tokens[1 + q] -= 1.0
    n = m.number[N_PLACED]
    m.placed_job[n] = j
    m.placed_at[n] = p
    m.placed_away[n] = w
    m.number[N_PLACED] = n + 1


@inlined
def undo_allocation(t: Tables, m: Model, q: int, s: int, p: int) -> None:
    """Undo the last `place`, which was on position `p`."""
    n = m.number[N_PLACED] - 1
    m.number[N_PLACED] = n
    subtract_request(m.tree, p, t.request[s], -1)
    c = t.shape_class[s]
    for r in range(t.factor.size):
        amount = t.whole[s, r]
        m.stands[q, r] -= amount
        m.class_held[q, c, r] -= amount
        m.fresh[r] -= amount
    m.tokens[0] += 1.0
    m.tokens[1 + q] += 1.0
