"""What events do to the states of jobs and runs.

The tables of `lifecycle.py`, as plain text by event type: cheap to look up in a hot path.
"""

from collections.abc import Mapping
from typing import Final, get_args

from fairlead_common.domain import ids
from fairlead_common.domain.lifecycle import (
    JOB_ENDED,
    JOB_STEPS,
    JOB_WITH_RUN,
    RUN_ENDED,
    RUN_STEPS,
    JobState,
    RunState,
)
from fairlead_common.domain.records import events
from fairlead_lookout.domain.model import Action, Job, JobRequest, Run

REQUESTS_MAX: Final = 10
"""The newest requests of users that are recorded for a job."""
Transitions = Mapping[type[events.Event], Mapping[str, str]]
"""event type -> state -> next state"""


def _make_table(
    table: Mapping[tuple[JobState, str], JobState] | Mapping[tuple[RunState, str], RunState],
) -> Transitions:
    made: dict[type[events.Event], dict[str, str]] = {}
    for kind in get_args(events.AnyEvent):
        tag = kind.__struct_config__.tag
        made[kind] = {str(state): str(to) for (state, name), to in table.items() if name == tag}
    return made


JOB_TRANSITIONS: Final = _make_table(JOB_STEPS)
RUN_TRANSITIONS: Final = _make_table(RUN_STEPS)
ENDED: Final = frozenset(str(state) for state in JOB_ENDED)
LIVE: Final = frozenset(str(state) for state in JobState) - ENDED
WITH_RUN: Final = frozenset(str(state) for state in JOB_WITH_RUN)
"""States of a job that has a run."""
RUNS_ENDED: Final = frozenset(str(state) for state in RUN_ENDED)
QUEUED: Final = str(JobState.QUEUED)
SUCCEEDED: Final = str(JobState.SUCCEEDED)


def advance_run(run: Run, state: str, event: events.RunEvent, time_ms: int) -> None:
    """Set the state of a run, with what the event reports about it."""
    was_lost = run.state == "LOST"
    run.state = state
    if state == "PENDING":
        run.pending_ms = time_ms
        return
    if state == "RUNNING":
        run.running_ms = time_ms
        return
    run.ended_ms = time_ms
    match event:
        case events.JobRunSucceeded():
            run.exit_code = 0
            if was_lost:
                run.reason = None
        case events.JobRunFailed():
            run.category = str(event.category)
            run.exit_code = event.exit_code
            run.reason = event.reason
        case events.JobRunStopped():
            run.exit_code = event.exit_code
            run.reason = run.reason or event.reason
        case events.JobRunReturned() | events.JobRunLost():
            run.reason = event.reason
        case _:
            pass


def record_preemption_cause(job: Job, run: Run) -> None:
    """Copy from the job to its newest run why the run was preempted, if it was, when the run has
    ended."""
    if job.stop_cause is not None and run.cause is None:
        run.cause = job.stop_cause
        run.reason = run.reason or job.stop_reason


def record_request(
    job: Job, time_ms: int, action: Action, by: str, reason: str | None, priority: int | None = None
) -> None:
    """Record what a user requested for a job."""
    request = JobRequest(time_ms, action, by, reason, priority)
    job.user_requests = (*job.user_requests[1 - REQUESTS_MAX :], request)
    job.dirty = True


def find_requester(job: Job, action: Action) -> str | None:
    """The user who requested what ended the job or its newest run, if one did."""
    is_preempted = job.latest is not None and job.latest.cause == events.PreemptionCause.REQUEST
    if action == "preempt" and not is_preempted:
        return None
    return next((each.by for each in reversed(job.user_requests) if each.action == action), None)


def find_replaced_job(event: events.JobSubmitted) -> str | None:
    """The job of the same partition that this one replaces, if it is a resubmission."""
    if not event.annotations:
        return None
    job_id = event.annotations.get(events.RESUBMITTED_FROM, "")
    if not ids.is_job_id(job_id):
        return None
    same = ids.partition_of_job(job_id) == ids.partition_of_job(event.job_id)
    return job_id if same else None


def can_supersede(new: Job, old: Job) -> bool:
    """Whether the old job is in the same job set, did not succeed and was not superseded before."""
    has_failed = old.state in ENDED and old.state != SUCCEEDED
    return has_failed and old.key == new.key and old.superseded_by is None
