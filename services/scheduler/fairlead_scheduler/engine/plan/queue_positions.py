"""How many jobs are ahead of those that wait for a reason, in the order of their queue (G11)."""

from __future__ import annotations

import numpy as np

from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.snapshot import Bool, Int32, Int64, Snapshot

UNKNOWN = -1


def count_jobs_ahead(snapshot: Snapshot, plan: Plan, queues: Bool) -> Int64:
    """[M] for each row of `plan.reasons`, the jobs of its queue that still wait and are ahead of
    the first one of the row; `UNKNOWN` for rows of other queues than `queues` ([Q])."""
    reasons = plan.reasons
    result = np.full(reasons.code.size, UNKNOWN, np.int64)
    if not queues.any():
        return result
    order = job_order.order_queued(snapshot)
    bounds = job_order.find_queue_bounds(order, snapshot.job_queue, queues.size)
    left = np.ones(snapshot.job_queue.size, np.bool_)
    for ended in (plan.placed_job, plan.rejected_job, plan.failed_job):
        left[ended] = False
    for queue in np.flatnonzero(queues).tolist():
        waiting = order[bounds[queue] : bounds[queue + 1]]
        waiting = waiting[left[waiting]]
        rows = np.flatnonzero(reasons.queue == queue)
        gang = (
            np.full(waiting.size, -1) if snapshot.job_gang is None else snapshot.job_gang[waiting]
        )
        alone = np.flatnonzero(gang < 0)
        shape = snapshot.job_shape[waiting[alone]]
        of_gangs = reasons.gang[rows] >= 0
        result[rows[of_gangs]] = find_first(gang, reasons.gang[rows[of_gangs]])
        at = find_first(shape, reasons.shape[rows[~of_gangs]])
        result[rows[~of_gangs]] = np.where(at < 0, UNKNOWN, alone[at] if alone.size else UNKNOWN)
    return result


def find_first(values: Int32, wanted: Int32) -> Int64:
    """The first place of each wanted value, `UNKNOWN` where it is not among the values."""
    if not wanted.size:
        return np.zeros(0, np.int64)
    last = max(int(values.max(initial=0)), int(wanted.max()))
    first = np.full(last + 2, UNKNOWN, np.int64)  # the last one of jobs in no gang, -1
    first[values[::-1]] = np.arange(values.size)[::-1]  # the first one is written last
    return first[wanted]


def describe_jobs_ahead(queue: str, ahead: int) -> str:
    """The sentence about a queue with `order: fair`. Numbers above 100 have two digits: where every
    job that starts changed the sentence, reports would be written all the time."""
    about = ""
    if ahead > 100:
        step = 10 ** (len(str(ahead)) - 2)
        about, ahead = "about ", ahead // step * step
    jobs = "1 job is" if ahead == 1 else f"{about}{ahead:,} jobs are"
    return f"Queue {queue} is ordered by weighted running time: {jobs} ahead."
