"""The story of a job: everything that the log has about it, in order, and what each event changed.

This is the plain definition of a job's history. It reads the log and no view, so it also explains
a job about which views disagree. The folds of the scheduler and of lookout agree with it.
"""

from collections.abc import Iterable
from typing import assert_never, cast

import msgspec

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import (
    JOB_ENDED,
    JOB_STEPS,
    JOB_WITH_RUN,
    NO_FLAG,
    PREEMPT_FOR_JOB,
    RELEASE,
    REQUEST_CANCEL,
    REQUEST_PREEMPTION,
    REQUEUE,
    RUN_STEPS,
    STOP_WITH_GANG,
    STOPPING,
    SUBMIT_HELD,
    FlagChange,
    JobFlag,
    JobState,
    RunState,
)
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.timestamps import rfc3339


class StoryEntry(msgspec.Struct, frozen=True):
    """One event about the job.

    `text` says what happened, `state` is the state of the job afterwards, None before it was
    submitted; `flags`: its flags, without those that other jobs set. `ignored`: why the event
    changed nothing; empty if it counted. `by`: who wrote it.
    """

    time_ms: int
    by: str
    event: str
    text: str
    state: JobState | None
    flags: JobFlag
    ignored: str

    def line(self) -> str:
        """The entry as a line of text."""
        state = "" if self.state is None else self.state.value
        ignored = f" (changes nothing: {self.ignored})" if self.ignored else ""
        return f"{rfc3339(self.time_ms)}  {state:<9}  {self.text}{ignored} [{self.by}]"


def build_story(
    job_id: JobId, messages: Iterable[tuple[int, ev.EventSequence]]
) -> list[StoryEntry]:
    """The story of a job; `messages`: (append time in ms, sequence), in the order of the log."""
    story = Story(job_id)
    for time_ms, sequence in messages:
        story.fold(time_ms, sequence)
    return story.entries


class Story:
    """The events of a job, in the order of the log.

    Bulk requests are a part of the story if the job matched their filter.
    """

    def __init__(self, job_id: JobId) -> None:
        self.entries: list[StoryEntry] = []
        self._job = _Job(job_id)

    def fold(self, time_ms: int, sequence: ev.EventSequence) -> None:
        """Add what a record of the job's partition of `fairlead.jobs` has about the job.

        `time_ms`: when the record was appended.
        """
        for event in sequence.events:
            if not self._job.is_meant(event):
                continue
            ignored = self._job.fold(sequence, event)
            tag = cast(str, event.__struct_config__.tag)
            text = describe_event(sequence, event)
            state, flags = self._job.state, self._job.flags
            self.entries.append(StoryEntry(time_ms, sequence.by, tag, text, state, flags, ignored))


class _Job:
    """The job as the events so far have changed it."""

    def __init__(self, job_id: JobId) -> None:
        self.state: JobState | None = None
        self._id = job_id
        self._queue = self._job_set = ""
        self._submitted: ev.JobSubmitted | None = None
        self._priority = 0
        self.flags = NO_FLAG
        """Without those that other jobs set: the story is of one job."""
        self._runs: dict[int, RunState] = {}
        self._lease: ev.JobRunLeased | None = None

    def is_meant(self, event: ev.AnyEvent) -> bool:
        """Whether the event is about this job; a filter meets the job as it is now."""
        if isinstance(event, ev.JobEvent):
            return event.job_id == self._id
        if isinstance(event, ev.GroupEvent | ev.ArrayEvent):  # members and tasks have their own
            return False
        return self._matches(event.filter)

    def _matches(self, wanted: ev.JobFilter) -> bool:
        """Whether the job matches a filter. Ended jobs match no filter."""
        job, lease = self._submitted, self._lease
        if job is None or self.state in JOB_ENDED or wanted.queue != self._queue:
            return False
        is_meant = (
            wanted.job_set in (None, self._job_set)
            and (not wanted.states or self.state in wanted.states)
            and (not wanted.classes or job.priority_class in wanted.classes)
            and all(job.labels.get(name) == value for name, value in wanted.labels.items())
        )
        if not is_meant or wanted.executor is wanted.node is None:
            return is_meant
        return (
            lease is not None
            and self.state in JOB_WITH_RUN
            and wanted.executor in (None, lease.executor)
            and wanted.node in (None, lease.node)
        )

    def fold(self, sequence: ev.EventSequence, event: ev.AnyEvent) -> str:
        """Apply an event; returns why it changes nothing, or an empty text."""
        if isinstance(event, ev.JobSubmitted):
            return self._submit(sequence, event)
        if self.state is None:
            return "the log has no submission of this job before"
        match event:
            case ev.JobRunLeased():
                return self._start_run(event)
            case ev.JobRunPreempting():
                if event.run != self._newest_run:
                    return self._why_not_newest(event.run)
                gang = event.for_job is None
                return self._stop(STOP_WITH_GANG if gang else PREEMPT_FOR_JOB)
            case ev.RunEvent():
                return self._move_run(event)
            case ev.JobReleased():
                was_on_hold = JobFlag.HOLD in self.flags
                return "" if self._change(RELEASE) and was_on_hold else "it is not held"
            case ev.JobCancelRequested() | ev.JobsCancelRequested():
                return "" if self._move_job(event) else self._stop(REQUEST_CANCEL)
            case ev.JobPreemptRequested() | ev.JobsPreemptRequested():
                return self._stop(REQUEST_PREEMPTION)
            case ev.JobReprioritized() | ev.JobsReprioritized():
                if self.state in JOB_ENDED:
                    return self._why_ended()
                before, self._priority = self._priority, event.priority
                return "" if before != event.priority else "it has this priority"
            case (
                ev.JobRejected()
                | ev.JobRequeued()
                | ev.JobSucceeded()
                | ev.JobFailed()
                | ev.JobCancelled()
                | ev.JobPreempted()
            ):
                return "" if self._move_job(event) else self._why_no_step()
            case ev.GroupEvent() | ev.ArrayEvent():
                raise AssertionError("an event of a group or of an array is about no job")
            case _:
                assert_never(event)

    @property
    def _newest_run(self) -> int:
        return 0 if self._lease is None else self._lease.run

    def _submit(self, sequence: ev.EventSequence, event: ev.JobSubmitted) -> str:
        if self._submitted is not None:
            return "the first submission of an id counts"
        self._submitted = event
        self.state = JobState.QUEUED
        self._queue, self._job_set = sequence.queue, sequence.job_set
        self._priority = event.priority
        if event.hold:
            self._change(SUBMIT_HELD)
        return ""

    def _start_run(self, event: ev.JobRunLeased) -> str:
        if event.run <= self._newest_run:
            return f"run {self._newest_run} was leased before"
        self._lease = event
        self._runs[event.run] = RunState.LEASED
        return "" if self._move_job(event) else self._why_no_step()

    def _move_run(self, event: ev.RunEvent) -> str:
        state = self._runs.get(event.run)
        if state is None:
            return f"the log has no lease of run {event.run}"
        to = RUN_STEPS.get((state, cast(str, event.__struct_config__.tag)))
        if to is None:
            return f"run {event.run} was {state.value}"
        self._runs[event.run] = to
        if event.run == self._newest_run:
            self._move_job(event)
        return ""

    def _move_job(self, event: ev.Event) -> bool:
        """Move the job to its next state, if the event is a step from its present one."""
        assert self.state is not None
        to = JOB_STEPS.get((self.state, cast(str, event.__struct_config__.tag)))
        if to is None:
            return False
        if to is JobState.QUEUED:
            self._change(REQUEUE)
        self.state = to
        return True

    def _change(self, change: FlagChange) -> bool:
        assert self.state is not None
        if not change.applies(self.state, self.flags):
            return False
        self.flags = change.apply(self.flags)
        return True

    def _stop(self, change: FlagChange) -> str:
        """Note that the run is to be stopped, if it is not."""
        if self._change(change):
            return ""
        stopped = self.flags & STOPPING
        if self.state in JOB_WITH_RUN and stopped:
            return f"its run was being stopped ({', '.join(str(flag.name) for flag in stopped)})"
        return self._why_no_step()

    def _why_not_newest(self, run: int) -> str:
        return f"its newest run is {self._newest_run}, not {run}"

    def _why_ended(self) -> str:
        assert self.state is not None
        return f"it ended as {self.state.value}"

    def _why_no_step(self) -> str:
        assert self.state is not None
        return self._why_ended() if self.state in JOB_ENDED else f"it was {self.state.value}"


def describe_event(sequence: ev.EventSequence, event: ev.AnyEvent) -> str:
    """What happened, as the predicate of a sentence about the job."""
    match event:
        case ev.JobSubmitted():
            return _describe_submission(sequence, event)
        case ev.JobReleased():
            return "released"
        case ev.JobCancelRequested() | ev.JobsCancelRequested():
            return _because("cancellation requested" + _for_all(event), event.reason)
        case ev.JobPreemptRequested() | ev.JobsPreemptRequested():
            return _because("preemption requested" + _for_all(event), event.reason)
        case ev.JobReprioritized() | ev.JobsReprioritized():
            return _because(f"priority set to {event.priority}{_for_all(event)}", event.reason)
        case ev.JobRejected():
            return _because(f"rejected ({event.code})", event.reason)
        case ev.JobRequeued():
            counted = ", counted as a retry" if event.counted else ""
            if event.restarts_of is not None:
                counted = ", counted as a restart of its group"
            avoided = f", node {event.avoid_node} is avoided" if event.avoid_node else ""
            changed = ", with a new shape" if event.shape else ""
            return _because(f"queued again{counted}{avoided}{changed}", event.reason)
        case ev.JobSucceeded():
            return _because("succeeded", event.reason)
        case ev.JobFailed():
            return _because("failed" + _failure(event), event.reason)
        case ev.JobCancelled():
            return _because("cancelled", event.reason)
        case ev.JobPreempted():
            return _because("ended by preemption", event.reason)
        case ev.GroupEvent():
            return f"group {event.group}"
        case ev.ArrayEvent():
            return f"array {event.array}"
        case _:
            return f"run {event.run} {_describe_run_event(event)}"


def _describe_submission(sequence: ev.EventSequence, event: ev.JobSubmitted) -> str:
    words = [
        f"submitted to queue {sequence.queue}, job set {sequence.job_set}",
        f"class {event.priority_class}",
        f"priority {event.priority}",
        f"pool {event.pool}",
    ]
    if event.client_id is not None:
        words.append(f"client id {event.client_id}")
    if event.hold:
        words.append("held")
    if event.after:
        words.append(f"after {', '.join(event.after)}")
    if event.start_after_ms is not None:
        words.append(f"not before {rfc3339(event.start_after_ms)}")
    if event.gang is not None:
        words.append(f"gang {event.gang.name} of {event.gang.size}")
    if event.group is not None:
        member = event.group
        words.append(f"member {member.role}-{member.index} of group {member.group}")
    if event.array is not None:
        words.append(f"task {event.array.index} of array {event.array.array}")
    return ", ".join(words)


def _describe_run_event(
    event: (
        ev.JobRunLeased
        | ev.JobRunPreempting
        | ev.JobRunLost
        | ev.JobRunPending
        | ev.JobRunRunning
        | ev.JobRunSucceeded
        | ev.JobRunFailed
        | ev.JobRunReturned
        | ev.JobRunStopped
    ),
) -> str:
    match event:
        case ev.JobRunLeased():
            return f"leased to node {event.node} of {event.executor}, pool {event.pool}"
        case ev.JobRunPreempting():
            cause = f"to be stopped ({event.cause.value})"
            return _because(
                cause + (f" for job {event.for_job}" * bool(event.for_job)), event.reason
            )
        case ev.JobRunLost():
            return _because("given up", event.reason)
        case ev.JobRunPending():
            return "accepted by its executor"
        case ev.JobRunRunning():
            return "started"
        case ev.JobRunSucceeded():
            return "succeeded"
        case ev.JobRunFailed():
            return _because("failed" + _failure(event), event.reason)
        case ev.JobRunReturned():
            return _because("returned before it started", event.reason)
        case ev.JobRunStopped():
            code = "" if event.exit_code is None else f" with exit code {event.exit_code}"
            return _because("stopped" + code, event.reason)
        case _:
            assert_never(event)


def _failure(event: ev.JobFailed | ev.JobRunFailed) -> str:
    code = "" if event.exit_code is None else f", exit code {event.exit_code}"
    return f" ({event.category.value}{code})"


def _for_all(event: ev.AnyEvent) -> str:
    return "" if isinstance(event, ev.JobEvent) else ", with all jobs that match a filter"


def _because(text: str, reason: str) -> str:
    return f"{text}: {reason}" if reason else text
