"""Whether a round could place any queued job, without running it.

A job is placed by one of the tiers of rule N2, and the first one that a round places meets the
state that the last round left. So a round places nothing if no queued job fits the free capacity of
a node (tier a), no queued job is more urgent than a run (tier c), and on no node queues above their
fair share could lose enough runs to a queue that would stay below them (tier b, rules R2 and R13).
The rules that are not checked here only hold back more: the answer is never a wrong no. It holds
for pools without gangs, limits, dependencies and cordons.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.compiler.decorators import by_address, entry_point, inlined
from fairlead_scheduler.engine.preparation.pool.fair_shares import (
    BUDGET,
    DEMAND,
    FAIR,
    ROWS,
    ShareTable,
    fill_shares,
)
from fairlead_scheduler.engine.snapshot import Bool, Float, Int32, Int64
from fairlead_scheduler.engine.state.round_state import cost_of, cost_with

IntP = npt.NDArray[np.intp]

TOLERANCE: Final = 1e-9
"""Shares this close count as possible, so that rounding cannot skip a round."""
GAIN_MIN: Final = 0.5e-9
"""The smallest gain in share / weight that counts: half of what rule R13 requires."""
ABOVE_MIN: Final = 0.5e-9
"""How far above its share rule R2 evicts the runs of a queue: half of what it requires."""
_BEYOND_ALL: Final = 1e300
"""More than any share / weight."""
_HIGHEST: Final = np.iinfo(np.int64).max
MARGIN: Final = 4 * TOLERANCE
"""By how much shares / weight must differ to say which offer is examined first."""


@by_address
class JobGroups(NamedTuple):
    """Jobs of one queue, shape and class together."""

    queue: Int32
    shape: Int32
    priority_class: Int32
    waiting: Int64
    """[G] queued jobs"""
    running: Int64
    """[G] live runs"""
    examined: Bool
    """[G] whether a round has examined the queued jobs since the nodes last changed"""


@by_address
class PoolAmounts(NamedTuple):
    """What nodes have, and what jobs of each shape and class are."""

    capacity: Int64
    """[N, R]"""
    used: Int64
    """[N, R]"""
    request: Int64
    """[S, R]"""
    class_value: Int64
    """[C]"""
    preemptible: Bool
    """[C]"""
    reachable: Int64
    """[N, R] what could be free: working memory of the check"""
    compared: Bool
    """[S] shapes that were compared with what is free: working memory of the check"""


@by_address
class QueueAmounts(NamedTuple):
    """What queues hold and demand, [Q, R]; queues are in any order."""

    held: Int64
    demanded: Int64
    """with queued jobs"""
    running: Int64
    """[Q] live runs"""
    queued: Int64
    """[Q] queued jobs"""
    weight: Float
    by_name: IntP
    """[Q] rows of queues by name"""
    factor: Float
    """[R] cost of a unit"""
    protected: Float
    """[1] rule R2: the part of its share up to which a queue is not evicted"""


@by_address
class CheckedShares(NamedTuple):
    """The shares of the queues as the check found them (S1, S3), and its working memory."""

    weight: Float
    """[Q]"""
    fair: Float
    """[Q]"""
    held: Float
    """[Q] share / weight"""
    above: Bool
    """[Q] whether R2 could evict its runs"""
    first: Float
    """[Q] share / weight of the queue with its first queued job, 0 without one"""
    named: ShareTable
    """by name; of its rows only `BUDGET`, `DEMAND` and `FAIR` are used"""


@by_address
class PlacementCheck(NamedTuple):
    """What the check reads and writes."""

    groups: JobGroups
    pool: PoolAmounts
    queues: QueueAmounts
    shares: CheckedShares


@by_address
class CheckedJobs(NamedTuple):
    """The jobs, and for each of at most M runs what its queue holds when it returns (R3)."""

    run_share: Float
    """[M] share / weight of the queue with this run and those before it; written by the check"""
    run_held: Int64
    """[M, R] what the queue holds with them; written by the check"""
    queue: Int32
    """[J]"""
    shape: Int32
    """[J]"""
    node: Int32
    """[J] of its live run"""


def make_shares(queues: int) -> CheckedShares:
    """Shares that were not measured yet."""
    named = ShareTable(
        rows=np.zeros((ROWS, queues)),
        takes_part=np.zeros(queues, np.bool_),
        full=np.zeros(queues, np.bool_),
    )
    return CheckedShares(
        weight=np.zeros(queues),
        fair=np.zeros(queues),
        held=np.zeros(queues),
        above=np.zeros(queues, np.bool_),
        first=np.zeros(queues),
        named=named,
    )


@entry_point
def may_place_without_eviction(check: PlacementCheck) -> bool:
    """Whether a queued job was not examined yet, fits what is free (tier a), or is more urgent than
    a run (tier c)."""
    groups, pool = check.groups, check.pool
    for g in range(groups.queue.size):
        if groups.waiting[g] > 0 and not groups.examined[g]:
            return True
    if fits_free_capacity(check):
        return True
    lowest = _HIGHEST
    for g in range(groups.queue.size):
        kind = groups.priority_class[g]
        if groups.running[g] > 0 and pool.preemptible[kind]:
            lowest = min(lowest, pool.class_value[kind])
    for g in range(groups.queue.size):
        if groups.waiting[g] > 0 and pool.class_value[groups.priority_class[g]] > lowest:
            return True
    return False


@inlined
def fits_free_capacity(check: PlacementCheck) -> bool:
    """Whether a queued job fits what is free on a node, or a node has less than its runs use."""
    groups, pool, compared = check.groups, check.pool, check.pool.compared
    for n in range(pool.used.shape[0]):
        for r in range(pool.used.shape[1]):
            if pool.used[n, r] > pool.capacity[n, r]:
                return True
    for s in range(compared.size):
        compared[s] = False
    for g in range(groups.queue.size):
        s = groups.shape[g]
        if groups.waiting[g] == 0 or compared[s]:
            continue
        compared[s] = True
        for n in range(pool.used.shape[0]):
            fits = True
            for r in range(pool.used.shape[1]):
                fits = fits and pool.request[s, r] <= pool.capacity[n, r] - pool.used[n, r]
            if fits:
                return True
    return False


@entry_point
def measure_shares(queues: QueueAmounts, shares: CheckedShares, waiting: bool) -> None:
    """Write the shares of the queues; without `waiting` queued jobs are no demand."""
    named, total = shares.named, 0.0
    for i in range(queues.by_name.size):
        q = queues.by_name[i]
        amounts = queues.demanded if waiting else queues.held
        part = queues.running[q] > 0 or (waiting and queues.queued[q] > 0)
        named.takes_part[i] = part
        named.rows[BUDGET, i] = queues.weight[q]
        named.rows[DEMAND, i] = cost_of(amounts[q], queues.factor)
        if part:
            total += queues.weight[q]
    fill_shares(named, FAIR, -1)
    for i in range(queues.by_name.size):
        q = queues.by_name[i]
        weight = queues.weight[q] if named.takes_part[i] else 0.0
        shares.weight[q] = weight / total if total > 0.0 else weight
        shares.fair[q] = named.rows[FAIR, i]


@inlined
def propose(check: PlacementCheck, q: int, s: int) -> float:
    """Share / weight of queue `q` with a job of shape `s`."""
    queues = check.queues
    return cost_with(queues.held[q], check.pool.request[s], queues.factor) / queues.weight[q]


@entry_point
def may_place_by_eviction(
    check: PlacementCheck, jobs: CheckedJobs, runs: Int32, first: Int32, any_order: bool
) -> bool:
    """Tier (b): whether evicted runs of other queues make a node free enough for a queued job.

    `runs`: rows of jobs by queue, in the order in which they return (R3); `first`: [Q] the first
    queued job of each queue in that order, -1 for none. The shares must have been measured.
    By R4 a job is offered only after some runs have returned. If it is within the budget of its
    queue: runs within the budget of theirs, before which their queue has less than the job's queue.
    If it is over budget: all runs within budget, and those with which their queue has less than the
    job's queue with the job, or with an earlier job over budget. `any_order`: class values come
    before shares, so nothing is known of that.
    """
    groups, queues, shares = check.groups, check.queues, check.shares
    most = find_evicted_queues(check, jobs, first)
    if most < 0.0:
        return False
    measure_runs(check, jobs, runs)
    for g in range(groups.queue.size):
        if groups.waiting[g] == 0:
            continue
        q = groups.queue[g]
        proposed = propose(check, q, groups.shape[g])
        if most <= proposed + GAIN_MIN:
            continue
        budget = shares.fair[q] / queues.weight[q] + MARGIN
        current = 0.0
        returned = 0.0
        if not any_order and proposed > budget:
            current = _BEYOND_ALL
            returned = max(proposed, shares.first[q] if shares.first[q] > budget else 0.0) - MARGIN
        elif not any_order:
            current = shares.held[q] - MARGIN
        if frees_enough(check, jobs, runs, g, current, returned):
            return True
    return False


@inlined
def find_evicted_queues(check: PlacementCheck, jobs: CheckedJobs, first: Int32) -> float:
    """Find the queues that R2 could evict; returns the greatest share / weight of any, or -1."""
    queues, shares = check.queues, check.shares
    most = -1.0
    for q in range(queues.weight.size):
        actual = cost_of(queues.held[q], queues.factor)
        entitled = queues.protected[0] * max(shares.fair[q], shares.weight[q])
        shares.held[q] = actual / queues.weight[q]
        shares.above[q] = actual > entitled + ABOVE_MIN
        if shares.above[q]:
            most = max(most, shares.held[q])
        j = first[q]
        shares.first[q] = 0.0 if j < 0 else propose(check, q, jobs.shape[j])
    return most


@inlined
def measure_runs(check: PlacementCheck, jobs: CheckedJobs, runs: Int32) -> None:
    """Write the share of each run's queue when the run returns."""
    queues = check.queues
    for i in range(runs.size):
        q = jobs.queue[runs[i]]
        starts = i == 0 or jobs.queue[runs[i - 1]] != q
        for r in range(queues.factor.size):
            before = 0 if starts else jobs.run_held[i - 1, r]
            jobs.run_held[i, r] = before + check.pool.request[jobs.shape[runs[i]], r]
        jobs.run_share[i] = cost_of(jobs.run_held[i], queues.factor) / queues.weight[q]


@inlined
def frees_enough(
    check: PlacementCheck, jobs: CheckedJobs, runs: Int32, g: int, current: float, returned: float
) -> bool:
    """Whether a job of the group fits a node without the evicted runs that have not returned.

    Returned have the runs within budget before which their queue had less than `current` / weight,
    and those with which it has less than `returned` / weight.
    """
    pool, shares = check.pool, check.shares
    q = check.groups.queue[g]
    s = check.groups.shape[g]
    proposed = propose(check, q, s)
    for n in range(pool.used.shape[0]):
        for r in range(pool.used.shape[1]):
            pool.reachable[n, r] = pool.capacity[n, r] - pool.used[n, r]
    before = 0.0
    for i in range(runs.size):
        j = runs[i]
        other = jobs.queue[j]
        if i == 0 or jobs.queue[runs[i - 1]] != other:
            before = 0.0
        within = jobs.run_share[i] <= shares.fair[other] / check.queues.weight[other] - MARGIN
        has_returned = jobs.run_share[i] < returned or (within and before < current)
        before = jobs.run_share[i]
        if other == q or not shares.above[other] or has_returned:
            continue
        if shares.held[other] <= proposed + GAIN_MIN:  # R13
            continue
        n = jobs.node[j]
        fits = True
        for r in range(pool.used.shape[1]):
            pool.reachable[n, r] += pool.request[jobs.shape[j], r]
            fits = fits and pool.request[s, r] <= pool.reachable[n, r]
        if fits:
            return True
    return False
