"""The part of a round that depends only on nodes, shapes, classes, queues and settings.

These change rarely, and a round with one new job would spend most of its time on them. The caller
can pass the result to the next round of the pool, which uses it again while the columns from which
it was made are the same objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.compiler.decorators import Repacked, is_compiled, pack_for_kernels
from fairlead_scheduler.engine.preparation.pool import (
    array_types,
    fair_shares,
    pool_feasibility,
    type_ranks,
)
from fairlead_scheduler.engine.preparation.pool.snapshot_checks import check_static_columns
from fairlead_scheduler.engine.retained import Retained
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.snapshot import (
    NO_AWAY,
    Bool,
    Byte,
    Code,
    EngineSettings,
    Float,
    Int32,
    Int64,
    NodeFlag,
    Preemption,
    Snapshot,
)
from fairlead_scheduler.engine.state import capacity_tree, round_state
from fairlead_scheduler.engine.state.round_model import ShapeTable

if TYPE_CHECKING:
    from fairlead_scheduler.engine.preparation.eviction import RunColumns
    from fairlead_scheduler.engine.preparation.round_tables import RoundTables

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
PREFIXES: Final = ("queue_", "class_", "shape_", "node_", "floating", "resources", "pool")
VARYING: Final = frozenset({"queue_tokens", "queue_burst", "shape_fitted"})
"""Columns with these prefixes that can change in every round."""
SOURCES: Final = tuple(
    field.name
    for field in fields(Snapshot)
    if field.name.startswith(PREFIXES) and field.name not in VARYING
)
"""The fields of a snapshot that a `StaticPool` is made from."""
_read_sources: Final = attrgetter(*SOURCES)
STATIC_COLUMNS: Final = tuple(name for name in SOURCES if name in array_types.COLUMNS)
VARYING_COLUMNS: Final = tuple(name for name in array_types.COLUMNS if name not in SOURCES)


class GroupedNodes(NamedTuple):
    """Nodes by group, as `reason_rows.find_node_groups` makes them."""

    closed: Byte
    """[N] see `reason_rows.find_closed_nodes`"""
    first: Int64
    """[groups+1] where each group begins in `nodes`"""
    nodes: Int32
    """[N] nodes by group"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Capacity:
    """The pool's capacity (R1), and values computed from it."""

    total: Int64
    """[R+F]"""
    factor: Float
    """[R+F] cost of a unit of each resource."""
    limit: Float
    """[Q, C, R+F] L2 as amounts; [0, 0, 0] when there are no limits."""
    round_limit: Float
    """[R+F] L3"""
    shape_cost: Float
    """[S] dominant share of one job."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StaticPool:
    """The static part of a pool. W = 1+K columns of `shape_match`."""

    complete: bool
    """False if time was up (L6) while it was made: then no later round uses it."""
    sources: tuple[object, ...]
    """From what it was made, and whether it is packed for compiled kernels."""
    settings: EngineSettings
    converted: Mapping[str, npt.NDArray[Any]]
    """The sources that kernels need in another form (`array_types`)."""
    fit_order: Int64
    """N3: rows of resources in the order in which best fit compares."""
    multipliers: Float
    """[R+F]"""
    full_request: Int64
    """[S, R+F] requests with floating resources."""
    shape_value: Int64
    """[S] value of the shape's class."""
    shape_preemption: Byte
    """[S] `Preemption` of the shape's class."""
    shapes: ShapeTable
    """Its costs are those of `capacity`, or zeros without one; its levels are rows of `levels`."""
    packed_shapes: ShapeTable
    """`shapes`, packed for kernels once."""
    values: Int64
    """[S, W] value at which a job of the shape runs; `NO_AWAY`."""
    levels: Int64
    """The distinct `values`, ascending."""
    known_levels: frozenset[int]
    """The same values."""
    open: Bool
    """[N] whether the node has no flag."""
    any_queue_cordoned: bool
    lost: Bool
    """[N]"""
    any_lost: bool
    node_bits: capacity_tree.Bits
    """[N] the node's type as a bit of `type_bits`."""
    capacity: Capacity | None
    """None while cordoned nodes count only if something runs there (R1)."""
    known_limit: Float
    """[Q, C, R+F] L2 of all known nodes; [0, 0, 0] when there are no limits."""
    feasible: Bool
    """[S] section 6: a node is eligible, and the pool has enough floating resources."""
    feasible_pair: Bool
    """[Q, S] whether the shape is feasible and within the limits of the queue."""
    all_feasible: bool
    """Whether all of `feasible_pair` is True."""
    first_codes: Byte
    """[Q, S] the code with which a round starts: `INFEASIBLE`, or 0 where `feasible_pair`."""
    plain_tables: Retained[RoundTables]
    """The tables of rounds without preemption and gangs (round_tables.py)."""
    grouped_nodes: Retained[GroupedNodes]
    """The nodes by group, while no node is overfull."""
    active_tables: Retained[RoundTables]
    """The tables of other rounds without gangs, by the numbers of jobs and levels."""
    run_columns: Repacked[RunColumns]
    """What `eviction.evict_runs` read of the runs."""
    queue_sources: Retained[fair_shares.QueueSources]
    """What `fair_shares.measure_queues` reads of these, packed for kernels, by the capacity."""


def renew_static_pool(
    before: StaticPool | None, snapshot: Snapshot, settings: EngineSettings, clock: RoundClock
) -> StaticPool:
    """The static part of a snapshot: `before` if it is complete and was made from the same objects.

    Raises `InvalidSnapshotError` for the first problem of a column.
    """
    sources = is_compiled(), *_read_sources(snapshot)
    if (
        before is not None
        and before.complete
        and before.settings is settings
        and all(map(is_, sources, before.sources))
    ):
        return before
    converted = array_types.convert_columns(snapshot, STATIC_COLUMNS)
    return _build_static_pool(
        array_types.replace_columns(snapshot, converted), settings, clock, sources, converted
    )


def _build_static_pool(
    snapshot: Snapshot,
    settings: EngineSettings,
    clock: RoundClock,
    sources: tuple[object, ...],
    converted: Mapping[str, npt.NDArray[Any]],
) -> StaticPool:
    check_static_columns(snapshot)
    full_request = _join_requests(snapshot)
    multipliers = cost_multipliers(snapshot, settings)
    flags = snapshot.node_flags
    lost = (flags & NodeFlag.LOST) != 0
    known = sum_nodes(snapshot, np.ones(flags.size, np.bool_))
    known_limit = _compute_limits(snapshot, np.concatenate([known, snapshot.floating_total]))
    feasible, pair = pool_feasibility.judge_shapes(snapshot, full_request, known_limit, clock)
    shape_preemption = snapshot.class_preemption[snapshot.shape_class]
    values = _list_run_values(snapshot, shape_preemption)
    levels, level = number_levels(values, np.zeros(0, np.int64))
    rank, bits = type_ranks.rank_types(snapshot, clock)
    is_cordoned = bool(((flags & NodeFlag.CORDONED) != 0).any())
    capacity = None
    if not is_cordoned:
        capacity = measure_capacity(snapshot, settings, full_request, multipliers, ~lost)
    shape_value = snapshot.class_value[snapshot.shape_class]
    shapes = ShapeTable(
        request=snapshot.shape_request,
        full_request=full_request,
        cost=np.zeros(full_request.shape[0]) if capacity is None else capacity.shape_cost,
        priority_class=snapshot.shape_class.astype(np.int64),
        class_value=shape_value,
        preemption=shape_preemption,
        type_rank=rank,
        type_bits=bits,
        level=level,
        least_request=snapshot.shape_request.min(axis=0, initial=np.iinfo(np.int64).max),
    )
    return StaticPool(
        complete=not clock.is_up,
        sources=sources,
        settings=settings,
        converted=converted,
        fit_order=np.array(fit_order(snapshot, settings), np.int64),
        multipliers=multipliers,
        full_request=full_request,
        shape_value=shape_value,
        shape_preemption=shape_preemption,
        shapes=shapes,
        packed_shapes=pack_for_kernels(shapes),
        values=values,
        levels=levels,
        known_levels=frozenset(levels.tolist()),
        open=flags == 0,
        any_queue_cordoned=bool(snapshot.queue_cordoned.any()),
        lost=lost,
        any_lost=bool(lost.any()),
        node_bits=np.uint64(1) << (snapshot.node_type % 64).astype(np.uint64),
        capacity=capacity,
        known_limit=known_limit,
        feasible=feasible,
        feasible_pair=pair,
        all_feasible=bool(pair.all()),
        first_codes=np.where(pair, np.uint8(0), np.uint8(Code.INFEASIBLE)),
        plain_tables=Retained(),
        grouped_nodes=Retained(),
        active_tables=Retained(),
        run_columns=Repacked(),
        queue_sources=Retained(),
    )


def measure_capacity(
    snapshot: Snapshot,
    settings: EngineSettings,
    full_request: Int64,
    multipliers: Float,
    counts: Bool,
) -> Capacity:
    """R1: the capacity of the pool; `counts`: [N] whether a node counts."""
    total = np.concatenate([sum_nodes(snapshot, counts), snapshot.floating_total]).astype(np.int64)
    factor = fair_shares.cost_factors(total, multipliers)
    return Capacity(
        total=total,
        factor=factor,
        limit=_compute_limits(snapshot, total),
        round_limit=_compute_round_limit(snapshot, settings, total),
        shape_cost=fair_shares.dominant_share(full_request, factor),
    )


def cost_multipliers(snapshot: Snapshot, settings: EngineSettings) -> Float:
    """[R+F] the multiplier of each resource in the cost."""
    names = snapshot.resources + snapshot.floating
    return np.array([settings.cost_multipliers.get(name, 1.0) for name in names], np.float64)


def fit_order(snapshot: Snapshot, settings: EngineSettings) -> list[int]:
    """Resource rows in the order in which best fit compares: devices by name, cpu, memory."""
    names = settings.fit_order
    if not names:
        plain = (CPU, MEMORY, STORAGE)
        devices = sorted(name for name in snapshot.resources if name not in plain)
        names = (*devices, *plain)
    return [snapshot.resources.index(name) for name in names if name in snapshot.resources]


def sum_nodes(snapshot: Snapshot, counts: Bool) -> Int64:
    """[R] the total of these nodes. A product takes a tenth of the time of a sum."""
    return counts.astype(np.int64) @ snapshot.node_allocatable


def number_levels(values: Int64, of_runs: Int64) -> tuple[Int64, Int64]:
    """The distinct values at which jobs run, ascending, and [S, W] the row of each of `values` in
    them (-1: none). `of_runs`: values at which live runs run."""
    levels = np.unique(np.concatenate([values[values != NO_AWAY], of_runs]))
    rows = np.searchsorted(levels, values)
    return levels, np.where(values == NO_AWAY, -1, rows).astype(np.int64)


def _list_run_values(snapshot: Snapshot, shape_preemption: Byte) -> Int64:
    width = snapshot.shape_match.shape[1]
    values = np.full((shape_preemption.size, width), NO_AWAY, np.int64)
    values[:, 0] = snapshot.class_value[snapshot.shape_class]
    away = snapshot.class_away_value
    if away is not None:
        entries = min(width - 1, away.shape[1])
        values[:, 1 : 1 + entries] = away[snapshot.shape_class, :entries]
        values[shape_preemption == Preemption.NONE, 1:] = NO_AWAY
    return values


def _join_requests(snapshot: Snapshot) -> Int64:
    shapes = snapshot.shape_request.shape[0]
    beside = snapshot.shape_floating
    if beside is None:
        beside = np.zeros((shapes, len(snapshot.floating)), np.int64)
    return np.ascontiguousarray(np.concatenate([snapshot.shape_request, beside], axis=1))


def _compute_limits(snapshot: Snapshot, capacity: Int64) -> Float:
    """L2 in amounts: the smallest of the fraction of this pool, the absolute amount and the
    ceiling."""
    fraction, amount = snapshot.queue_limit_fraction, snapshot.queue_limit_amount
    ceiling = snapshot.class_ceiling
    if fraction is None and amount is None and ceiling is None:
        return np.zeros((0, 0, 0), np.float64)
    size = (len(snapshot.queue_names), snapshot.class_value.size, capacity.size)
    result: Float = np.full(size, np.inf)
    for part in (fraction, ceiling):
        if part is not None:
            finite = np.isfinite(part)
            limit = np.where(finite, np.where(finite, part, 0.0) * capacity, np.inf)
            np.minimum(result, limit, out=result)
    if amount is not None:
        np.minimum(result, amount, out=result)
    return result


def _compute_round_limit(snapshot: Snapshot, settings: EngineSettings, capacity: Int64) -> Float:
    names = snapshot.resources + snapshot.floating
    fraction = np.array([settings.round_limit.get(name, 1.0) for name in names])
    result: Float = capacity * fraction * (1.0 + round_state.TOLERANCE)
    return result
