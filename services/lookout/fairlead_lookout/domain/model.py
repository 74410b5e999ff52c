"""What the fold knows of jobs, their runs and their job sets, as plain mutable records.

`apply` (see `job_fold.py`) copies a record before it changes it, so that a batch that could not be
written leaves nothing behind. States are the words of `lifecycle.JobState` and
`lifecycle.RunState` as plain text: a fold of 10,000 events a second hashes them all the time.
All times are the log's append times in ms (UTC).
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from fairlead_common.domain.records.events import EventSequence

SetKey: TypeAlias = tuple[str, str]
"""(queue, job set)"""

RunKey: TypeAlias = tuple[str, int]
"""(job id, number of the run)"""

CountKey: TypeAlias = tuple[str, str]
"""(priority class, state)"""

UsageKey: TypeAlias = tuple[str, str, int]
"""(queue, pool, hour as its first ms)"""

Amounts: TypeAlias = dict[str, int]
"""resource -> amount in its fixed unit; multiplied with ms where it says what was used"""


class Run(msgspec.Struct, gc=False):
    """One attempt. `cause` says why it was preempted, if it was and has ended (until then its job
    knows, see `Job`); `shape` what it holds."""

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


class Job(msgspec.Struct, gc=False):
    """One job; `latest` is its newest run. `stopping` is `cancel`, `preempt` or None; with
    `preempt`, `stop_cause` and `stop_reason` say why, until the run ends and takes them over: so a
    wish changes one row, also where it is one of 100,000.

    `superseded_by`: the job that was submitted in its place, in the same job set.
    `held` until somebody releases it. `new` and `dirty` say whether the row must be inserted or
    updated; a record that was written has neither.
    """

    id: str
    key: SetKey
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
    latest: Run | None = None
    new: bool = False
    dirty: bool = False


class JobSet(msgspec.Struct):
    """One job set and its counters. `last` is the id of its newest public event.

    `failures` counts failed and rejected jobs by category. `held` is what its runs hold now, by
    pool; `used` what they have used up to `metered_ms` (see `resource_usage.py`). `superseded`:
    jobs that did not succeed and in whose place others were submitted.
    """

    number: int
    key: SetKey
    partition: int
    jobs: int = 0
    live: int = 0
    first_ms: int = 0
    last_ms: int = 0
    position: int = -1
    last: tuple[int, int] = (-1, 0)
    counts: dict[CountKey, int] = {}
    failures: dict[str, int] = {}
    held: dict[str, Amounts] = {}
    used: Amounts = {}
    metered_ms: int = 0
    superseded: int = 0

    def copy(self) -> "JobSet":
        """A record of its own, counters included."""
        return msgspec.structs.replace(
            self,
            counts=dict(self.counts),
            failures=dict(self.failures),
            held={pool: dict(amounts) for pool, amounts in self.held.items()},
            used=dict(self.used),
        )

    def by_state(self) -> dict[str, int]:
        """How many jobs are in each state, without the states that have none."""
        total: dict[str, int] = {}
        for (_, state), jobs in self.counts.items():
            if jobs:
                total[state] = total.get(state, 0) + jobs
        return total


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of `fairlead.jobs` with its place and the log's time.

    `told`: public events of it that were told before, when only a part of it is left.
    """

    partition: int
    position: int
    time_ms: int
    sequence: EventSequence
    told: int = 0


class Within(msgspec.Struct, frozen=True, rename="camel"):
    """How far a request about many jobs, the message at `position`, has been folded: up to this
    job, in the order of job set, number and id; `told` public events of it were told."""

    position: int
    job_set: str
    number: int
    job_id: str
    told: int = 0


class Known(msgspec.Struct, frozen=True):
    """What the view holds of everything that a batch of messages mentions.

    `jobs` by id with their newest runs; `runs` are older runs that the batch mentions; `sets` has
    every job set of the batch and of every job in `jobs`. `candidates`: for a message (partition,
    position) that asks something of all jobs of a filter, the ids of jobs that it may find, and
    `labels` theirs, by id, where a filter asks for any. `requests`: what the shapes of these jobs
    ask for.
    """

    jobs: Mapping[str, Job]
    sets: Mapping[SetKey, JobSet]
    runs: Mapping[RunKey, Run] = {}
    candidates: Mapping[tuple[int, int], list[str]] = {}
    labels: Mapping[str, dict[str, str]] = {}
    requests: Mapping[str, Amounts] = {}


class Line(msgspec.Struct, frozen=True, gc=False):
    """One public event: its id (position, item) and its JSON."""

    position: int
    item: int
    time_ms: int
    json: bytes


class Submitted(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a submission beside the narrow row, `text` being all of it."""

    digest: str
    client_id: str | None
    labels: dict[str, str]
    annotations: dict[str, str]
    text: bytes


class Usage(msgspec.Struct):
    """Amounts x ms: what runs used, and what of it was lost because they were preempted."""

    used: Amounts = {}
    lost: Amounts = {}


class Changes(msgspec.Struct, frozen=True):
    """What a batch makes of what was known: whole new values of everything it touched.

    `submitted` holds the text of the event for each new job, `counted` the counters that moved,
    `lines` the public events per job set, in order; `shapes` are new ones, `usage` is what was used
    and lost to preemption by (queue, pool, hour). `told` counts the public events of the last
    message.
    """

    jobs: dict[str, Job]
    runs: dict[RunKey, Run]
    sets: dict[SetKey, JobSet]
    submitted: dict[str, Submitted]
    counted: dict[SetKey, set[CountKey]]
    lines: dict[SetKey, list[Line]]
    events: int
    shapes: dict[str, Amounts] = {}
    usage: dict[UsageKey, Usage] = {}
    told: int = 0
