"""The plan of a round whose time was up before anything could be placed (L6)."""

from __future__ import annotations

import numpy as np

from fairlead_scheduler.engine.preparation.pool.prepared_pool import PreparedPool
from fairlead_scheduler.engine.round_plan import Plan, Reasons
from fairlead_scheduler.engine.snapshot import Bucket, Code, Float, Int32, Int64, Snapshot


def build_plan(snapshot: Snapshot, start: PreparedPool) -> Plan:
    """Nothing starts, stops or ends: every queued job waits for the next round."""
    queues = len(snapshot.queue_names)
    rows: Int32 = np.zeros(0, np.int32)
    values: Int64 = np.zeros(0, np.int64)
    shares: Float = np.zeros(0, np.float64)
    codes = np.zeros(0, np.uint8)
    waiting = start.queued.sum(axis=1)
    skipped = np.zeros((queues, len(Code)), np.int64)
    skipped[:, Code.TIME_LIMIT] = waiting
    return Plan(
        pool=snapshot.pool,
        placed_job=rows,
        placed_node=rows,
        placed_value=values,
        placed_tier=codes,
        preempted_job=rows,
        preempted_cause=codes,
        preemptor_job=rows,
        preempted_share=shares,
        preemptor_share=shares,
        rejected_job=rows,
        rejected_code=codes,
        failed_job=rows,
        failed_code=codes,
        reasons=_reasons(start),
        shares=start.queues.shares,
        shape_feasible=np.zeros(snapshot.shape_class.size, np.bool_),
        gang_feasible=np.zeros(
            0 if snapshot.gang_min is None else snapshot.gang_min.size, np.bool_
        ),
        capacity=start.capacity.total,
        queue_scheduled=np.zeros(queues, np.int64),
        queue_preempted=np.zeros(queues, np.int64),
        queue_waiting=waiting,
        queue_skipped=skipped,
        queue_position=np.where(waiting > 0, 0, -1),
        stopped_by=Code.TIME_LIMIT,
        explained=True,
        limited=True,
        tokens_used=0,
        preemption_tokens_used=0,
    )


def _reasons(start: PreparedPool) -> Reasons:
    """A row per (queue, shape), members of gangs included."""
    queue, shape = np.nonzero(start.queued > 0)
    count = queue.size
    return Reasons(
        queue=queue.astype(np.int32),
        shape=shape.astype(np.int32),
        gang=np.full(count, -1, np.int32),
        code=np.full(count, Code.TIME_LIMIT, np.uint8),
        counts=np.zeros((count, len(Bucket)), np.int32),
        resource=np.full(count, -1, np.int32),
        needed=np.zeros(count, np.int64),
        best=np.zeros(count, np.int64),
        waiting=start.queued[queue, shape],
        others_hold_more=np.zeros(count, np.bool_),
        exceeds_share=np.zeros(count, np.bool_),
        role=np.full(count, -1, np.int32),
        role_members=np.zeros(count, np.int32),
    )
