"""Builds the context of a round: the order of nodes, and the model that the kernels change."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypedDict, cast

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import is_compiled, pack_for_kernels, repack
from fairlead_scheduler.engine.preparation import eviction, job_order
from fairlead_scheduler.engine.preparation.gangs import gang_table, label_tables
from fairlead_scheduler.engine.preparation.gangs.gang_table import GangTable
from fairlead_scheduler.engine.preparation.pool import prepared_pool, static_pool
from fairlead_scheduler.engine.preparation.pool.prepared_pool import PreparedPool
from fairlead_scheduler.engine.preparation.round_context import RoundContext
from fairlead_scheduler.engine.preparation.round_tables import (
    UNBOUNDED,
    RoundTables,
    count_open_shapes,
    fill_entitlements,
    make_entitlements,
)
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.scheduling.victim_search import NODES_EXAMINED_MAX
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Code,
    EngineSettings,
    Int32,
    Int64,
    Match,
    Snapshot,
)
from fairlead_scheduler.engine.state import (
    capacity_tree,
    empty_tables,
    round_state,
    value_capacity,
)
from fairlead_scheduler.engine.state.round_model import (
    EvictedRuns,
    GangTables,
    GroupTables,
    NodeCapacity,
    NodeTable,
    Placements,
    QueueProgress,
    QueueUsage,
    RoleTables,
    RoundJobs,
    RoundModel,
    RunTable,
    ShapeTable,
    ValueCapacity,
)
from fairlead_scheduler.engine.state.victim_tables import LevelShares, VictimChoice, VictimOrder

ARRAYS_BY_JOB: Final = 22
ARRAYS_BY_LEVEL: Final = 8
"""About how many arrays of a model have a number for each job, and for each resource, level and
node."""
FILLED_MAX: Final = 1 << 19
"""The most numbers in retained tables with preemption."""
UNREAD_TABLES_MAX: Final = 64
"""Of how many sizes of pools `unread_tables` are retained."""
_ELIGIBLE: Final = np.uint8(Match.ELIGIBLE)


def build_round(
    snapshot: Snapshot, settings: EngineSettings, start: PreparedPool, clock: RoundClock
) -> RoundContext:
    """Make the model, and evict the runs that R2 names.

    Raises `TimeLimitReachedError` when time is up (L6). Between two checks are a few passes over
    the jobs, the nodes, or the pairs of queue and shape.
    """
    position = prepared_pool.order_nodes(snapshot, settings, start)
    clock.require_time()
    queued = job_order.order_queued(snapshot)
    first = job_order.find_queue_bounds(queued, snapshot.job_queue, len(snapshot.queue_names))
    balance = start.queues.evicted
    gangs = gang_table.build_gang_table(snapshot, start, position, clock)
    levels, level = _number_levels(start)
    shapes = _shape_table(start, level)
    clock.require_time()
    active = gangs.present or (
        (
            start.queues.any_evicted
            or eviction.is_urgency_possible(snapshot, start, shapes, levels.size)
        )
        and not _is_free_capacity_enough(snapshot, start, queued)
    )
    orders = _Orders(position, queued, first, levels, balance)
    tables = _find_tables(snapshot, settings, start, gangs, orders, active=active)
    if tables is None:
        model = _make_model(snapshot, settings, start, gangs, shapes, orders)
        packed_model = pack_for_kernels(model, {"shapes": start.static.packed_shapes})
        count_open_shapes(start.pairs, packed_model)
    else:
        model, packed_model = tables.fill(snapshot, start, shapes, position, queued, first)
    if active:
        model = eviction.evict_runs(
            snapshot, start, balance, gangs, model, packed_model, position, levels, clock
        )
        clock.require_time()
        value_capacity.count_values(model)
        packed_model = repack(model, packed_model)
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
        packed_model=packed_model,
    )


def _is_free_capacity_enough(snapshot: Snapshot, start: PreparedPool, queued: Int32) -> bool:
    """Whether at most one job is queued, and fits what is free on a node: it is placed there (tier
    a), and all runs that R2 evicts return. `queued`: queued rows; no gangs are present."""
    if queued.size > 1:
        return False
    if not queued.size:
        return True
    if snapshot.avoid_job is not None and snapshot.avoid_job.size:
        return False
    shape = snapshot.job_shape.item(queued.item())
    match = snapshot.shape_match[shape, 0].take(snapshot.node_type)
    may_hold = start.usable & (match == _ELIGIBLE)
    return bool((start.free[may_hold] >= snapshot.shape_request[shape]).all(axis=1).any())


class _Orders(NamedTuple):
    """As in `RoundContext`; `queued`: queued rows in the order of R3."""

    position: Int32
    queued: Int32
    first: Int64
    levels: Int64
    balance: Bool


def _find_tables(
    snapshot: Snapshot,
    settings: EngineSettings,
    start: PreparedPool,
    gangs: GangTable,
    orders: _Orders,
    *,
    active: bool,
) -> RoundTables | None:
    """The retained tables of rounds like this one; None if it needs its own."""
    queues, jobs = len(snapshot.queue_names), snapshot.job_queue.size
    nodes, resources = snapshot.node_number.size, snapshot.shape_request.shape[1]
    static = start.static
    if not active:
        sizes = queues, resources, start.capacity.total.size
        return static.plain_tables.get(
            (),
            lambda: RoundTables(
                snapshot,
                settings,
                start,
                0,
                unread_tables(*sizes),
                _pack_unread_tables(is_compiled(), *sizes),
            ),
        )
    levels = orders.levels.size
    filled = jobs * ARRAYS_BY_JOB + nodes * levels * resources * ARRAYS_BY_LEVEL
    if filled > FILLED_MAX or gangs.present or snapshot.avoid_job is not None:
        return None

    def make() -> RoundTables:
        others = _preemption_tables(snapshot, start, gangs, orders.position, levels)
        return RoundTables(snapshot, settings, start, levels, others, {})

    return static.active_tables.get((jobs, levels), make)


def _make_model(
    snapshot: Snapshot,
    settings: EngineSettings,
    start: PreparedPool,
    gangs: GangTable,
    shapes: ShapeTable,
    orders: _Orders,
) -> RoundModel:
    """The model of a round that can preempt or has gangs, before runs are evicted."""
    queues, jobs = len(snapshot.queue_names), snapshot.job_queue.size
    position, queued, first, levels, _ = orders
    entitlements = make_entitlements(snapshot, settings, start)
    fill_entitlements(entitlements, snapshot, start)
    return RoundModel(
        shapes=shapes,
        nodes=_node_table(snapshot, start, gangs, position),
        jobs=_round_jobs(snapshot, gangs, queued, first, jobs),
        entitlements=entitlements,
        capacity=_node_capacity(snapshot, start, shapes, position, levels.size),
        usage=_queue_usage(snapshot, start),
        progress=_queue_progress(snapshot, start, first),
        offers=empty_tables.queue_offers(queues),
        placements=Placements(
            job=np.empty(queued.size, np.int32),
            position=np.empty(queued.size, np.int32),
            away=np.empty(queued.size, np.int32),
            journal=np.zeros(2 * jobs + 1, np.int32),
        ),
        counters=np.zeros(round_state.COUNTERS, np.int64),
        **_preemption_tables(snapshot, start, gangs, position, levels.size),
    )


class _PreemptionTables(TypedDict):
    """The tables of a model that only rounds with preemption or gangs read (`RunTable.active`)."""

    runs: RunTable
    evicted: EvictedRuns
    gangs: GangTables
    values: ValueCapacity
    victims: VictimChoice


def _round_jobs(
    snapshot: Snapshot, gangs: GangTable, queued: Int32, first: Int64, jobs: int
) -> RoundJobs:
    """`jobs`: length of the columns."""
    pairs = 0 if snapshot.avoid_job is None else snapshot.avoid_job.size
    no_gang = np.full(0 if gangs.present else jobs, -1, np.int32)
    return RoundJobs(
        shape=snapshot.job_shape,
        queue=snapshot.job_queue,
        gang=gangs.of_job if gangs.present else no_gang,
        role=gangs.roles.of_job if gangs.present else no_gang,
        priority=snapshot.job_priority,
        submission=snapshot.job_submission,
        order=queued,
        order_end=np.where(snapshot.queue_cordoned, first[:-1], first[1:]),
        avoided=empty_tables.avoided_nodes(jobs, pairs),
        level_max=np.full(jobs if gangs.present else 0, UNBOUNDED),
    )


def _preemption_tables(
    snapshot: Snapshot, start: PreparedPool, gangs: GangTable, position: Int32, levels: int
) -> _PreemptionTables:
    jobs, queues = snapshot.job_queue.size, len(snapshot.queue_names)
    resources = snapshot.shape_request.shape[1]
    all_resources = start.capacity.total.size
    order = empty_tables.victim_order(position.size, levels, resources)
    shares = empty_tables.level_shares(queues, levels, all_resources)
    return _PreemptionTables(
        runs=empty_tables.run_table(jobs, position.size),
        evicted=empty_tables.evicted_runs(jobs, queues, gangs.size),
        gangs=_gang_tables(gangs, jobs if gangs.present else 0, queues, resources, all_resources),
        values=label_tables.build_value_capacity(snapshot, start, gangs, position),
        victims=_victim_choice(jobs, resources, order, shares),
    )


@functools.lru_cache(maxsize=UNREAD_TABLES_MAX)
def unread_tables(queues: int, resources: int, all_resources: int) -> _PreemptionTables:
    """The empty tables of rounds that neither read nor write them."""
    order = empty_tables.victim_order(0, 0, resources)
    shares = empty_tables.level_shares(queues, 0, all_resources)
    return _PreemptionTables(
        runs=empty_tables.run_table(0, 0),
        evicted=empty_tables.evicted_runs(0, queues, 0),
        gangs=_gang_tables(gang_table.no_gangs(), 0, queues, resources, all_resources),
        values=label_tables.no_value_capacity(resources),
        victims=_victim_choice(0, resources, order, shares),
    )


@functools.lru_cache(maxsize=UNREAD_TABLES_MAX)
def _pack_unread_tables(
    compiled: bool, queues: int, resources: int, all_resources: int
) -> Mapping[str, Any]:
    """`unread_tables` packed for kernels, by field; `compiled`: `is_compiled()`."""
    tables = cast("Mapping[str, Any]", unread_tables(queues, resources, all_resources))
    return {field: pack_for_kernels(table) for field, table in tables.items()}


def _number_levels(start: PreparedPool) -> tuple[Int64, Int64]:
    """`static_pool.number_levels` of shapes and runs."""
    static, of_runs = start.static, start.job_totals.values
    if static.known_levels.issuperset(of_runs.tolist()):
        return static.levels, static.shapes.level
    return static_pool.number_levels(static.values, of_runs)


def _shape_table(start: PreparedPool, level: Int64) -> ShapeTable:
    static = start.static
    if level is static.shapes.level and start.capacity is static.capacity:
        return static.shapes
    return static.shapes._replace(cost=start.capacity.shape_cost, level=level)


def _node_table(
    snapshot: Snapshot, start: PreparedPool, gangs: GangTable, position: Int32
) -> NodeTable:
    return NodeTable(
        node_type=snapshot.node_type[position].astype(np.int64),
        number=snapshot.node_number[position],
        waste_order=start.static.fit_order,
        value_first=gangs.value_first.astype(np.int64),
        value_positions=gangs.value_rows.astype(np.int64),
    )


def _node_capacity(
    snapshot: Snapshot, start: PreparedPool, shapes: ShapeTable, position: Int32, levels: int
) -> NodeCapacity:
    bits = np.where(start.usable, start.static.node_bits, np.uint64(0))
    tree, types = capacity_tree.build_tree(start.free[position], bits[position])
    size = (position.size, levels, snapshot.shape_request.shape[1])
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
        held=start.queues.held.sum(axis=1),
        counted=start.queues.held.sum(axis=1),
        by_class=start.queues.held.copy(),
        started=np.zeros(start.capacity.total.size, np.int64),
        tokens=tokens,
        share_steps=np.zeros(queues, np.int64),
        evicted_runs=np.zeros(queues, np.int64),
    )


def _queue_progress(snapshot: Snapshot, start: PreparedPool, first: Int64) -> QueueProgress:
    queues = len(snapshot.queue_names)
    return QueueProgress(
        skip_code=start.static.first_codes.copy(),
        unfit_queues=np.zeros(start.queued.shape[1], np.int64),
        jobs_left=start.queued.astype(np.int32),
        open_shapes=np.zeros(queues, np.int64),
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


def _gang_tables(
    gangs: GangTable, jobs: int, queues: int, resources: int, all_resources: int
) -> GangTables:
    return GangTables(
        first=gangs.first,
        queued_first=gangs.queued,
        members=gangs.members.astype(np.int64),
        min_size=gangs.minimum.astype(np.int64),
        rest=gangs.rest,
        live=np.zeros(gangs.size, np.int64),
        last_queued=gangs.last_queued.astype(np.int64),
        mode=gangs.mode,
        code=gangs.code,
        label=gangs.label.astype(np.int64),
        value=gangs.value.astype(np.int64),
        waiting_request=np.zeros(resources, np.int64),
        offer_request=np.zeros(all_resources, np.int64),
        groups=_group_tables(gangs, queues),
        roles=_role_tables(gangs, jobs),
    )


def _group_tables(gangs: GangTable, queues: int) -> GroupTables:
    return GroupTables(
        grouped=gangs.roles.grouped,
        frozen=np.zeros(gangs.size, np.uint8),
        gives_once=np.zeros(gangs.size, np.uint8),
        weighted_time=np.zeros(gangs.size),
        surplus_runs=np.zeros(0, np.int64),
        surplus_first=np.zeros(queues + 1, np.int64),
    )


def _role_tables(gangs: GangTable, jobs: int) -> RoleTables:
    roles = gangs.roles.minimum.size
    return RoleTables(
        first=gangs.roles.first,
        minimum=gangs.roles.minimum,
        need=np.zeros(roles, np.int64),
        live=np.zeros(roles, np.int64),
        left=np.zeros(roles, np.int64),
        fitting=np.full(roles, -1, np.int64),
        assumed=np.zeros(roles, np.int64),
        full=np.zeros(roles, np.int64),
        step_left=gangs.roles.step.copy(),
        base=np.ones(jobs, np.uint8),
    )


def _victim_choice(
    jobs: int, resources: int, order: VictimOrder, shares: LevelShares
) -> VictimChoice:
    return VictimChoice(
        candidates=np.zeros(jobs, np.int64),
        mark=np.zeros(jobs, np.uint8),
        taken=np.zeros(jobs, np.int64),
        takes_gang=np.zeros(jobs, np.int64),
        chosen=np.zeros(jobs, np.int64),
        chosen_takes_gang=np.zeros(jobs, np.int64),
        need=np.zeros(resources, np.int64),
        examined=np.zeros(NODES_EXAMINED_MAX, np.int64),
        order=order,
        shares=shares,
    )
