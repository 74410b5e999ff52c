"""Builds the plan, the result of a round, from the model after the passes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import entry_point, pack_for_kernels
from fairlead_scheduler.engine.plan import fair_share_check, gang_reasons, nearness, reason_rows
from fairlead_scheduler.engine.plan.reason_rows import TimeChecks, WaitingRows
from fairlead_scheduler.engine.plan.round_context import RoundContext, find_stop_code
from fairlead_scheduler.engine.preparation import (
    fair_shares,
    gang_table,
    job_order,
    prepared_pool,
    role_table,
)
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Byte,
    Cause,
    Code,
    Float,
    Int32,
    Int64,
    Plan,
    Preemption,
    Reasons,
    Snapshot,
    Tier,
)
from fairlead_scheduler.engine.state import round_state
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import DISPLACED, FAILED, PLACED, PREEMPTED, QUEUED
from fairlead_scheduler.engine.state.run_states import GANG_RUNS, SHARE_STEPS

UNLIMITED_LEFT: Final = 2.0**62
"""The amount left where there is no limit: the largest that a column can contain."""
TEMPORARY_LIMITS: Final = frozenset(
    {
        Code.ROUND_LIMIT,
        Code.RATE_LIMIT,
        Code.TIME_LIMIT,
        Code.LOOKBACK_LIMIT,
        Code.PREEMPTION_LIMIT,
        Code.GROUP_STEP,
    }
)
"""Codes of limits that can be different in the next round."""


class _Preemptions(NamedTuple):
    """The columns of `Plan` about preempted runs."""

    job: Int32
    cause: Byte
    preemptor: Int32
    share: Float
    preemptor_share: Float


@functools.cache
def _no_preemptions() -> _Preemptions:
    rows, shares = np.zeros(0, np.int32), np.zeros(0)
    return _Preemptions(rows, np.zeros(0, np.uint8), rows, shares, shares)


def _list_preemptions(round_: RoundContext) -> _Preemptions:
    """R8: the runs that were preempted and did not return, by submission."""
    model = round_.model
    if not model.runs.active:
        return _no_preemptions()
    rows = np.flatnonzero(model.runs.state == PREEMPTED)
    job = rows[np.argsort(round_.snapshot.job_submission[rows])].astype(np.int32)
    preemptors = _find_preemptors(round_, job)
    return _Preemptions(
        job=job,
        cause=_find_causes(model, job),
        preemptor=preemptors,
        share=model.runs.share_before[job],
        preemptor_share=model.usage.share_steps[model.jobs.queue[preemptors]] / SHARE_STEPS,
    )


def build_plan(
    round_: RoundContext, clock: RoundClock, measure_steps: Callable[[], dict[str, float]]
) -> Plan:
    """The result of `schedule`. Reasons that time did not suffice for (L6) say `time-limit`.

    `measure_steps` is called when everything else is done.
    """
    clock.check()
    snapshot, start, model = round_.snapshot, round_.start, round_.model
    placed = _list_placed(round_)
    job = model.placements.job[placed]
    preempted = _list_preemptions(round_)
    _spare_further_members(round_)
    failed, failed_code = _list_failed(round_)
    rejected, rejected_code = _list_rejected(round_)
    refused, refused_code = failed, failed_code
    if rejected.size:
        refused = np.concatenate([failed, rejected])
        refused_code = np.concatenate([failed_code, rejected_code])
    ended = np.concatenate([job, refused]) if refused.size else job
    queued = _subtract_jobs(start.queued, snapshot, ended)
    waiting = queued.sum(axis=1)
    queue_count = len(snapshot.queue_names)
    tokens_left = model.usage.tokens.item(-1)
    balanced = snapshot.preemption_tokens - tokens_left if math.isfinite(tokens_left) else 0
    checks = TimeChecks(clock, round_.settings.pairs_per_check)
    rows = _build_reason_rows(round_, queued, refused, refused_code, checks)
    return Plan(
        pool=snapshot.pool,
        placed_job=job,
        placed_node=round_.position[model.placements.position[placed]],
        placed_value=_find_placed_values(round_, job),
        placed_tier=model.runs.tier[job]
        if model.runs.active
        else np.full(job.size, Tier.FREE, np.uint8),
        placed_away=(model.placements.away[placed] - 1).astype(np.int8),
        preempted_job=preempted.job,
        preempted_cause=preempted.cause,
        preemptor_job=preempted.preemptor,
        preempted_share=preempted.share,
        preemptor_share=preempted.preemptor_share,
        rejected_job=rejected,
        rejected_code=rejected_code,
        failed_job=failed,
        failed_code=failed_code,
        reasons=rows,
        shares=start.shares,
        shape_feasible=start.feasible.shape,
        gang_feasible=_find_feasible_gangs(round_),
        capacity=start.capacity.total,
        queue_scheduled=np.bincount(snapshot.job_queue[job], minlength=queue_count),
        queue_preempted=np.bincount(snapshot.job_queue[preempted.job], minlength=queue_count)
        if preempted.job.size
        else np.zeros(queue_count, np.int64),
        queue_waiting=waiting,
        queue_skipped=reason_rows.count_skipped(rows, queue_count),
        queue_position=_find_queue_positions(round_, ended, waiting),
        stopped_by=find_stop_code(round_),
        limited=_is_limited(round_, rows),
        tokens_used=job.size,
        preemption_tokens_used=round(balanced),
        nearness=nearness.measure_nearness(round_, _find_free_capacity(round_), clock)
        if snapshot.topology is not None
        else None,
        steps_ms=measure_steps(),
    )


def _is_limited(round_: RoundContext, rows: Reasons) -> bool:
    """Whether a limit of this round kept jobs waiting that the next round could start."""
    return find_stop_code(round_) is not Code.NONE or not TEMPORARY_LIMITS.isdisjoint(
        rows.code.tolist()
    )


def _list_placed(round_: RoundContext) -> Int64:
    """Rows of the model's placements that were not displaced."""
    n = round_.model.counters.item(round_state.N_PLACED)
    if not round_.model.runs.active:
        return np.arange(n)
    return np.flatnonzero(round_.model.runs.state[round_.model.placements.job[:n]] == PLACED)


def _find_placed_values(round_: RoundContext, job: Int32) -> Int64:
    if round_.model.runs.active:
        return round_.levels[round_.model.runs.level[job]]
    return round_.start.shape_value[round_.snapshot.job_shape[job]]


def _find_final_preemptors(model: RoundModel, preempted: Int32) -> Int32:
    """R8: a run that was preempted for a displaced job names the job that displaced that one."""
    preemptors = model.runs.preemptor[preempted]
    for _ in range(preemptors.size + 1):
        displaced = model.runs.state[preemptors] == DISPLACED
        if not displaced.any():
            break
        preemptors = np.where(displaced, model.runs.preemptor[preemptors], preemptors)
    return preemptors.astype(np.int32)


def _find_preemptors(round_: RoundContext, preempted: Int32) -> Int32:
    """E5: the job that each run was preempted for. A member that went with a victim of its gang
    (N8) on another node was preempted for a job placed there (no further member, none less urgent)
    that needs its capacity, else for the preemptor of the victim.
    """
    model, snapshot = round_.model, round_.snapshot
    if not preempted.size:
        return preempted
    preemptors = _find_final_preemptors(model, preempted)
    members = np.flatnonzero(model.runs.cause[preempted] == Cause.GANG)
    if not members.size:
        return preemptors
    placed = _list_placed(round_)
    placed = placed[~_find_further_members(round_)[placed]]
    newest = np.full(snapshot.node_number.size, -1, np.int32)
    newest[round_.position[model.placements.position[placed]]] = model.placements.job[placed]
    rows = preempted[members]
    node = snapshot.job_node[rows]
    short = snapshot.shape_request[snapshot.job_shape[rows]] > _find_free_capacity(round_)[node]
    elsewhere = model.runs.position[preemptors[members]] != model.runs.position[rows]
    there = (newest[node] >= 0) & short.any(axis=1) & elsewhere
    there &= model.runs.level[newest[node]] >= model.runs.level[rows]
    preemptors[members[there]] = newest[node[there]]
    return preemptors


def _find_further_members(round_: RoundContext) -> Bool:
    """Which placements are members beyond those that start their gang (N7, N8)."""
    gangs = round_.gangs
    jobs = round_.model.placements.job[: int(round_.model.counters[round_state.N_PLACED])]
    if not gangs.present:
        return np.zeros(jobs.size, np.bool_)
    gang, role = gangs.of_job[jobs], gangs.roles.of_job[jobs]
    beyond = role_table.place_in_role(role) >= gangs.roles.minimum[role]
    return np.asarray(((gangs.mode[gang] == GANG_RUNS) | beyond) & (gang >= 0))


def _find_causes(model: RoundModel, preempted: Int32) -> Byte:
    """R8: a run that was preempted for fair share, or as surplus, by a job that was displaced
    itself has cause urgency."""
    cause = model.runs.cause[preempted]
    displaced = model.runs.state[model.runs.preemptor[preempted]] == DISPLACED
    own = (cause == Cause.FAIR_SHARE) | (cause == Cause.SURPLUS)
    cause[displaced & own] = Cause.URGENCY
    return cause


def _spare_further_members(round_: RoundContext) -> None:
    """N7: further members of a gang that was itself displaced do not fail."""
    model = round_.model
    if not round_.gangs.present:
        return
    member = np.flatnonzero((model.runs.state == FAILED) & (model.jobs.gang >= 0))
    member = member[~np.isin(member, round_.gangs.all_nodes_tried)]
    model.runs.state[member[model.gangs.live[model.jobs.gang[member]] == 0]] = QUEUED


@functools.cache
def _no_jobs() -> tuple[Int32, Byte]:
    """No rows, without codes."""
    return np.zeros(0, np.int32), np.zeros(0, np.uint8)


def _list_failed(round_: RoundContext) -> tuple[Int32, Byte]:
    """Queued jobs that fail: members without a node under `rest: fail`, and jobs that have failed
    on all nodes; their rows and codes."""
    if not round_.model.runs.active:
        return _no_jobs()
    rows = np.flatnonzero(round_.model.runs.state == FAILED)
    rows = rows[np.argsort(round_.snapshot.job_submission[rows])].astype(np.int32)
    code = np.full(rows.size, Code.GANG_REST, np.uint8)
    code[np.isin(rows, round_.gangs.all_nodes_tried)] = Code.ALL_NODES_TRIED
    return rows.astype(np.int32), code.astype(np.uint8)


def _list_rejected(round_: RoundContext) -> tuple[Int32, Byte]:
    """Queued jobs that can never run, by submission (section 6, L4, N9)."""
    snapshot = round_.snapshot
    if round_.start.static.all_feasible and not round_.gangs.present:
        return _no_jobs()
    single = _list_infeasible_jobs(round_)
    rows, codes = [single], [np.full(single.size, Code.INFEASIBLE, np.uint8)]
    gangs = round_.gangs
    if not gangs.present and not single.size:
        return single, codes[0]
    if gangs.present:
        final = np.isin(gangs.code, [Code.INFEASIBLE, Code.GANG_EXCEEDS_BURST])
        late = gang_table.find_late_gangs(snapshot, round_.settings)
        final |= late & (gangs.code == Code.GANG_INCOMPLETE)
        if final.any():
            mine = np.flatnonzero((gangs.of_job >= 0) & (snapshot.job_node == -1))
            mine = mine[final[gangs.of_job[mine]]].astype(np.int32)
            code = gangs.code[gangs.of_job[mine]]
            keep = ~(
                (code == Code.INFEASIBLE)
                & prepared_pool.find_jobs_that_wait(snapshot, mine.astype(np.intp))
            )
            rows.append(mine[keep])
            codes.append(code[keep])
    job, code = np.concatenate(rows), np.concatenate(codes)
    by = np.argsort(snapshot.job_submission[job])
    return job[by].astype(np.int32), code[by]


def _list_infeasible_jobs(round_: RoundContext) -> Int32:
    """Queued rows, without gangs, of shapes that can never run, unless they wait if infeasible."""
    snapshot = round_.snapshot
    if round_.start.static.all_feasible:
        return np.zeros(0, np.int32)
    never = (round_.model.progress.skip_code == Code.INFEASIBLE) & (round_.start.queued > 0)
    if snapshot.shape_fitted is not None and not round_.gangs.present:
        never &= ~snapshot.shape_fitted
    if not never.any():
        return np.zeros(0, np.int32)
    rows: Int32 = np.flatnonzero(snapshot.job_node == -1).astype(np.int32)
    rows = rows[never[snapshot.job_queue[rows], snapshot.job_shape[rows]]]
    if round_.gangs.present:
        rows = rows[round_.gangs.of_job[rows] < 0]
    return rows[~prepared_pool.find_jobs_that_wait(snapshot, rows.astype(np.intp))]


def _find_feasible_gangs(round_: RoundContext) -> Bool:
    """[G] gangs that were found to fit: complete, or running already."""
    gangs = round_.gangs
    if not gangs.present:
        size = 0 if round_.snapshot.gang_min is None else round_.snapshot.gang_min.size
        return np.zeros(size, np.bool_)
    complete = np.diff(gangs.first) >= gangs.minimum
    return np.asarray(round_.start.feasible.gang & complete)


def _subtract_jobs(queued: Int64, snapshot: Snapshot, rows: Int32) -> Int64:
    """[Q, S] the numbers of jobs by queue and shape without these jobs."""
    left = queued.astype(np.int64)
    _count_down(rows.astype(np.int32), snapshot.job_queue, snapshot.job_shape, left)
    return left


@entry_point
def _count_down(rows: Int32, queue: Int32, shape: Int32, left: Int64) -> None:
    """Subtract 1 from the pair of each of these jobs."""
    for i in range(rows.size):
        left[queue[rows[i]], shape[rows[i]]] -= 1


def _build_reason_rows(
    round_: RoundContext, queued: Int64, refused: Int32, refused_code: Byte, checks: TimeChecks
) -> Reasons:
    """Rows for single jobs by (queue, shape), then for gangs; `queued` counts both, [Q, S].

    A pair without waiting jobs has a row too if a job was refused, for its text.
    """
    snapshot, model = round_.snapshot, round_.model
    if not refused.size and not queued.any():
        return reason_rows.no_reasons()
    members, gang_rows = gang_reasons.list_waiting_members(round_, _list_rejected(round_)[0])
    single = _subtract_jobs(queued, snapshot, members)
    pair_code = model.progress.skip_code.copy()
    in_gang = gang_reasons.find_gangs(round_, refused) >= 0
    of_refused = (snapshot.job_queue[refused[~in_gang]], snapshot.job_shape[refused[~in_gang]])
    refused_pairs = np.zeros(single.shape, np.bool_)
    refused_pairs[of_refused] = True
    refused_pairs &= single == 0
    alone_refused = refused_pairs[of_refused]
    pair_code[of_refused] = np.where(alone_refused, refused_code[~in_gang], pair_code[of_refused])
    listed = (single > 0) | refused_pairs
    pair = np.flatnonzero(listed)
    queue = np.repeat(np.arange(listed.shape[0]), np.count_nonzero(listed, axis=1))
    shape = pair - queue * listed.shape[1]
    code = pair_code.ravel()[pair]
    alone = model.progress.stop_code[queue]
    rest = Code.NOT_REACHED if find_stop_code(round_) != Code.NONE else Code.INSUFFICIENT_RESOURCES
    code = np.where(code != 0, code, np.where(alone != 0, alone, np.uint8(rest)))
    gangs = np.flatnonzero(gang_rows)
    first_member = np.zeros(gangs.size, np.int64)
    if gangs.size:
        first_member = gang_reasons.find_first_members(round_, members, gangs)
    ended, last, last_code = gang_reasons.list_refused_gangs(
        round_, refused[in_gang], refused_code[in_gang], gang_rows
    )
    gang_code = gang_reasons.find_gang_codes(round_, gangs, first_member)
    gang_code = np.concatenate([gang_code, last_code])
    gangs, first_member = np.concatenate([gangs, ended]), np.concatenate([first_member, last])
    role, role_members = gang_reasons.find_roles(round_, gangs, first_member)
    whose = np.concatenate([shape, snapshot.job_shape[first_member]]).astype(np.int32)
    free = _find_free_capacity(round_)
    rows = WaitingRows(
        queue=np.concatenate([queue, snapshot.job_queue[first_member]]).astype(np.int32),
        shape=whose,
        gang=np.concatenate([np.full(queue.size, -1), gangs]).astype(np.int32),
        code=np.concatenate([code, gang_code]).astype(np.uint8),
        waiting=np.concatenate([single.ravel()[pair], gang_rows[gangs]]).astype(np.int64),
        role=np.concatenate([np.full(queue.size, -1), role]).astype(np.int32),
        role_members=np.concatenate([np.zeros(queue.size), role_members]).astype(np.int32),
    )
    static, overfull = round_.start.static, round_.start.overfull
    grouped = reason_rows.find_node_groups(snapshot, static, overfull)
    made = reason_rows.build_reasons(snapshot, rows, free, grouped, checks)
    _mark_over_fair_share(round_, made, free, grouped.closed, checks)
    _fill_limits(round_, made, whose)
    return made


def _fill_limits(round_: RoundContext, made: Reasons, shape: Int32) -> None:
    """Fill in, for rows that wait for a limit, the resource, the amount needed and the amount left.

    `shape`: of each row, or of a member of its gang.
    """
    model = round_.model
    for code in (Code.QUEUE_LIMIT, Code.FLOATING_LIMIT):
        rows = np.flatnonzero(made.code == code)
        if not rows.size:
            continue
        request = round_.start.full_request[shape[rows]]
        if code == Code.QUEUE_LIMIT:
            at = (made.queue[rows], round_.snapshot.shape_class[shape[rows]])
            left = model.entitlements.class_limit[at] - model.usage.by_class[at]
        else:
            left = np.broadcast_to(
                (model.entitlements.floating_left - model.usage.started).astype(np.float64),
                request.shape,
            )
        short = (request > 0) & (request > left)
        first = short.argmax(axis=1)
        each = np.arange(rows.size)
        made.resource[rows] = np.where(short.any(axis=1), first, -1)
        made.needed[rows] = request[each, first]
        made.best[rows] = np.clip(left[each, first], 0, UNLIMITED_LEFT)


def _mark_over_fair_share(
    round_: RoundContext, made: Reasons, free: Int64, closed: Byte, checks: TimeChecks
) -> None:
    """Replace `insufficient-resources` by `over-fair-share` in the rows that E1 names."""
    rows = np.flatnonzero((made.code == Code.INSUFFICIENT_RESOURCES) & (made.gang < 0))
    if not rows.size:
        return
    snapshot, start = round_.snapshot, round_.start
    rows = rows[np.lexsort((start.shape_value[made.shape[rows]], made.queue[rows]))]
    active = round_.model.runs.active
    scan = fair_share_check.begin_scan(snapshot, round_.position, closed, free, active)
    scan, allocations = pack_for_kernels(scan), pack_for_kernels(_collect_runs_by_node(round_))
    reached = 0
    for part in checks.slices(rows.size, closed.size):
        mine = rows[part]
        pair = made.queue[mine], made.shape[mine]
        over = fair_share_check.find_over_fair_share(
            allocations, round_.packed_model, *pair, snapshot.shape_match, scan
        )
        made.code[mine[over]] = Code.OVER_FAIR_SHARE
        reached += mine.size
    made.code[rows[reached:]] = Code.TIME_LIMIT
    fair_share_check.compare_shares(snapshot, round_.model, start.shares.fair, made)


def _collect_runs_by_node(round_: RoundContext) -> fair_share_check.RunsByNode:
    """All runs and placements as the round ends, for `fair_share_check`."""
    snapshot, start, model = round_.snapshot, round_.start, round_.model
    nodes = snapshot.node_number.size
    place = np.empty_like(round_.position)
    place[round_.position] = np.arange(nodes, dtype=np.int32)
    placed = np.zeros(0, np.int64) if model.runs.active else _list_placed(round_)
    new_first, new_rows = fair_share_check.group_by_node(
        round_.position[round_.model.placements.position[placed]], nodes
    )
    held = model.usage.held if model.runs.active else model.usage.counted
    return fair_share_check.RunsByNode(
        table=model.runs,
        totals=start.job_totals,
        place=place,
        levels=round_.levels,
        new_first=new_first,
        new_rows=new_rows,
        new_job=round_.model.placements.job[placed],
        node=snapshot.job_node,
        queue=snapshot.job_queue,
        shape=snapshot.job_shape,
        value=np.zeros(0, np.int64) if snapshot.job_value is None else snapshot.job_value,
        soft=start.shape_preemption == Preemption.ANY,
        shape_value=start.shape_value,
        balance=round_.balance,
        per_weight=fair_shares.dominant_share(held, start.capacity.factor)
        / model.entitlements.weight,
    )


def _find_free_capacity(round_: RoundContext) -> Int64:
    """[N, R] free capacity when the round ends, by row of the snapshot."""
    size = round_.model.capacity.tree_types.size // 2
    result = np.empty_like(round_.start.free)
    result[round_.position] = round_.model.capacity.tree[size : size + round_.position.size]
    return result


def _find_queue_positions(round_: RoundContext, ended: Int32, waiting: Int64) -> Int64:
    """[Q] how many jobs are ahead of the first that waits in each queue; -1 where none waits."""
    if not waiting.any():
        return np.full(waiting.size, -1, np.int64)
    chosen = np.zeros(round_.snapshot.job_queue.size, np.bool_)
    chosen[ended] = True
    return job_order.find_first_waiting(round_.model.jobs.order, round_.first, chosen, waiting)
