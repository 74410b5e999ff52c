"""The fold: what a batch of messages makes of the view. Pure; the tables are in `lifecycle.py`.

`apply` gives the same view however the log is cut into batches. The first `JobSubmitted` of an id
counts. A run's event counts for its job only while that run is the job's newest. What changes
nothing is told to nobody.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, assert_never

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_lookout.domain import references, run_records, transitions
from fairlead_lookout.domain.event_writer import Telling
from fairlead_lookout.domain.model import (
    Changes,
    CountKey,
    Job,
    JobSet,
    Known,
    Message,
    Run,
    RunKey,
    SetKey,
    Submitted,
)
from fairlead_lookout.domain.public_events import Kind
from fairlead_lookout.domain.references import matches
from fairlead_lookout.domain.resource_usage import Meter
from fairlead_lookout.domain.transitions import ENDED, HELD, QUEUED

STEP: Final = 20
"""Events, or jobs that a filter may find, between two pauses: less than a ms."""
_MOVED: Final[Mapping[str, Kind]] = {"PENDING": "pending", "RUNNING": "running"}
_encode: Final = msgspec.json.Encoder().encode


def apply(known: Known, messages: Iterable[Message]) -> Changes:
    """What these messages, in the order of their partitions, make of what is known."""
    fold = Fold(known)
    for _ in fold.steps(messages):
        pass
    return fold.changes()


def fresh(messages: Iterable[Message], positions_: Mapping[int, int]) -> list[Message]:
    """The messages that a view at these positions has not folded yet."""
    return [each for each in messages if each.position >= positions_.get(each.partition, 0)]


class Fold:
    """The work of one `apply`: copies of what was touched, and what there is to tell."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._jobs: dict[str, Job] = {}
        self._runs: dict[RunKey, Run] = {}
        self._older: dict[RunKey, Run] = {}
        self._sets: dict[SetKey, JobSet] = {}
        self._submitted: dict[str, Submitted] = {}
        self._counted: dict[SetKey, set[CountKey]] = {}
        self._telling = Telling()
        self._meter = Meter(known.requests)
        self._new_by_partition: dict[int, list[str]] = {}
        self._events = 0
        self._message: Message

    def changes(self) -> Changes:
        """Everything that was touched."""
        return Changes(
            jobs=self._jobs,
            runs=self._runs,
            sets=self._sets,
            submitted=self._submitted,
            counted=self._counted,
            lines=self._telling.lines,
            events=self._events,
            shapes=self._meter.shapes,
            usage=self._meter.usage,
            told=self._telling.told,
        )

    def steps(self, messages: Iterable[Message]) -> Iterator[None]:
        """Fold them, with a pause after every few events, for whoever has others to serve."""
        for message in messages:
            self._message = message
            self._telling.begin(message)
            self._events += len(message.sequence.events)
            for index, event in enumerate(message.sequence.events):
                more = self._event(index, event)
                if more is not None:
                    yield from more
                if index % STEP == 0:
                    yield

    def _event(self, index: int, event: events.AnyEvent) -> Iterator[None] | None:
        """Fold an event; what is returned has to be gone through to fold all of it."""
        match event:
            case events.JobSubmitted():
                self._submit(index, event)
            case events.JobRunLeased():
                self._lease(event)
            case (
                events.JobRunPending()
                | events.JobRunRunning()
                | events.JobRunSucceeded()
                | events.JobRunFailed()
                | events.JobRunReturned()
                | events.JobRunStopped()
                | events.JobRunLost()
            ):
                self._run_event(event)
            case events.JobRunPreempting():
                self._preempting(event)
            case (
                events.JobSucceeded()
                | events.JobFailed()
                | events.JobCancelled()
                | events.JobPreempted()
                | events.JobRejected()
                | events.JobRequeued()
            ):
                self._decide(event)
            case events.JobReleased():
                self._release(event)
            case events.JobCancelRequested():
                self._ask(self._touch(event.job_id), event)
            case events.JobPreemptRequested():
                self._ask(self._touch(event.job_id), event)
            case events.JobReprioritized():
                self._ask(self._touch(event.job_id), event)
            case (
                events.JobsCancelRequested()
                | events.JobsPreemptRequested()
                | events.JobsReprioritized()
            ):
                return self._ask_all(event)
            case _:
                assert_never(event)
        return None

    # What was asked.

    def _submit(self, index: int, event: events.JobSubmitted) -> None:
        job_id = event.job_id
        if job_id in self._jobs or job_id in self._known.jobs:
            return
        message = self._message
        key = (message.sequence.queue, message.sequence.job_set)
        number = ids.submission_number(message.time_ms, message.partition, message.position, index)
        self._jobs[job_id] = job = Job(
            id=job_id,
            key=key,
            priority_class=event.priority_class,
            number=number,
            submitted_ms=message.time_ms,
            shape=self._meter.shape(bytes(event.shape), event.priority_class),
            state=QUEUED,
            priority=event.priority,
            changed_ms=message.time_ms,
            pool=event.pool,
            after=event.after or None,
            held=event.hold,
            start_after_ms=event.start_after_ms,
            new=True,
        )
        self._submitted[job_id] = Submitted(
            event.digest, event.client_id, event.labels, event.annotations, _encode(event)
        )
        self._new_by_partition.setdefault(message.partition, []).append(job_id)
        job_set = self._set(key)
        job_set.jobs += 1
        job_set.live += 1
        self._count(job_set, (event.priority_class, QUEUED), 1)
        if replaced := references.replaced(event):
            self._supersede(replaced, job)
        self._telling.tell(
            job_set,
            "submitted",
            job,
            by=message.sequence.by,
            client_id=event.client_id,
            priority=event.priority,
            priority_class=event.priority_class,
        )

    def _supersede(self, job_id: str, new: Job) -> None:
        """Note that a job of the same job set that did not succeed was submitted again."""
        old = self._jobs.get(job_id) or self._known.jobs.get(job_id)
        if old is not None and references.is_replaceable(old, new) and (old := self._touch(job_id)):
            old.superseded_by, old.dirty = new.id, True
            self._set(new.key).superseded += 1

    def _release(self, event: events.JobReleased) -> None:
        job = self._touch(event.job_id)
        if job is not None and job.held and job.state == QUEUED:
            job.held = False
            job.dirty = True
            self._telling.tell(self._set(job.key), "queued", job, by=self._message.sequence.by)

    def _ask(
        self,
        job: Job | None,
        event: (
            events.JobCancelRequested
            | events.JobsCancelRequested
            | events.JobPreemptRequested
            | events.JobsPreemptRequested
            | events.JobReprioritized
            | events.JobsReprioritized
        ),
    ) -> None:
        """What somebody wants of this job, by its id or by a filter that found it."""
        if job is None or job.state in ENDED:
            return
        by = self._message.sequence.by
        match event:
            case events.JobCancelRequested() | events.JobsCancelRequested():
                if self._step(job, event):
                    job.reason = event.reason or None
                    self._telling.tell(
                        self._set(job.key), "cancelled", job, by=by, reason=job.reason
                    )
                    self._finish(job)
                elif job.stopping != "cancel":
                    job.stopping = "cancel"
                    job.dirty = True
                    reason = event.reason or None
                    self._telling.tell(self._set(job.key), "cancelling", job, by=by, reason=reason)
            case events.JobPreemptRequested() | events.JobsPreemptRequested():
                if job.state in HELD and job.stopping is None:
                    self._preempt(job, events.PreemptionCause.REQUEST, event.reason, by=by)
            case events.JobReprioritized() | events.JobsReprioritized():
                if job.priority != event.priority:
                    job.priority = event.priority
                    job.dirty = True
                    self._telling.tell(
                        self._set(job.key),
                        "reprioritized",
                        job,
                        by=by,
                        priority=event.priority,
                        reason=event.reason or None,
                    )
            case _:
                assert_never(event)

    def _ask_all(
        self,
        event: events.JobsCancelRequested | events.JobsPreemptRequested | events.JobsReprioritized,
    ) -> Iterator[None]:
        """Ask this of the jobs that the filter finds at this place, by job set, oldest first."""
        message = self._message
        maybe = dict.fromkeys(self._known.candidates.get((message.partition, message.position), ()))
        maybe.update(dict.fromkeys(self._new_by_partition.get(message.partition, ())))
        known = [job for job in map(self._look, maybe) if job]
        known.sort(key=lambda job: (job.key, job.number, job.id))
        for index, job in enumerate(known):
            if matches(job, event.filter, self._labels(job.id)):
                self._ask(self._touch(job.id), event)
            if index % STEP == 0:
                yield

    def _labels(self, job_id: str) -> Mapping[str, str]:
        new = self._submitted.get(job_id)
        return self._known.labels.get(job_id, {}) if new is None else new.labels

    # What was decided.

    def _lease(self, event: events.JobRunLeased) -> None:
        job = self._touch(event.job_id)
        if job is None or event.run <= job.run:
            return
        self._give_up_run(job)
        if job.latest is not None:
            self._older[job.id, job.run] = job.latest
        job.run = event.run
        job.latest = self._runs[job.id, event.run] = Run(
            number=event.run,
            state="LEASED",
            executor=event.executor,
            node=event.node,
            pool=event.pool,
            leased_ms=self._message.time_ms,
            shape=job.shape,
            new=True,
        )
        job.dirty = True
        self._meter.leased(self._set(job.key), job.latest)
        if self._step(job, event):
            job.stopping = job.started_ms = None
            self._telling.tell_run(self._set(job.key), "leased", job)

    def _preempting(self, event: events.JobRunPreempting) -> None:
        job = self._touch(event.job_id)
        if job is None or job.run != event.run or job.state not in HELD:
            return
        if job.stopping is None:
            self._preempt(job, event.cause, event.reason, for_job=event.for_job)

    def _preempt(
        self,
        job: Job,
        cause: str,
        reason: str,
        by: str | None = None,
        for_job: str | None = None,
    ) -> None:
        job.stopping = "preempt"
        job.stop_cause = str(cause)
        job.stop_reason = reason or None
        job.dirty = True
        self._telling.tell_run(
            self._set(job.key),
            "preempting",
            job,
            cause=str(cause),
            reason=reason or None,
            by=by,
            for_job=for_job,
        )

    def _give_up_run(self, job: Job) -> None:
        """The newest run is no longer what the job waits for: it keeps why it had to give way."""
        run = job.latest
        if run is not None and run_records.hand_over(job, run):
            self._runs[job.id, run.number] = run
        job.stop_cause = job.stop_reason = None

    def _decide(
        self,
        event: (
            events.JobSucceeded
            | events.JobFailed
            | events.JobCancelled
            | events.JobPreempted
            | events.JobRejected
            | events.JobRequeued
        ),
    ) -> None:
        """What the scheduler made of a run's end, or of a job that cannot or may not run."""
        job = self._touch(event.job_id)
        if job is None:
            return
        stopping = job.stopping
        if not self._step(job, event):
            return
        job.stopping = None
        self._give_up_run(job)
        match event:
            case events.JobSucceeded():
                self._telling.tell_run(self._set(job.key), "succeeded", job)
            case events.JobFailed():
                job.category = str(event.category)
                self._count_failure(job)
                job.exit_code = event.exit_code
                job.reason = event.reason
                self._telling.tell_failed_run(self._set(job.key), job, will_retry=False)
                self._telling.tell_run(
                    self._set(job.key),
                    "failed",
                    job,
                    category=job.category,
                    exit_code=job.exit_code,
                    reason=job.reason,
                )
            case events.JobCancelled():
                job.reason = event.reason or None
                self._telling.tell_run(self._set(job.key), "cancelled", job, reason=job.reason)
            case events.JobPreempted():
                job.reason = event.reason
                self._telling.tell_run(
                    self._set(job.key), "preempted", job, reason=event.reason, final=True
                )
            case events.JobRejected():
                job.category = event.code
                self._count_failure(job)
                job.reason = event.reason
                self._telling.tell_run(
                    self._set(job.key), "rejected", job, code=event.code, reason=event.reason
                )
            case events.JobRequeued():
                self._requeue(job, event, preempted=stopping == "preempt")
            case _:
                assert_never(event)
        self._finish(job)

    def _requeue(self, job: Job, event: events.JobRequeued, *, preempted: bool) -> None:
        job.started_ms = None
        if event.shape:
            job.shape = self._meter.shape(bytes(event.shape), job.priority_class)
        if preempted:
            self._telling.tell_run(
                self._set(job.key), "preempted", job, reason=event.reason, final=False
            )
        else:
            self._telling.tell_failed_run(self._set(job.key), job, will_retry=True)
        self._telling.tell_run(self._set(job.key), "requeued", job, reason=event.reason)

    # What the runs did.

    def _run_event(
        self,
        event: (
            events.JobRunPending
            | events.JobRunRunning
            | events.JobRunSucceeded
            | events.JobRunFailed
            | events.JobRunReturned
            | events.JobRunStopped
            | events.JobRunLost
        ),
    ) -> None:
        job = self._touch(event.job_id)
        if job is None:
            return
        newest = job.run == event.run
        run = job.latest if newest else self._older_run(job.id, event.run)
        if run is None:
            return
        to = transitions.RUN[type(event)].get(run.state)
        if to is None:
            return
        self._runs[job.id, run.number] = run
        given_up = run.ended_ms is not None
        if newest and to in transitions.RUNS_ENDED:
            run_records.hand_over(job, run)
        run_records.advance(run, to, event, self._message.time_ms)
        if run.ended_ms is not None and not given_up:
            self._meter.ended(self._set(job.key), run, self._message.time_ms)
        if newest and self._step(job, event):
            if to == "RUNNING":
                job.started_ms = self._message.time_ms
            self._telling.tell_run(self._set(job.key), _MOVED[to], job)

    def _count_failure(self, job: Job) -> None:
        category = job.category or "internal"
        failures = self._set(job.key).failures
        failures[category] = failures.get(category, 0) + 1

    # The records, copied when they are first touched.

    def _look(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id) or self._known.jobs.get(job_id)

    def _touch(self, job_id: str) -> Job | None:
        job = self._jobs.get(job_id)
        if job is not None:
            return job
        known = self._known.jobs.get(job_id)
        if known is None:
            return None
        self._jobs[job_id] = job = copy.copy(known)
        job.latest = copy.copy(known.latest)
        return job

    def _older_run(self, job_id: str, number: int) -> Run | None:
        key = (job_id, number)
        run = self._older.get(key)
        if run is None and key in self._known.runs:
            run = self._older[key] = copy.copy(self._known.runs[key])
        return run

    def _set(self, key: SetKey) -> JobSet:
        job_set = self._sets.get(key)
        if job_set is None:
            self._sets[key] = job_set = self._known.sets[key].copy()
        return job_set

    def _step(self, job: Job, event: events.AnyEvent) -> bool:
        """Move the job as the table says; False when the table has no row for it."""
        to = transitions.JOB[type(event)].get(job.state)
        if to is None:
            return False
        job_set = self._set(job.key)
        self._count(job_set, (job.priority_class, job.state), -1)
        self._count(job_set, (job.priority_class, to), 1)
        job.state = to
        job.changed_ms = self._message.time_ms
        job.dirty = True
        if to in ENDED:
            job_set.live -= 1
            job.ended_ms = self._message.time_ms
        return True

    def _count(self, job_set: JobSet, key: CountKey, change: int) -> None:
        job_set.counts[key] = job_set.counts.get(key, 0) + change
        self._counted.setdefault(job_set.key, set()).add(key)

    def _finish(self, job: Job) -> None:
        """Say so when this was the last live job of its set."""
        job_set = self._set(job.key)
        if job.state in ENDED and job_set.live == 0:
            # Runs that were never reported as ended hold nothing either.
            self._meter.accrue(job_set, self._message.time_ms)
            job_set.held.clear()
            self._telling.tell(job_set, "finished", None, counts=job_set.by_state())
