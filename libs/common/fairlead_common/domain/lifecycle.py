"""The life cycles of jobs and runs: their states, the flags of a job, and one table of all changes.

`LIFE_CYCLE` says for every type of event what it does to the state of a job, to the state of its
run and to the flags of the job. Every fold uses it, and the diagrams in the documentation are drawn
from it. Events are named by their tag, so that this module needs nothing of `events.py`. A pair of
state and event that is not in the table changes no state: a late or repeated report is accepted,
and `is_impossible` names the pairs that only a defect can produce. Terminal states are sticky
because no row leaves them, but for one: a run that was given up (`LOST`) may turn out to have
succeeded. Its job succeeds then unless a later run has started, which the scheduler decides
(decision 0027).
"""

from collections.abc import Mapping
from enum import IntFlag, StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


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


class JobFlag(IntFlag):
    """Properties of a job besides its state. Saved checkpoints contain these numbers."""

    HOLD = 1
    """It was submitted with a hold and has not been released."""
    DEPENDS = 2
    """A job that it waits for has not ended."""
    CANNOT_START = 4
    """It can never start: a job that it waits for did not succeed, or its gang lost a member."""
    STOP_CANCEL = 8
    """Its run is stopped because it was cancelled."""
    STOP_PREEMPT = 16
    """Its run is stopped because it is preempted."""
    CAPACITY_REASSIGNED = 256
    """Its run is preempted, and the capacity counts for the preemptor."""
    STOP_GANG = 512
    """Its run is stopped because its gang returns to the queue."""
    LATE_SUCCESS = 1024
    """A run that was given up succeeded, and no later run had started: the job will succeed."""


NO_FLAG: Final = JobFlag(0)
STOPPING: Final = JobFlag.STOP_CANCEL | JobFlag.STOP_PREEMPT | JobFlag.STOP_GANG

JOB_ENDED: Final = frozenset(
    {
        JobState.SUCCEEDED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.PREEMPTED,
        JobState.REJECTED,
    }
)
JOB_WITH_RUN: Final = frozenset({JobState.LEASED, JobState.PENDING, JobState.RUNNING})
"""The job has a run, which possibly holds resources."""
JOB_LIVE: Final = frozenset(JobState) - JOB_ENDED

RUN_ENDED: Final = frozenset(
    {
        RunState.SUCCEEDED,
        RunState.FAILED,
        RunState.RETURNED,
        RunState.STOPPED,
        RunState.LOST,
    }
)


class FlagChange(NamedTuple):
    """How an event changes the flags of a job that is in one of these states.

    It changes nothing if the job has a flag of `unless`. `when`: what else must be true of the
    event, for people; the fold that handles the event checks it.
    """

    states: frozenset[JobState]
    sets: JobFlag = NO_FLAG
    clears: JobFlag = NO_FLAG
    unless: JobFlag = NO_FLAG
    when: str = ""

    def applies(self, state: JobState, flags: JobFlag) -> bool:
        """Whether the event changes the flags of a job in this state."""
        return state in self.states and not flags & self.unless

    def apply(self, flags: JobFlag) -> JobFlag:
        """The flags afterwards, where it applies."""
        return flags & ~self.clears | self.sets


_QUEUED: Final = frozenset({JobState.QUEUED})
SUBMIT_HELD: Final = FlagChange(_QUEUED, sets=JobFlag.HOLD, when="it has `hold`")
SUBMIT_DEPENDENT: Final = FlagChange(
    _QUEUED, sets=JobFlag.DEPENDS, when="a job of `after` has not ended"
)
SUBMIT_IN_VAIN: Final = FlagChange(
    _QUEUED, sets=JobFlag.CANNOT_START, when="a job of `after` ended without success"
)
RELEASE: Final = FlagChange(_QUEUED, clears=JobFlag.HOLD)
REQUEST_CANCEL: Final = FlagChange(
    JOB_WITH_RUN, sets=JobFlag.STOP_CANCEL, unless=JobFlag.STOP_CANCEL
)
REQUEST_PREEMPTION: Final = FlagChange(JOB_WITH_RUN, sets=JobFlag.STOP_PREEMPT, unless=STOPPING)
LEASE_ENDED: Final = FlagChange(JOB_ENDED, sets=JobFlag.STOP_CANCEL)
PREEMPT_FOR_JOB: Final = FlagChange(
    JOB_WITH_RUN, sets=JobFlag.STOP_PREEMPT, unless=STOPPING, when="it names a preemptor"
)
REASSIGN_CAPACITY: Final = FlagChange(
    frozenset(JobState), sets=JobFlag.CAPACITY_REASSIGNED, when="it names a preemptor"
)
STOP_WITH_GANG: Final = FlagChange(
    JOB_WITH_RUN, sets=JobFlag.STOP_GANG, unless=STOPPING, when="it names no preemptor"
)
REQUEUE: Final = FlagChange(JOB_WITH_RUN, clears=STOPPING | JobFlag.CAPACITY_REASSIGNED)
SUCCEED_LATE: Final = FlagChange(
    JOB_LIVE, sets=JobFlag.LATE_SUCCESS, when="its run was given up, and no later run had started"
)
DEPENDENCY_SUCCEEDED: Final = FlagChange(
    JOB_LIVE, clears=JobFlag.DEPENDS, when="it is the last job of the other's `after`"
)
DEPENDENCY_FAILED: Final = FlagChange(
    JOB_LIVE, sets=JobFlag.CANNOT_START, when="it is a job of the other's `after`"
)
GANG_FAILED: Final = FlagChange(
    JOB_LIVE, sets=JobFlag.CANNOT_START, when="its gang cannot start without it"
)


class Effect(NamedTuple):
    """What an event does: to the state of its job and of its run, and to the flags of the job.

    An event of a run changes the job only if it is the newest run. `others`: what it does to the
    flags of jobs that depend on its job.
    """

    job: Mapping[JobState, JobState] = {}
    run: Mapping[RunState, RunState] = {}
    flags: tuple[FlagChange, ...] = ()
    others: tuple[FlagChange, ...] = ()


def _from_run(to: JobState) -> dict[JobState, JobState]:
    """In the order of the states, for the diagrams."""
    return {state: to for state in JobState if state in JOB_WITH_RUN}


def _from_live(to: RunState) -> dict[RunState, RunState]:
    return {state: to for state in RunState if state not in RUN_ENDED}


_GROUP: Final = Effect()
"""An event of a group changes none of its members: what it means for them has events of theirs."""
_ARRAY: Final = Effect()
"""Nor does an event of an array: a task is a job from its own `jobSubmitted` on."""
_CANCEL: Final = Effect(job={JobState.QUEUED: JobState.CANCELLED}, flags=(REQUEST_CANCEL,))
_PREEMPT: Final = Effect(flags=(REQUEST_PREEMPTION,))

LIFE_CYCLE: Final[Mapping[str, Effect]] = MappingProxyType(
    {
        "jobSubmitted": Effect(flags=(SUBMIT_HELD, SUBMIT_DEPENDENT, SUBMIT_IN_VAIN)),
        "jobReleased": Effect(flags=(RELEASE,)),
        "jobCancelRequested": _CANCEL,
        "jobsCancelRequested": _CANCEL,
        "jobPreemptRequested": _PREEMPT,
        "jobsPreemptRequested": _PREEMPT,
        "jobReprioritized": Effect(),
        "jobsReprioritized": Effect(),
        "jobCancelled": Effect(
            job={JobState.QUEUED: JobState.CANCELLED, **_from_run(JobState.CANCELLED)},
            others=(DEPENDENCY_FAILED,),
        ),
        "jobFailed": Effect(
            job={JobState.QUEUED: JobState.FAILED, **_from_run(JobState.FAILED)},
            others=(DEPENDENCY_FAILED, GANG_FAILED),
        ),
        "jobRejected": Effect(
            job={JobState.QUEUED: JobState.REJECTED}, others=(DEPENDENCY_FAILED,)
        ),
        "jobSucceeded": Effect(
            job={JobState.QUEUED: JobState.SUCCEEDED, **_from_run(JobState.SUCCEEDED)},
            others=(DEPENDENCY_SUCCEEDED,),
        ),
        "jobPreempted": Effect(job=_from_run(JobState.PREEMPTED), others=(DEPENDENCY_FAILED,)),
        "jobRequeued": Effect(job=_from_run(JobState.QUEUED), flags=(REQUEUE,)),
        "jobRunLeased": Effect(job={JobState.QUEUED: JobState.LEASED}, flags=(LEASE_ENDED,)),
        "jobRunPending": Effect(
            job={JobState.LEASED: JobState.PENDING}, run={RunState.LEASED: RunState.PENDING}
        ),
        "jobRunRunning": Effect(
            job={
                JobState.LEASED: JobState.RUNNING,
                JobState.PENDING: JobState.RUNNING,
            },
            run={
                RunState.LEASED: RunState.RUNNING,
                RunState.PENDING: RunState.RUNNING,
            },
        ),
        "jobRunPreempting": Effect(flags=(PREEMPT_FOR_JOB, REASSIGN_CAPACITY, STOP_WITH_GANG)),
        "jobRunSucceeded": Effect(
            run={**_from_live(RunState.SUCCEEDED), RunState.LOST: RunState.SUCCEEDED},
            flags=(SUCCEED_LATE,),
        ),
        "jobRunFailed": Effect(run=_from_live(RunState.FAILED)),
        "jobRunReturned": Effect(run=_from_live(RunState.RETURNED)),
        "jobRunStopped": Effect(run=_from_live(RunState.STOPPED)),
        "jobRunLost": Effect(run=_from_live(RunState.LOST)),
        "groupSubmitted": _GROUP,
        "groupChanged": _GROUP,
        "groupCancelRequested": _GROUP,
        "groupRestartRequested": _GROUP,
        "groupRunning": _GROUP,
        "groupRestarting": _GROUP,
        "groupSucceeded": _GROUP,
        "groupFailed": _GROUP,
        "groupCancelled": _GROUP,
        "arraySubmitted": _ARRAY,
        "arrayCancelRequested": _ARRAY,
        "arrayTasksCancelled": _ARRAY,
        "arrayEnded": _ARRAY,
    }
)
"""Tag of an event -> what it does. A job begins QUEUED with `jobSubmitted`, a run LEASED with
`jobRunLeased`."""

JOB_STEPS: Final[Mapping[tuple[JobState, str], JobState]] = MappingProxyType(
    {(state, tag): to for tag, effect in LIFE_CYCLE.items() for state, to in effect.job.items()}
)
"""`LIFE_CYCLE` by (state, tag of the event) -> next state of the job."""

RUN_STEPS: Final[Mapping[tuple[RunState, str], RunState]] = MappingProxyType(
    {(state, tag): to for tag, effect in LIFE_CYCLE.items() for state, to in effect.run.items()}
)
"""`LIFE_CYCLE` by (state, tag of the event) -> next state of the run."""

_DECISIONS: Final = frozenset(
    {
        "jobCancelled",
        "jobFailed",
        "jobPreempted",
        "jobRejected",
        "jobRequeued",
        "jobRunLeased",
        "jobSucceeded",
    }
)
"""Decisions of the scheduler, which knows the state of a job when it decides."""


def is_impossible(state: JobState, tag: str) -> bool:
    """Whether only a defect leads to this event in this state.

    Reports of executors and requests may come late or twice, but a decision finds the job in the
    state in which the scheduler decided it. The one exception: while it decided about a queued job,
    a user cancelled the job.
    """
    if tag not in _DECISIONS or (state, tag) in JOB_STEPS:
        return False
    return not (state is JobState.CANCELLED and (JobState.QUEUED, tag) in JOB_STEPS)
