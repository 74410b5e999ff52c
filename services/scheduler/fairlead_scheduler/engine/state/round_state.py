"""Constants that kernels share, and small functions of the model that several steps use.

The constants are indexes of `RoundModel.counters`, kinds of offers, states of runs, the ways to
choose victims, and codes of reasons. The functions compute costs, check limits, and record what a
queue still tries.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

from fairlead_scheduler.engine.compiler.decorators import inlined
from fairlead_scheduler.engine.snapshot import Code, Float, Int64
from fairlead_scheduler.engine.state import capacity_tree
from fairlead_scheduler.engine.state.round_model import RoundModel

TOLERANCE: Final = 1e-9
"""Amounts closer than this are equal (R4, R13)."""

# Scalars of the model, by index into `RoundModel.counters`.
N_PLACED: Final = 0
"""Entries of `RoundModel.placements`"""
N_STOP: Final = 1
"""The code of what stopped the round (L3, L4, L6), or `NO_REASON`"""
N_QUEUES: Final = 2
"""Queues in the heap of `QueueOffers`"""
N_JOURNAL: Final = 3
"""Entries of `Placements.journal`"""
N_MEMBER_SHAPE: Final = 4
"""1 + the shape of the last member that was placed within a label value; 0 = none was"""
N_MEMBER_AT: Final = 5
"""Where its node is in `NodeTable.value_positions`: the search for the next member starts there"""
N_REOPENED: Final = 6
"""1 if queues must return to the heap, because freed capacity made a shape worth trying again"""
N_WORK: Final = capacity_tree.N_WORK
"""Jobs tried, and nodes, runs, shapes and label values examined (L6)"""
N_PREEMPTED: Final = 8
"""Preemptions in the pass, also those that were undone: without one, free capacity only falls"""
N_FITS_FREE: Final = 9
"""Queues whose first offer is over budget and fits on free capacity (`fits_free_at`)"""
N_STARTED: Final = 10
"""1 once every queue's first offer was found"""
N_WORK_END: Final = 11
"""Where the pass returns to Python, in terms of `N_WORK`"""
COUNTERS: Final = 12

# What a queue offers (`QueueOffers.kind`).
NEW_JOB: Final = 0
"""a queued job, on all tiers"""
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

# States of runs (`RunTable.state`); run_states.py says what they mean and which follows which.
QUEUED: Final = 0
RUNNING: Final = 1
EVICTED: Final = 2
RESTORED: Final = 3
PLACED: Final = 4
PREEMPTED: Final = 5
DISPLACED: Final = 6
EXCLUDED: Final = 7
FAILED: Final = 8

# For what victims are chosen (`node_victims.choose_victims`).
FOR_SHARE: Final = 0
"""Tier (b): evicted runs of other queues, of no higher value, under R13."""
FOR_URGENCY: Final = 1
"""Tier (c): preemptible runs of lower value, evicted or not."""
TO_FIT: Final = 2
"""R6: preemptible runs of any value, until the node is not oversubscribed."""
FOR_OWN_SURPLUS: Final = 3
"""G5: surplus members of the preemptor's own queue, of no higher value."""

NON_PREEMPTIBLE: Final = 2
"""`Preemption.NONE` as a number: runs with this or a greater number cannot be victims."""

NO_REASON: Final = int(Code.NONE)
"""No reason: an offer is permitted or was placed, a shape or queue is still tried."""
QUEUE_LIMIT: Final = int(Code.QUEUE_LIMIT)
ROUND_LIMIT: Final = int(Code.ROUND_LIMIT)
RATE_LIMIT: Final = int(Code.RATE_LIMIT)
LOOKBACK_LIMIT: Final = int(Code.LOOKBACK_LIMIT)
FLOATING_LIMIT: Final = int(Code.FLOATING_LIMIT)
PREEMPTION_LIMIT: Final = int(Code.PREEMPTION_LIMIT)
QUEUE_CORDONED: Final = int(Code.QUEUE_CORDONED)
INSUFFICIENT: Final = int(Code.INSUFFICIENT_RESOURCES)
DOES_NOT_FIT: Final = int(Code.GANG_DOES_NOT_FIT)
GROUP_FROZEN: Final = int(Code.GROUP_FROZEN)
GROUP_STEP: Final = int(Code.GROUP_STEP)
TOPOLOGY_LEVEL: Final = int(Code.TOPOLOGY_LEVEL)


@inlined
def cost_with(held: Int64, more: Int64, factor: Float) -> float:
    """The cost of what is held together with these further amounts."""
    result = 0.0
    for r in range(factor.size):
        amount = (held[r] + more[r]) * factor[r]
        if amount > result:
            result = amount
    return result


@inlined
def cost_of(held: Int64, factor: Float) -> float:
    """The cost of what is held."""
    result = 0.0
    for r in range(factor.size):
        amount = held[r] * factor[r]
        if amount > result:
            result = amount
    return result


@inlined
def exceeds_class_limit(model: RoundModel, q: int, c: int, more: Int64) -> bool:
    """L2: whether these further amounts exceed the queue's limit for class `c`."""
    for r in range(model.entitlements.cost_factor.size):
        after = model.usage.by_class[q, c, r] + more[r]
        if more[r] > 0 and after > model.entitlements.class_limit[q, c, r] * (1.0 + TOLERANCE):
            return True
    return False


@inlined
def find_offer_limit(model: RoundModel, q: int, s: int, more: Int64, jobs: int) -> int:
    """Rules L2, L4 and L7 for an offer of this number of queued jobs that needs `more`: the code of
    the limit that it exceeds, or `NO_REASON`.

    L2 is not checked for a gang (s = -1), because its members can be of several classes.
    """
    if min(model.usage.tokens[0], model.usage.tokens[1 + q]) < jobs - TOLERANCE:
        return RATE_LIMIT
    code = NO_REASON
    for r in range(model.entitlements.cost_factor.size):
        if model.usage.started[r] + more[r] > model.entitlements.floating_left[r]:
            code = FLOATING_LIMIT
    if (
        code == NO_REASON
        and s >= 0
        and model.entitlements.class_limit.size > 0
        and exceeds_class_limit(model, q, model.shapes.priority_class[s], more)
    ):
        code = QUEUE_LIMIT
    return code


@inlined
def skip_shape(model: RoundModel, q: int, s: int, code: int) -> None:
    """Let queue `q` offer no more jobs of shape `s` in this round; `code` is the reason."""
    if model.progress.skip_code[q, s] == NO_REASON:
        model.progress.skip_code[q, s] = code
        model.progress.unfit_queues[s] += code == INSUFFICIENT
        if model.progress.jobs_left[q, s] > 0:
            model.progress.open_shapes[q] -= 1


@inlined
def count_handled(model: RoundModel, q: int, s: int) -> None:
    """Count a job of shape `s` of queue `q` as handled."""
    model.progress.jobs_left[q, s] -= 1
    if model.progress.jobs_left[q, s] == 0 and model.progress.skip_code[q, s] == NO_REASON:
        model.progress.open_shapes[q] -= 1
