"""The records of jobs, runs and job sets that the fold changes.

States are the words of `lifecycle.JobState` and `lifecycle.RunState` as plain text: a fold of
10,000 events a second hashes them all the time. All times are the log's append times in ms (UTC).
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from fairlead_common.domain.records.events import EventSequence
from fairlead_lookout.domain.array_records import ArrayChanges
from fairlead_lookout.domain.groups.group_records import GroupChanges

JobSetKey: TypeAlias = tuple[str, str]
"""(queue, job set)"""

RunKey: TypeAlias = tuple[str, int]
"""(job id, number of the run)"""

CountKey: TypeAlias = tuple[str, str]
"""(priority class, state)"""

UsageKey: TypeAlias = tuple[str, str, int, str]
"""(queue, pool, hour as its first ms, user who submitted the jobs)"""

SubmissionPlace: TypeAlias = tuple[int, int]
"""(chunk, line in it from 0): where the event that submitted a job is stored"""

Amounts: TypeAlias = dict[str, int]
"""resource -> amount in its fixed unit; amounts that were used are multiplied with ms"""


class Run(msgspec.Struct, gc=False):
    """One run. `cause`: why it was preempted, once it has ended (before that see `Job`);
    `shape`: the resources that it holds. `new`: it was the newest run of its job until this batch,
    so it has no row yet."""

    number: int
    state: str
    executor: str
    node: str
    pool: str
    leased_ms: int
    pending_ms: int | None = None
    running_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    category: str | None = None
    reason: str | None = None
    cause: str | None = None
    shape: str = ""
    new: bool = False


Action: TypeAlias = Literal["cancel", "preempt", "reprioritize"]


class JobRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """What a user requested for a job that exists. `priority`: of a reprioritization."""

    time_ms: int
    action: Action
    by: str
    reason: str | None = None
    priority: int | None = None


class Job(msgspec.Struct, gc=False):
    """One job; `latest`: its newest run, in the same row. `stopping` is `cancel`, `preempt` or
    None. With `preempt`, `stop_cause` and `stop_reason` are why; they are copied to the run when it
    has ended.

    `submitted_by`: the user; of a task, who submitted its array. `user_requests`: the newest ones,
    in their order. `superseded_by`: the job in the same job set that is its resubmission. `held`:
    not released yet. `is_task`: its array counts it. `week`: in which its rows are kept; the store
    chooses it when it inserts them. `new`, `dirty`: the row must be inserted or updated.
    """

    id: str
    key: JobSetKey
    priority_class: str
    number: int
    submitted_ms: int
    shape: str
    state: str
    priority: int
    changed_ms: int
    pool: str = "default"
    after: tuple[str, ...] | None = None
    held: bool = False
    start_after_ms: int | None = None
    stopping: str | None = None
    stop_cause: str | None = None
    stop_reason: str | None = None
    run: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    category: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    superseded_by: str | None = None
    is_task: bool = False
    week: int = 0
    submitted_by: str = ""
    user_requests: tuple[JobRequest, ...] = ()
    latest: Run | None = None
    new: bool = False
    dirty: bool = False


class JobSet(msgspec.Struct):
    """One job set and its counters. `last`: the id of its newest public event.

    `failures`: failed and rejected jobs by category. `held`: the resources that its runs hold now,
    by pool and user; `used`: what they have used up to `metered_ms` (see `resource_usage.py`).
    `superseded`: jobs that did not succeed and were submitted again. `new`: it has a number, and no
    row yet.
    """

    number: int
    key: JobSetKey
    partition: int
    jobs: int = 0
    live: int = 0
    first_ms: int = 0
    last_ms: int = 0
    position: int = -1
    last: tuple[int, int] = (-1, 0)
    counts: dict[CountKey, int] = {}
    failures: dict[str, int] = {}
    held: dict[str, dict[str, Amounts]] = {}
    used: Amounts = {}
    metered_ms: int = 0
    superseded: int = 0
    new: bool = False

    def copy(self) -> "JobSet":
        """A deep copy."""
        return msgspec.structs.replace(
            self,
            counts=dict(self.counts),
            failures=dict(self.failures),
            held={
                pool: {user: dict(amounts) for user, amounts in users.items()}
                for pool, users in self.held.items()
            },
            used=dict(self.used),
        )

    def count_failure(self, category: str) -> None:
        """Count a failed or rejected job."""
        name = category or "internal"
        self.failures[name] = self.failures.get(name, 0) + 1

    def by_state(self) -> dict[str, int]:
        """Jobs by state, without states that have none."""
        total: dict[str, int] = {}
        for (_, state), jobs in self.counts.items():
            if jobs:
                total[state] = total.get(state, 0) + jobs
        return total


class EditedJobSets:
    """The job sets that a batch changes: each is copied before its first change.

    `edited`: the copies. `stored` are left as they are.
    """

    def __init__(self, stored: Mapping[JobSetKey, JobSet]) -> None:
        self.edited: dict[JobSetKey, JobSet] = {}
        self._stored = stored

    def edit(self, key: JobSetKey) -> JobSet:
        """The copy of a job set. Raises `KeyError` if it is not stored."""
        job_set = self.edited.get(key)
        if job_set is None:
            self.edited[key] = job_set = self._stored[key].copy()
        return job_set

    def find_changed_counts(self) -> dict[JobSetKey, set[CountKey]]:
        """The counters of each edited job set that differ from the stored ones."""
        found: dict[JobSetKey, set[CountKey]] = {}
        for key, each in self.edited.items():
            before = self._stored[key].counts
            found[key] = {one for one, jobs in each.counts.items() if jobs != before.get(one, 0)}
        return found


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of `fairlead.jobs` with its position and append time.

    `published`: public events that earlier parts of a bulk request have published.
    """

    partition: int
    position: int
    time_ms: int
    sequence: EventSequence
    published: int = 0


class BulkProgress(msgspec.Struct, frozen=True, rename="camel"):
    """How much of a bulk request, the message at `position`, has been folded: up to this job, in
    the order of job set, number and id. `published`: the public events so far."""

    position: int
    job_set: str
    number: int
    job_id: str
    published: int = msgspec.field(default=0, name="told")


class StoredRecords(msgspec.Struct, frozen=True):
    """The records of the view that a batch of messages refers to. The fold changes jobs and runs in
    place.

    `jobs`: by id, with their newest runs; `older_runs`: others; `job_sets`: of the messages and of
    all jobs. `candidates`: for a message (partition, position) with a bulk request, the ids of jobs
    that its filter can match; `labels`: theirs by id, if the filter has labels. `requests`: the
    resources that the shapes of these jobs request. `arrays`: those that exist already, of the
    arrays that the messages submit or release tasks of, and who submitted them.
    """

    jobs: Mapping[str, Job]
    job_sets: Mapping[JobSetKey, JobSet]
    older_runs: Mapping[RunKey, Run] = {}
    candidates: Mapping[tuple[int, int], list[str]] = {}
    labels: Mapping[str, dict[str, str]] = {}
    requests: Mapping[str, Amounts] = {}
    arrays: Mapping[str, str] = {}


class Line(msgspec.Struct, frozen=True, gc=False):
    """One public event: its id (position, item) and its JSON."""

    position: int
    item: int
    time_ms: int
    json: bytes


class SubmissionDetails(msgspec.Struct, frozen=True, gc=False):
    """The parts of a submission that never change; `text`: all of it, which is in a chunk."""

    digest: str
    client_id: str | None
    labels: dict[str, str]
    annotations: dict[str, str]
    gang: str | None
    text: bytes


class Usage(msgspec.Struct):
    """Amounts x ms: what runs used, and what preempted runs lost."""

    used: Amounts = {}
    lost: Amounts = {}


class Preemption(msgspec.Struct, frozen=True):
    """A run that was requested to stop: why, by which user, and for which job."""

    time_ms: int
    job_id: str
    run: int
    queue: str
    cause: str
    reason: str | None
    for_job: str | None
    requested_by: str | None


class Changes(msgspec.Struct, frozen=True):
    """The result of a batch: the new values of everything that it changed.

    `jobs`: with their newest runs; `older_runs`: those that changed or are new.
    `submitted`: the submissions of new jobs; `counted`: the counters that changed; `lines`: the
    public events of each job set, in order; `shapes`: new ones; `usage`: what was used and lost to
    preemption. `published`: the number of public events of the last message.
    """

    jobs: dict[str, Job]
    older_runs: dict[RunKey, Run]
    job_sets: dict[JobSetKey, JobSet]
    submitted: dict[str, SubmissionDetails]
    counted: dict[JobSetKey, set[CountKey]]
    lines: dict[JobSetKey, list[Line]]
    events: int
    shapes: dict[str, Amounts] = {}
    usage: dict[UsageKey, Usage] = {}
    published: int = 0
    preemptions: Sequence[Preemption] = ()
    groups: GroupChanges = GroupChanges([], [], {}, [])
    arrays: ArrayChanges = ArrayChanges([], {}, {}, {}, [])
