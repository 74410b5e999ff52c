"""What happened to a job and when, from its times and its runs."""

from typing import Final

import msgspec

from fairlead_lookout.http.responses import JobDetailResponse, RunResponse

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
    events = [JobEvent(job.submitted, "queued", "Submitted")]
    for run in sorted(job.runs, key=lambda run: run.run):
        events += _list_run_events(run)
    if job.ended is not None and job.ended != events[-1].time:
        events.append(JobEvent(job.ended, job.state.lower(), _join(job.state, job.reason)))
    return events[: -EVENTS_MAX - 1 : -1]


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
