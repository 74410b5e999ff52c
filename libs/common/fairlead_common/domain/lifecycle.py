"""The life cycles of jobs and runs: an enum and a table each.

Every fold uses these tables, and the diagrams in the documentation are drawn from them. Events are
named by their tag, so that this module needs nothing of `events.py`. A pair that is not in a table
changes no state: a late or repeated report is no error. Terminal states are sticky because no
table row leaves them, but for one: a run that was given up (`LOST`) may turn out to have succeeded.
Its job succeeds then unless a later run has started, which the scheduler decides (decision 0027).
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class JobState(StrEnum):
    """Where a job is."""

    QUEUED = "QUEUED"
    LEASED = "LEASED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    PREEMPTED = "PREEMPTED"
    REJECTED = "REJECTED"


class RunState(StrEnum):
    """Where one attempt of a job is."""

    LEASED = "LEASED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    RETURNED = "RETURNED"
    STOPPED = "STOPPED"
    LOST = "LOST"


JOB_ENDED: Final = frozenset(
    {
        JobState.SUCCEEDED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.PREEMPTED,
        JobState.REJECTED,
    }
)
JOB_HELD: Final = frozenset({JobState.LEASED, JobState.PENDING, JobState.RUNNING})
"""The job has a run that may hold room."""

RUN_ENDED: Final = frozenset(
    {
        RunState.SUCCEEDED,
        RunState.FAILED,
        RunState.RETURNED,
        RunState.STOPPED,
        RunState.LOST,
    }
)

_DECISIONS: Final = {
    "jobSucceeded": JobState.SUCCEEDED,
    "jobFailed": JobState.FAILED,
    "jobCancelled": JobState.CANCELLED,
    "jobPreempted": JobState.PREEMPTED,
    "jobRequeued": JobState.QUEUED,
}

JOB_STEPS: Final[Mapping[tuple[JobState, str], JobState]] = MappingProxyType(
    {
        (JobState.QUEUED, "jobCancelRequested"): JobState.CANCELLED,
        (JobState.QUEUED, "jobsCancelRequested"): JobState.CANCELLED,
        (JobState.QUEUED, "jobCancelled"): JobState.CANCELLED,
        (JobState.QUEUED, "jobFailed"): JobState.FAILED,
        (JobState.QUEUED, "jobRejected"): JobState.REJECTED,
        (JobState.QUEUED, "jobSucceeded"): JobState.SUCCEEDED,
        (JobState.QUEUED, "jobRunLeased"): JobState.LEASED,
        (JobState.LEASED, "jobRunPending"): JobState.PENDING,
        (JobState.LEASED, "jobRunRunning"): JobState.RUNNING,
        (JobState.PENDING, "jobRunRunning"): JobState.RUNNING,
        **{(state, tag): to for state in JOB_HELD for tag, to in _DECISIONS.items()},
    }
)
"""(state, tag of the event) -> next state of the job; run events count for the newest run only."""

_RUN_ENDS: Final = {
    "jobRunSucceeded": RunState.SUCCEEDED,
    "jobRunFailed": RunState.FAILED,
    "jobRunReturned": RunState.RETURNED,
    "jobRunStopped": RunState.STOPPED,
    "jobRunLost": RunState.LOST,
}

RUN_STEPS: Final[Mapping[tuple[RunState, str], RunState]] = MappingProxyType(
    {
        (RunState.LEASED, "jobRunPending"): RunState.PENDING,
        (RunState.LEASED, "jobRunRunning"): RunState.RUNNING,
        (RunState.PENDING, "jobRunRunning"): RunState.RUNNING,
        **{
            (state, tag): to
            for state in (RunState.LEASED, RunState.PENDING, RunState.RUNNING)
            for tag, to in _RUN_ENDS.items()
        },
        (RunState.LOST, "jobRunSucceeded"): RunState.SUCCEEDED,
    }
)
"""(state, tag of the event) -> next state of the run; a run begins LEASED with `jobRunLeased`."""
