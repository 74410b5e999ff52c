"""What came of a round: the plan, from the model as the passes left it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import model, reasons
from .compiled import kernel
from .model import Model, Tables
from .pool import Pool
from .snapshot import Bool, Byte, Code, Int32, Int64, JobFlag, Plan, Reasons, Rung, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """A round under way."""

    snapshot: Snapshot
    start: Pool
    position: Int32
    """[N] rows of nodes in the order of N3."""
    first: Int64
    """[Q+1] where each queue begins in the order of queued jobs."""
    tables: Tables
    model: Model


def plan(round_: Round, stopped: Code) -> Plan:
    """The answer of `schedule`."""
    snapshot, start, state = round_.snapshot, round_.start, round_.model
    n = int(state.number[model.PLACED])
    job = state.placed_job[:n].copy()
    node = round_.position[state.placed_at[:n]]
    shape = snapshot.job_shape[job]
    placed = _pair_counts(snapshot.job_queue[job], shape, start.queued.shape)
    waiting = start.queued - placed
    scheduled = placed.sum(axis=1)
    rejected = _infeasible_jobs(snapshot, state.pair_code)
    none = np.zeros(0, np.int32)
    return Plan(
        pool=snapshot.pool,
        placed_job=job,
        placed_node=node,
        placed_value=start.shape_value[shape],
        placed_rung=np.full(n, Rung.FREE, np.uint8),
        placed_away=(state.placed_away[:n] - 1).astype(np.int8),
        preempted_job=none,
        preempted_cause=none.astype(np.uint8),
        preempted_for=none,
        preempted_share=none.astype(np.float64),
        preempted_for_share=none.astype(np.float64),
        rejected_job=rejected,
        rejected_code=np.full(rejected.size, Code.INFEASIBLE, np.uint8),
        failed_job=none,
        failed_code=none.astype(np.uint8),
        reasons=_reasons(round_, stopped, waiting),
        shares=start.shares,
        shape_feasible=start.feasible,
        capacity=start.capacity,
        queue_scheduled=scheduled,
        queue_preempted=np.zeros_like(scheduled),
        queue_waiting=waiting.sum(axis=1),
        queue_position=_positions(round_, job, waiting),
        stopped_by=stopped,
        limited=stopped != Code.NONE or bool(_stopped_alone(state.queue_stop).any()),
        tokens_used=n,
        preemption_tokens_used=0,
    )


def _stopped_alone(queue_stop: Byte) -> Bool:
    """[Q] queues that a limit stopped (a cordon is none)."""
    result: Bool = (queue_stop != 0) & (queue_stop != Code.QUEUE_CORDONED)
    return result


def _pair_counts(queue: Int32, shape: Int32, size: tuple[int, ...]) -> Int64:
    """[Q, S] how often each pair occurs."""
    pair = queue.astype(np.int64) * size[1] + shape
    return np.bincount(pair, minlength=size[0] * size[1]).reshape(size).astype(np.int64)


def _reasons(round_: Round, stopped: Code, waiting: Int64) -> Reasons:
    snapshot, state = round_.snapshot, round_.model
    queue, shape = np.nonzero(waiting)
    code = state.pair_code[queue, shape]
    alone = state.queue_stop[queue]
    rest = Code.NOT_REACHED if stopped != Code.NONE else Code.INSUFFICIENT_RESOURCES
    code = np.where(code != 0, code, np.where(alone != 0, alone, np.uint8(rest)))
    return reasons.table(
        snapshot,
        (queue, shape),
        code.astype(np.uint8),
        waiting[queue, shape],
        _free_after(round_),
        round_.start.overfull,
    )


def _free_after(round_: Round) -> Int64:
    """[N, R] free beside everything, by row of the snapshot."""
    size = round_.tables.types.size // 2
    result = np.empty_like(round_.start.free)
    result[round_.position] = round_.model.tree[size : size + round_.position.size]
    return result


def _infeasible_jobs(snapshot: Snapshot, pair_code: Byte) -> Int32:
    """Queued rows of shapes that can never run, but for those that are kept."""
    never = pair_code == Code.INFEASIBLE
    if not never.any():
        return np.zeros(0, np.int32)
    chosen = (snapshot.job_node == -1) & never[snapshot.job_queue, snapshot.job_shape]
    if snapshot.job_flags is not None:
        chosen &= (snapshot.job_flags & JobFlag.KEPT) == 0
    rows = np.flatnonzero(chosen)
    return rows[np.argsort(snapshot.job_submission[rows])].astype(np.int32)


def _positions(round_: Round, placed: Int32, waiting: Int64) -> Int64:
    chosen = np.zeros(round_.snapshot.job_queue.size, np.bool_)
    chosen[placed] = True
    return _first_waiting(round_.tables.order, round_.first, chosen, waiting.sum(axis=1))


@kernel
def _first_waiting(order: Int32, first: Int64, placed: Bool, waiting: Int64) -> Int64:
    """[Q] place in each queue's order of its first job that was not placed, -1 for none."""
    result = np.full(waiting.size, -1, np.int64)
    for q in range(waiting.size):
        if waiting[q] == 0:
            continue
        for i in range(first[q], first[q + 1]):
            if not placed[order[i]]:
                result[q] = i - first[q]
                break
    return result
