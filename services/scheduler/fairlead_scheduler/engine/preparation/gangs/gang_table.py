"""Gangs when the round starts: their members, how they are offered, and the label value to which
they are bound."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import by_address, entry_point
from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.engine.preparation.gangs import role_table
from fairlead_scheduler.engine.preparation.gangs.role_table import RoleTable
from fairlead_scheduler.engine.preparation.pool.pool_feasibility import is_type_eligible
from fairlead_scheduler.engine.preparation.pool.prepared_pool import PreparedPool
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Byte,
    Code,
    EngineSettings,
    Int32,
    Int64,
    NodeFlag,
    Preemption,
    Rest,
    SchedulingFlag,
    Snapshot,
)
from fairlead_scheduler.engine.state.run_states import GANG_NOT_OFFERED, GANG_RUNS, GANG_WAITS
from fairlead_scheduler.engine.state.surplus import find_surplus
from fairlead_scheduler.engine.topology import NO_LEVEL, TopologyMode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GangTable:
    """G gangs when the round starts: the arrays of `GangTables`, and the jobs that fail."""

    present: bool
    size: int
    of_job: Int32
    """[J] the gang of each job; -1 for a job without a gang, and for a member that was left over
    when its gang had ended (N9). [0] when there are no gangs."""
    first: Int64
    queued: Int64
    members: Int32
    last_queued: Int32
    minimum: Int32
    roles: RoleTable
    rest: Byte
    mode: Byte
    code: Byte
    label: Int32
    value: Int32
    value_first: Int32
    value_rows: Int32
    failed: Int32
    """Rows of members that were left over and fail by `rest: fail` (N9)."""
    all_nodes_tried: Int32
    """Rows of jobs that avoid every eligible node, and of members that fail with them (N10)."""


def build_gang_table(
    snapshot: Snapshot, start: PreparedPool, position: Int32, clock: RoundClock
) -> GangTable:
    """Sort members by gang, live ones first, and decide what each gang is offered as.

    Raises `TimeLimitReachedError` when time is up (L6).
    """
    gangs = snapshot.gang_min.size if snapshot.gang_min is not None else 0
    column = snapshot.job_gang
    if column is None or not gangs or not (column[snapshot.job_node >= -1] >= 0).any():
        if snapshot.avoid_job is None or not snapshot.avoid_job.size:
            return no_gangs()
        all_nodes_tried = _find_jobs_without_node(snapshot, start, clock)
        return dataclasses.replace(no_gangs(), all_nodes_tried=all_nodes_tried)
    assert snapshot.gang_started is not None, "a snapshot with gangs has all their columns"
    assert snapshot.gang_rest is not None, "a snapshot with gangs has all their columns"
    assert snapshot.gang_min is not None, "a snapshot with gangs has all their columns"
    assert snapshot.gang_label is not None, "a snapshot with gangs has all their columns"
    of_job = column.copy()
    running = job_order.order_running(snapshot)
    running = running[column[running] >= 0]
    runs = np.bincount(column[running], minlength=gangs) > 0
    left_over = snapshot.gang_started & ~runs
    ends = left_over & (snapshot.gang_rest == Rest.FAIL)
    mine = np.flatnonzero((column >= 0) & (snapshot.job_node == -1))
    failed = mine[ends[column[mine]]].astype(np.int32)
    alone = mine[left_over[column[mine]]]
    of_job[alone] = -1
    waiting = job_order.order_queued(snapshot)
    waiting = waiting[of_job[waiting] >= 0]
    roles = role_table.build_role_table(snapshot, start, of_job)
    last_queued = _find_last_queued(snapshot, of_job, waiting, gangs)
    waiting = _sort_waiting(snapshot, roles, waiting, clock)
    clock.require_time()
    both = np.concatenate([running, waiting])
    members = both[clock.sort_rows([column[both]])]
    clock.require_time()
    live = np.bincount(column[running], minlength=gangs)
    total = live + np.bincount(column[waiting], minlength=gangs)
    first = np.concatenate([[0], np.cumsum(total)]).astype(np.int64)
    code = _find_codes(snapshot, start, roles, waiting, total - live)
    runs |= snapshot.gang_min == 0  # no members have to start together
    mode = np.where(runs, GANG_RUNS, np.where(code != 0, GANG_NOT_OFFERED, GANG_WAITS)).astype(
        np.uint8
    )
    value_first, value_rows = _group_positions(snapshot, position)
    clock.require_time()
    all_nodes_tried, given_up = _find_failed_gangs(
        snapshot, waiting, of_job, roles, runs, _find_jobs_without_node(snapshot, start, clock)
    )
    return GangTable(
        present=True,
        size=gangs,
        of_job=of_job,
        first=first,
        queued=first[:-1] + live,
        members=members,
        last_queued=last_queued,
        minimum=snapshot.gang_min,
        roles=roles,
        rest=snapshot.gang_rest,
        mode=np.where(given_up, np.uint8(GANG_NOT_OFFERED), mode),
        code=np.where(runs, 0, code).astype(np.uint8),
        label=snapshot.gang_label,
        value=_find_bound_values(snapshot, running, gangs),
        value_first=value_first,
        value_rows=value_rows,
        failed=failed,
        all_nodes_tried=all_nodes_tried,
    )


@functools.cache
def no_gangs() -> GangTable:
    """The table of a pool without gangs."""
    empty = np.zeros(0, np.int32)
    return GangTable(
        present=False,
        size=0,
        of_job=empty,
        first=np.zeros(1, np.int64),
        queued=np.zeros(0, np.int64),
        members=empty,
        last_queued=empty,
        minimum=empty,
        roles=role_table.no_roles(),
        rest=empty.astype(np.uint8),
        mode=empty.astype(np.uint8),
        code=empty.astype(np.uint8),
        label=empty,
        value=empty,
        value_first=np.zeros((0, 1), np.int32),
        value_rows=np.zeros((0, 0), np.int32),
        failed=empty,
        all_nodes_tried=empty,
    )


def _find_last_queued(snapshot: Snapshot, of_job: Int32, waiting: Int32, gangs: int) -> Int32:
    """[G] the last queued member in the order of R3, surplus members aside."""
    last_queued = np.full(gangs, -1, np.int32)
    needed = waiting
    if snapshot.job_role is not None:
        needed = waiting[~find_surplus(snapshot.job_priority[waiting])]
    last_queued[of_job[needed]] = needed
    return last_queued


def _sort_waiting(snapshot: Snapshot, roles: RoleTable, waiting: Int32, clock: RoundClock) -> Int32:
    """Queued members in the order in which they are placed: by role, needed members before surplus,
    then the members that avoid more nodes, because they have fewer to choose from. Equal ones stay
    in their order."""
    keys: list[Int64 | Int32 | Bool] = []
    if snapshot.avoid_job is not None:
        avoided = np.bincount(snapshot.avoid_job, minlength=snapshot.job_queue.size)
        keys.append(-avoided[waiting])
    if snapshot.job_role is not None:
        keys += [find_surplus(snapshot.job_priority[waiting]), roles.of_job[waiting]]
    return waiting[clock.sort_rows(keys)] if keys else waiting


def _find_codes(
    snapshot: Snapshot, start: PreparedPool, roles: RoleTable, waiting: Int32, count: Int64
) -> Byte:
    """[G] why a gang without live members is not offered (N9, L4, section 6); 0: it is offered."""
    assert snapshot.gang_min is not None, "a snapshot with gangs has all their columns"
    need = snapshot.gang_min
    code = np.where(start.feasible.gang, np.uint8(0), np.uint8(Code.INFEASIBLE))
    needed = role_table.count_needed(roles, waiting, snapshot.job_priority)
    code[role_table.find_short_gangs(roles, needed)] = Code.GANG_INCOMPLETE
    code[need > min(snapshot.burst, snapshot.queue_burst)] = Code.GANG_EXCEEDS_BURST
    code[find_unknown_levels(snapshot, code.size) & (code == 0)] = Code.TOPOLOGY_LEVEL
    code[count == 0] = Code.NONE
    return code


def find_unknown_levels(snapshot: Snapshot, gangs: int) -> Bool:
    """[G] gangs that require a level of the topology that the pool does not have (T2)."""
    topology = snapshot.topology
    if topology is None:
        return np.zeros(gangs, np.bool_)
    return np.asarray(
        (topology.gang_mode == TopologyMode.REQUIRED) & (topology.gang_level == NO_LEVEL)
    )


def find_late_gangs(
    snapshot: Snapshot, settings: EngineSettings
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[G] gangs whose assembly timeout has passed (N9)."""
    submitted = snapshot.gang_submitted_ms
    assert submitted is not None, "a snapshot with gangs has all their columns"
    limit = settings.gang_assembly_timeout_ms
    if limit <= 0:
        return np.zeros(submitted.size, np.bool_)
    return np.asarray(snapshot.now_ms - submitted > limit)


def _find_failed_gangs(
    snapshot: Snapshot,
    waiting: Int32,
    of_job: Int32,
    roles: RoleTable,
    runs: Bool,
    tried: Int32,
) -> tuple[Int32, Bool]:
    """N10 for gangs: the jobs that fail, and [G] the gangs that fail as a whole because too few
    members are left. `tried`: the jobs without a node, of any gang or none."""
    mine = tried[of_job[tried] >= 0]
    if not mine.size:
        return tried, np.zeros(runs.size, np.bool_)
    count = role_table.count_needed(roles, waiting, snapshot.job_priority)
    lost = role_table.count_needed(roles, mine, snapshot.job_priority)
    given_up = ~runs & ~role_table.find_short_gangs(roles, count)
    given_up &= role_table.find_short_gangs(roles, count - lost)
    others = waiting[given_up[of_job[waiting]]]
    return np.union1d(tried, others).astype(np.int32), given_up


def _find_jobs_without_node(snapshot: Snapshot, start: PreparedPool, clock: RoundClock) -> Int32:
    """N10: queued jobs that avoid every eligible known node."""
    jobs, nodes = snapshot.avoid_job, snapshot.avoid_node
    if jobs is None or nodes is None or not jobs.size:
        return np.zeros(0, np.int32)
    pairs = np.flatnonzero(snapshot.job_node[jobs] == -1)
    pairs = pairs[start.feasible.shape[snapshot.job_shape[jobs[pairs]]]]
    pairs = pairs[clock.sort_rows([jobs[pairs], snapshot.job_shape[jobs[pairs]]])]
    tried = np.zeros(pairs.size, np.bool_)
    avoided = _AvoidedPairs(
        job=jobs[pairs],
        node=nodes[pairs],
        shape=snapshot.job_shape[jobs[pairs]],
        avoided_by=np.full(snapshot.node_type.size, -1, np.int64),
    )
    _avoid_all_nodes(
        avoided,
        snapshot.shape_request,
        snapshot.shape_match,
        snapshot.node_allocatable,
        snapshot.node_type,
        tried,
    )
    return np.unique(jobs[pairs[tried]]).astype(np.int32)


@by_address
class _AvoidedPairs(NamedTuple):
    """Jobs, their shapes, and nodes that they avoid, in order of shape and job."""

    job: Int32
    node: Int32
    shape: Int32
    avoided_by: Int64
    """[N] the last job that was found to avoid the node, -1"""


@entry_point
def _avoid_all_nodes(
    pairs: _AvoidedPairs,
    request: Int64,
    match: Byte,
    allocatable: Int64,
    node_type: Int32,
    result: Bool,
) -> None:
    """Write to `result` ([pairs]) whether the job of each pair avoids all eligible nodes.

    Nodes before the first eligible one of a shape are examined once per shape.
    """
    job, shape = pairs.job, pairs.shape
    begin = 0
    first = 0
    while begin < job.size:
        end = begin
        while end < job.size and job[end] == job[begin]:
            pairs.avoided_by[pairs.node[end]] = job[begin]
            end += 1
        if begin == 0 or shape[begin] != shape[begin - 1]:
            first = -1
        found = False
        for n in range(max(first, 0), node_type.size):
            eligible = is_type_eligible(match, shape[begin], node_type[n])
            for r in range(request.shape[1]):
                if request[shape[begin], r] > allocatable[n, r]:
                    eligible = False
            if eligible and first < 0:
                first = n
            if eligible and pairs.avoided_by[n] != job[begin]:
                found = True
                break
        for pair in range(begin, end):
            result[pair] = not found
        begin = end


def _group_positions(snapshot: Snapshot, position: Int32) -> tuple[Int32, Int32]:
    """`value_first` and `value_rows`: positions by value of each uniformity label, in the order of
    N3."""
    label = snapshot.node_label
    if label is None or not label.size:
        return np.zeros((len(snapshot.label_names), 1), np.int32), np.zeros(
            (len(snapshot.label_names), 0), np.int32
        )
    at = label[:, position]
    values = int(label.max()) + 1
    rows = np.argsort(at, axis=1, kind="stable").astype(np.int32)
    first = np.empty((label.shape[0], values + 1), np.int32)
    for u in range(label.shape[0]):
        first[u] = np.searchsorted(np.sort(at[u]), np.arange(values + 1))
    return first, rows


def _find_bound_values(snapshot: Snapshot, running: Int32, gangs: int) -> Int32:
    """[G] the label value of the nodes of a gang's live members; -1 if the gang can still
    choose."""
    assert snapshot.gang_label is not None, "a snapshot with gangs has all their columns"
    assert snapshot.job_gang is not None, "a snapshot with gangs has all their columns"
    value = np.full(gangs, -1, np.int32)
    gang = snapshot.job_gang[running]
    label = snapshot.gang_label[gang]
    chosen = label >= 0
    if chosen.any() and snapshot.node_label is not None:
        node = snapshot.job_node[running]
        value[gang[chosen]] = snapshot.node_label[label[chosen], node[chosen]]
    return value


def find_gang_preemption(
    snapshot: Snapshot, start: PreparedPool, of_job: Int32, gangs: int
) -> Byte:
    """[G] the strictest `Preemption` of any member, NONE for a gang with a member that is lost or
    stopping; 0 for a gang whose members stop one by one (N9)."""
    assert snapshot.gang_started is not None, "a snapshot with gangs has all their columns"
    result = np.zeros(gangs, np.uint8)
    mine = np.flatnonzero((of_job >= 0) & (snapshot.job_node >= -1))
    mine = mine[~snapshot.gang_started[of_job[mine]]]
    np.maximum.at(result, of_job[mine], start.shape_preemption[snapshot.job_shape[mine]])
    live = mine[snapshot.job_node[mine] >= 0]
    unsafe = (snapshot.node_flags[snapshot.job_node[live]] & NodeFlag.LOST) != 0
    if snapshot.job_flags is not None:
        unsafe |= (snapshot.job_flags[live] & SchedulingFlag.STOPPING) != 0
    result[of_job[live[unsafe]]] = Preemption.NONE
    return result
