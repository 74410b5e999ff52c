"""One round for one pool: the recipe, step by step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import model, order, passes, pool, queues, results, shares, tree
from .model import Model, Tables
from .pool import Pool
from .results import Round
from .snapshot import Byte, Code, EngineSettings, Float, Int32, Int64, Plan, Snapshot


def never() -> bool:
    """For rounds without a time limit."""
    return False


def schedule(
    snapshot: Snapshot, settings: EngineSettings, *, expired: Callable[[], bool] = never
) -> Plan:
    """Decide one round for one pool.

    `expired` is asked between stretches of bounded work (L6); once it says True nothing new is
    tried, what was placed stays placed, and the plan says so.
    """
    # 1. Who takes part, what is free, who is entitled to what (R1, S1 to S6, section 6).
    start = pool.prepare(snapshot, settings)
    # 2. The order of nodes, which serves the whole round (N3), and of jobs (R3).
    position = node_order(snapshot, settings, start)
    round_ = _begin(snapshot, settings, start, position)
    # 3. The pass: the queue that R4 names places its next job (N1, N2).
    stopped = _pass(round_, settings, expired)
    # 4. What came of it, and why the rest waits (E1 to E4).
    return results.plan(round_, stopped)


def node_order(snapshot: Snapshot, settings: EngineSettings, start: Pool) -> Int32:
    """N3: rows of nodes, the one to be tried first at the front."""
    keys: list[Int64] = [snapshot.node_number]
    ranked = pool.fit_order(snapshot, settings)
    match settings.placement:
        case "best-fit" | "pack" | "fragmentation":
            keys += [start.free[:, r] for r in reversed(ranked)]
        case "spread":
            keys += [-start.free[:, r] for r in reversed(ranked)]
    return np.lexsort(keys).astype(np.int32)


def _begin(snapshot: Snapshot, settings: EngineSettings, start: Pool, position: Int32) -> Round:
    """Make the tables and the model, and find every queue's first offer."""
    queued = order.queued(snapshot)
    first = order.bounds(queued, snapshot.job_queue, len(snapshot.queue_names))
    bits = _type_bits(start.shape_types)
    leaf_type = snapshot.node_type[position]
    leaf_bits = np.where(
        start.usable[position], np.uint64(1) << (leaf_type % 64).astype(np.uint64), np.uint64(0)
    )
    amounts, types = tree.build(np.ascontiguousarray(start.free[position]), leaf_bits)
    weight = np.ascontiguousarray(snapshot.queue_weight, np.float64)
    tables = Tables(
        request=snapshot.shape_request,
        whole=start.whole,
        shape_cost=shares.cost(start.whole, start.factor),
        shape_class=snapshot.shape_class,
        shape_value=start.shape_value,
        match=snapshot.shape_match,
        bits=bits,
        leaf_type=leaf_type,
        types=types,
        factor=start.factor,
        weight=weight,
        budget=start.shares.fair / weight,
        start=start.shares.actual / weight,
        cordoned=snapshot.queue_cordoned,
        limit=start.limit,
        round_limit=_round_limit(snapshot, settings, start.capacity),
        beside=_beside(snapshot, start),
        job_shape=snapshot.job_shape,
        order=queued,
        end=np.where(snapshot.queue_cordoned, first[:-1], first[1:]),
        lookback=settings.lookback,
    )
    state = _model(snapshot, start, tables, amounts, first)
    queues.begin(tables, state)
    return Round(
        snapshot=snapshot,
        start=start,
        position=position,
        first=first,
        tables=tables,
        model=state,
    )


def _model(snapshot: Snapshot, start: Pool, tables: Tables, amounts: Int64, first: Int64) -> Model:
    size = len(snapshot.queue_names)
    shapes, width, _ = snapshot.shape_match.shape
    left = start.queued.astype(np.int32)
    codes = _known_codes(snapshot, start)
    tokens = np.full(1 + size, snapshot.tokens, np.float64)
    tokens[1:] = np.inf if snapshot.queue_tokens is None else snapshot.queue_tokens
    jobs = tables.order.size
    return Model(
        number=np.zeros(model.COUNTS, np.int64),
        tokens=tokens,
        tree=amounts,
        cursor=np.zeros((shapes, width), np.int32),
        stands=start.held.sum(axis=1),
        class_held=start.held.copy(),
        fresh=np.zeros(start.capacity.size, np.int64),
        pair_code=codes,
        pair_left=left,
        open_pairs=((left > 0) & (codes == 0)).sum(axis=1),
        queue_stop=np.where(snapshot.queue_cordoned, np.uint8(Code.QUEUE_CORDONED), np.uint8(0)),
        examined=np.zeros(size, np.int64),
        next=first[:-1].copy(),
        heap=np.zeros(size, np.int32),
        key_value=np.zeros(size, np.int64),
        key_over=np.zeros(size, np.bool_),
        key_amount=np.zeros(size, np.float64),
        key_size=np.zeros(size, np.float64),
        key_live=np.zeros(size, np.bool_),
        placed_job=np.empty(jobs, np.int32),
        placed_at=np.empty(jobs, np.int32),
        placed_away=np.empty(jobs, np.int32),
    )


def _type_bits(suits: Byte) -> tree.Bits:
    """[S, W] the types that suit, as bits modulo 64."""
    bits = np.zeros(suits.shape[:2], np.uint64)
    for kind in range(suits.shape[2]):
        bits |= suits[:, :, kind].astype(np.uint64) << np.uint64(kind % 64)
    return bits


def _round_limit(snapshot: Snapshot, settings: EngineSettings, capacity: Int64) -> Float:
    names = snapshot.resources + snapshot.floating
    fraction = np.array([settings.round_limit.get(name, 1.0) for name in names])
    result: Float = capacity * fraction * (1.0 + model.TOLERANCE)
    return result


def _beside(snapshot: Snapshot, start: Pool) -> Int64:
    """L7: what is left of each floating resource; without bound for those of nodes."""
    result = np.full(start.capacity.size, np.iinfo(np.int64).max, np.int64)
    nodes = len(snapshot.resources)
    result[nodes:] = snapshot.floating_total - start.beside[nodes:]
    return result


def _known_codes(snapshot: Snapshot, start: Pool) -> Byte:
    """[Q, S] what is not even tried: shapes that can never run in the pool or within a limit."""
    codes = np.zeros(start.queued.shape, np.uint8)
    codes[:, ~start.feasible] = Code.INFEASIBLE
    if start.limit.size and snapshot.node_number.size:
        known = start.known_limit * (1.0 + model.TOLERANCE)
        for c in range(snapshot.class_value.size):
            chosen = np.flatnonzero(snapshot.shape_class == c)
            for q in range(codes.shape[0]):
                above = (start.whole[chosen] > known[q, c]) & (start.whole[chosen] > 0)
                codes[q, chosen[above.any(axis=1)]] = Code.INFEASIBLE
    return codes


def _pass(round_: Round, settings: EngineSettings, expired: Callable[[], bool]) -> Code:
    """Run the pass to its end, or until a limit stops it; says which."""
    while passes.run(round_.tables, round_.model, settings.stretch) == passes.MORE:
        if expired():
            return Code.TIME_LIMIT
    return Code(int(round_.model.number[model.STOP]))
