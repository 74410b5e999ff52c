"""The fold of jobs: how a batch of messages changes the view. The tables are in `lifecycle.py`.

The result does not depend on how the log is divided into batches. Only the first `JobSubmitted` of
an id has an effect. The event of a run affects its job only while it is the newest run. An event
that changes nothing is not published.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, TypeAlias, assert_never

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_lookout.domain.array_fold import ArrayFold, is_task
from fairlead_lookout.domain.bulk_requests import matches_filter
from fairlead_lookout.domain.event_unions import (
    ArrayEvent,
    BulkRequest,
    Decision,
    Request,
    RunReport,
)
from fairlead_lookout.domain.groups.group_fold import GroupEvent, GroupFold
from fairlead_lookout.domain.model import (
    Changes,
    EditedJobSets,
    Job,
    JobSet,
    JobSetKey,
    Message,
    Run,
    RunKey,
    StoredRecords,
    SubmissionDetails,
)
from fairlead_lookout.domain.public_events import EventType, EventWriter
from fairlead_lookout.domain.resource_usage import UsageMeter
from fairlead_lookout.domain.transitions import (
    ENDED,
    JOB_TRANSITIONS,
    QUEUED,
    RUN_TRANSITIONS,
    RUNS_ENDED,
    WITH_RUN,
    advance_run,
    can_supersede,
    find_replaced_job,
    find_requester,
    record_preemption_cause,
    record_request,
)

PAUSE_EVENTS: Final = 50
"""Events, or candidates of a filter, between two pauses: less than a ms."""
_RUN_EVENTS: Final[Mapping[str, EventType]] = {"PENDING": "pending", "RUNNING": "running"}
_encode: Final = msgspec.json.Encoder().encode


def fold_messages(stored: StoredRecords, messages: Iterable[Message]) -> Changes:
    """Apply these messages to the stored records."""
    fold = JobFold(stored)
    for _ in fold.apply(messages):
        pass
    return fold.changes()


_Handler: TypeAlias = Callable[["JobFold", Any], Iterator[None] | None]
"""Applies an event of one type. The iterator, if there is one, must be exhausted."""


class JobFold:
    """The fold of one batch: the changed records, and the public events.

    Stored jobs and runs are changed in place, because copies of them took a sixth of the time of a
    fold. If a batch is not written, the caller forgets what it has in memory. Nothing that a fold
    makes refers to it, so the records of a batch need no collector of garbage.
    """

    _handlers: ClassVar[dict[type[events.Event], _Handler]] = {}

    def __init__(self, stored: StoredRecords) -> None:
        self._stored = stored
        self._jobs: dict[str, Job] = {}
        self._older_runs: dict[RunKey, Run] = {}
        self._job_sets = EditedJobSets(stored.job_sets)
        self._submitted: dict[str, SubmissionDetails] = {}
        self._writer = EventWriter()
        self._groups = GroupFold(self._writer, self._job_sets, (self._jobs, stored.jobs))
        self._arrays = ArrayFold(self._writer, self._job_sets, stored.arrays)
        self._meter = UsageMeter(stored.requests)
        self._new_by_partition: dict[int, list[str]] = {}
        self._events = 0
        self._message: Message
        self._key: JobSetKey = ("", "")
        self._index = 0

    def changes(self) -> Changes:
        """Everything that was changed."""
        self._meter.finish_runs()
        self._writer.finish_message()
        return Changes(
            jobs=self._jobs,
            older_runs=self._older_runs,
            job_sets=self._job_sets.edited,
            submitted=self._submitted,
            counted=self._job_sets.find_changed_counts(),
            lines=self._writer.lines,
            events=self._events,
            shapes=self._meter.shapes,
            usage=self._meter.usage,
            published=self._writer.published,
            preemptions=self._writer.preemptions,
            groups=self._groups.changes,
            arrays=self._arrays.changes,
        )

    def apply(self, messages: Iterable[Message]) -> Iterator[None]:
        """Apply messages, with a pause after every few events so that other tasks can run."""
        handlers = self._handlers
        for message in messages:
            self._message = message
            self._key = (message.sequence.queue, message.sequence.job_set)
            self._writer.start_message(message)
            self._events += len(message.sequence.events)
            for index, event in enumerate(message.sequence.events):
                self._index = index
                if (handler := handlers.get(type(event))) is None:
                    handlers[type(event)] = handler = self._find_handler(event)
                rest = handler(self, event)
                if rest is not None:
                    yield from rest
                if index % PAUSE_EVENTS == 0:
                    yield

    @staticmethod
    def _find_handler(event: events.AnyEvent) -> _Handler:
        """What applies events of this type. It is remembered: to match each event takes longer."""
        match event:
            case events.JobSubmitted():
                return JobFold._submit
            case events.JobRunLeased():
                return JobFold._lease
            case events.JobRunPreempting():
                return JobFold._preempting
            case events.RunEvent():
                return JobFold._run_event
            case (
                events.JobSucceeded()
                | events.JobFailed()
                | events.JobCancelled()
                | events.JobPreempted()
                | events.JobRejected()
                | events.JobRequeued()
            ):
                return JobFold._decide
            case events.JobReleased():
                return JobFold._release
            case (
                events.JobCancelRequested()
                | events.JobPreemptRequested()
                | events.JobReprioritized()
            ):
                return JobFold._request_one
            case (
                events.JobsCancelRequested()
                | events.JobsPreemptRequested()
                | events.JobsReprioritized()
            ):
                return JobFold._request_all
            case events.GroupEvent():
                return JobFold._fold_group
            case events.ArrayEvent():
                return JobFold._fold_array
            case _:
                assert_never(event)

    def _fold_group(self, event: GroupEvent) -> None:
        self._groups.fold(self._message, self._index, event)

    def _fold_array(self, event: ArrayEvent) -> None:
        job_set = self._arrays.fold(self._message, event)
        if job_set is not None and isinstance(event, events.ArrayTasksCancelled) and event.tasks:
            self._finish(job_set)

    # Requests of users.

    def _submit(self, event: events.JobSubmitted) -> None:
        job_id = event.job_id
        if job_id in self._jobs or job_id in self._stored.jobs:
            return
        message, class_ = self._message, event.priority_class
        task = event.array if event.array is not None and is_task(event) else None
        place = (message.time_ms, message.partition, message.position, self._index)
        self._jobs[job_id] = job = Job(
            job_id,
            self._key,
            class_,
            ids.submission_number(*place) if task is None else task.number,
            message.time_ms,
            self._meter.name_shape(event.shape, class_),
            QUEUED,
            event.priority,
            message.time_ms,
            event.pool,
            event.after or None,
            event.hold,
            event.start_after_ms,
            is_task=task is not None,
            submitted_by=self._arrays.find_submitter(task) if task else message.sequence.by,
            new=True,
        )
        self._submitted[job_id] = SubmissionDetails(
            event.digest,
            event.client_id,
            event.labels,
            event.annotations,
            None if event.gang is None else event.gang.name,
            _encode(event),
        )
        self._groups.add_member(event)
        self._new_by_partition.setdefault(message.partition, []).append(job_id)
        job_set = self._job_sets.edit(self._key)
        if task is None:
            job_set.jobs += 1
            job_set.live += 1
            count = (class_, QUEUED)
            job_set.counts[count] = job_set.counts.get(count, 0) + 1
        else:  # counted since its array was submitted
            self._arrays.release(job_id)
        if replaced := find_replaced_job(event):
            self._supersede(replaced, job)
        self._writer.write_submission(job_set, event)

    def _supersede(self, job_id: str, new: Job) -> None:
        """Record that a job of the same job set that did not succeed was submitted again."""
        old = self._jobs.get(job_id) or self._stored.jobs.get(job_id)
        if old is not None and can_supersede(new, old) and (old := self._edit(job_id)):
            old.superseded_by, old.dirty = new.id, True
            self._job_sets.edit(new.key).superseded += 1

    def _release(self, event: events.JobReleased) -> None:
        job = self._edit(event.job_id)
        if job is not None and job.held and job.state == QUEUED:
            job.held = False
            job.dirty = True
            self._writer.write(
                self._job_sets.edit(job.key), "queued", job, by=self._message.sequence.by
            )

    def _request_one(self, event: Request) -> None:
        job = self._edit(event.job_id)
        if job is None:
            self._arrays.request(event)
        self._request(job, event)

    def _request(self, job: Job | None, event: Request | BulkRequest) -> None:
        """Apply a request to a job, by its id or by a filter that it matches."""
        if job is None or job.state in ENDED:
            return
        time_ms, by = self._message.time_ms, self._message.sequence.by
        match event:
            case events.JobCancelRequested() | events.JobsCancelRequested():
                if isinstance(event, events.JobCancelRequested):
                    by = event.by or by
                job_set = self._job_sets.edit(job.key)
                reason = event.reason or None
                if self._move(job, job_set, event):
                    job.reason = reason
                    record_request(job, time_ms, "cancel", by, reason)
                    self._writer.write(job_set, "cancelled", job, by=by, reason=reason)
                    self._finish(job_set, job)
                elif job.stopping != "cancel":
                    job.stopping = "cancel"
                    record_request(job, time_ms, "cancel", by, reason)
                    self._writer.write(job_set, "cancelling", job, by=by, reason=reason)
            case events.JobPreemptRequested() | events.JobsPreemptRequested():
                if job.state in WITH_RUN and job.stopping is None:
                    record_request(job, time_ms, "preempt", by, event.reason or None)
                    self._preempt(job, events.PreemptionCause.REQUEST, event.reason, by=by)
            case events.JobReprioritized() | events.JobsReprioritized():
                if job.priority != event.priority:
                    job.priority, reason = event.priority, event.reason or None
                    record_request(job, time_ms, "reprioritize", by, reason, event.priority)
                    job_set, to = self._job_sets.edit(job.key), event.priority
                    self._writer.write(
                        job_set, "reprioritized", job, by=by, priority=to, reason=reason
                    )
            case _:
                assert_never(event)

    def _request_all(self, event: BulkRequest) -> Iterator[None]:
        """Apply a bulk request to the jobs that match now, by job set, oldest first."""
        message = self._message
        place = (message.partition, message.position)
        self._arrays.request_all(message.partition, event)
        candidates = dict.fromkeys(self._stored.candidates.get(place, ()))
        candidates.update(dict.fromkeys(self._new_by_partition.get(message.partition, ())))
        jobs = [job for job in map(self._find, candidates) if job]
        jobs.sort(key=lambda job: (job.key, job.number, job.id))
        for index, job in enumerate(jobs):
            if matches_filter(job, event.filter, self._labels(job.id)):
                self._request(self._edit(job.id), event)
            if index % PAUSE_EVENTS == 0:
                yield

    def _labels(self, job_id: str) -> Mapping[str, str]:
        new = self._submitted.get(job_id)
        return self._stored.labels.get(job_id, {}) if new is None else new.labels

    # Decisions of the scheduler.

    def _lease(self, event: events.JobRunLeased) -> None:
        job = self._edit(event.job_id)
        if job is None or event.run <= job.run:
            return
        self._leave_run(job)
        if job.latest is not None:
            self._older_runs[job.id, job.run] = job.latest
            job.latest.new = True
        job.run = event.run
        job.latest = run = Run(
            event.run,
            "LEASED",
            event.executor,
            event.node,
            event.pool,
            self._message.time_ms,
            shape=job.shape,
        )
        job.dirty = True
        job_set = self._job_sets.edit(job.key)
        self._meter.start_run(job_set, job.submitted_by, run)
        if self._move(job, job_set, event):
            job.stopping = job.started_ms = None
            self._writer.write_step(job_set, "leased", job.id, run)

    def _preempting(self, event: events.JobRunPreempting) -> None:
        job = self._edit(event.job_id)
        if job is None or job.run != event.run or job.state not in WITH_RUN:
            return
        if job.stopping is None:
            self._preempt(job, event.cause, event.reason, for_job=event.for_job)

    def _preempt(
        self, job: Job, cause: str, reason: str, by: str | None = None, for_job: str | None = None
    ) -> None:
        job.stopping = "preempt"
        job.stop_cause = str(cause)
        job.stop_reason = reason or None
        job.dirty = True
        self._writer.write_preemption(self._job_sets.edit(job.key), job, by, for_job)

    def _leave_run(self, job: Job) -> None:
        """The job no longer depends on its newest run; the run gets the cause of its preemption."""
        if job.latest is not None:
            record_preemption_cause(job, job.latest)
        job.stop_cause = job.stop_reason = None

    def _decide(self, event: Decision) -> None:
        """Apply what the scheduler decided after a run ended, or about a job that cannot run."""
        job = self._edit(event.job_id)
        if job is None:
            return
        stopping = job.stopping
        job_set = self._job_sets.edit(job.key)
        if not self._move(job, job_set, event):
            return
        job.stopping = None
        self._leave_run(job)
        match event:
            case events.JobSucceeded():
                job.reason = event.reason or None
                self._writer.write_run(job_set, "succeeded", job, reason=job.reason)
            case events.JobFailed():
                job.category = str(event.category)
                job_set.count_failure(job.category)
                job.exit_code = event.exit_code
                job.reason = event.reason
                self._writer.write_failed_run(job_set, job, will_retry=False)
                self._writer.write_run(
                    job_set,
                    "failed",
                    job,
                    category=job.category,
                    exit_code=job.exit_code,
                    reason=job.reason,
                )
            case events.JobCancelled():
                job.reason = event.reason or None
                by = find_requester(job, "cancel")
                self._writer.write_run(job_set, "cancelled", job, reason=job.reason, by=by)
            case events.JobPreempted():
                job.reason = event.reason
                self._write_preempted(job_set, job, event.reason, final=True)
            case events.JobRejected():
                job.category = event.code
                job_set.count_failure(job.category)
                job.reason = event.reason
                self._writer.write_run(
                    job_set, "rejected", job, code=event.code, reason=event.reason
                )
            case events.JobRequeued():
                self._requeue(job, event, preempted=stopping == "preempt")
                self._groups.count_restart(event)
            case _:
                assert_never(event)
        self._finish(job_set, job)

    def _requeue(self, job: Job, event: events.JobRequeued, *, preempted: bool) -> None:
        job.started_ms = None
        job_set = self._job_sets.edit(job.key)
        if event.shape:
            job.shape = self._meter.name_shape(event.shape, job.priority_class)
        if preempted:
            self._write_preempted(job_set, job, event.reason, final=False)
        else:
            self._writer.write_failed_run(job_set, job, will_retry=True)
        self._writer.write_run(job_set, "requeued", job, reason=event.reason)

    def _write_preempted(self, job_set: JobSet, job: Job, reason: str, *, final: bool) -> None:
        by = find_requester(job, "preempt")
        self._writer.write_run(job_set, "preempted", job, reason=reason, final=final, by=by)

    # Reports about runs.

    def _run_event(self, event: RunReport) -> None:
        job = self._edit(event.job_id)
        if job is None:
            return
        newest = job.run == event.run
        run = job.latest if newest else self._older_run(job.id, event.run)
        if run is None or (to := RUN_TRANSITIONS[type(event)].get(run.state)) is None:
            return
        if newest:
            job.dirty = True
        had_ended = run.ended_ms is not None
        job_set = self._job_sets.edit(job.key)
        time_ms = self._message.time_ms
        if newest and job.stop_cause is not None and to in RUNS_ENDED:
            record_preemption_cause(job, run)
        advance_run(run, to, event, time_ms)
        if run.ended_ms is not None and not had_ended:
            self._meter.end_run(job_set, job.submitted_by, run, time_ms)
        if newest and self._move(job, job_set, event):
            if to == "RUNNING":
                job.started_ms = time_ms
            self._writer.write_step(job_set, _RUN_EVENTS[to], job.id, run)

    # The records that this batch changes.

    def _find(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id) or self._stored.jobs.get(job_id)

    def _edit(self, job_id: str) -> Job | None:
        job = self._jobs.get(job_id)
        if job is None and (job := self._stored.jobs.get(job_id)) is not None:
            self._jobs[job_id] = job
        return job

    def _older_run(self, job_id: str, number: int) -> Run | None:
        key = (job_id, number)
        run = self._older_runs.get(key)
        if run is None and (run := self._stored.older_runs.get(key)) is not None:
            self._older_runs[key] = run
        return run

    def _move(self, job: Job, job_set: JobSet, event: events.AnyEvent) -> bool:
        """Move the job to its next state; False if the table has no row for the event."""
        state = job.state
        to = JOB_TRANSITIONS[type(event)].get(state)
        if to is None:
            return False
        counts, class_ = job_set.counts, job.priority_class
        before, after = (class_, state), (class_, to)
        counts[before] = counts.get(before, 0) - 1
        counts[after] = counts.get(after, 0) + 1
        if job.is_task:
            self._arrays.move(job, state, to)
        job.state = to
        job.changed_ms = self._message.time_ms
        job.dirty = True
        if to in ENDED:
            job_set.live -= 1
            job.ended_ms = self._message.time_ms
        return True

    def _finish(self, job_set: JobSet, job: Job | None = None) -> None:
        """Publish `finished` when this (None: a waiting task) was the last live job of its set."""
        if job_set.live == 0 and (job is None or job.state in ENDED):
            # Runs that were never reported as ended hold nothing any more.
            self._meter.finish_runs()
            self._meter.count_until(job_set, self._message.time_ms)
            job_set.held.clear()
            self._writer.write(job_set, "finished", None, counts=job_set.by_state())
