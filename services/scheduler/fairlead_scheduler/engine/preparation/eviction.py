"""What could be stopped in this round, and what is taken off its node in thought (R2)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import entry_point
from fairlead_scheduler.engine.preparation import fair_shares, gang_table, job_order
from fairlead_scheduler.engine.preparation.gang_table import GangTable
from fairlead_scheduler.engine.preparation.prepared_pool import PreparedPool
from fairlead_scheduler.engine.scheduling.node_victims import KEYS
from fairlead_scheduler.engine.scheduling.victim_search import SCANNED_NODES_MAX, SLOTS
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Float,
    Int32,
    Int64,
    JobFlag,
    NodeFlag,
    Preemption,
    Snapshot,
)
from fairlead_scheduler.engine.state.round_state import Model, Tables
from fairlead_scheduler.engine.state.run_states import (
    EVICTED,
    EXCLUDED,
    FAILED,
    MIXED_PRIORITIES,
    NON_PREEMPTIBLE,
    RUNNING,
    SHARE_STEPS,
    SHARE_STEPS_MAX,
    Runs,
)

LOST_STEPS: Final = 1000.0
"""Lost work (R9) is told in so many steps per millisecond of the whole pool: whole numbers, so that
equal work is equal however it is added up."""


def build_runs(
    snapshot: Snapshot,
    start: PreparedPool,
    balance: Bool,
    gangs: GangTable,
    tables: Tables,
    state: Model,
    position: Int32,
    levels: Int64,
) -> Runs:
    """The third tuple of the kernels; an empty one where nothing can be stopped."""
    if not (balance.any() or gangs.present or _urgency_possible(snapshot, start, tables)):
        return _empty_runs(snapshot, start, gangs, 0, 0, 0)
    runs = _empty_runs(snapshot, start, gangs, snapshot.job_queue.size, position.size, levels.size)
    place = np.empty_like(position)
    place[position] = np.arange(position.size, dtype=np.int32)
    rows = job_order.order_running(snapshot)
    _describe_runs(snapshot, start, gangs, runs, tables, levels, rows)
    runs.at[rows] = place[snapshot.job_node[rows]]
    evicted = np.zeros(0, np.int32)
    if balance.any():
        chosen = balance[snapshot.job_queue[rows]] & (runs.kind[rows] == Preemption.ANY)
        chosen &= runs.state[rows] == RUNNING
        evicted = rows[chosen]
        runs.state[evicted] = EVICTED
    bounds = job_order.find_queue_bounds(evicted, snapshot.job_queue, balance.size)
    runs = runs._replace(
        evicted=evicted.astype(np.int64), evicted_next=bounds[:-1].copy(), evicted_end=bounds[1:]
    )
    runs.pending[:] = np.diff(bounds)
    runs = _sort_single_victims(snapshot, runs, evicted, bounds)
    pieces = rows[runs.state[rows] != EXCLUDED]
    _link_runs(pieces.astype(np.int64), tables.job_shape, snapshot.shape_request, runs)
    _count_gangs(snapshot, gangs, runs, state, rows)
    _link_avoided(snapshot, gangs, runs, place)
    for q in np.flatnonzero(np.diff(bounds)):
        mine = snapshot.job_shape[evicted[bounds[q] : bounds[q + 1]]]
        counts = np.bincount(mine, minlength=start.whole.shape[0])
        state.stands[q] -= counts @ start.whole
    cost = fair_shares.dominant_share(runs.held, start.factor) / np.maximum(runs.entitled, 1e-9)
    runs.above[:] = np.floor(np.minimum(cost * SHARE_STEPS, SHARE_STEPS_MAX) + 0.5).astype(np.int64)
    return runs


def _sort_single_victims(snapshot: Snapshot, runs: Runs, evicted: Int32, bounds: Int64) -> Runs:
    """The evicted runs of each queue as single victims, cheapest first (N4)."""
    keys: list[Int64 | Int32 | Float | Bool] = [
        -snapshot.job_submission[evicted],
        -snapshot.job_started_ms[evicted],
        runs.lost[evicted],
        runs.gang[evicted] >= 0,
        runs.level[evicted],
        snapshot.job_queue[evicted],
    ]
    priority = snapshot.job_priority[evicted]
    one = np.full(bounds.size - 1, MIXED_PRIORITIES, np.int64)
    for q in np.flatnonzero(np.diff(bounds)):
        mine = priority[bounds[q] : bounds[q + 1]]
        if mine.min() == mine.max():
            one[q] = mine[0]
    return runs._replace(
        cheap=evicted[np.lexsort(keys)].astype(np.int64),
        cheap_next=bounds[:-1].copy(),
        cheap_first=bounds,
        one_priority=one,
    )


def _describe_runs(
    snapshot: Snapshot,
    start: PreparedPool,
    gangs: GangTable,
    runs: Runs,
    tables: Tables,
    levels: Int64,
    rows: Int32,
) -> None:
    """State, level, kind and lost work of every run, and the kind of every member of a gang.

    What is queued gets its own when it is placed: there may be millions.
    """
    shape = snapshot.job_shape[rows]
    away = (snapshot.node_flags[snapshot.job_node[rows]] & NodeFlag.LOST) != 0
    runs.state[rows] = np.where(away, np.uint8(EXCLUDED), np.uint8(RUNNING))
    runs.state[gangs.failed] = FAILED
    if snapshot.job_value is None:
        runs.level[rows] = tables.level[shape, 0]
    else:
        runs.level[rows] = np.searchsorted(levels, snapshot.job_value[rows])
    runs.kind[rows] = start.shape_preemption[shape]
    runs.started[rows] = snapshot.job_started_ms[rows]
    if snapshot.job_flags is not None:
        stopping = (snapshot.job_flags[rows] & JobFlag.STOPPING) != 0
        runs.kind[rows[stopping]] = Preemption.NONE
    if gangs.present:
        member = gangs.members
        strict = gang_table.find_gang_preemption(snapshot, start, gangs.of_job, gangs.size)
        runs.kind[member] = np.maximum(runs.kind[member], strict[gangs.of_job[member]])
    lost = tables.shape_cost[shape] * _worked_ms(snapshot, rows) * LOST_STEPS
    runs.lost[rows] = np.floor(lost + 0.5)


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
def _link_runs(rows: Int64, shape: Int32, request: Int64, v: Runs) -> None:
    """Link the pieces to their positions and sum up what could be stopped there."""
    for i in range(rows.size):
        j = rows[i]
        p = v.at[j]
        v.link[j] = v.head[p]
        v.head[p] = j
        if v.kind[j] >= NON_PREEMPTIBLE:
            continue
        v.low[v.level[j]] += 1
        for r in range(request.shape[1]):
            if v.state[j] == EVICTED:
                v.away[p, v.level[j], r] += request[shape[j], r]
            else:
                v.kept[p, v.level[j], r] += request[shape[j], r]


def _count_gangs(
    snapshot: Snapshot, gangs: GangTable, runs: Runs, state: Model, rows: Int32
) -> None:
    """Live members; and queued members are no longer counted among single jobs."""
    if not gangs.present:
        return
    gang = gangs.of_job[rows]
    runs.gang_live[:] = np.bincount(gang[gang >= 0], minlength=gangs.size)
    runs.gang_need[:] = np.where(
        runs.gang_live > 0, np.minimum(gangs.minimum, runs.gang_live), gangs.minimum
    )
    waiting = np.flatnonzero((gangs.of_job >= 0) & (snapshot.job_node == -1))
    pairs = (snapshot.job_queue[waiting], snapshot.job_shape[waiting])
    np.subtract.at(state.pair_left, pairs, 1)
    state.open_pairs[:] = ((state.pair_left > 0) & (state.pair_code == 0)).sum(axis=1)
    state.gang_left[:] = np.bincount(pairs[0], minlength=state.gang_left.size)


def _link_avoided(snapshot: Snapshot, gangs: GangTable, runs: Runs, place: Int32) -> None:
    """N10: link each job's pairs; who has no other node is set aside."""
    if snapshot.avoid_job is None or snapshot.avoid_node is None or not runs.avoid_first.size:
        return
    runs.avoid_at[:] = place[snapshot.avoid_node]
    for pair, j in enumerate(snapshot.avoid_job.tolist()):
        runs.avoid_link[pair] = runs.avoid_first[j]
        runs.avoid_first[j] = pair
    runs.state[gangs.tried] = FAILED


def _urgency_possible(snapshot: Snapshot, start: PreparedPool, tables: Tables) -> bool:
    """Whether a queued job could be put on top of something, or runs away, or avoids nodes."""
    queued = start.queued.any(axis=0)
    if not queued.any():
        return False
    if snapshot.avoid_job is not None and snapshot.avoid_job.size:
        return True
    if (tables.level[queued, 1:] >= 0).any():
        return True
    soft = start.shape_preemption != Preemption.NONE
    least = start.shape_value[soft & (queued | start.running.any(axis=0))]
    lowest = least.min() if least.size else np.iinfo(np.int64).max
    lowest = start.job_totals.values.min(initial=lowest)
    return bool(lowest < start.shape_value[queued].max())


def _empty_runs(
    snapshot: Snapshot,
    start: PreparedPool,
    gangs: GangTable,
    jobs: int,
    nodes: int,
    levels: int,
) -> Runs:
    """The arrays, empty."""
    queues = len(snapshot.queue_names)
    resources, all_resources = snapshot.shape_request.shape[1], start.capacity.size
    pairs = 0 if snapshot.avoid_job is None else snapshot.avoid_job.size
    return Runs(
        active=int(jobs > 0),
        state=np.zeros(jobs, np.uint8),
        at=np.zeros(jobs, np.int64),
        level=np.zeros(jobs, np.int64),
        kind=np.zeros(jobs, np.uint8),
        lost=np.zeros(jobs, np.float64),
        started=np.zeros(jobs, np.int64),
        priority=snapshot.job_priority,
        submission=snapshot.job_submission,
        queue=snapshot.job_queue,
        head=np.full(nodes, -1, np.int64),
        link=np.zeros(jobs, np.int64),
        kept=np.zeros((nodes, levels, resources), np.int64),
        away=np.zeros((nodes, levels, resources), np.int64),
        low=np.zeros(levels, np.int64),
        held=start.held.sum(axis=1),
        entitled=np.maximum(start.shares.fair, start.shares.weight),
        above=np.zeros(queues, np.int64),
        pending=np.zeros(queues, np.int64),
        evicted=np.zeros(0, np.int64),
        evicted_next=np.zeros(queues, np.int64),
        evicted_end=np.zeros(queues, np.int64),
        cheap=np.zeros(0, np.int64),
        cheap_next=np.zeros(queues, np.int64),
        cheap_first=np.zeros(queues + 1, np.int64),
        one_priority=np.zeros(queues, np.int64),
        gang=gangs.of_job if gangs.present else np.full(jobs, -1, np.int32),
        gang_first=gangs.first,
        gang_queued=gangs.queued,
        members=gangs.members.astype(np.int64),
        gang_min=gangs.minimum.astype(np.int64),
        gang_rest=gangs.rest,
        gang_need=np.zeros(gangs.size, np.int64),
        gang_live=np.zeros(gangs.size, np.int64),
        gang_seen=np.zeros((gangs.size, 2), np.int64),
        gang_mode=gangs.mode,
        gang_code=gangs.code,
        gang_label=gangs.label.astype(np.int64),
        gang_value=gangs.value.astype(np.int64),
        gang_gone=np.zeros(gangs.size, np.int64),
        out=np.zeros(jobs, np.uint8),
        value_first=gangs.value_first.astype(np.int64),
        value_rows=gangs.value_rows.astype(np.int64),
        sub=np.zeros(queues, np.int64),
        sub_end=np.zeros(queues, np.int64),
        avoid_first=np.full(jobs if pairs else 0, -1, np.int64),
        avoid_link=np.full(pairs if jobs else 0, -1, np.int64),
        avoid_at=np.zeros(pairs if jobs else 0, np.int64),
        tier=np.zeros(jobs, np.uint8),
        cause=np.zeros(jobs, np.uint8),
        for_job=np.zeros(jobs, np.int64),
        share_before=np.zeros(jobs, np.float64),
        was=np.zeros(jobs, np.int64),
        **_scratch(jobs, nodes, queues, resources, all_resources),
    )


def _scratch(
    jobs: int, nodes: int, queues: int, resources: int, all_resources: int
) -> dict[str, Any]:
    """The fields of `Runs` in which things are worked out."""
    slots = SLOTS if nodes > SCANNED_NODES_MAX else 0
    size = 1 << max(nodes - 1, 0).bit_length()
    return {
        "journal": np.zeros(jobs + 1, np.int64),
        "candidates": np.zeros(jobs, np.int64),
        "taken": np.zeros(jobs, np.int64),
        "chosen": np.zeros(jobs, np.int64),
        "whole_gang": np.zeros(jobs, np.int64),
        "chosen_gang": np.zeros(jobs, np.int64),
        "less": np.zeros((queues, all_resources), np.int64),
        "need": np.zeros(resources, np.int64),
        "asked": np.zeros(resources, np.int64),
        "unit": np.zeros(all_resources, np.int64),
        "urged": np.zeros(jobs, np.float64),
        "bid": np.zeros((slots, nodes, KEYS), np.float64),
        "winner": np.zeros((slots, 2 * size), np.int64),
        "slot": np.full((slots, 6), -1, np.int64),
        "slot_after": np.zeros(slots, np.float64),
        "freed": np.zeros(4 * nodes if slots else 0, np.int64),
        "key": np.zeros((2, KEYS), np.float64),
        "weighed": np.zeros((2, 3 + resources), np.float64),
    }
