"""What happened to a job and when, from its times, its runs and what users requested."""

from typing import Final, assert_never

import msgspec

from fairlead_lookout.http.responses.job_responses import (
    JobDetailResponse,
    RunResponse,
    UserRequestResponse,
)

EVENTS_MAX: Final = 100
"""The newest events are listed."""


class JobEvent(msgspec.Struct, frozen=True):
    """One event. `run`: the number of its run, or 0."""

    time: str
    state: str
    text: str
    run: int = 0


def list_events(job: JobDetailResponse) -> list[JobEvent]:
    """The events of a job, newest first."""
    submitted = f"Submitted by {job.submitted_by}" if job.submitted_by else "Submitted"
    events = [JobEvent(job.submitted, "queued", submitted)]
    events += [_describe_request(request) for request in job.user_requests]
    for run in sorted(job.runs, key=lambda run: run.run):
        events += _list_run_events(run)
    if job.ended is not None and job.ended not in [run.ended for run in job.runs]:
        events.append(JobEvent(job.ended, job.state.lower(), _join(job.state, job.reason)))
    events.sort(key=lambda event: event.time)
    return events[: -EVENTS_MAX - 1 : -1]


def _describe_request(request: UserRequestResponse) -> JobEvent:
    match request.action:
        case "cancel":
            state, what = "cancelled", "Cancellation"
        case "preempt":
            state, what = "preempted", "Preemption"
        case "reprioritize":
            state, what = "queued", f"Priority {request.priority}"
        case _:
            assert_never(request.action)
    text = f"{what} requested by {request.by}"
    return JobEvent(request.time, state, f"{text}: {request.reason}" if request.reason else text)


def _list_run_events(run: RunResponse) -> list[JobEvent]:
    place = f"on node {run.node} of cluster {run.cluster}"
    changes = [
        (run.leased, "leased", f"Leased {place}"),
        (run.pending, "pending", "Pending: its executor creates it"),
        (run.running, "running", "Running"),
        (run.ended, run.state.lower(), _join(run.state, run.reason)),
    ]
    return [JobEvent(time, state, text, run.run) for time, state, text in changes if time]


def _join(state: str, reason: str | None) -> str:
    return f"{state.capitalize()}: {reason}" if reason else state.capitalize()
