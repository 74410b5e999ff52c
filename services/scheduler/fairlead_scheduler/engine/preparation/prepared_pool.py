"""The pool before the round: what takes part, what is free, and what queues hold.

It examines queues, shapes and nodes; totals over jobs are given or computed by job_totals.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.preparation import fair_shares, job_totals, pool_feasibility
from fairlead_scheduler.engine.preparation.pool_feasibility import Feasibility
from fairlead_scheduler.engine.snapshot import (
    TOTAL_MAX,
    Bool,
    Byte,
    EngineSettings,
    Float,
    Int64,
    JobTotals,
    NodeFlag,
    Preemption,
    SchedulingFlag,
    Shares,
    Snapshot,
)

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"

IntP = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedPool:
    """The pool as the round starts. W = 1+K columns of `shape_match`; the rest as there."""

    whole: Int64
    """[S, R+F] requests with floating resources."""
    shape_value: Int64
    """[S] value of the shape's class."""
    shape_preemption: Byte
    """[S] `Preemption` of the shape's class."""
    feasible: Feasibility
    """Section 6."""
    job_totals: JobTotals
    free: Int64
    """[N, R] allocatable - used; negative where a node shrank."""
    overfull: Bool
    """[N]"""
    usable: Bool
    """[N] whether the node may get something new."""
    capacity: Int64
    """[R+F]"""
    factor: Float
    """[R+F] cost of a unit of each resource."""
    running: Int64
    """[Q, S] runs that count."""
    queued: Int64
    """[Q, S] queued jobs."""
    held: Int64
    """[Q, C, R+F] what runs that count hold."""
    beside: Int64
    """[R+F] what all runs hold, those on lost nodes too: for floating resources (L7)."""
    shares: Shares
    takes_part: Bool
    """[Q]"""
    limit: Float
    """[Q, C, R+F] L2 as amounts; [0, 0, 0] when there are no limits."""


def prepare_pool(snapshot: Snapshot, settings: EngineSettings) -> PreparedPool:
    """Compute the pool, from one pass over the jobs."""
    whole = _whole(snapshot)
    lost = (snapshot.node_flags & NodeFlag.LOST) != 0
    totals = job_totals.count_jobs(snapshot) if snapshot.job_totals is None else snapshot.job_totals
    running, lost_runs = _exclude_lost(snapshot, totals, lost)
    queued = totals.queued
    free = snapshot.node_allocatable - totals.used
    overfull: Bool = np.zeros(free.shape[0], np.bool_)
    for r in range(free.shape[1]):  # numpy takes ten times as long along a short axis
        overfull |= free[:, r] < 0
    capacity = _capacity(snapshot, lost, totals.runs > 0)
    factor = fair_shares.cost_factors(capacity, cost_multipliers(snapshot, settings))
    held = _held(snapshot, running, whole)
    limit = _limits(snapshot, capacity)
    known = _total(snapshot, np.ones(free.shape[0], np.bool_))
    known_limit = _limits(snapshot, np.concatenate([known, snapshot.floating_total]))
    possible = pool_feasibility.judge_feasibility(snapshot, whole, known_limit)
    wanted, waits = _wanted(snapshot, queued, possible)
    takes_part = (running.sum(axis=1) > 0) | (~snapshot.queue_cordoned & waits)
    return PreparedPool(
        whole=whole,
        shape_value=snapshot.class_value[snapshot.shape_class],
        shape_preemption=snapshot.class_preemption[snapshot.shape_class],
        feasible=possible,
        job_totals=totals,
        free=free,
        overfull=overfull,
        usable=(snapshot.node_flags == 0) & ~overfull,
        capacity=capacity,
        factor=factor,
        running=running,
        queued=queued,
        held=held,
        beside=held.sum(axis=(0, 1)) + lost_runs @ whole,
        shares=_shares(snapshot, wanted, held, whole, factor, takes_part, limit),
        takes_part=takes_part,
        limit=limit,
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


def _exclude_lost(snapshot: Snapshot, totals: JobTotals, lost: Bool) -> tuple[Int64, Int64]:
    """[Q, S] runs that count, and [S] runs on lost nodes, which count nowhere (R1)."""
    away = np.zeros(snapshot.shape_request.shape[0], np.int64)
    nodes = np.flatnonzero(lost & (totals.runs > 0))
    if not nodes.size:
        return totals.running, away
    running = totals.running.copy()
    job_totals.exclude_nodes(
        nodes, totals.head, totals.link, snapshot.job_queue, snapshot.job_shape, running, away
    )
    return running, away


def _wanted(snapshot: Snapshot, queued: Int64, possible: Feasibility) -> tuple[Int64, Bool]:
    """Queued jobs that could run [Q, S] (S2); [Q] whether one waits that is not refused (S1)."""
    wanted = queued * possible.pair
    waits = wanted.sum(axis=1) > 0
    apart = (queued > 0) & ~possible.pair
    rows = np.zeros(0, np.intp)
    if apart.any():
        rows = np.flatnonzero(snapshot.job_node == -1)
        rows = rows[apart[snapshot.job_queue[rows], snapshot.job_shape[rows]]]
    if not possible.gang.all() and snapshot.job_gang is not None:
        lost = np.flatnonzero((snapshot.job_gang >= 0) & (snapshot.job_node == -1))
        lost = lost[~possible.gang[snapshot.job_gang[lost]]]
        lost = np.setdiff1d(lost, rows)
        np.subtract.at(wanted, (snapshot.job_queue[lost], snapshot.job_shape[lost]), 1)
        waits = wanted.sum(axis=1) > 0
        rows = np.concatenate([rows, lost])
    waits[snapshot.job_queue[rows[find_wait_if_infeasible(snapshot, rows)]]] = True
    return wanted, waits


def find_wait_if_infeasible(snapshot: Snapshot, rows: IntP) -> Bool:
    """Which of these jobs stay queued when they are infeasible."""
    if not snapshot.node_number.size:  # no node is known yet: nothing is refused
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
        kept = np.zeros(snapshot.gang_min.size, np.bool_)
        if snapshot.gang_fitted is not None:
            kept |= snapshot.gang_fitted
        if snapshot.job_flags is not None:
            every = np.flatnonzero((snapshot.job_gang >= 0) & (snapshot.job_node == -1))
            on_purpose = every[
                (snapshot.job_flags[every] & SchedulingFlag.WAITS_IF_INFEASIBLE) != 0
            ]
            kept[snapshot.job_gang[on_purpose]] = True
        result = np.where(member, kept[gang], result)
    return result


def _whole(snapshot: Snapshot) -> Int64:
    shapes = snapshot.shape_request.shape[0]
    beside = snapshot.shape_floating
    if beside is None:
        beside = np.zeros((shapes, len(snapshot.floating)), np.int64)
    return np.ascontiguousarray(np.concatenate([snapshot.shape_request, beside], axis=1))


def _capacity(snapshot: Snapshot, lost: Bool, holds: Bool) -> Int64:
    """R1: nodes that are not lost; a cordoned one only while it holds something."""
    cordoned = (snapshot.node_flags & NodeFlag.CORDONED) != 0
    counts = ~lost & (~cordoned | holds)
    return np.concatenate([_total(snapshot, counts), snapshot.floating_total]).astype(np.int64)


def _total(snapshot: Snapshot, counts: Bool) -> Int64:
    """[R] the total of these nodes: as a product, in a tenth of the time of a sum."""
    return counts.astype(np.int64) @ snapshot.node_allocatable


def _held(snapshot: Snapshot, running: Int64, whole: Int64) -> Int64:
    classes = snapshot.class_value.size
    result = np.zeros((running.shape[0], classes, whole.shape[1]), np.int64)
    for c in range(classes):
        chosen = np.flatnonzero(snapshot.shape_class == c)
        result[:, c, :] = running[:, chosen] @ whole[chosen]
    return result


def _demanded(snapshot: Snapshot, queued: Int64, whole: Int64) -> Int64:
    """As `_held` for queued jobs, which can request any amount: at most `TOTAL_MAX` of each."""
    result = _held(snapshot, queued, whole)
    if float(whole.max(initial=0)) * float(queued.sum()) < TOTAL_MAX:
        return result
    rough = np.zeros(result.shape, np.float64)
    for c in range(result.shape[1]):
        chosen = np.flatnonzero(snapshot.shape_class == c)
        rough[:, c, :] = queued[:, chosen].astype(np.float64) @ whole[chosen]
    return np.where(rough < TOTAL_MAX, result, TOTAL_MAX)


def _limits(snapshot: Snapshot, capacity: Int64) -> Float:
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
            whole = np.where(finite, np.where(finite, part, 0.0) * capacity, np.inf)
            np.minimum(result, whole, out=result)
    if amount is not None:
        np.minimum(result, amount, out=result)
    return result


def _shares(
    snapshot: Snapshot,
    queued: Int64,
    held: Int64,
    whole: Int64,
    factor: Float,
    takes_part: Bool,
    limit: Float,
) -> Shares:
    wanted = held + _demanded(
        snapshot, np.where(snapshot.queue_cordoned[:, None], 0, queued), whole
    )
    if limit.size:
        wanted = np.minimum(wanted, np.minimum(limit, 2.0 * TOTAL_MAX).astype(np.int64))
    if factor.any():
        demand = fair_shares.dominant_share(wanted.sum(axis=1), factor)
    else:
        demand = takes_part.astype(np.float64)
    weight = np.ascontiguousarray(snapshot.queue_weight, np.float64)
    return Shares(
        weight=fair_shares.weight_shares(weight, takes_part),
        fair=fair_shares.fill_by_weight(weight, demand, takes_part, -1),
        uncapped=fair_shares.uncapped_shares(weight, demand, takes_part),
        actual=fair_shares.dominant_share(held.sum(axis=1), factor),
        demand=demand,
    )


def find_evicted_queues(snapshot: Snapshot, pool: PreparedPool, settings: EngineSettings) -> Bool:
    """R2, [Q]: queues whose runs of preemptible classes are evicted."""
    entitled = np.maximum(pool.shares.fair, pool.shares.weight)
    above = pool.shares.actual > settings.protected_fraction * entitled + 1e-9
    any_class = pool.shape_preemption == Preemption.ANY
    return np.asarray(above & ((pool.running * any_class).sum(axis=1) > 0))
