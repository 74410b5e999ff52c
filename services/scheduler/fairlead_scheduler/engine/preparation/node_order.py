"""The order of nodes that a round tries for free capacity (rule N3)."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from fairlead_scheduler.engine.preparation.prepared_pool import PreparedPool
from fairlead_scheduler.engine.snapshot import EngineSettings, Float, Int32, Int64, Snapshot


def order_nodes(snapshot: Snapshot, settings: EngineSettings, start: PreparedPool) -> Int32:
    """N3: rows of nodes, the one to be tried first at the front.

    `best-fit`: the least free, device by device, then cpu, then memory. `spread`: the most free.
    `pack`: the fullest by the share of the node that is used, so that empty nodes stay empty.
    Equal nodes are ordered by their numbers for life.
    """
    keys: list[Int64 | Float] = [snapshot.node_number]
    ranked = start.static.fit_order[::-1].tolist()
    fit: list[Int64 | Float] = [start.free[:, r] for r in ranked]
    match settings.placement:
        case "best-fit":
            keys += fit
        case "spread":
            keys += [-free for free in fit]
        case "pack":
            whole = np.maximum(snapshot.node_allocatable, 1)
            keys += [*fit, -(start.job_totals.used / whole).max(axis=1, initial=0.0)]
        case _:
            assert_never(settings.placement)
    return np.lexsort(keys).astype(np.int32)
