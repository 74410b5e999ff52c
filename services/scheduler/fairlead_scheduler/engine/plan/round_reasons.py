"""The reasons of waiting jobs (E1 to E3) from the model after the passes."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import pack_for_kernels
from fairlead_scheduler.engine.plan import fair_share_check, gang_reasons, reason_rows
from fairlead_scheduler.engine.plan.reason_rows import TimeChecks, WaitingRows
from fairlead_scheduler.engine.preparation.pool import fair_shares
from fairlead_scheduler.engine.preparation.round_context import (
    RoundContext,
    find_stop_code,
    list_placed,
)
from fairlead_scheduler.engine.round_plan import Reasons
from fairlead_scheduler.engine.snapshot import Byte, Code, Int32, Int64, Preemption

UNLIMITED_LEFT: Final = 2.0**62
"""The amount left where there is no limit: the largest that a column can contain."""


def build_reason_rows(
    round_: RoundContext,
    queued: Int64,
    refused: Int32,
    refused_code: Byte,
    rejected: Int32,
    checks: TimeChecks,
) -> Reasons:
    """Rows for single jobs by (queue, shape), then for gangs; `queued` counts both, [Q, S].

    A pair without waiting jobs has a row too if a job was refused, for its text.
    """
    snapshot, model = round_.snapshot, round_.model
    if not refused.size and not queued.any():
        return reason_rows.no_reasons()
    members, gang_rows = gang_reasons.list_waiting_members(round_, rejected)
    single = queued.copy()
    np.subtract.at(single, (snapshot.job_queue[members], snapshot.job_shape[members]), 1)
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
    free = find_free_capacity(round_)
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
    if not snapshot.node_type.size:
        # Limits that are fractions of the pool are 0 there, and would hide the cause.
        made.code[(made.waiting > 0) & (made.code != Code.QUEUE_CORDONED)] = Code.NO_MATCHING_NODE
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
    check = fair_share_check.FairShareCheck(
        runs=_collect_runs_by_node(round_),
        scan=fair_share_check.begin_scan(snapshot, round_.position, closed, free),
        model=round_.model,
    )
    check = pack_for_kernels(check, {"model": round_.packed_model})
    reached = 0
    for part in checks.slices(rows.size, closed.size):
        mine = rows[part]
        over = fair_share_check.find_over_fair_share(check, made.queue[mine], made.shape[mine])
        made.code[mine[over]] = Code.OVER_FAIR_SHARE
        reached += mine.size
    made.code[rows[reached:]] = Code.TIME_LIMIT
    fair_share_check.compare_shares(snapshot, round_.model, start.queues.shares.fair, made)


def _collect_runs_by_node(round_: RoundContext) -> fair_share_check.RunsByNode:
    """All runs and placements as the round ends, for `fair_share_check`."""
    snapshot, start, model = round_.snapshot, round_.start, round_.model
    nodes = snapshot.node_number.size
    place = np.empty_like(round_.position)
    place[round_.position] = np.arange(nodes, dtype=np.int32)
    placed = np.zeros(0, np.int64) if model.runs.active else list_placed(round_)
    new_first, new_rows = fair_share_check.group_by_node(
        round_.position[round_.model.placements.position[placed]], nodes
    )
    held = model.usage.held if model.runs.active else model.usage.counted
    return fair_share_check.RunsByNode(
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


def find_free_capacity(round_: RoundContext) -> Int64:
    """[N, R] free capacity when the round ends, by row of the snapshot."""
    size = round_.model.capacity.tree_types.size // 2
    result = np.empty_like(round_.start.free)
    result[round_.position] = round_.model.capacity.tree[size : size + round_.position.size]
    return result
