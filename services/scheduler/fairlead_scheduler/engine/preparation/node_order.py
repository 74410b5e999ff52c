"""The order of nodes that a round tries for free capacity (rule N3)."""

from __future__ import annotations

from typing import Final, assert_never

import numpy as np

from fairlead_scheduler.engine.preparation import prepared_pool
from fairlead_scheduler.engine.preparation.prepared_pool import PreparedPool
from fairlead_scheduler.engine.snapshot import EngineSettings, Float, Int32, Int64, Snapshot

TYPICAL_SHAPES: Final = 16
"""How many shapes `fragmentation` examines."""


def order_nodes(snapshot: Snapshot, settings: EngineSettings, start: PreparedPool) -> Int32:
    """N3: rows of nodes, the one to be tried first at the front.

    `best-fit`: the least free, device by device, then cpu, then memory. `spread`: the most free.
    `pack`: the fullest by the share of the node that is used, so that empty nodes stay empty.
    `fragmentation`: where the least would stay unusable for the shapes that are queued most.
    Equal nodes are ordered by their numbers for life.
    """
    keys: list[Int64 | Float] = [snapshot.node_number]
    ranked = prepared_pool.fit_order(snapshot, settings)
    fit: list[Int64 | Float] = [start.free[:, r] for r in reversed(ranked)]
    match settings.placement:
        case "best-fit":
            keys += fit
        case "spread":
            keys += [-free for free in fit]
        case "pack":
            whole = np.maximum(snapshot.node_allocatable, 1)
            keys += [*fit, -(start.job_totals.used / whole).max(axis=1, initial=0.0)]
        case "fragmentation":
            keys += [*fit, _unusable(snapshot, start)]
        case _:
            assert_never(settings.placement)
    return np.lexsort(keys).astype(np.int32)


def _unusable(snapshot: Snapshot, start: PreparedPool) -> Float:
    """[N] cost of what typical shapes would leave unused, were each node filled with them alone.

    Typical are the `TYPICAL` shapes with the most queued jobs, weighed by how many they are.
    """
    waiting = start.queued.sum(axis=0)
    typical = np.argsort(-waiting, kind="stable")[:TYPICAL_SHAPES]
    typical = typical[waiting[typical] > 0]
    result = np.zeros(start.free.shape[0], np.float64)
    factor = start.factor[: start.free.shape[1]]
    free = np.maximum(start.free, 0)
    for s in typical.tolist():
        request = snapshot.shape_request[s]
        asked = request > 0
        fits = (free[:, asked] // request[asked]).min(axis=1) if asked.any() else free[:, 0] * 0
        left = free - fits[:, None] * request
        result += waiting[s] / waiting.sum() * (left * factor).max(axis=1, initial=0.0)
    return np.round(result, 12)
