"""Builds the plan, the result of a round, from the model after the passes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import entry_point
from fairlead_scheduler.engine.plan import nearness, reason_rows
from fairlead_scheduler.engine.plan.reason_rows import TimeChecks
from fairlead_scheduler.engine.plan.round_reasons import (
    build_reason_rows,
    find_free_capacity,
)
from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.engine.preparation.gangs import gang_table, role_table
from fairlead_scheduler.engine.preparation.pool import prepared_pool
from fairlead_scheduler.engine.preparation.round_context import (
    RoundContext,
    find_stop_code,
    list_placed,
)
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Byte,
    Cause,
    Code,
    Float,
    Int32,
    Int64,
    Tier,
)
from fairlead_scheduler.engine.state import round_state
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import DISPLACED, FAILED, PREEMPTED, QUEUED
from fairlead_scheduler.engine.state.run_states import GANG_RUNS, SHARE_STEPS

TEMPORARY_LIMITS: Final = np.zeros(256, np.bool_)
"""By code, whether it is a limit that can be different in the next round."""
TEMPORARY_LIMITS[
    [
        Code.ROUND_LIMIT,
        Code.RATE_LIMIT,
        Code.TIME_LIMIT,
        Code.LOOKBACK_LIMIT,
        Code.PREEMPTION_LIMIT,
        Code.GROUP_STEP,
    ]
] = True
_FREE: Final = np.uint8(Tier.FREE)


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
    if not model.counters[round_state.N_PREEMPTED]:
        return _no_preemptions()
    rows = np.flatnonzero(model.runs.state == PREEMPTED)
    job = rows[np.argsort(round_.snapshot.job_submission[rows])].astype(np.int32)
    preemptors = _find_preemptors(round_, job)
    return _Preemptions(
        job=job,
        cause=_find_causes(model, job, preemptors),
        preemptor=preemptors,
        share=model.runs.share_before[job],
        preemptor_share=model.usage.share_steps[model.jobs.queue[preemptors]] / SHARE_STEPS,
    )


def build_plan(
    round_: RoundContext,
    clock: RoundClock,
    measure_steps: Callable[[], dict[str, float]],
    *,
    explain: bool,
) -> Plan:
    """The result of `schedule`. Reasons that time did not suffice for (L6) say `time-limit`.

    `measure_steps` is called when everything else is done.
    """
    clock.check()
    snapshot, start, model = round_.snapshot, round_.start, round_.model
    placed = list_placed(round_)
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
    queue_count = len(snapshot.queue_names)
    queued, waiting, is_limited = _count_waiting(round_, ended)
    tokens_left = model.usage.tokens.item(-1)
    balanced = snapshot.preemption_tokens - tokens_left if math.isfinite(tokens_left) else 0
    explain = explain or refused.size > 0
    rows = reason_rows.no_reasons()
    if explain:
        checks = TimeChecks(clock, round_.settings.pairs_per_check)
        rows = build_reason_rows(round_, queued, refused, refused_code, rejected, checks)
        is_limited = bool(TEMPORARY_LIMITS[rows.code].any())
    stopped_by = find_stop_code(round_)
    return Plan(
        pool=snapshot.pool,
        placed_job=job,
        placed_node=round_.position[model.placements.position[placed]],
        placed_value=_find_placed_values(round_, job),
        placed_tier=model.runs.tier[job] if model.runs.active else np.full(job.size, _FREE),
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
        shares=start.queues.shares,
        shape_feasible=start.feasible.shape,
        gang_feasible=_find_feasible_gangs(round_),
        capacity=start.capacity.total,
        queue_scheduled=np.bincount(snapshot.job_queue[job], minlength=queue_count),
        queue_preempted=np.bincount(snapshot.job_queue[preempted.job], minlength=queue_count)
        if preempted.job.size
        else np.zeros(queue_count, np.int64),
        queue_waiting=waiting,
        queue_skipped=reason_rows.count_skipped(rows, queue_count),
        queue_position=_find_queue_positions(round_, ended, waiting, explain=explain),
        stopped_by=stopped_by,
        explained=explain,
        limited=is_limited or stopped_by is not Code.NONE,
        tokens_used=job.size,
        preemption_tokens_used=round(balanced),
        nearness=nearness.measure_nearness(round_, find_free_capacity(round_), clock)
        if snapshot.topology is not None
        else None,
        gang_first=round_.gangs.first,
        gang_members=round_.gangs.members,
        steps_ms=measure_steps(),
    )


def _count_waiting(round_: RoundContext, ended: Int32) -> tuple[Int64, Int64, bool]:
    """[Q, S] and [Q] the jobs that wait after the round, in which these jobs ended waiting; and
    whether any waits for a limit that the next round can be without, as the pass left it."""
    queued = round_.start.queued.copy()
    waiting = np.zeros(queued.shape[0], np.int64)
    is_limited = count_waiting(
        round_.packed_model, round_.start.pairs, ended, TEMPORARY_LIMITS, queued, waiting
    )
    return queued, waiting, bool(is_limited)


@entry_point
def count_waiting(
    model: RoundModel, pairs: Int64, ended: Int32, temporary: Bool, queued: Int64, waiting: Int64
) -> bool:
    """Subtract `ended` from `queued` ([Q, S]), and count what is left of each queue in `waiting`
    ([Q] zeros). Returns whether any of it waits with a code that is `temporary` (by code).

    `pairs`: as in `PreparedPool`.
    """
    for i in range(ended.size):
        queued[model.jobs.queue[ended[i]], model.jobs.shape[ended[i]]] -= 1
    is_limited = False
    for p in range(pairs.shape[0]):
        q = pairs[p, 0]
        s = pairs[p, 1]
        if queued[q, s] > 0:
            waiting[q] += queued[q, s]
            code = model.progress.skip_code[q, s]
            is_limited = is_limited or temporary[code] or temporary[model.progress.stop_code[q]]
    for g in range(model.gangs.code.size):
        is_limited = is_limited or temporary[model.gangs.code[g]]
    return is_limited


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
    placed = list_placed(round_)
    placed = placed[~_find_further_members(round_)[placed]]
    newest = np.full(snapshot.node_number.size, -1, np.int32)
    newest[round_.position[model.placements.position[placed]]] = model.placements.job[placed]
    rows = preempted[members]
    node = snapshot.job_node[rows]
    short = snapshot.shape_request[snapshot.job_shape[rows]] > find_free_capacity(round_)[node]
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


def _find_causes(model: RoundModel, preempted: Int32, preemptors: Int32) -> Byte:
    """R8: a run that was preempted for fair share, or as surplus, by a job that was displaced
    itself has cause urgency, if it is less urgent than the final preemptor. (It is not if the
    displaced job went with a less urgent member of its gang.)"""
    cause = model.runs.cause[preempted]
    displaced = model.runs.state[model.runs.preemptor[preempted]] == DISPLACED
    own = (cause == Cause.FAIR_SHARE) | (cause == Cause.SURPLUS)
    less_urgent = model.runs.level[preempted] < model.runs.level[preemptors]
    cause[displaced & own & less_urgent] = Cause.URGENCY
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
    avoids = round_.snapshot.avoid_job is not None
    if not round_.model.runs.active or not (round_.gangs.present or avoids):
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


def _find_queue_positions(
    round_: RoundContext, ended: Int32, waiting: Int64, *, explain: bool
) -> Int64:
    """[Q] how many jobs are ahead of the first that waits in each queue; -1 where none waits."""
    if not explain or not waiting.any():
        return np.full(waiting.size, -1, np.int64)
    chosen = np.zeros(round_.snapshot.job_queue.size, np.bool_)
    chosen[ended] = True
    return job_order.find_first_waiting(round_.model.jobs.order, round_.first, chosen, waiting)
