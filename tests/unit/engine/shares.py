"""Divides a pool among queues whose demand is given."""

from __future__ import annotations

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import entry_point
from fairlead_scheduler.engine.preparation.pool import fair_shares
from fairlead_scheduler.engine.snapshot import Bool, Float


def divide(weight: list[float] | Float, demand: list[float] | Float, takes_part: Bool) -> Float:
    """The shares of each queue, a row per kind of share: `fair_shares.WEIGHT`, `FAIR` and
    `UNCAPPED`."""
    shares = np.zeros((fair_shares.ROWS, takes_part.size))
    shares[fair_shares.DEMAND] = demand
    shares[fair_shares.BUDGET] = weight
    table = fair_shares.ShareTable(shares, takes_part, np.zeros_like(takes_part))
    _divide(table)
    return shares


@entry_point
def _divide(table: fair_shares.ShareTable) -> None:
    """`divide_pool`, which is compiled only for other kernels."""
    fair_shares.divide_pool(table)
