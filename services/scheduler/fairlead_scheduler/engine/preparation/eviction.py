"""Evicts runs (R2), and describes every run as a possible victim."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import (
    by_address,
    entry_point,
    inlined,
)
from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.engine.preparation.gangs import gang_table, role_table
from fairlead_scheduler.engine.preparation.gangs.gang_table import GangTable
from fairlead_scheduler.engine.preparation.pool.prepared_pool import PreparedPool
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Byte,
    Float,
    Int32,
    Int64,
    Preemption,
    SchedulingFlag,
    Snapshot,
)
from fairlead_scheduler.engine.state.round_model import (
    GroupTables,
    RoundModel,
    ShapeTable,
)
from fairlead_scheduler.engine.state.round_state import (
    EVICTED,
    EXCLUDED,
    FAILED,
    NON_PREEMPTIBLE,
    RUNNING,
)
from fairlead_scheduler.engine.state.run_states import (
    FROZEN,
    MIXED_PRIORITIES,
    PROTECTED,
    update_share,
)
from fairlead_scheduler.engine.state.surplus import find_surplus, find_victim_kinds

LOST_STEPS: Final = 1000.0
"""Steps of lost work (R9) per millisecond of the whole pool. Lost work is a whole number of steps,
so that equal sums are equal in whatever order they are added up."""
ANY_CLASS: Final = int(Preemption.ANY)
STOPPING: Final = int(SchedulingFlag.STOPPING)
_FEW_GROUPS: Final = np.iinfo(np.uint16).max
_NO_BYTES: Final = np.zeros(0, np.uint8)
_NO_NUMBERS: Final = np.zeros(0, np.int64)
"""Missing columns, always the same objects: see `Repacked`."""


@by_address
class RunColumns(NamedTuple):
    """What `_describe_runs` reads beside the model. Columns that a snapshot does not have are
    empty."""

    node: Int32
    """[J]"""
    value: Int64
    """[J] the value at which each live run runs"""
    flags: Byte
    """[J] `SchedulingFlag`"""
    started: Int64
    """[J]"""
    checkpoint_interval: Int64
    """[J] R9"""
    checkpoint: Int64
    """[J] R9"""
    lost: Bool
    """[N] whether the node is lost (`NodeFlag.LOST`)"""
    place: Int32
    """[N] position of the node"""
    gang_preemption: Byte
    """[G] the strictest `Preemption` of any member; [0] when there are no gangs"""
    levels: Int64
    """[L]"""
    evicted: Bool
    """[Q] queues whose runs R2 evicts"""


def evict_runs(
    snapshot: Snapshot,
    start: PreparedPool,
    evicted_queues: Bool,
    gangs: GangTable,
    model: RoundModel,
    packed_model: RoundModel,
    position: Int32,
    levels: Int64,
    clock: RoundClock,
) -> RoundModel:
    """Describe all runs in the model, and evict the runs of class `any` of these queues ([Q]).

    `packed_model`: the model packed for kernels; `position`: [N] rows of nodes in the order of N3;
    `levels`: [L] the distinct values at which jobs run.
    """
    place = np.empty_like(position)
    place[position] = np.arange(position.size, dtype=np.int32)
    rows = job_order.order_running(snapshot)
    columns = _collect_columns(snapshot, start, gangs, place, levels, evicted_queues)
    packed_columns = start.static.run_columns.pack(columns)
    evicted = np.empty(rows.size, np.int32)
    count = 0
    for part in clock.slice_rows(rows.size):
        count = _describe_runs(rows[part], packed_model, packed_columns, evicted, count)
    clock.require_time()
    evicted = evicted[:count]
    is_sorted = _count_evicted(evicted, packed_model)
    model.evicted.rows[:count] = evicted
    model.evicted.cheapest[:count] = _sort_as_victims(
        snapshot, model, evicted, clock, is_sorted=is_sorted
    )
    clock.require_time()
    model.runs.state[gangs.failed] = FAILED
    if gangs.present:  # what the job itself says is added when it is placed
        waiting = gangs.members[snapshot.job_node[gangs.members] == -1]
        model.runs.preemption[waiting] = columns.gang_preemption[gangs.of_job[waiting]]
    model = _count_gangs(snapshot, gangs, model, rows, evicted)
    _link_avoided(snapshot, gangs, model, place)
    return model


@entry_point
def _count_evicted(evicted: Int32, model: RoundModel) -> bool:
    """Find the evicted runs of each queue, and how far it is above its share; returns whether the
    runs of each queue have one priority, and all run at the value of their shape's class.

    `evicted`: by queue. The priority of a queue's evicted runs is `MIXED_PRIORITIES` where they
    differ.
    """
    tables = model.evicted
    is_sorted = True
    at = 0
    for q in range(model.entitlements.weight.size):
        first = at
        priority = 0
        while at < evicted.size and model.jobs.queue[evicted[at]] == q:
            own = model.jobs.priority[evicted[at]]
            if at == first:
                priority = own
            elif own != priority:
                priority = MIXED_PRIORITIES
                is_sorted = False
            j = evicted[at]
            if model.runs.level[j] != model.shapes.level[model.jobs.shape[j], 0]:
                is_sorted = False
            at += 1
        tables.cheapest_first[q] = first
        tables.cheapest_next[q] = first
        tables.end[q] = at
        tables.priority[q] = priority
        model.progress.next_evicted[q] = first
        model.usage.evicted_runs[q] = at - first
        update_share(model, q)
    tables.cheapest_first[tables.cheapest_first.size - 1] = at
    return is_sorted


def _sort_as_victims(
    snapshot: Snapshot, model: RoundModel, evicted: Int32, clock: RoundClock, *, is_sorted: bool
) -> Int32:
    """Evicted runs by queue, level, kind (surplus members first, by priority, other members last),
    lost work, later start, greater id.

    If `_count_evicted` found it (`is_sorted`), they are taken from the order of R3 backwards, in
    which later starts and greater ids come first, and only the other criteria are sorted.
    """
    levels, queues = model.capacity.runs_at_level.size, model.evicted.priority.size
    if is_sorted:
        rows = evicted[::-1]
        group = (snapshot.job_queue[rows].astype(np.int64) * levels + model.runs.level[rows]) * 3
        if model.gangs.min_size.size:  # without gangs all are of one kind
            group += find_victim_kinds(model.jobs.gang[rows], snapshot.job_priority[rows]) + 1
        few = queues * levels * 3 <= _FEW_GROUPS
        group = group.astype(np.uint16 if few else np.int64)
        return rows[clock.sort_rows([model.runs.lost_work[rows], group])]
    own = snapshot.job_priority[evicted]
    keys: list[Int64 | Int32 | Float | Bool] = [
        -snapshot.job_submission[evicted],
        -snapshot.job_started_ms[evicted],
        model.runs.lost_work[evicted],
        np.where(find_surplus(own), own, 0),
        find_victim_kinds(model.jobs.gang[evicted], own),
        model.runs.level[evicted],
        snapshot.job_queue[evicted],
    ]
    return evicted[clock.sort_rows(keys)]


def _collect_columns(
    snapshot: Snapshot,
    start: PreparedPool,
    gangs: GangTable,
    place: Int32,
    levels: Int64,
    evicted_queues: Bool,
) -> RunColumns:
    """`RunColumns` of the snapshot. `place`: [N] position of each node."""
    interval, checkpoint = snapshot.job_checkpoint_interval_ms, snapshot.job_checkpoint_ms
    strict = _NO_BYTES
    if gangs.present:
        strict = gang_table.find_gang_preemption(snapshot, start, gangs.of_job, gangs.size)
    return RunColumns(
        node=snapshot.job_node,
        value=_NO_NUMBERS if snapshot.job_value is None else snapshot.job_value,
        flags=_NO_BYTES if snapshot.job_flags is None else snapshot.job_flags,
        started=snapshot.job_started_ms,
        checkpoint_interval=_NO_NUMBERS if interval is None else interval,
        checkpoint=_NO_NUMBERS if checkpoint is None else checkpoint,
        lost=start.static.lost,
        place=place,
        gang_preemption=strict,
        levels=levels,
        evicted=evicted_queues,
    )


@entry_point
def _describe_runs(
    rows: Int32, model: RoundModel, columns: RunColumns, evicted: Int32, count: int
) -> int:
    """Describe these runs in the model, link them to their positions, and sum up what could be
    preempted there.

    Runs that R2 evicts are added to the first `count` of `evicted`, and no longer counted as held
    by their queues (R4). Returns the new number of evicted runs.
    """
    runs, capacity = model.runs, model.capacity
    for i in range(rows.size):
        j = rows[i]
        s = model.jobs.shape[j]
        level = model.shapes.level[s, 0]
        if columns.value.size > 0:
            level = 0
            while columns.levels[level] < columns.value[j]:
                level += 1
        kind = find_run_preemption(model, columns, j, s)
        runs.level[j] = level
        runs.preemption[j] = kind
        runs.started[j] = columns.started[j]
        work = model.shapes.cost[s] * measure_lost_ms(model, columns, j) * LOST_STEPS
        runs.lost_work[j] = np.floor(work + 0.5)
        p = columns.place[columns.node[j]]
        runs.position[j] = p
        if columns.lost[columns.node[j]]:
            runs.state[j] = EXCLUDED
            continue
        q = model.jobs.queue[j]
        for r in range(model.shapes.full_request.shape[1]):
            model.victims.shares.held[q, level, r] += model.shapes.full_request[s, r]
        chosen = columns.evicted[q] and kind == ANY_CLASS
        runs.state[j] = EVICTED if chosen else RUNNING
        if chosen:
            evicted[count] = j
            count += 1
            for r in range(model.shapes.full_request.shape[1]):
                model.usage.counted[q, r] -= model.shapes.full_request[s, r]
        runs.link[j] = runs.head[p]
        runs.head[p] = j
        if kind >= NON_PREEMPTIBLE:
            continue
        capacity.runs_at_level[level] += 1
        for r in range(model.shapes.request.shape[1]):
            if chosen:
                capacity.evicted[p, level, r] += model.shapes.request[s, r]
            else:
                capacity.preemptible[p, level, r] += model.shapes.request[s, r]
    return count


@inlined
def find_run_preemption(model: RoundModel, columns: RunColumns, j: int, s: int) -> int:
    """The strictest `Preemption` of the run and its gang; NONE for a run that is stopping."""
    kind = int(model.shapes.preemption[s])
    if columns.flags.size > 0 and columns.flags[j] & STOPPING:
        kind = NON_PREEMPTIBLE
    if columns.gang_preemption.size > 0 and model.jobs.gang[j] >= 0:
        kind = max(kind, int(columns.gang_preemption[model.jobs.gang[j]]))
    return kind


@inlined
def measure_lost_ms(model: RoundModel, columns: RunColumns, j: int) -> int:
    """R9: the time (ms) since the start or the last checkpoint of a run."""
    now = model.entitlements.now_ms[0]
    started = columns.started[j]
    worked = max(now - started, 0)
    since = worked
    if columns.checkpoint_interval.size > 0 and columns.checkpoint_interval[j] > 0:
        since = worked % columns.checkpoint_interval[j]
    if columns.checkpoint.size > 0:
        since = min(since, max(now - max(columns.checkpoint[j], started), 0))
    return int(since)


def _limit_levels(snapshot: Snapshot, gangs: GangTable, model: RoundModel) -> None:
    """Write `RoundJobs.level_max`: the lowest level of the members of each gang that are stopped
    together, surplus aside."""
    assert snapshot.gang_started is not None, "a snapshot with gangs has all their columns"
    members = np.flatnonzero((gangs.of_job >= 0) & (snapshot.job_node >= -1))
    members = members[~snapshot.gang_started[gangs.of_job[members]]]
    gang = gangs.of_job[members]
    needed = ~find_surplus(snapshot.job_priority[members])
    own_level = model.shapes.level[snapshot.job_shape[members], 0]
    lowest = np.full(gangs.size, np.iinfo(np.int64).max)
    np.minimum.at(lowest, gang[needed], own_level[needed])
    model.jobs.level_max[members] = lowest[gang]


def _count_gangs(
    snapshot: Snapshot, gangs: GangTable, model: RoundModel, rows: Int32, evicted: Int32
) -> RoundModel:
    """Fill the tables of gangs, groups and roles with live members, the ones that their gangs need,
    and the places at which evicted ones are offered. Queued members are no longer counted as single
    jobs.

    `rows`: live runs in the order of R3; `evicted`: the evicted runs among them.
    """
    if not gangs.present:
        return model
    tables, progress = model.gangs, model.progress
    groups, roles = model.gangs.groups, model.gangs.roles
    _limit_levels(snapshot, gangs, model)
    rows = rows[gangs.of_job[rows] >= 0]
    role, gang = gangs.roles.of_job[rows], gangs.of_job[rows]
    tables.live[:] = np.bincount(gang, minlength=gangs.size)
    roles.live[:] = np.bincount(role, minlength=roles.live.size)
    of_role = np.repeat(tables.live > 0, np.diff(roles.first))
    roles.need[:] = np.where(of_role, np.minimum(roles.minimum, roles.live), roles.minimum)
    needed_too = role_table.place_in_role(role) < roles.need[role]
    roles.base[rows] = needed_too | (groups.grouped[gang] == 0)
    if snapshot.gang_frozen is not None:
        groups.frozen[snapshot.gang_frozen] = FROZEN
        surplus = gang[find_surplus(snapshot.job_priority[rows])]
        groups.frozen[surplus[groups.frozen[surplus] == FROZEN]] = PROTECTED
    needed = evicted[(gangs.of_job[evicted] >= 0) & (roles.base[evicted] != 0)]
    model.evicted.gang_last[gangs.of_job[needed]] = needed
    waiting = np.flatnonzero((gangs.of_job >= 0) & (snapshot.job_node == -1))
    pairs = (snapshot.job_queue[waiting], snapshot.job_shape[waiting])
    np.subtract.at(progress.jobs_left, pairs, 1)
    progress.open_shapes[:] = ((progress.jobs_left > 0) & (progress.skip_code == 0)).sum(axis=1)
    progress.members_left[:] = np.bincount(pairs[0], minlength=progress.members_left.size)
    groups = _list_surplus_runs(snapshot, model, rows)
    return model._replace(gangs=model.gangs._replace(groups=groups))


def _list_surplus_runs(snapshot: Snapshot, model: RoundModel, rows: Int32) -> GroupTables:
    """The tables of groups, with `surplus_runs` from these live runs: by queue, weighted running
    time of the group and priority, then as single victims."""
    rows = rows[find_surplus(snapshot.job_priority[rows]) & (model.runs.state[rows] != EXCLUDED)]
    time = model.gangs.groups.weighted_time
    if snapshot.job_weighted_time is not None:
        time[model.jobs.gang[rows]] = snapshot.job_weighted_time[rows]
        if snapshot.gang_freezes is not None:
            model.gangs.groups.gives_once[:] = snapshot.gang_freezes & (time > 0)
    order = np.lexsort(
        (
            -snapshot.job_submission[rows],
            -snapshot.job_started_ms[rows],
            model.runs.lost_work[rows],
            snapshot.job_priority[rows],
            -time[model.jobs.gang[rows]],
            snapshot.job_queue[rows],
        )
    )
    rows = rows[order]
    queues = len(snapshot.queue_names)
    return model.gangs.groups._replace(
        surplus_runs=rows.astype(np.int64),
        surplus_first=job_order.find_queue_bounds(rows, snapshot.job_queue, queues),
    )


def _link_avoided(snapshot: Snapshot, gangs: GangTable, model: RoundModel, place: Int32) -> None:
    """N10: link the avoided nodes of each job; jobs that avoid all eligible nodes fail."""
    avoided = model.jobs.avoided
    if snapshot.avoid_job is None or snapshot.avoid_node is None or not avoided.first.size:
        return
    avoided.position[:] = place[snapshot.avoid_node]
    for pair, j in enumerate(snapshot.avoid_job.tolist()):
        avoided.link[pair] = avoided.first[j]
        avoided.first[j] = pair
    model.runs.state[gangs.all_nodes_tried] = FAILED


def is_urgency_possible(
    snapshot: Snapshot, start: PreparedPool, shapes: ShapeTable, levels: int
) -> bool:
    """Whether a queued job could preempt by urgency, could run away from home (N6), or avoids
    nodes: then the round needs the tables of runs."""
    avoids = snapshot.avoid_job is not None and snapshot.avoid_job.size > 0
    if levels == 1 and shapes.level.shape[1] == 1 and not avoids:
        return False
    queued = start.queued.any(axis=0)
    if not queued.any():
        return False
    if avoids:
        return True
    if (shapes.level[queued, 1:] >= 0).any():
        return True
    soft = start.shape_preemption != Preemption.NONE
    least = start.shape_value[soft & (queued | start.running.any(axis=0))]
    lowest = least.min() if least.size else np.iinfo(np.int64).max
    lowest = start.job_totals.values.min(initial=lowest)
    return bool(lowest < start.shape_value[queued].max())
