"""Which runs are evicted (R2), and what every run would cost as a victim."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import entry_point
from fairlead_scheduler.engine.preparation import fair_shares, gang_table, job_order
from fairlead_scheduler.engine.preparation.gang_table import GangTable
from fairlead_scheduler.engine.preparation.prepared_pool import PreparedPool
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Float,
    Int32,
    Int64,
    NodeFlag,
    Preemption,
    SchedulingFlag,
    Snapshot,
)
from fairlead_scheduler.engine.state.round_model import EvictedRuns, RoundModel, ShapeTable
from fairlead_scheduler.engine.state.run_states import (
    EVICTED,
    EXCLUDED,
    FAILED,
    MIXED_PRIORITIES,
    NON_PREEMPTIBLE,
    RUNNING,
    SHARE_STEPS,
    SHARE_STEPS_MAX,
)

LOST_STEPS: Final = 1000.0
"""Lost work (R9) is counted in steps, 1,000 per millisecond of the whole pool: whole numbers, so
that equal work is equal however it is added up."""


def evict_runs(
    snapshot: Snapshot,
    start: PreparedPool,
    balance: Bool,
    gangs: GangTable,
    model: RoundModel,
    position: Int32,
    levels: Int64,
) -> RoundModel:
    """Describe all runs in the model and evict those of the queues marked in `balance` ([Q])."""
    place = np.empty_like(position)
    place[position] = np.arange(position.size, dtype=np.int32)
    rows = job_order.order_running(snapshot)
    _describe_runs(snapshot, start, gangs, model, levels, rows)
    runs = model.runs
    runs.position[rows] = place[snapshot.job_node[rows]]
    evicted = np.zeros(0, np.int32)
    if balance.any():
        chosen = balance[snapshot.job_queue[rows]] & (runs.preemption[rows] == Preemption.ANY)
        chosen &= runs.state[rows] == RUNNING
        evicted = rows[chosen]
        runs.state[evicted] = EVICTED
    bounds = job_order.find_queue_bounds(evicted, snapshot.job_queue, balance.size)
    model.progress.next_evicted[:] = bounds[:-1]
    model.usage.evicted_runs[:] = np.diff(bounds)
    model = model._replace(evicted=_sort_evicted(snapshot, model, evicted, bounds))
    _link_runs(rows[runs.state[rows] != EXCLUDED].astype(np.int64), model)
    _count_gangs(snapshot, gangs, model, rows)
    _link_avoided(snapshot, gangs, model, place)
    for q in np.flatnonzero(np.diff(bounds)):
        mine = snapshot.job_shape[evicted[bounds[q] : bounds[q + 1]]]
        counts = np.bincount(mine, minlength=start.whole.shape[0])
        model.usage.counted[q] -= counts @ start.whole
    entitled = np.maximum(model.entitlements.entitled_share, 1e-9)
    share = fair_shares.dominant_share(model.usage.held, start.factor) / entitled
    steps = np.floor(np.minimum(share * SHARE_STEPS, SHARE_STEPS_MAX) + 0.5)
    model.usage.share_steps[:] = steps.astype(np.int64)
    return model


def _sort_evicted(
    snapshot: Snapshot, model: RoundModel, evicted: Int32, bounds: Int64
) -> EvictedRuns:
    """The evicted runs of each queue in the order of R3, and as single victims (N4)."""
    keys: list[Int64 | Int32 | Float | Bool] = [
        -snapshot.job_submission[evicted],
        -snapshot.job_started_ms[evicted],
        model.runs.lost_work[evicted],
        model.jobs.gang[evicted] >= 0,
        model.runs.level[evicted],
        snapshot.job_queue[evicted],
    ]
    priority = snapshot.job_priority[evicted]
    one = np.full(bounds.size - 1, MIXED_PRIORITIES, np.int64)
    for q in np.flatnonzero(np.diff(bounds)):
        mine = priority[bounds[q] : bounds[q + 1]]
        if mine.min() == mine.max():
            one[q] = mine[0]
    return EvictedRuns(
        rows=evicted.astype(np.int64),
        end=bounds[1:],
        cheapest=evicted[np.lexsort(keys)].astype(np.int64),
        cheapest_next=bounds[:-1].copy(),
        cheapest_first=bounds,
        priority=one,
    )


def _describe_runs(
    snapshot: Snapshot,
    start: PreparedPool,
    gangs: GangTable,
    model: RoundModel,
    levels: Int64,
    rows: Int32,
) -> None:
    """State, level, preemption and lost work of every run, and the preemption of every member of a
    gang.

    A queued job gets its own when it is placed: there may be millions.
    """
    runs, shapes = model.runs, model.shapes
    shape = snapshot.job_shape[rows]
    lost = (snapshot.node_flags[snapshot.job_node[rows]] & NodeFlag.LOST) != 0
    runs.state[rows] = np.where(lost, np.uint8(EXCLUDED), np.uint8(RUNNING))
    runs.state[gangs.failed] = FAILED
    if snapshot.job_value is None:
        runs.level[rows] = shapes.level[shape, 0]
    else:
        runs.level[rows] = np.searchsorted(levels, snapshot.job_value[rows])
    runs.preemption[rows] = start.shape_preemption[shape]
    runs.started[rows] = snapshot.job_started_ms[rows]
    if snapshot.job_flags is not None:
        stopping = (snapshot.job_flags[rows] & SchedulingFlag.STOPPING) != 0
        runs.preemption[rows[stopping]] = Preemption.NONE
    if gangs.present:
        member = gangs.members
        strict = gang_table.find_gang_preemption(snapshot, start, gangs.of_job, gangs.size)
        runs.preemption[member] = np.maximum(runs.preemption[member], strict[gangs.of_job[member]])
    work = shapes.cost[shape] * _worked_ms(snapshot, rows) * LOST_STEPS
    runs.lost_work[rows] = np.floor(work + 0.5)


def _worked_ms(snapshot: Snapshot, rows: Int32) -> Int64:
    """R9: time since the run's start or last checkpoint, [rows]."""
    started = snapshot.job_started_ms[rows]
    worked = np.maximum(snapshot.now_ms - started, 0)
    since = worked
    if snapshot.job_checkpoint_interval_ms is not None:
        every = snapshot.job_checkpoint_interval_ms[rows]
        since = np.where(every > 0, worked % np.maximum(every, 1), since)
    if snapshot.job_checkpoint_ms is not None:
        reported = snapshot.job_checkpoint_ms[rows]
        ago = np.maximum(snapshot.now_ms - np.maximum(reported, started), 0)
        since = np.minimum(since, ago)
    return since.astype(np.int64)


@entry_point
def _link_runs(rows: Int64, model: RoundModel) -> None:
    """Link the runs to their positions and sum up what could be preempted there."""
    runs, capacity = model.runs, model.capacity
    for i in range(rows.size):
        j = rows[i]
        p = runs.position[j]
        level = runs.level[j]
        runs.link[j] = runs.head[p]
        runs.head[p] = j
        if runs.preemption[j] >= NON_PREEMPTIBLE:
            continue
        capacity.runs_at_level[level] += 1
        for r in range(model.shapes.request.shape[1]):
            amount = model.shapes.request[model.jobs.shape[j], r]
            if runs.state[j] == EVICTED:
                capacity.evicted[p, level, r] += amount
            else:
                capacity.preemptible[p, level, r] += amount


def _count_gangs(snapshot: Snapshot, gangs: GangTable, model: RoundModel, rows: Int32) -> None:
    """Live members; and queued members are no longer counted among single jobs."""
    if not gangs.present:
        return
    gang = gangs.of_job[rows]
    tables, progress = model.gangs, model.progress
    tables.live[:] = np.bincount(gang[gang >= 0], minlength=gangs.size)
    tables.need[:] = np.where(
        tables.live > 0, np.minimum(gangs.minimum, tables.live), gangs.minimum
    )
    waiting = np.flatnonzero((gangs.of_job >= 0) & (snapshot.job_node == -1))
    pairs = (snapshot.job_queue[waiting], snapshot.job_shape[waiting])
    np.subtract.at(progress.jobs_left, pairs, 1)
    progress.open_shapes[:] = ((progress.jobs_left > 0) & (progress.skip_code == 0)).sum(axis=1)
    progress.members_left[:] = np.bincount(pairs[0], minlength=progress.members_left.size)


def _link_avoided(snapshot: Snapshot, gangs: GangTable, model: RoundModel, place: Int32) -> None:
    """N10: link each job's pairs; a job that avoids every eligible node fails."""
    avoided = model.avoided
    if snapshot.avoid_job is None or snapshot.avoid_node is None or not avoided.first.size:
        return
    avoided.position[:] = place[snapshot.avoid_node]
    for pair, j in enumerate(snapshot.avoid_job.tolist()):
        avoided.link[pair] = avoided.first[j]
        avoided.first[j] = pair
    model.runs.state[gangs.tried] = FAILED


def is_urgency_possible(snapshot: Snapshot, start: PreparedPool, shapes: ShapeTable) -> bool:
    """Whether a queued job could preempt by urgency, or runs away, or avoids nodes."""
    queued = start.queued.any(axis=0)
    if not queued.any():
        return False
    if snapshot.avoid_job is not None and snapshot.avoid_job.size:
        return True
    if (shapes.level[queued, 1:] >= 0).any():
        return True
    soft = start.shape_preemption != Preemption.NONE
    least = start.shape_value[soft & (queued | start.running.any(axis=0))]
    lowest = least.min() if least.size else np.iinfo(np.int64).max
    lowest = start.job_totals.values.min(initial=lowest)
    return bool(lowest < start.shape_value[queued].max())
