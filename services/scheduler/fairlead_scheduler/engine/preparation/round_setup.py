"""How a round begins: the order of nodes, and the model that the kernels work on."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import entry_point, load_kernels
from fairlead_scheduler.engine.plan.round_result import RoundContext
from fairlead_scheduler.engine.preparation import (
    eviction,
    fair_shares,
    gang_table,
    job_order,
    prepared_pool,
)
from fairlead_scheduler.engine.preparation.gang_table import GangTable
from fairlead_scheduler.engine.preparation.node_order import order_nodes
from fairlead_scheduler.engine.preparation.prepared_pool import PreparedPool
from fairlead_scheduler.engine.scheduling.gang_placement import VALUES_TRIED_MAX
from fairlead_scheduler.engine.scheduling.victim_search import NODES_EXAMINED_MAX
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
from fairlead_scheduler.engine.state import (
    capacity_tree,
    round_state,
    value_capacity,
    victim_order,
)
from fairlead_scheduler.engine.state.round_model import (
    AvoidedNodes,
    Entitlements,
    EvictedRuns,
    GangTables,
    NodeCapacity,
    NodeTable,
    Placements,
    QueueOffers,
    QueueProgress,
    QueueUsage,
    RoundJobs,
    RoundModel,
    RunTable,
    ShapeTable,
    ValueCapacity,
    VictimChoice,
    VictimOrder,
)

_ELIGIBLE_TYPE: Final = int(Match.SUITS)


def set_up_round(snapshot: Snapshot, settings: EngineSettings, start: PreparedPool) -> RoundContext:
    """Make the model, and evict the runs that R2 names."""
    position = order_nodes(snapshot, settings, start)
    queued = job_order.order_queued(snapshot)
    first = job_order.find_queue_bounds(queued, snapshot.job_queue, len(snapshot.queue_names))
    balance = prepared_pool.find_evicted_queues(snapshot, start, settings)
    gangs = gang_table.build_gang_table(snapshot, start, position)
    levels, level = _levels(snapshot, start)
    shapes = _shape_table(snapshot, start, level)
    active = (
        bool(balance.any())
        or gangs.present
        or eviction.is_urgency_possible(snapshot, start, shapes)
    )
    jobs = snapshot.job_queue.size if active else 0
    nodes = position.size if active else 0
    progress = _queue_progress(snapshot, start, first)
    model = RoundModel(
        shapes=shapes,
        nodes=_node_table(snapshot, settings, gangs, position),
        jobs=RoundJobs(
            shape=snapshot.job_shape,
            queue=snapshot.job_queue,
            gang=gangs.of_job if gangs.present else np.full(jobs, -1, np.int32),
            priority=snapshot.job_priority,
            submission=snapshot.job_submission,
            order=queued,
            order_end=np.where(snapshot.queue_cordoned, first[:-1], first[1:]),
        ),
        entitlements=_entitlements(snapshot, settings, start),
        avoided=_avoided_nodes(snapshot, jobs),
        capacity=_node_capacity(snapshot, start, shapes, position, levels.size if active else 0),
        usage=_queue_usage(snapshot, start),
        progress=progress,
        offers=_queue_offers(len(snapshot.queue_names)),
        placements=Placements(
            job=np.empty(queued.size, np.int32),
            position=np.empty(queued.size, np.int32),
            away=np.empty(queued.size, np.int32),
        ),
        runs=_run_table(jobs, nodes),
        evicted=_no_evicted_runs(len(snapshot.queue_names)),
        gangs=_gang_tables(gangs, snapshot.shape_request.shape[1], start.capacity.size),
        values=_value_capacity(snapshot, settings, start, gangs, position),
        victims=_victim_choice(snapshot, start, gangs, jobs),
        victim_order=_victim_order(nodes, levels.size, snapshot.shape_request.shape[1]),
        journal=np.zeros(jobs + 1, np.int64),
        counters=np.zeros(round_state.COUNTERS, np.int64),
    )
    load_kernels(model)
    if active:
        model = eviction.evict_runs(snapshot, start, balance, gangs, model, position, levels)
        value_capacity.count_values(model)
    return RoundContext(
        snapshot=snapshot,
        settings=settings,
        start=start,
        position=position,
        levels=levels,
        first=first,
        balance=balance,
        gangs=gangs,
        model=model,
    )


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


def _shape_table(snapshot: Snapshot, start: PreparedPool, level: Int64) -> ShapeTable:
    rank, bits = _rank_types(snapshot)
    return ShapeTable(
        request=snapshot.shape_request,
        full_request=start.whole,
        cost=fair_shares.dominant_share(start.whole, start.factor),
        priority_class=snapshot.shape_class.astype(np.int64),
        class_value=start.shape_value,
        preemption=start.shape_preemption,
        type_rank=rank,
        type_bits=bits,
        level=level,
        least_request=snapshot.shape_request.min(axis=0, initial=np.iinfo(np.int64).max),
    )


def _node_table(
    snapshot: Snapshot, settings: EngineSettings, gangs: GangTable, position: Int32
) -> NodeTable:
    return NodeTable(
        node_type=snapshot.node_type[position].astype(np.int64),
        number=snapshot.node_number[position],
        waste_order=np.array(prepared_pool.fit_order(snapshot, settings), np.int64),
        value_first=gangs.value_first.astype(np.int64),
        value_positions=gangs.value_rows.astype(np.int64),
    )


def _entitlements(
    snapshot: Snapshot, settings: EngineSettings, start: PreparedPool
) -> Entitlements:
    weight = np.ascontiguousarray(snapshot.queue_weight, np.float64)
    return Entitlements(
        cost_factor=start.factor,
        weight=weight,
        budget=start.shares.fair / weight,
        initial_share=start.shares.actual / weight,
        entitled_share=np.maximum(start.shares.fair, start.shares.weight),
        class_limit=start.limit,
        round_limit=_round_limit(snapshot, settings, start.capacity),
        floating_left=_floating_left(snapshot, start),
        now_ms=snapshot.now_ms,
        lookback=settings.lookback,
    )


def _avoided_nodes(snapshot: Snapshot, jobs: int) -> AvoidedNodes:
    pairs = 0 if snapshot.avoid_job is None or not jobs else snapshot.avoid_job.size
    return AvoidedNodes(
        first=np.full(jobs if pairs else 0, -1, np.int64),
        link=np.full(pairs, -1, np.int64),
        position=np.zeros(pairs, np.int64),
    )


def _node_capacity(
    snapshot: Snapshot, start: PreparedPool, shapes: ShapeTable, position: Int32, levels: int
) -> NodeCapacity:
    type_bit = np.uint64(1) << (snapshot.node_type[position] % 64).astype(np.uint64)
    tree, types = capacity_tree.build_tree(
        start.free[position], np.where(start.usable[position], type_bit, np.uint64(0))
    )
    size = (position.size if levels else 0, levels, snapshot.shape_request.shape[1])
    return NodeCapacity(
        tree=tree,
        tree_types=types,
        cursor=np.zeros(shapes.type_bits.shape, np.int64),
        preemptible=np.zeros(size, np.int64),
        evicted=np.zeros(size, np.int64),
        runs_at_level=np.zeros(levels, np.int64),
    )


def _queue_usage(snapshot: Snapshot, start: PreparedPool) -> QueueUsage:
    queues = len(snapshot.queue_names)
    tokens = np.full(2 + queues, snapshot.tokens, np.float64)
    tokens[1:-1] = np.inf if snapshot.queue_tokens is None else snapshot.queue_tokens
    tokens[-1] = snapshot.preemption_tokens
    return QueueUsage(
        held=start.held.sum(axis=1),
        counted=start.held.sum(axis=1),
        by_class=start.held.copy(),
        started=np.zeros(start.capacity.size, np.int64),
        tokens=tokens,
        share_steps=np.zeros(queues, np.int64),
        evicted_runs=np.zeros(queues, np.int64),
    )


def _queue_progress(snapshot: Snapshot, start: PreparedPool, first: Int64) -> QueueProgress:
    queues = len(snapshot.queue_names)
    left = start.queued.astype(np.int32)
    codes = np.where(start.feasible.pair, np.uint8(0), np.uint8(Code.INFEASIBLE))
    return QueueProgress(
        skip_code=codes,
        jobs_left=left,
        open_shapes=((left > 0) & (codes == 0)).sum(axis=1),
        members_left=np.zeros(queues, np.int64),
        stop_code=np.where(snapshot.queue_cordoned, np.uint8(Code.QUEUE_CORDONED), np.uint8(0)),
        examined=np.zeros(queues, np.int64),
        next_queued=first[:-1].copy(),
        next_within=first[:-1].copy(),
        handled=np.zeros(snapshot.job_queue.size, np.uint8),
        unfit=np.full((queues, 2), -1, np.int64),
        next_evicted=np.zeros(queues, np.int64),
        next_member=np.zeros(queues, np.int64),
        members_end=np.zeros(queues, np.int64),
    )


def _queue_offers(queues: int) -> QueueOffers:
    return QueueOffers(
        kind=np.zeros(queues, np.uint8),
        job=np.zeros(queues, np.int64),
        heap=np.zeros(queues, np.int64),
        class_value=np.zeros(queues, np.int64),
        over_budget=np.zeros(queues, np.bool_),
        share=np.zeros(queues, np.float64),
        size=np.zeros(queues, np.float64),
        runs=np.zeros(queues, np.bool_),
        replaces_first=np.zeros(queues, np.bool_),
        held=np.zeros(queues, np.int64),
    )


def _run_table(jobs: int, nodes: int) -> RunTable:
    return RunTable(
        active=int(jobs > 0),
        state=np.zeros(jobs, np.uint8),
        position=np.zeros(jobs, np.int64),
        level=np.zeros(jobs, np.int64),
        preemption=np.zeros(jobs, np.uint8),
        lost_work=np.zeros(jobs, np.float64),
        started=np.zeros(jobs, np.int64),
        head=np.full(nodes, -1, np.int64),
        link=np.zeros(jobs, np.int64),
        tier=np.zeros(jobs, np.uint8),
        cause=np.zeros(jobs, np.uint8),
        preemptor=np.zeros(jobs, np.int64),
        share_before=np.zeros(jobs, np.float64),
        state_before=np.zeros(jobs, np.int64),
        urgency_loss=np.zeros(jobs, np.float64),
    )


def _no_evicted_runs(queues: int) -> EvictedRuns:
    return EvictedRuns(
        rows=np.zeros(0, np.int64),
        end=np.zeros(queues, np.int64),
        cheapest=np.zeros(0, np.int64),
        cheapest_next=np.zeros(queues, np.int64),
        cheapest_first=np.zeros(queues + 1, np.int64),
        priority=np.zeros(queues, np.int64),
    )


def _gang_tables(gangs: GangTable, resources: int, all_resources: int) -> GangTables:
    return GangTables(
        first=gangs.first,
        queued_first=gangs.queued,
        members=gangs.members.astype(np.int64),
        min_size=gangs.minimum.astype(np.int64),
        rest=gangs.rest,
        need=np.zeros(gangs.size, np.int64),
        live=np.zeros(gangs.size, np.int64),
        passed=np.zeros(gangs.size, np.int64),
        last_queued=gangs.last_queued.astype(np.int64),
        mode=gangs.mode,
        code=gangs.code,
        label=gangs.label.astype(np.int64),
        value=gangs.value.astype(np.int64),
        waiting_request=np.zeros(resources, np.int64),
        offer_request=np.zeros(all_resources, np.int64),
    )


def _victim_choice(
    snapshot: Snapshot, start: PreparedPool, gangs: GangTable, jobs: int
) -> VictimChoice:
    return VictimChoice(
        candidates=np.zeros(jobs, np.int64),
        mark=np.zeros(jobs, np.uint8),
        taken=np.zeros(jobs, np.int64),
        takes_gang=np.zeros(jobs, np.int64),
        chosen=np.zeros(jobs, np.int64),
        chosen_takes_gang=np.zeros(jobs, np.int64),
        assumed_held=np.zeros((len(snapshot.queue_names), start.capacity.size), np.int64),
        assumed_members=np.zeros(gangs.size, np.int64),
        need=np.zeros(snapshot.shape_request.shape[1], np.int64),
        examined=np.zeros(NODES_EXAMINED_MAX, np.int64),
    )


def _victim_order(nodes: int, levels: int, resources: int) -> VictimOrder:
    """What is not used by a round takes no memory."""
    trees = 2 * min(levels + 1, victim_order.LEVELS_MAX)
    size = 1 << max(nodes - 1, 0).bit_length()
    return VictimOrder(
        made=np.zeros(trees + 1, np.int64),
        node=np.zeros(nodes, np.int64),
        place=np.zeros(nodes, np.int64),
        cheapest=np.zeros(nodes, np.int64),
        largest=np.zeros((levels, resources), np.int64),
        placed=np.zeros(levels, np.int64),
        types=np.zeros(2 * size, np.uint64),
        queues=np.zeros(2 * size, np.uint64),
        amounts=np.zeros((trees, 2 * size, resources), np.int64),
    )


def _value_capacity(
    snapshot: Snapshot,
    settings: EngineSettings,
    start: PreparedPool,
    gangs: GangTable,
    position: Int32,
) -> ValueCapacity:
    """Values by what is free on their nodes together (N7); of no label where there are no gangs."""
    label = snapshot.node_label if gangs.present else None
    if label is None:
        label = np.zeros((0, position.size), np.int32)
    resources = snapshot.shape_request.shape[1]
    count = int(label.max(initial=-1)) + 1
    size = 1 << max(count - 1, 0).bit_length()
    labels = label.shape[0]
    value = np.zeros((labels, count), np.int64)
    rank = np.full((labels, position.size), -1, np.int64)
    bits = np.zeros((labels, 2 * size), np.uint64)
    free = np.where(start.usable[:, None], np.maximum(start.free, 0), 0)
    for u in range(labels):
        has = (label[u] >= 0) & start.usable
        total = np.zeros((count, resources), np.int64)
        np.add.at(total, label[u][has], free[has])
        ranked = prepared_pool.fit_order(snapshot, settings)
        value[u] = np.lexsort([np.arange(count), *[total[:, r] for r in reversed(ranked)]])
        place = np.empty(count, np.int64)
        place[value[u]] = np.arange(count)
        at = position[has[position]]
        rank[u, has[position]] = place[label[u][at]]
        bits[u, size : size + count] = 1
        for i in range(size - 1, 0, -1):
            bits[u, i] = bits[u, 2 * i] | bits[u, 2 * i + 1]
    trees = (labels, 2 * size, resources)
    return ValueCapacity(
        rank=rank,
        value=value,
        bits=bits,
        free=np.zeros(trees, np.int64),
        preemptible=np.zeros(trees, np.int64),
        counted=np.zeros((2, position.size if labels else 0, resources), np.int64),
        least_waste=np.zeros(resources, np.int64),
        tried=np.zeros(VALUES_TRIED_MAX, np.int64),
    )


def _rank_types(snapshot: Snapshot) -> tuple[Byte, capacity_tree.Bits]:
    """`ShapeTable.type_rank` and `type_bits`.

    With a node type per node the ranks are the largest array of a round.
    """
    wished = snapshot.shape_rank
    if wished is None:
        wished = np.zeros((0, 0), np.uint8)
    match = snapshot.shape_match
    rank = np.empty(match.shape, np.uint8)
    bits = np.zeros((*match.shape[:2], int(wished.max(initial=0)) + 1), np.uint64)
    _set_ranks(match, wished, rank, bits)
    return rank, bits


@entry_point
def _set_ranks(match: Byte, wished: Byte, rank: Byte, bits: capacity_tree.Bits) -> None:
    for s in range(match.shape[0]):
        for w in range(match.shape[1]):
            for kind in range(match.shape[2]):
                if match[s, w, kind] != _ELIGIBLE_TYPE:
                    rank[s, w, kind] = round_state.NOT_ELIGIBLE
                    continue
                k = 0 if wished.size == 0 else int(wished[s, kind])
                rank[s, w, kind] = k
                bits[s, w, k] |= np.uint64(1) << np.uint64(kind % 64)


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
