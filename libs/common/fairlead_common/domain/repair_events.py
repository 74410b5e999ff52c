"""Events that make the views of a job or a group agree again, for `fairlead repair`. Pure.

Where events are lost, two views can know different things about a job. The truth is then stated
again as ordinary events. They do not change a view that already knows it: the first `JobSubmitted`
of an id counts, a lease counts only as the next run, and ended jobs stay ended.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId, JobId
from fairlead_common.domain.lifecycle import JOB_ENDED, JOB_WITH_RUN, RUN_ENDED, JobState, RunState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, JobSubmitted

UNKNOWN_END_REASON: Final = (
    "Closed by `fairlead repair`: the events about the end of this job are no longer in the log."
    " Its command has possibly run; submit the job again if it is still needed."
)
UNKNOWN_REASON: Final = "The events with the reason are no longer in the log (`fairlead repair`)."
UNKNOWN_NODE: Final = "unknown"


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What one view knows of a job. `state` None: nothing. `run` is the newest, 0 before any."""

    state: JobState | None = None
    run: int = 0
    run_state: RunState | None = None
    executor: str = UNKNOWN_NODE
    node: str = UNKNOWN_NODE
    pool: str = "default"
    value: int = 0
    priority: int | None = None
    hold: bool = False
    stopping: str | None = None
    category: FailureCategory = FailureCategory.INTERNAL
    reason: str = UNKNOWN_REASON
    exit_code: int | None = None

    @property
    def is_live(self) -> bool:
        """The job is known and has not ended."""
        return self.state is not None and self.state not in JOB_ENDED

    @property
    def is_ended(self) -> bool:
        """The job is known to have ended."""
        return self.state in JOB_ENDED

    @property
    def has_run(self) -> bool:
        """The job has a run, which possibly holds resources."""
        return self.state in JOB_WITH_RUN


class KnownGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What one view knows of a group. `submitted`: with the terms that it has now; None if only the
    id and the end of the group are known."""

    state: JobState
    submitted: ev.GroupSubmitted | None = None
    queue: str = ""
    job_set: str = ""
    reason: str = UNKNOWN_REASON

    @property
    def is_ended(self) -> bool:
        """The group has ended."""
        return self.state in JOB_ENDED


class Choice(StrEnum):
    """Whose knowledge of a job or group is taken as true."""

    SCHEDULER = "scheduler"
    LOOKOUT = "lookout"
    END_UNKNOWN = "close"
    """Neither view's: the true state is unknown, so it is ended."""


def choose(
    scheduler: Knowledge,
    lookout: Knowledge,
    *,
    scheduler_complete: bool,
    lookout_complete: bool,
    has_lease: bool,
) -> Choice:
    """Which of two views is right about a job that at least one of them shows as live.

    A view is complete if it has folded all events of the job's partition. `has_lease`: the lease
    topic, which outlives the retention, still holds a lease of a run of the job.
    """
    if scheduler.is_ended:
        return Choice.SCHEDULER
    if lookout.is_ended:
        return Choice.LOOKOUT
    if scheduler_complete:
        return Choice.SCHEDULER if scheduler.is_live else Choice.END_UNKNOWN
    if lookout_complete:
        return Choice.LOOKOUT if lookout.is_live else Choice.END_UNKNOWN
    newer = Choice.LOOKOUT if not scheduler.is_live else Choice.SCHEDULER
    if scheduler.is_live and lookout.is_live and lookout.run > scheduler.run:
        newer = Choice.LOOKOUT
    has_run = (scheduler if newer is Choice.SCHEDULER else lookout).has_run
    return newer if has_lease or not has_run else Choice.END_UNKNOWN


def make_events(
    job_id: JobId,
    known: Knowledge,
    truth: Knowledge,
    submitted: JobSubmitted | None,
    *,
    every_run: bool,
) -> Iterator[ev.AnyEvent]:
    """The events that bring a view from what it knows (`known`) to the truth, in order.

    `submitted` is needed where the view does not know the job. `every_run`: the view takes runs
    one by one (the scheduler's), not only the newest (lookout's). The events must be in different
    messages: the scheduler takes one lease of a job from a message.
    """
    state, run = known.state, known.run
    if state is None:
        assert submitted is not None, f"what was submitted as {job_id} is needed"
        yield _submission(submitted, truth)
        state = JobState.QUEUED
    target = truth.run
    if truth.state in (JobState.SUCCEEDED, JobState.PREEMPTED) and state is JobState.QUEUED:
        target = max(target, run + 1)
    if target > run and (truth.state is not JobState.QUEUED or every_run):
        if known.run_state is not None and known.run_state not in RUN_ENDED:
            yield ev.JobRunLost(job_id=job_id, run=run, reason=UNKNOWN_REASON)
        for number in range(run + 1 if every_run else target, target + 1):
            yield ev.JobRunLeased(
                job_id=job_id,
                run=number,
                executor=truth.executor,
                node=truth.node,
                pool=truth.pool,
                value=truth.value,
            )
        state, run = JobState.LEASED, target
        run_live = True
    else:
        run_live = known.run_state is not None and known.run_state not in RUN_ENDED
    yield from _to_state(job_id, state, run, truth, run_live=run_live)


def _submission(submitted: JobSubmitted, truth: Knowledge) -> JobSubmitted:
    """The submission with the priority and the hold that the job has now."""
    priority = submitted.priority if truth.priority is None else truth.priority
    hold = submitted.hold and truth.hold
    return msgspec.structs.replace(submitted, priority=priority, hold=hold)


def _to_state(
    job_id: JobId, state: JobState, run: int, truth: Knowledge, *, run_live: bool
) -> Iterator[ev.AnyEvent]:
    has_run = state in JOB_WITH_RUN
    if truth.state is JobState.QUEUED and has_run:
        if run_live:
            yield ev.JobRunLost(job_id=job_id, run=run, reason=UNKNOWN_REASON)
        yield ev.JobRequeued(job_id=job_id, reason=UNKNOWN_REASON)
    elif truth.has_run and run_live:
        if truth.state is not JobState.LEASED and state is JobState.LEASED:
            yield ev.JobRunPending(job_id=job_id, run=run)
        if truth.state is JobState.RUNNING and state is not JobState.RUNNING:
            yield ev.JobRunRunning(job_id=job_id, run=run)
        if truth.stopping == "cancel":
            yield ev.JobCancelRequested(job_id=job_id, reason=truth.reason)
        elif truth.stopping == "preempt":
            yield ev.JobPreemptRequested(job_id=job_id, reason=truth.reason)
        if truth.run_state in RUN_ENDED:
            yield _run_end(job_id, run, truth)
    elif truth.is_ended:
        if has_run and run_live:
            yield _run_end(job_id, run, truth)
        yield make_end_event(job_id, truth)


def _run_end(job_id: JobId, run: int, truth: Knowledge) -> ev.AnyEvent:
    match truth.run_state or _RUN_ENDS.get(truth.state or JobState.QUEUED):
        case RunState.SUCCEEDED:
            return ev.JobRunSucceeded(job_id=job_id, run=run)
        case RunState.FAILED:
            return ev.JobRunFailed(
                job_id=job_id,
                run=run,
                category=truth.category,
                reason=truth.reason,
                exit_code=truth.exit_code,
            )
        case RunState.RETURNED:
            return ev.JobRunReturned(job_id=job_id, run=run, reason=truth.reason)
        case RunState.STOPPED:
            return ev.JobRunStopped(job_id=job_id, run=run, reason=truth.reason)
        case _:
            return ev.JobRunLost(job_id=job_id, run=run, reason=truth.reason)


_RUN_ENDS: Final = {
    JobState.SUCCEEDED: RunState.SUCCEEDED,
    JobState.FAILED: RunState.FAILED,
    JobState.CANCELLED: RunState.STOPPED,
    JobState.PREEMPTED: RunState.STOPPED,
}
"""The end of a run by the end of its job, where only the latter is known."""


def make_end_event(job_id: JobId, truth: Knowledge) -> ev.AnyEvent:
    """The event with which the job ended."""
    match truth.state:
        case JobState.SUCCEEDED:
            return ev.JobSucceeded(job_id=job_id)
        case JobState.CANCELLED:
            return ev.JobCancelled(job_id=job_id, reason=truth.reason)
        case JobState.PREEMPTED:
            return ev.JobPreempted(job_id=job_id, reason=truth.reason)
        case JobState.REJECTED:
            return ev.JobRejected(job_id=job_id, code="unknown", reason=truth.reason)
        case _:
            return ev.JobFailed(
                job_id=job_id,
                category=truth.category,
                reason=truth.reason,
                exit_code=truth.exit_code,
            )


UNKNOWN_END: Final = Knowledge(
    state=JobState.FAILED, category=FailureCategory.INTERNAL, reason=UNKNOWN_END_REASON
)
"""The recorded end of a job whose real end is unknown."""


def choose_for_group(
    scheduler: KnownGroup | None,
    lookout: KnownGroup | None,
    *,
    scheduler_complete: bool,
    lookout_complete: bool,
) -> Choice:
    """Which of two views is right about a group that at least one of them shows as live."""
    if scheduler is not None and scheduler.is_ended:
        return Choice.SCHEDULER
    if lookout is not None and lookout.is_ended:
        return Choice.LOOKOUT
    if scheduler_complete:
        return Choice.END_UNKNOWN if scheduler is None else Choice.SCHEDULER
    if lookout_complete:
        return Choice.END_UNKNOWN if lookout is None else Choice.LOOKOUT
    return (
        Choice.LOOKOUT
        if _find_generation(lookout) > _find_generation(scheduler)
        else Choice.SCHEDULER
    )


def _find_generation(group: KnownGroup | None) -> int:
    """The generation that a view knows of a group; 0 if it does not know the group."""
    if group is None or group.submitted is None:
        return 0
    return group.submitted.terms.generation


def make_group_events(
    group: GroupId, known: KnownGroup | None, truth: KnownGroup
) -> Iterator[ev.AnyEvent]:
    """The events that bring a view from what it knows of a group to the truth, in order.

    A view without the group needs no end of it. The members have events of their own.
    """
    if known is None:
        if truth.submitted is None or truth.is_ended:
            return
        yield truth.submitted
        state = JobState.QUEUED
    else:
        state = known.state
        if truth.submitted is not None and known.submitted is not None and not truth.is_ended:
            before, now = known.submitted.terms, truth.submitted.terms
            if now != before:
                is_recreated = now.generation > before.generation
                kind = ev.GroupChangeKind.RECREATED if is_recreated else ev.GroupChangeKind.UPDATED
                yield ev.GroupChanged(group=group, terms=now, kind=kind, reason=UNKNOWN_REASON)
                state = JobState.QUEUED if is_recreated else state
    if truth.state is state:
        return
    match truth.state:
        case JobState.RUNNING:
            yield ev.GroupRunning(group=group)
        case JobState.SUCCEEDED:
            yield ev.GroupSucceeded(group=group)
        case JobState.CANCELLED:
            yield ev.GroupCancelled(group=group, reason=truth.reason)
        case JobState.FAILED:
            yield ev.GroupFailed(group=group, reason=truth.reason)
        case _:
            yield ev.GroupRestarting(group=group, reason=truth.reason)


UNKNOWN_GROUP_END: Final = KnownGroup(
    state=JobState.FAILED,
    reason="Closed by `fairlead repair`: the events about the end of this group are no longer in"
    " the log; submit it again if it is still needed.",
)
"""The recorded end of a group whose real end is unknown."""
