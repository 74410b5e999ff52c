"""Fair shares (rules S1 to S6): what part of the pool each queue is entitled to.

Sums run over queues in the order of the snapshot, which is by name, so the same input gives the
same bits; amounts are summed as integers, so the order of jobs cannot matter.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import entry_point
from fairlead_scheduler.engine.snapshot import Bool, Float, Int64

LEFT_OVER: Final = 1e-6
"""Water filling ends when less than this is left (S3)."""


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


def weight_shares(weight: Float, takes_part: Bool) -> Float:
    """S1, [Q]; zeros for queues that take no part."""
    part = np.where(takes_part, weight, 0.0)
    total = part.cumsum()[-1] if part.size else 0.0  # adds in the order of queues (S6)
    return part / total if total > 0 else part


def fill_by_weight(weight: Float, demand: Float, takes_part: Bool, unbounded: int) -> Float:
    """S3: hand out 1.0 by weight, no queue beyond its demand; `unbounded` (or -1) demands
    everything."""
    share = np.zeros(weight.size, np.float64)
    _fill(weight, demand, takes_part, unbounded, share, np.zeros(weight.size, np.bool_))
    return share


@entry_point
def _fill(
    weight: Float, demand: Float, takes_part: Bool, unbounded: int, share: Float, full: Bool
) -> None:
    """Write the shares of `fill_by_weight` to `share`; `full` [Q] is overwritten, too."""
    for q in range(weight.size):
        share[q] = 0.0
        full[q] = not takes_part[q] or (demand[q] <= 0.0 and q != unbounded)
    left = 1.0
    while left >= LEFT_OVER:
        total = 0.0
        for q in range(weight.size):
            if not full[q]:
                total += weight[q]
        if total <= 0.0:
            break
        unused = 0.0
        for q in range(weight.size):
            if full[q]:
                continue
            share[q] += left * weight[q] / total
            if q != unbounded and share[q] >= demand[q]:
                unused += share[q] - demand[q]
                share[q] = demand[q]
                full[q] = True
        left = unused


def uncapped_shares(weight: Float, demand: Float, takes_part: Bool) -> Float:
    """S4, [Q]: the share of each queue if it alone wanted everything."""
    result = np.zeros(weight.size, np.float64)
    share, full = np.zeros(weight.size, np.float64), np.zeros(weight.size, np.bool_)
    _fill_each(weight, demand, takes_part, result, share, full)
    return result


@entry_point
def _fill_each(
    weight: Float, demand: Float, takes_part: Bool, result: Float, share: Float, full: Bool
) -> None:
    """Write the shares of `uncapped_shares` to `result`; `share` and `full` [Q] are overwritten."""
    for q in range(weight.size):
        if takes_part[q]:
            _fill(weight, demand, takes_part, q, share, full)
            result[q] = share[q]
