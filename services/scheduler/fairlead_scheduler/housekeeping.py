"""What a cycle decides before it schedules: run ends, stops, deadlines, lost executors. Pure.

Level, not edge: each decision follows from what the view says now, so that it does not matter
which of several leaders saw the event that led there.
"""

from collections.abc import Iterator
from typing import assert_never

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common import events as ev
from fairlead_common import resources, shapes
from fairlead_common.events import FailureCategory
from fairlead_common.ids import JobId, run_id
from fairlead_common.leases import Wish
from fairlead_common.lifecycle import RunState
from fairlead_scheduler import leasing
from fairlead_scheduler.leasing import Leases
from fairlead_scheduler.units import Unit
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view.columns import JobSet, View

End = ev.JobSucceeded | ev.JobFailed | ev.JobCancelled | ev.JobPreempted | ev.JobRequeued


class Housekeeping(msgspec.Struct, frozen=True):
    """What was decided, and which rows a round must leave alone until it is folded back."""

    units: list[Unit]
    left_out: npt.NDArray[np.bool_]


def decide(
    view: View, held: Leases, lost: frozenset[str], *, now_ms: int, unstarted_max: int
) -> Housekeeping:
    """Everything that is due now."""
    left_out = np.zeros(max(1, view.jobs.used), np.bool_)
    units: list[Unit] = []
    for row, unit in _attended(view, held, unstarted_max):
        left_out[row] = True
        units.append(unit)
    for row, unit in _overdue(view, now_ms):
        if not left_out[row]:
            left_out[row] = True
            units.append(unit)
    for row, unit in _lost(view, held, lost):
        left_out[row] = True
        units.append(unit)
    units += [Unit((), leasing.clear(held, run)) for run in view.loose_runs if run in held.held]
    return Housekeeping(units, left_out)


def _job_set(view: View, row: int) -> JobSet:
    return view.jobs.job_sets.values[int(view.jobs.job_set[row])]


def _attended(view: View, held: Leases, unstarted_max: int) -> Iterator[tuple[int, Unit]]:
    """Jobs that an event marked: their run ended, they are to stop, or they wait in vain."""
    jobs = view.jobs
    for job_id in sorted(view.attention):
        row = jobs.rows.get(job_id)
        if row is None:
            continue
        live = bool(c.IS_LIVE_RUN[jobs.run_state[row]])
        if live:
            run = run_id(job_id, int(jobs.run[row]))
            known = held.held.get(run)
            if known is not None and known.wish is Wish.RUN and _is_to_stop(view, row):
                why = jobs.rare[row].stop_reason if row in jobs.rare else ""
                yield row, Unit((), (leasing.stop_lease(view, row, why),))
        elif c.IS_HELD[jobs.state[row]]:
            event = decide_end(view, row, unstarted_max)
            executor = jobs.nodes.values[jobs.node[row]].executor
            run = run_id(job_id, int(jobs.run[row]))
            cleared = leasing.clear(held, run, executor)
            yield row, Unit(((_job_set(view, row), event),), cleared)
        elif jobs.state[row] == c.QUEUED and jobs.flags[row] & c.DOOMED:
            doom = ev.JobCancelled(job_id=job_id, reason=jobs.rare[row].doom)
            yield row, Unit(((_job_set(view, row), doom),))


def _is_to_stop(view: View, row: int) -> bool:
    return bool(view.jobs.flags[row] & c.STOPPING) or bool(c.IS_ENDED[view.jobs.state[row]])


def _overdue(view: View, now_ms: int) -> Iterator[tuple[int, Unit]]:
    """Queued jobs that have waited longer than they wanted to."""
    jobs = view.jobs
    span = slice(0, jobs.used)
    late = (jobs.state[span] == c.QUEUED) & (jobs.queue_until_ms[span] <= now_ms)
    late &= (jobs.flags[span] & c.FREE) == 0
    for row in np.flatnonzero(late).tolist():
        waited_s = (int(jobs.queue_until_ms[row]) - int(jobs.submitted_ms[row])) // 1000
        event = ev.JobCancelled(
            job_id=jobs.ids[row], reason=f"still queued after its maxQueueSeconds of {waited_s} s"
        )
        yield row, Unit(((_job_set(view, row), event),))


def _lost(view: View, held: Leases, lost: frozenset[str]) -> Iterator[tuple[int, Unit]]:
    """Live runs on executors that have not reported for too long are given up."""
    if not lost:
        return
    jobs = view.jobs
    numbers = [at for at, name in enumerate(jobs.nodes.values) if name.executor in lost]
    span = slice(0, jobs.used)
    there = c.IS_LIVE_RUN[jobs.run_state[span]] & np.isin(jobs.node[span], numbers)
    there &= (jobs.flags[span] & c.FREE) == 0
    for row in np.flatnonzero(there).tolist():
        executor = jobs.nodes.values[jobs.node[row]].executor
        run = int(jobs.run[row])
        event = ev.JobRunLost(
            job_id=jobs.ids[row], run=run, reason=f"executor {executor} has stopped reporting"
        )
        cleared = leasing.clear(held, run_id(jobs.ids[row], run), executor)
        yield row, Unit(((_job_set(view, row), event),), cleared)


def decide_end(view: View, row: int, unstarted_max: int) -> End:
    """What the end of its newest run means for the job."""
    jobs = view.jobs
    job_id, flags = jobs.ids[row], int(jobs.flags[row])
    rare = jobs.rare.get(row) or c.Rare()
    state = c.RUN_STATES[jobs.run_state[row]]
    if state is RunState.SUCCEEDED:
        return ev.JobSucceeded(job_id=job_id)
    if flags & c.STOP_CANCEL:
        return ev.JobCancelled(job_id=job_id, reason=rare.stop_reason or "cancelled")
    if flags & c.STOP_PREEMPT and state is not RunState.RETURNED:
        if flags & c.PREEMPTED_IS_FINAL:
            return ev.JobPreempted(job_id=job_id, reason=rare.stop_reason)
        return ev.JobRequeued(job_id=job_id, reason=f"preempted: {rare.stop_reason}")
    match state:
        case RunState.FAILED:
            return _failed(view, row, job_id, rare)
        case RunState.RETURNED:
            return _returned(view, row, job_id, rare, unstarted_max)
        case RunState.STOPPED | RunState.LOST:
            return ev.JobRequeued(job_id=job_id, reason=rare.failure_reason or "its run was lost")
        case RunState.LEASED | RunState.PENDING | RunState.RUNNING:
            raise AssertionError(f"the run of {job_id} has not ended")
        case _:
            assert_never(state)


def _failed(view: View, row: int, job_id: JobId, rare: c.Rare) -> ev.JobFailed | ev.JobRequeued:
    category = rare.failure or FailureCategory.INTERNAL
    policy = rare.retry
    if policy is None or category not in policy.on or view.jobs.retries[row] >= policy.limit:
        return ev.JobFailed(
            job_id=job_id,
            category=category,
            reason=rare.failure_reason,
            exit_code=rare.exit_code,
        )
    avoid = _node_name(view, row) if policy.avoid_node else None
    changed: dict[str, msgspec.Raw] = {}
    if category is FailureCategory.OOM and policy.memory_factor > 1:
        shape = view.jobs.shape_of(int(view.jobs.shape[row]))
        changed["shape"] = _more_memory(shape, policy.memory_factor)
    return ev.JobRequeued(
        job_id=job_id,
        reason=f"retry {view.jobs.retries[row] + 1} of {policy.limit} after {category.value}",
        counted=True,
        avoid_node=avoid,
        **changed,
    )


def _node_name(view: View, row: int) -> str:
    name = view.jobs.nodes.values[view.jobs.node[row]]
    return f"{name.executor}/{name.node}"


def _more_memory(shape: shapes.Shape, factor: float) -> msgspec.Raw:
    memory = int(shape.requests.get(resources.MEMORY, 0) * factor)
    requests = shape.requests | {resources.MEMORY: min(memory, resources.AMOUNT_MAX)}
    return shapes.encode(msgspec.structs.replace(shape, requests=requests))


def _returned(
    view: View, row: int, job_id: JobId, rare: c.Rare, unstarted_max: int
) -> ev.JobFailed | ev.JobRequeued:
    if len(rare.avoid) + 1 >= unstarted_max:
        return ev.JobFailed(
            job_id=job_id,
            category=FailureCategory.ADMISSION,
            reason=f"{len(rare.avoid) + 1} nodes could not start it; the last: "
            f"{rare.failure_reason}",
        )
    return ev.JobRequeued(
        job_id=job_id,
        reason=f"could not start: {rare.failure_reason}",
        avoid_node=_node_name(view, row),
    )
