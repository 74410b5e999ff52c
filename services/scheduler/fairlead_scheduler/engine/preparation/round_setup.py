"""How a round begins: the order of nodes, and the arrays that the kernels work on."""

from __future__ import annotations

from typing import Final, assert_never

import numpy as np

from fairlead_scheduler.engine.plan.round_result import Round
from fairlead_scheduler.engine.preparation import (
    eviction,
    fair_shares,
    gang_table,
    job_order,
    prepared_pool,
)
from fairlead_scheduler.engine.preparation.prepared_pool import PreparedPool
from fairlead_scheduler.engine.snapshot import (
    NO_AWAY,
    Byte,
    Code,
    EngineSettings,
    Float,
    Int32,
    Int64,
    Match,
    Preemption,
    Snapshot,
)
from fairlead_scheduler.engine.state import capacity_tree, round_state
from fairlead_scheduler.engine.state.round_state import Model, Tables

TYPICAL_SHAPES: Final = 16
"""How many shapes `fragmentation` looks at."""


def set_up_round(snapshot: Snapshot, settings: EngineSettings, start: PreparedPool) -> Round:
    """Make the tables, the model, and what could be stopped."""
    position = order_nodes(snapshot, settings, start)
    queued = job_order.order_queued(snapshot)
    first = job_order.find_queue_bounds(queued, snapshot.job_queue, len(snapshot.queue_names))
    rank = _ranks(snapshot)
    bits = _type_bits(rank)
    leaf_type = snapshot.node_type[position]
    leaf_bits = np.where(
        start.usable[position], np.uint64(1) << (leaf_type % 64).astype(np.uint64), np.uint64(0)
    )
    amounts, types = capacity_tree.build_tree(start.free[position], leaf_bits)
    levels, level = _levels(snapshot, start)
    weight = np.ascontiguousarray(snapshot.queue_weight, np.float64)
    tables = Tables(
        request=snapshot.shape_request,
        whole=start.whole,
        shape_cost=fair_shares.dominant_share(start.whole, start.factor),
        shape_class=snapshot.shape_class.astype(np.int64),
        shape_value=start.shape_value,
        shape_kind=start.shape_preemption,
        rank=rank,
        bits=bits,
        leaf_type=leaf_type.astype(np.int64),
        types=types,
        factor=start.factor,
        weight=weight,
        budget=start.shares.fair / weight,
        start=start.shares.actual / weight,
        cordoned=snapshot.queue_cordoned,
        limit=start.limit,
        round_limit=_round_limit(snapshot, settings, start.capacity),
        beside=_floating_left(snapshot, start),
        job_shape=snapshot.job_shape,
        order=queued,
        end=np.where(snapshot.queue_cordoned, first[:-1], first[1:]),
        level=level,
        least=snapshot.shape_request.min(axis=0, initial=np.iinfo(np.int64).max),
        number_at=snapshot.node_number[position],
        ranked=np.array(prepared_pool.fit_order(snapshot, settings), np.int64),
        now_ms=snapshot.now_ms,
        lookback=settings.lookback,
    )
    state = _model(snapshot, start, tables, amounts, first)
    balance = prepared_pool.find_evicted_queues(snapshot, start, settings)
    gangs = gang_table.build_gang_table(snapshot, start, position)
    runs = eviction.build_runs(snapshot, start, balance, gangs, tables, state, position, levels)
    return Round(
        snapshot=snapshot,
        settings=settings,
        start=start,
        position=position,
        levels=levels,
        first=first,
        balance=balance,
        gangs=gangs,
        tables=tables,
        model=state,
        runs=runs,
    )


def order_nodes(snapshot: Snapshot, settings: EngineSettings, start: PreparedPool) -> Int32:
    """N3: rows of nodes, the one to be tried first at the front.

    `best-fit`: the least free, device by device, then cpu, then memory. `spread`: the most free.
    `pack`: the fullest by the share of the node that is used, so that empty nodes stay empty.
    `fragmentation`: where the least would stay unusable for the shapes that are queued most.
    Equal nodes stand by their numbers for life.
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


def _levels(snapshot: Snapshot, start: PreparedPool) -> tuple[Int64, Int64]:
    """The distinct values that anything runs at, ascending, and [S, W] rows of them (-1: none)."""
    width = snapshot.shape_match.shape[1]
    values = np.full((start.shape_value.size, width), NO_AWAY, np.int64)
    values[:, 0] = start.shape_value
    away = snapshot.class_away_value
    if away is not None:
        entries = min(width - 1, away.shape[1])
        values[:, 1 : 1 + entries] = away[snapshot.shape_class, :entries]
        values[start.shape_preemption == Preemption.NONE, 1:] = NO_AWAY
    levels = np.unique(np.concatenate([values[values != NO_AWAY], start.job_totals.values]))
    rows = np.searchsorted(levels, values)
    return levels, np.where(values == NO_AWAY, -1, rows).astype(np.int64)


def _model(
    snapshot: Snapshot, start: PreparedPool, tables: Tables, amounts: Int64, first: Int64
) -> Model:
    size = len(snapshot.queue_names)
    shapes, width = snapshot.shape_match.shape[:2]
    left = start.queued.astype(np.int32)
    codes = np.where(start.feasible.pair, np.uint8(0), np.uint8(Code.INFEASIBLE))
    tokens = np.full(2 + size, snapshot.tokens, np.float64)
    tokens[1:-1] = np.inf if snapshot.queue_tokens is None else snapshot.queue_tokens
    tokens[-1] = snapshot.preemption_tokens
    jobs = tables.order.size
    return Model(
        number=np.zeros(round_state.COUNTS, np.int64),
        tokens=tokens,
        tree=amounts,
        cursor=np.zeros((shapes, width, tables.bits.shape[2]), np.int64),
        stands=start.held.sum(axis=1),
        class_held=start.held.copy(),
        fresh=np.zeros(start.capacity.size, np.int64),
        pair_code=codes,
        pair_left=left,
        open_pairs=((left > 0) & (codes == 0)).sum(axis=1),
        queue_stop=np.where(snapshot.queue_cordoned, np.uint8(Code.QUEUE_CORDONED), np.uint8(0)),
        examined=np.zeros(size, np.int64),
        next=first[:-1].copy(),
        gang_left=np.zeros(size, np.int64),
        offer_kind=np.zeros(size, np.uint8),
        offer_job=np.zeros(size, np.int64),
        heap=np.zeros(size, np.int64),
        key_value=np.zeros(size, np.int64),
        key_over=np.zeros(size, np.bool_),
        key_amount=np.zeros(size, np.float64),
        key_size=np.zeros(size, np.float64),
        key_live=np.zeros(size, np.bool_),
        placed_job=np.empty(jobs, np.int32),
        placed_at=np.empty(jobs, np.int32),
        placed_away=np.empty(jobs, np.int32),
    )


def _ranks(snapshot: Snapshot) -> Byte:
    """`Tables.rank`."""
    wished = np.zeros((1, 1), np.uint8) if snapshot.shape_rank is None else snapshot.shape_rank
    suits = snapshot.shape_match == Match.SUITS
    return np.where(suits, wished[:, None, :], np.uint8(round_state.NOT_ELIGIBLE)).astype(np.uint8)


def _type_bits(rank: Byte) -> capacity_tree.Bits:
    """[S, W, P] the types that suit, as bits modulo 64, for each rank."""
    known = rank[rank != round_state.NOT_ELIGIBLE]
    bits = np.zeros((*rank.shape[:2], int(known.max(initial=0)) + 1), np.uint64)
    for kind in range(rank.shape[2]):
        bit = np.uint64(1) << np.uint64(kind % 64)
        for k in range(bits.shape[2]):
            bits[:, :, k] |= np.where(rank[:, :, kind] == k, bit, np.uint64(0))
    return bits


def _round_limit(snapshot: Snapshot, settings: EngineSettings, capacity: Int64) -> Float:
    names = snapshot.resources + snapshot.floating
    fraction = np.array([settings.round_limit.get(name, 1.0) for name in names])
    result: Float = capacity * fraction * (1.0 + round_state.TOLERANCE)
    return result


def _floating_left(snapshot: Snapshot, start: PreparedPool) -> Int64:
    """L7: what is left of each floating resource; without bound for those of nodes."""
    result = np.full(start.capacity.size, np.iinfo(np.int64).max, np.int64)
    nodes = len(snapshot.resources)
    result[nodes:] = snapshot.floating_total - start.beside[nodes:]
    return result
