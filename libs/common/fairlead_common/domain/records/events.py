"""The facts of Fairlead: every event of `fairlead.jobs`, in one closed union.

Frozen structs, past tense. A released event never changes meaning; its fields only grow, with
defaults; `tests/unit/golden/events.jsonl` holds one line of each and guards that. Job events carry
`job_id`, the others a filter that each fold applies to the jobs it knows at that place.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.ids import ArrayId, GroupId, JobId, job_set_key, job_set_partition
from fairlead_common.domain.records.group_terms import Group as Group
from fairlead_common.domain.records.group_terms import GroupChangeKind as GroupChangeKind
from fairlead_common.domain.records.group_terms import GroupMember as GroupMember
from fairlead_common.domain.records.group_terms import GroupRole as GroupRole
from fairlead_common.domain.records.group_terms import MemberFailure as MemberFailure
from fairlead_common.domain.records.job_properties import FailureCategory as FailureCategory
from fairlead_common.domain.records.job_properties import Gang as Gang
from fairlead_common.domain.records.job_properties import JobFilter as JobFilter
from fairlead_common.domain.records.job_properties import NetworkObject as NetworkObject
from fairlead_common.domain.records.job_properties import RetryPolicy as RetryPolicy
from fairlead_common.domain.records.task_membership import ArrayTask as ArrayTask
from fairlead_common.domain.records.value_ranges import (
    Int32,
    Int64,
    Milliseconds,
    Name,
    RunNumber,
    Seconds,
)
from fairlead_common.log.protocol import RECORD_BYTES_MAX, Record
from fairlead_common.log.topics import JOBS

EVENTS_MAX: Final = 1_000
"""Most events in one message."""

RESUBMITTED_FROM: Final = "fairlead.dev/resubmitted-from"
"""An annotation: the id of the job that this one replaces."""


class PreemptionCause(StrEnum):
    """Why a run was preempted."""

    FAIR_SHARE = "fair-share"
    URGENCY = "urgency"
    GANG = "gang"
    SURPLUS = "surplus"
    """A surplus member of a group, for the minimal set of a group or a single job of its queue."""
    REQUEST = "request"
    GROUP = "group"
    """Its group has ended, restarts or was scaled down."""


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    rename="camel",
    omit_defaults=True,
    gc=False,
):
    """The base of all events."""


class JobEvent(Event, frozen=True, kw_only=True):
    """A fact about one job."""

    job_id: JobId


class GroupEvent(Event, frozen=True, kw_only=True):
    """A fact about a group as a whole. Its members are jobs of the job set of the message."""

    group: GroupId


class ArrayEvent(Event, frozen=True, kw_only=True):
    """A fact about an array as a whole. Its tasks are jobs of the job set of the message."""

    array: ArrayId


class RunEvent(JobEvent, frozen=True, kw_only=True):
    """A fact about one run of a job. `run` counts attempts from 1."""

    run: RunNumber


# Requests, written by submit.


class JobSubmitted(JobEvent, frozen=True, kw_only=True, tag="jobSubmitted"):
    """A job was submitted. The first event of an id counts; later ones change nothing.

    `shape` is the canonical JSON of everything that decides where the job is able to run, except
    its class: `{requests: {resource: integer}, nodeSelector, affinity, tolerations}` (see
    `fairlead_common.domain.scheduling.shapes`). `spec` is the pod spec as it goes to the cluster.
    `digest` is the digest of what the client sent, before defaults. Times are in ms (UTC) or
    seconds, by suffix.
    """

    shape: msgspec.Raw
    spec: msgspec.Raw
    digest: str
    client_id: str | None = None
    priority: Int32 = 0
    priority_class: Name = "default"
    pool: Name = "default"
    namespace: str = "default"
    after: tuple[JobId, ...] = ()
    hold: bool = False
    start_after_ms: Milliseconds | None = None
    queue_s_max: Seconds | None = None
    runtime_s_max: Seconds | None = None
    grace_s: Int32 = 30
    checkpoint_s: Seconds | None = None
    when_infeasible: str = "reject"
    on_preemption: str = "requeue"
    gang: Gang | None = None
    retry: RetryPolicy | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    services: tuple[NetworkObject, ...] = ()
    ingresses: tuple[NetworkObject, ...] = ()
    group: GroupMember | None = None
    array: ArrayTask | None = None


class ArraySubmitted(ArrayEvent, frozen=True, kw_only=True, tag="arraySubmitted"):
    """An array of equal jobs, its tasks, was submitted. The first event of an id counts.

    `template` is a task without its index; its `job_id` is the array's id. `indexes`: those of the
    tasks (`IndexSet`), each below `count`. At most `running_max` tasks are released at a time: the
    scheduler releases a task by its `JobSubmitted` when it can soon start. `after`: an array of the
    job set; a task starts when the task of that array with its index has succeeded.
    """

    template: JobSubmitted
    count: Int32
    indexes: str
    running_max: Int32 | None = None
    after: ArrayId | None = None


class ArrayCancelRequested(ArrayEvent, frozen=True, kw_only=True, tag="arrayCancelRequested"):
    """Cancellation of tasks was requested: of those with these `indexes` (empty: of all)."""

    indexes: str = ""
    reason: str = ""


class GroupSubmitted(GroupEvent, frozen=True, kw_only=True, tag="groupSubmitted"):
    """A group was submitted; the `JobSubmitted` of its members follow in the same append.

    The first event of an id counts. `digest` is that of what the client sent, before defaults.
    """

    terms: Group
    digest: str
    client_id: str | None = None
    labels: dict[str, str] = {}


class GroupChanged(GroupEvent, frozen=True, kw_only=True, tag="groupChanged"):
    """The terms of the group were changed. New members follow in the same append."""

    terms: Group
    kind: GroupChangeKind = GroupChangeKind.SCALED
    reason: str = ""


class GroupCancelRequested(GroupEvent, frozen=True, kw_only=True, tag="groupCancelRequested"):
    """Cancellation of the group was requested: all its members are cancelled."""

    reason: str = ""


class GroupRestartRequested(GroupEvent, frozen=True, kw_only=True, tag="groupRestartRequested"):
    """A restart was requested: all members stop, and start again together."""

    reason: str = ""


class JobReleased(JobEvent, frozen=True, kw_only=True, tag="jobReleased"):
    """The hold on this job was lifted."""


class JobCancelRequested(JobEvent, frozen=True, kw_only=True, tag="jobCancelRequested"):
    """Cancellation was requested: a queued job ends here, a running one is stopped first.

    `by`: the user for whom the scheduler requests it, of a task of an array.
    """

    reason: str = ""
    by: str = ""


class JobPreemptRequested(JobEvent, frozen=True, kw_only=True, tag="jobPreemptRequested"):
    """Preemption of the job's run was requested; `onPreemption` says what happens to the job."""

    reason: str = ""


class JobReprioritized(JobEvent, frozen=True, kw_only=True, tag="jobReprioritized"):
    """The priority of the job within its queue was changed."""

    priority: Int32
    reason: str = ""


class JobsCancelRequested(Event, frozen=True, kw_only=True, tag="jobsCancelRequested"):
    """As `JobCancelRequested`, for every job that the filter finds at this place of the log."""

    filter: JobFilter
    reason: str = ""


class JobsPreemptRequested(Event, frozen=True, kw_only=True, tag="jobsPreemptRequested"):
    """As `JobPreemptRequested`, for every job that the filter finds at this place of the log."""

    filter: JobFilter
    reason: str = ""


class JobsReprioritized(Event, frozen=True, kw_only=True, tag="jobsReprioritized"):
    """As `JobReprioritized`, for every job that the filter finds at this place of the log."""

    filter: JobFilter
    priority: Int32
    reason: str = ""


# Decisions, written by the scheduler.


class JobRejected(JobEvent, frozen=True, kw_only=True, tag="jobRejected"):
    """The job can never run as it is. `code` is a reason code of docs/rules.md."""

    code: str
    reason: str


class JobRunLeased(RunEvent, frozen=True, kw_only=True, tag="jobRunLeased"):
    """The scheduler gave the job a node. `value` is the class value at which it runs there."""

    executor: Name
    node: Name
    pool: Name = "default"
    value: Int64 = 0


class JobRunPreempting(RunEvent, frozen=True, kw_only=True, tag="jobRunPreempting"):
    """The run was requested to stop, to free its capacity for `for_job`."""

    cause: PreemptionCause
    reason: str
    for_job: JobId | None = None


class JobRunLost(RunEvent, frozen=True, kw_only=True, tag="jobRunLost"):
    """The run was given up: its executor has not reported for too long, or a restarted executor
    knows nothing of it any more."""

    reason: str


class JobRequeued(JobEvent, frozen=True, kw_only=True, tag="jobRequeued"):
    """The job waits again after a run that ended. `counted`: this used up one of its retries.

    `shape` is its new shape where the retry policy changes it, else empty. `restarts_of`: its
    group, if this used up one of the group's restarts.
    """

    reason: str
    counted: bool = False
    avoid_node: str | None = None
    shape: msgspec.Raw = msgspec.Raw(b"")
    restarts_of: GroupId | None = None


class JobSucceeded(JobEvent, frozen=True, kw_only=True, tag="jobSucceeded"):
    """The job is done. Final. `reason`: why it did not have to succeed by itself, else empty."""

    reason: str = ""


class JobFailed(JobEvent, frozen=True, kw_only=True, tag="jobFailed"):
    """The job failed and is not retried. Final."""

    category: FailureCategory
    reason: str
    exit_code: Int32 | None = None


class JobCancelled(JobEvent, frozen=True, kw_only=True, tag="jobCancelled"):
    """The job was cancelled, and no run of it exists any more. Final."""

    reason: str


class JobPreempted(JobEvent, frozen=True, kw_only=True, tag="jobPreempted"):
    """The job's run was preempted, and `onPreemption` of the job is `fail`. Final."""

    reason: str


class GroupRunning(GroupEvent, frozen=True, kw_only=True, tag="groupRunning"):
    """Every role has its minimum of running members, for the first time since it was queued."""


class GroupRestarting(GroupEvent, frozen=True, kw_only=True, tag="groupRestarting"):
    """All members stop and are queued again. `counted`: this used up one of its restarts."""

    reason: str
    counted: bool = False


class GroupSucceeded(GroupEvent, frozen=True, kw_only=True, tag="groupSucceeded"):
    """Its completion roles have succeeded; what still runs of it is stopped. Final."""


class GroupFailed(GroupEvent, frozen=True, kw_only=True, tag="groupFailed"):
    """The group failed; what still runs of it is stopped. Final."""

    reason: str


class GroupCancelled(GroupEvent, frozen=True, kw_only=True, tag="groupCancelled"):
    """The group was cancelled and nothing of it runs any more. Final."""

    reason: str


class ArrayTasksCancelled(ArrayEvent, frozen=True, kw_only=True, tag="arrayTasksCancelled"):
    """The oldest request to cancel tasks is done: `tasks` tasks with these indexes (`IndexSet`),
    which had not been released, are cancelled; the others have events of their own. `by`: the user
    who requested it."""

    indexes: str
    tasks: Int32
    priority_class: Name = "default"
    reason: str = ""
    by: str = ""


class ArrayEnded(ArrayEvent, frozen=True, kw_only=True, tag="arrayEnded"):
    """All tasks of the array have ended. Final."""


# Reports about runs, written by executors. `at_ms` is the cluster's clock: for people only.


class JobRunPending(RunEvent, frozen=True, kw_only=True, tag="jobRunPending"):
    """The executor has accepted the lease and will create the run."""


class JobRunRunning(RunEvent, frozen=True, kw_only=True, tag="jobRunRunning"):
    """The run's command started. `address`: where other members of its group reach it."""

    at_ms: Milliseconds = 0
    address: str = ""


class JobRunSucceeded(RunEvent, frozen=True, kw_only=True, tag="jobRunSucceeded"):
    """The run's command ended with exit code 0."""

    at_ms: Milliseconds = 0


class JobRunFailed(RunEvent, frozen=True, kw_only=True, tag="jobRunFailed"):
    """The run failed."""

    category: FailureCategory
    reason: str
    exit_code: Int32 | None = None
    at_ms: Milliseconds = 0


class JobRunReturned(RunEvent, frozen=True, kw_only=True, tag="jobRunReturned"):
    """The run never started here; it can start on another node."""

    reason: str
    at_ms: Milliseconds = 0


class JobRunStopped(RunEvent, frozen=True, kw_only=True, tag="jobRunStopped"):
    """The run ended on request: of its lease, or of the executor's shutdown."""

    reason: str
    exit_code: Int32 | None = None
    at_ms: Milliseconds = 0


AnyEvent = (
    JobSubmitted
    | JobReleased
    | JobCancelRequested
    | JobPreemptRequested
    | JobReprioritized
    | JobsCancelRequested
    | JobsPreemptRequested
    | JobsReprioritized
    | JobRejected
    | JobRunLeased
    | JobRunPreempting
    | JobRunLost
    | JobRequeued
    | JobSucceeded
    | JobFailed
    | JobCancelled
    | JobPreempted
    | JobRunPending
    | JobRunRunning
    | JobRunSucceeded
    | JobRunFailed
    | JobRunReturned
    | JobRunStopped
    | GroupSubmitted
    | GroupChanged
    | GroupCancelRequested
    | GroupRestartRequested
    | GroupRunning
    | GroupRestarting
    | GroupSucceeded
    | GroupFailed
    | GroupCancelled
    | ArraySubmitted
    | ArrayCancelRequested
    | ArrayTasksCancelled
    | ArrayEnded
)


class EventSequence(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One message of `fairlead.jobs`: events of one job set in their order, and their cause `by`.

    `request` and `traceparent` identify the HTTP request that caused the events, if one did.
    """

    queue: Name
    job_set: Name
    by: str
    events: list[AnyEvent]
    request: str = ""
    traceparent: str = ""


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(EventSequence)


def decode(value: bytes) -> EventSequence:
    """The sequence of one message. Raises `msgspec.DecodeError` if it is not valid."""
    return _decoder.decode(value)


def records(
    queue: str,
    job_set: str,
    by: str,
    events: Sequence[AnyEvent],
    *,
    request: str = "",
    traceparent: str = "",
    partition: int | None = None,
) -> list[Record]:
    """The messages with these events, in order: each within `EVENTS_MAX` and 1 MiB.

    Events about several job sets, or about jobs that are known by id only, have an empty job set
    (or queue and job set) and a `partition`.
    """
    made: list[Record] = []
    key = job_set_key(queue, job_set)
    if partition is None:
        partition = job_set_partition(queue, job_set)
    pending = [
        list(events[start : start + EVENTS_MAX]) for start in range(0, len(events), EVENTS_MAX)
    ]
    pending.reverse()
    while pending:
        part = pending.pop()
        sequence = EventSequence(
            queue=queue,
            job_set=job_set,
            by=by,
            events=part,
            request=request,
            traceparent=traceparent,
        )
        value = _encoder.encode(sequence)
        if len(value) > RECORD_BYTES_MAX and len(part) > 1:
            half = len(part) // 2
            pending += [part[half:], part[:half]]
        else:
            made.append(Record(JOBS, key, value, partition))
    return made
