"""Decides what happens to a job whose run ended without success: retries, more memory, other nodes.
Pure."""

from typing import Final, assert_never

import msgspec

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import RunState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, RetryPolicy
from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View

End = ev.JobFailed | ev.JobCancelled | ev.JobPreempted | ev.JobRequeued
DEFAULT_POLICY: Final = RetryPolicy(limit=1, on=(FailureCategory.NODE_LOST,))
"""The retry policy of jobs without one of their own or of their queue."""


def decide_unsuccessful_end(
    view: View,
    row: int,
    queues: Queues,
    clusters: Clusters,
    unstarted_max: int,
    gang_starts: "GangStarts",
) -> End:
    """Decide what happens to the job of this row, whose newest run ended without success.

    `unstarted_max`: the job fails once this number of nodes could not start it. A success needs no
    decision: housekeeping handles successes as columns (`SucceededJobs`).
    """
    jobs = view.jobs
    job_id, state = jobs.rows.id_at(row), job_table.RUN_STATES[jobs.run_state.item(row)]
    assert state is not RunState.SUCCEEDED, f"the run of {job_id} succeeded"
    flags, rare = jobs.flags.item(row), jobs.rare_properties.get(row) or job_table.RareProperties()
    if flags & job_table.STOP_CANCEL:
        return ev.JobCancelled(job_id=job_id, reason=rare.stop_reason or "cancelled")
    if rare.gang_cannot_start:
        return fail_with_gang(job_id, rare)
    if state is RunState.RETURNED:
        return _decide_after_return(view, row, rare, unstarted_max)
    if flags & job_table.STOP_PREEMPT:
        if flags & job_table.PREEMPTED_IS_FINAL:
            return ev.JobPreempted(job_id=job_id, reason=rare.stop_reason)
        return ev.JobRequeued(job_id=job_id, reason=f"preempted: {rare.stop_reason}")
    if flags & job_table.STOP_GANG:
        return ev.JobRequeued(job_id=job_id, reason=rare.stop_reason)
    match state:
        case RunState.FAILED:
            if gang_starts.fails_without(row):
                return _decide_after_return(view, row, rare, unstarted_max)
            return _decide_after_failure(view, row, rare, queues, clusters)
        case RunState.STOPPED | RunState.LOST:
            return ev.JobRequeued(job_id=job_id, reason=rare.failure_reason or "its run was lost")
        case RunState.LEASED | RunState.PENDING | RunState.RUNNING:
            raise AssertionError(f"the run of {job_id} has not ended")
        case _:
            assert_never(state)


def fail_with_gang(job_id: JobId, rare: job_table.RareProperties) -> ev.JobFailed:
    """Fail a job whose gang can never start. All members get the same reason."""
    return ev.JobFailed(
        job_id=job_id, category=FailureCategory.ADMISSION, reason=rare.cannot_start_reason
    )


def _ended_unstarted(view: View, row: int) -> bool:
    """Whether the newest run ended before its command ran, without a request to stop it."""
    jobs = view.jobs
    ended = (
        job_table.IS_WITH_RUN[jobs.state[row]] and not job_table.IS_LIVE_RUN[jobs.run_state[row]]
    )
    succeeded = jobs.run_state[row] == job_table.RUN_CODE[RunState.SUCCEEDED]
    to_stop = jobs.flags[row] & job_table.STOPPING
    return bool(ended and not succeeded and not to_stop and jobs.state[row] != job_table.RUNNING)


def node_name(view: View, row: int) -> str:
    """The node of the newest run, as `JobRequeued.avoid_node` names it."""
    name = view.jobs.nodes.values[view.jobs.node[row]]
    return f"{name.executor}/{name.node}"


def _decide_after_return(
    view: View, row: int, rare: job_table.RareProperties, unstarted_max: int
) -> End:
    """Decide about a job whose run never started: try another node, up to a limit."""
    job_id = view.jobs.rows.id_at(row)
    if len(rare.avoid) + 1 >= unstarted_max:
        return ev.JobFailed(
            job_id=job_id,
            category=FailureCategory.ADMISSION,
            reason=f"{len(rare.avoid) + 1} nodes could not start the job; the last one reported:"
            f" {rare.failure_reason}",
        )
    return ev.JobRequeued(
        job_id=job_id,
        reason=f"could not start: {rare.failure_reason}",
        avoid_node=node_name(view, row),
    )


def _decide_after_failure(
    view: View, row: int, rare: job_table.RareProperties, queues: Queues, clusters: Clusters
) -> End:
    """Decide about a job whose run failed: retry it by the retry policy, or fail it."""
    jobs, job_id = view.jobs, view.jobs.rows.id_at(row)
    category = rare.failure or FailureCategory.INTERNAL
    policy = rare.retry or queues.get(jobs.queues.values[jobs.queue[row]]).retry_policy
    policy = policy or DEFAULT_POLICY
    used = int(jobs.retries[row])
    if category not in policy.on or used >= policy.limit:
        return ev.JobFailed(
            job_id=job_id,
            category=category,
            reason=rare.failure_reason,
            exit_code=rare.exit_code,
        )
    reason = f"retry {used + 1} of {policy.limit} after {category.value}: {rare.failure_reason}"
    avoid = node_name(view, row) if policy.avoid_node else None
    shape = jobs.shape_of(int(jobs.shape[row]))
    memory = shape.requests.get(quantities.MEMORY, 0)
    more = memory
    if category is FailureCategory.OOM:
        most = clusters.largest_amount(jobs.pools.values[jobs.pool[row]], quantities.MEMORY)
        more = increase_memory(memory, policy.memory_factor, most)
    if more == memory:
        return ev.JobRequeued(job_id=job_id, reason=reason, counted=True, avoid_node=avoid)
    amounts = (quantities.format_quantity(quantities.MEMORY, amount) for amount in (memory, more))
    return ev.JobRequeued(
        job_id=job_id,
        reason=f"{reason}; memory {' -> '.join(amounts)}",
        counted=True,
        avoid_node=avoid,
        shape=shapes.encode(
            msgspec.structs.replace(shape, requests=shape.requests | {quantities.MEMORY: more})
        ),
    )


class GangStarts:
    """Finds gangs with too few members left to start. The members of each gang are counted once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._wanted_runs: dict[job_table.GangName, int] = {}
        """Members with a run that is not to be stopped, by gang."""

    def fails_without(self, row: int) -> bool:
        """Whether this job could not start and its gang cannot start without it."""
        view = self._view
        rare = view.jobs.rare_properties.get(row)
        if rare is None or rare.gang is None or rare.gang in view.gang_started:
            return False
        if rare.member is not None:  # `group_life_cycle` decides about groups
            return False
        if not _ended_unstarted(view, row):
            return False
        count = self._wanted_runs.get(rare.gang)
        if count is None:
            members = view.gang_members.get(rare.gang, ())
            count = sum(is_wanted_run(view, view.jobs.rows[job_id]) for job_id in members)
            self._wanted_runs[rare.gang] = count
        return count < view.gangs[rare.gang].min_size


def is_wanted_run(view: View, row: int) -> bool:
    """Whether the job has a live run and no flag that stops it. Its lease can still differ."""
    jobs = view.jobs
    return bool(
        job_table.IS_LIVE_RUN[jobs.run_state[row]] and not jobs.flags[row] & job_table.STOPPING
    )


def increase_memory(memory: int, factor: float, most: int) -> int:
    """`memory` times the factor, at most `most` (what the largest node has; 0 = unknown), and never
    less than `memory`. Amounts are bytes."""
    wanted = min(round(memory * factor), quantities.AMOUNT_MAX)
    return max(memory, min(wanted, most) if most else wanted)
