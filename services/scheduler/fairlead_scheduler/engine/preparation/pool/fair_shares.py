"""Fair shares (rules S1 to S6): what part of the pool each queue is entitled to.

Sums run over queues in the order of the snapshot, which is by name, so the same input gives the
same bits; amounts are summed as integers, so the order of jobs cannot matter.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import (
    by_address,
    entry_point,
    inlined,
    separate,
)
from fairlead_scheduler.engine.snapshot import (
    TOTAL_MAX,
    Bool,
    Byte,
    Float,
    Int64,
    Preemption,
)

ANY_CLASS: Final = int(Preemption.ANY)
ABOVE_MIN: Final = 1e-9
"""How far above its share R2 evicts the runs of a queue."""
LIMIT_MAX: Final = 2.0 * TOTAL_MAX
"""No limit counts as greater than this."""
LEFT_OVER: Final = 1e-6
"""Water filling ends when less than this is left (S3)."""

WEIGHT: Final = 0
"""S1, a row of a `ShareTable`; a queue that takes no part has zeros in the first four."""
FAIR: Final = 1
"""S3"""
UNCAPPED: Final = 2
"""S4"""
ACTUAL: Final = 3
"""S5"""
DEMAND: Final = 4
BUDGET: Final = 5
"""Fair share / weight; configured weights until the shares are known."""
INITIAL: Final = 6
"""Actual share / weight."""
ENTITLED: Final = 7
"""The greater of fair share and share by weight."""
OF_ONE: Final = 8
"""Working memory."""
ROWS: Final = 9


def cost_factors(capacity: Int64, multipliers: Float) -> Float:
    """[R+F] what a unit of each resource costs: multiplier / pool total, 0 where the pool has
    none."""
    result: Float = np.zeros(capacity.size, np.float64)
    np.divide(multipliers, capacity, out=result, where=capacity > 0)
    return result


def dominant_share(amounts: Int64, factor: Float) -> Float:
    """Dominant share of each row of amounts ([..., R+F] -> [...])."""
    result: Float = (amounts * factor).max(axis=-1, initial=0.0)
    return result


@by_address
class QueueSources(NamedTuple):
    """What `measure_queues` reads and what rarely changes."""

    request: Int64
    """[S, R+F]"""
    priority_class: Int64
    """[S]"""
    preemption: Byte
    """[S] `Preemption`"""
    weight: Float
    """[Q] configured weights"""
    cordoned: Bool
    """[Q]"""
    factor: Float
    """[R+F]"""
    limit: Float
    """[Q, C, R+F] L2; [0, 0, 0] without limits"""


@by_address
class ShareTable(NamedTuple):
    """The shares of queues in the order of their names."""

    rows: Float
    """[ROWS, Q]"""
    takes_part: Bool
    """[Q] whether a queue has jobs that wait beside the counted ones; becomes S1"""
    full: Bool
    """[Q] working memory: whether a queue has all that it demands"""


@entry_point
def measure_queues(
    sources: QueueSources,
    pairs: Int64,
    protected: float,
    amounts: Int64,
    table: ShareTable,
    evicted: Bool,
) -> bool:
    """Write the amounts and shares of the queues, and the queues whose runs R2 evicts; returns
    whether there are any.

    `pairs`: [P, 4] a queue, a shape, its live runs, and its queued jobs that could run; only pairs
    that have runs or queued jobs. `protected`: R2. `amounts`: [2, Q, C, R+F] zeros, becomes what
    queues hold, and what their queued jobs request, at most `TOTAL_MAX`. `table.takes_part`: [Q]
    whether a queue has other jobs that wait.
    """
    shares, takes_part = table.rows, table.takes_part
    for q in range(takes_part.size):
        evicted[q] = False
    sum_amounts(sources, pairs, amounts, table, evicted)
    is_free = True
    for r in range(sources.factor.size):
        is_free = is_free and sources.factor[r] == 0.0
    for q in range(takes_part.size):
        shares[ACTUAL, q] = 0.0
        shares[DEMAND, q] = 1.0 if is_free and takes_part[q] else 0.0
        for r in range(sources.factor.size):
            held = 0
            demanded = 0
            for c in range(amounts.shape[2]):
                held += amounts[0, q, c, r]
                most = amounts[0, q, c, r] + amounts[1, q, c, r]
                if sources.limit.size > 0:
                    most = min(most, int(min(sources.limit[q, c, r], LIMIT_MAX)))
                demanded += most
            shares[ACTUAL, q] = max(shares[ACTUAL, q], held * sources.factor[r])
            shares[DEMAND, q] = max(shares[DEMAND, q], demanded * sources.factor[r])
        shares[BUDGET, q] = sources.weight[q]
    divide_pool(table)
    any_evicted = False
    for q in range(takes_part.size):
        shares[ENTITLED, q] = max(shares[FAIR, q], shares[WEIGHT, q])
        shares[BUDGET, q] = shares[FAIR, q] / sources.weight[q]
        shares[INITIAL, q] = shares[ACTUAL, q] / sources.weight[q]
        above = shares[ACTUAL, q] > protected * shares[ENTITLED, q] + ABOVE_MIN
        evicted[q] = evicted[q] and above
        any_evicted = any_evicted or evicted[q]
    return any_evicted


@inlined
def sum_amounts(
    sources: QueueSources, pairs: Int64, amounts: Int64, table: ShareTable, evicted: Bool
) -> None:
    """Add up the amounts of the queues. A queue with runs or jobs takes part, one with runs of
    class `any` can be evicted."""
    for p in range(pairs.shape[0]):
        q = pairs[p, 0]
        s = pairs[p, 1]
        runs = pairs[p, 2]
        jobs = 0 if sources.cordoned[q] else pairs[p, 3]
        c = sources.priority_class[s]
        table.takes_part[q] = table.takes_part[q] or runs > 0 or jobs > 0
        if runs > 0:
            evicted[q] = evicted[q] or sources.preemption[s] == ANY_CLASS
        for r in range(sources.request.shape[1]):
            amounts[0, q, c, r] += runs * sources.request[s, r]
            if float(jobs) * float(sources.request[s, r]) >= TOTAL_MAX:
                amounts[1, q, c, r] = TOTAL_MAX
            else:
                total = amounts[1, q, c, r] + jobs * sources.request[s, r]
                amounts[1, q, c, r] = min(total, TOTAL_MAX)


def find_pairs(running: Int64, queued: Int64, wanted: Int64) -> Int64:
    """The `pairs` of `measure_queues` from these numbers by queue and shape ([Q, S]): live runs,
    queued jobs, and those that could run."""
    queue, shape = (running + queued).nonzero()
    pairs = np.empty((queue.size, 4), np.int64)
    pairs[:, 0] = queue
    pairs[:, 1] = shape
    pairs[:, 2] = running[queue, shape]
    pairs[:, 3] = wanted[queue, shape]
    return pairs


@separate
def divide_pool(table: ShareTable) -> None:
    """Write S1, S3 and S4 from the row `DEMAND` and the configured weights in the row `BUDGET`."""
    shares, takes_part = table.rows, table.takes_part
    total = 0.0
    for q in range(takes_part.size):  # adds in the order of queues (S6)
        if takes_part[q]:
            total += shares[BUDGET, q]
    for q in range(takes_part.size):
        part = shares[BUDGET, q] if takes_part[q] else 0.0
        shares[WEIGHT, q] = part / total if total > 0.0 else part
        shares[UNCAPPED, q] = 0.0
    fill_shares(table, FAIR, -1)
    for q in range(takes_part.size):
        if takes_part[q]:
            fill_shares(table, OF_ONE, q)
            shares[UNCAPPED, q] = shares[OF_ONE, q]


@separate
def fill_shares(table: ShareTable, row: int, unbounded: int) -> None:
    """S3: hand out 1.0 by the weights in the row `BUDGET`, no queue beyond its demand; `unbounded`
    (or -1) demands everything. The shares are written to `row`."""
    shares, full = table.rows, table.full
    for q in range(full.size):
        shares[row, q] = 0.0
        full[q] = not table.takes_part[q] or (shares[DEMAND, q] <= 0.0 and q != unbounded)
    left = 1.0
    while left >= LEFT_OVER:
        total = 0.0
        for q in range(full.size):
            if not full[q]:
                total += shares[BUDGET, q]
        if total <= 0.0:
            break
        unused = 0.0
        for q in range(full.size):
            if full[q]:
                continue
            shares[row, q] += left * shares[BUDGET, q] / total
            if q != unbounded and shares[row, q] >= shares[DEMAND, q]:
                unused += shares[row, q] - shares[DEMAND, q]
                shares[row, q] = shares[DEMAND, q]
                full[q] = True
        left = unused
