"""Prepares the pool: which nodes and queues take part, what is free, and what queues hold.

It examines queues, shapes and nodes. The totals over jobs are part of the snapshot, or are computed
by job_totals.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, assert_never

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.compiler.decorators import pack_for_kernels
from fairlead_scheduler.engine.preparation.pool import (
    fair_shares,
    job_totals,
    pool_feasibility,
    static_pool,
)
from fairlead_scheduler.engine.preparation.pool.pool_feasibility import Feasibility
from fairlead_scheduler.engine.preparation.pool.static_pool import Capacity, StaticPool
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.round_plan import Shares
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Byte,
    EngineSettings,
    Float,
    Int32,
    Int64,
    JobTotals,
    NodeFlag,
    SchedulingFlag,
    Snapshot,
)

IntP = npt.NDArray[np.intp]


class PreparedQueues(NamedTuple):
    """What queues hold, and their shares."""

    held: Int64
    """[Q, C, R+F] what the runs in `PreparedPool.running` hold."""
    takes_part: Bool
    """[Q]"""
    shares: Shares
    per_weight: Float
    """[3, Q] fair share / weight, actual share / weight, and the greater of fair share and share by
    weight: `Entitlements.budget`, `initial_share` and `entitled_share`"""
    evicted: Bool
    """[Q] R2: queues that are above their share and have runs of class `any`, which are evicted."""
    any_evicted: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedPool:
    """The pool when the round starts. Letters for shapes of arrays are as in snapshot.py."""

    static: StaticPool
    capacity: Capacity
    full_request: Int64
    """[S, R+F] requests with floating resources."""
    shape_value: Int64
    """[S] value of the shape's class."""
    shape_preemption: Byte
    """[S] `Preemption` of the shape's class."""
    feasible: Feasibility
    """Section 6."""
    job_totals: JobTotals
    free: Int64
    """[N, R] allocatable - used; negative on a node that shrank."""
    overfull: Bool
    """[N] whether runs hold more than the node has."""
    usable: Bool
    """[N] whether the node accepts new jobs."""
    running: Int64
    """[Q, S] live runs, without those on lost nodes."""
    queued: Int64
    """[Q, S] queued jobs."""
    pairs: Int64
    """[P, 4] the pairs of queue and shape with runs or queued jobs (`fair_shares.find_pairs`)."""
    beside: Int64
    """[R+F] what all runs hold, including those on lost nodes, for L7; zeros in a pool without
    floating resources."""
    queues: PreparedQueues


def prepare_pool(snapshot: Snapshot, static: StaticPool, clock: RoundClock) -> PreparedPool:
    """Prepare the pool of a snapshot. Gangs that are not examined before time is up (L6) count as
    feasible."""
    full_request = static.full_request
    totals = job_totals.count_jobs(snapshot) if snapshot.job_totals is None else snapshot.job_totals
    running, lost_runs = _exclude_lost(snapshot, totals, static)
    queued = totals.queued
    free = snapshot.node_allocatable - totals.used
    overfull = _find_overfull(free)
    capacity = _find_capacity(snapshot, static, totals.runs > 0)
    clock.check()
    feasible = Feasibility(
        shape=static.feasible,
        pair=static.feasible_pair,
        gang=pool_feasibility.judge_gangs(
            snapshot, full_request, static.known_limit, static.feasible_pair, clock, static.settings
        ),
    )
    clock.check()
    demanded = queued if snapshot.queued_beside is None else queued + snapshot.queued_beside
    wanted, waits = _count_wanted(snapshot, demanded, feasible, static)
    pairs = fair_shares.find_pairs(running, demanded, wanted)
    queues = _measure_queues(snapshot, static, capacity, pairs, waits)
    return PreparedPool(
        static=static,
        capacity=capacity,
        full_request=full_request,
        shape_value=static.shape_value,
        shape_preemption=static.shape_preemption,
        feasible=feasible,
        job_totals=totals,
        free=free,
        overfull=overfull,
        usable=static.open & ~overfull,
        running=running,
        queued=queued,
        pairs=pairs,
        beside=queues.held.sum(axis=(0, 1)) + lost_runs @ full_request
        if snapshot.floating
        else np.zeros(full_request.shape[1], np.int64),
        queues=queues,
    )


def _find_overfull(free: Int64) -> Bool:
    """[N] nodes whose runs use more than they have."""
    overfull: Bool = np.zeros(free.shape[0], np.bool_)
    if np.count_nonzero(free < 0):
        for r in range(free.shape[1]):  # numpy takes ten times as long along a short axis
            overfull |= free[:, r] < 0
    return overfull


def _exclude_lost(snapshot: Snapshot, totals: JobTotals, static: StaticPool) -> tuple[Int64, Int64]:
    """[Q, S] live runs without those on lost nodes, and [S] runs on lost nodes (R1)."""
    lost_runs = np.zeros(snapshot.shape_request.shape[0], np.int64)
    if not static.any_lost:
        return totals.running, lost_runs
    nodes = np.flatnonzero(static.lost & (totals.runs > 0))
    if not nodes.size:
        return totals.running, lost_runs
    running = totals.running.copy()
    job_totals.exclude_nodes(
        nodes, totals.head, totals.link, snapshot.job_queue, snapshot.job_shape, running, lost_runs
    )
    return running, lost_runs


def _count_wanted(
    snapshot: Snapshot, queued: Int64, feasible: Feasibility, static: StaticPool
) -> tuple[Int64, Bool]:
    """[Q, S] queued jobs that could run (S2), and [Q] whether any other job of the queue waits that
    is not refused (S1)."""
    waits = np.zeros(queued.shape[0], np.bool_)
    if static.all_feasible and snapshot.job_gang is None:
        return queued, waits
    wanted = queued * feasible.pair
    apart = (queued > 0) & ~feasible.pair
    rows = np.zeros(0, np.intp)
    if apart.any():
        rows = np.flatnonzero(snapshot.job_node == -1)
        rows = rows[apart[snapshot.job_queue[rows], snapshot.job_shape[rows]]]
    if not feasible.gang.all() and snapshot.job_gang is not None:
        lost = np.flatnonzero((snapshot.job_gang >= 0) & (snapshot.job_node == -1))
        lost = lost[~feasible.gang[snapshot.job_gang[lost]]]
        lost = np.setdiff1d(lost, rows)
        np.subtract.at(wanted, (snapshot.job_queue[lost], snapshot.job_shape[lost]), 1)
        rows = np.concatenate([rows, lost])
    waits[snapshot.job_queue[rows[find_jobs_that_wait(snapshot, rows)]]] = True
    if static.any_queue_cordoned:
        waits &= ~snapshot.queue_cordoned
    return wanted, waits


def find_jobs_that_wait(snapshot: Snapshot, rows: IntP) -> Bool:
    """Whether each of these jobs stays queued if it is infeasible."""
    if not rows.size or not snapshot.node_number.size:  # no node is known yet: nothing is refused
        return np.ones(rows.size, np.bool_)
    result = np.zeros(rows.size, np.bool_)
    if snapshot.shape_fitted is not None:
        result |= snapshot.shape_fitted[snapshot.job_shape[rows]]
    if snapshot.job_flags is not None:
        result |= (snapshot.job_flags[rows] & SchedulingFlag.WAITS_IF_INFEASIBLE) != 0
    if snapshot.job_gang is None or not rows.size:
        return result
    gang = snapshot.job_gang[rows]
    member = gang >= 0
    if member.any() and snapshot.gang_min is not None:
        waits = np.zeros(snapshot.gang_min.size, np.bool_)
        if snapshot.gang_fitted is not None:
            waits |= snapshot.gang_fitted
        if snapshot.job_flags is not None:
            every = np.flatnonzero((snapshot.job_gang >= 0) & (snapshot.job_node == -1))
            on_purpose = every[
                (snapshot.job_flags[every] & SchedulingFlag.WAITS_IF_INFEASIBLE) != 0
            ]
            waits[snapshot.job_gang[on_purpose]] = True
        result = np.where(member, waits[gang], result)
    return result


def _find_capacity(snapshot: Snapshot, static: StaticPool, holds: Bool) -> Capacity:
    """R1: the capacity of all nodes that are not lost and, if cordoned, have runs; `holds`: [N]
    whether a node has runs."""
    if static.capacity is not None:
        return static.capacity
    cordoned = (snapshot.node_flags & NodeFlag.CORDONED) != 0
    counts = ~static.lost & (~cordoned | holds)
    return static_pool.measure_capacity(
        snapshot, static.settings, static.full_request, static.multipliers, counts
    )


def _measure_queues(
    snapshot: Snapshot,
    static: StaticPool,
    capacity: Capacity,
    pairs: Int64,
    waits: Bool,
) -> PreparedQueues:
    queues, classes = waits.size, snapshot.class_value.size

    def pack_sources() -> fair_shares.QueueSources:
        return pack_for_kernels(
            fair_shares.QueueSources(
                request=static.full_request,
                priority_class=static.shapes.priority_class,
                preemption=static.shape_preemption,
                weight=snapshot.queue_weight,
                cordoned=snapshot.queue_cordoned,
                factor=capacity.factor,
                limit=capacity.limit,
            )
        )

    amounts = np.zeros((2, queues, classes, static.full_request.shape[1]), np.int64)
    shares = np.empty((fair_shares.ROWS, queues), np.float64)
    evicted = np.empty(queues, np.bool_)
    table = pack_for_kernels(fair_shares.ShareTable(shares, waits, np.empty(queues, np.bool_)))
    any_evicted = fair_shares.measure_queues(
        static.queue_sources.get((capacity,), pack_sources),
        pairs,
        float(static.settings.protected_fraction),
        amounts,
        table,
        evicted,
    )
    return PreparedQueues(
        held=amounts[0],
        takes_part=waits,
        shares=Shares(
            weight=shares[fair_shares.WEIGHT],
            fair=shares[fair_shares.FAIR],
            uncapped=shares[fair_shares.UNCAPPED],
            actual=shares[fair_shares.ACTUAL],
            demand=shares[fair_shares.DEMAND],
        ),
        per_weight=shares[fair_shares.BUDGET : fair_shares.ENTITLED + 1],
        evicted=evicted,
        any_evicted=bool(any_evicted),
    )


def order_nodes(snapshot: Snapshot, settings: EngineSettings, start: PreparedPool) -> Int32:
    """N3: rows of nodes in the order in which they are tried.

    `best-fit`: least free first, by devices, then cpu, then memory. `spread`: most free first.
    `pack`: greatest used fraction first, so that empty nodes stay empty. Equal nodes are ordered by
    their permanent numbers.
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
            allocatable = np.maximum(snapshot.node_allocatable, 1)
            keys += [*fit, -(start.job_totals.used / allocatable).max(axis=1, initial=0.0)]
        case _:
            assert_never(settings.placement)
    return np.lexsort(keys).astype(np.int32)
