"""What the API speaks of, as frozen structs: what is sent, and what comes back.

Sent structs refuse unknown fields when they are read from text; answers ignore fields that this
version does not know, so that a newer server can be asked by an older client. Amounts are
Kubernetes quantities ("500m", "2Gi"); times are RFC 3339 text as the server wrote it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

SUCCEEDED: Final = "SUCCEEDED"
ENDED: Final = frozenset({SUCCEEDED, "FAILED", "CANCELLED", "PREEMPTED", "REJECTED"})
"""States that a job never leaves."""

STATES: Final = (
    "QUEUED",
    "LEASED",
    "PENDING",
    "RUNNING",
    "SUCCEEDED",
    "FAILED",
    "CANCELLED",
    "PREEMPTED",
    "REJECTED",
)
"""Every state of a job, in the order of its life."""


class Sent(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """What a client says."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the server says."""


class Gang(Sent, frozen=True, kw_only=True):
    """Jobs of one queue and job set that start together."""

    name: str
    size: int
    min_size: int | None = None
    uniformity_label: str | None = None
    rest: str | None = None


class Retry(Sent, frozen=True, kw_only=True):
    """How often a failed run is tried again, after which failures, and with what changed."""

    limit: int = 0
    on: tuple[str, ...] = ()
    memory_factor: float | None = None
    avoid_node: bool | None = None


class Job(Sent, frozen=True, kw_only=True):
    """A job to submit: the short form (`command`, `cpu`, `memory`, `gpu`, `env`) or a `pod_spec`.

    `client_id` names the job within its queue and job set: submitting it again creates nothing.
    The client library makes one up where it is absent, so that its own retries are safe.
    `after` lists jobs of the same job set (client ids or ids) that must succeed first.
    """

    client_id: str | None = None
    image: str | None = None
    command: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None
    cpu: str | int | float | None = None
    memory: str | int | None = None
    gpu: str | int | None = None
    pod_spec: Mapping[str, object] | None = None
    priority: int | None = None
    priority_class: str | None = None
    pool: str | None = None
    namespace: str | None = None
    after: tuple[str, ...] | None = None
    hold: bool | None = None
    start_after: str | None = None
    max_queue_seconds: int | None = None
    max_runtime_seconds: int | None = None
    when_infeasible: str | None = None
    on_preemption: str | None = None
    checkpoint_interval_seconds: int | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    gang: Gang | None = None
    retry: Retry | None = None


class Queue(Answer, frozen=True, kw_only=True):
    """A queue, as the server keeps it."""

    name: str
    weight: float = 1.0
    cordoned: bool = False
    limits: dict[str, dict[str, str | float]] = {}
    labels: dict[str, str] = {}


class SubmittedJob(Answer, frozen=True, kw_only=True):
    """One accepted job. `duplicate`: the server already knew it, nothing was created."""

    id: str
    client_id: str | None = None
    duplicate: bool = False


class Submitted(Answer, frozen=True, kw_only=True):
    """What became of a submission: the jobs in the order given.

    `position` names the place in the log; reads that are given it see these jobs.
    """

    position: str
    jobs: tuple[SubmittedJob, ...]


class Cancelled(Answer, frozen=True, kw_only=True):
    """`matched`: how many jobs a cancellation concerned, as far as the server knows."""

    position: str
    matched: int | None = None


class Problem(Answer, frozen=True, kw_only=True):
    """An RFC 9457 problem document."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    instance: str = ""
    errors: tuple["Fault", ...] = ()


class Fault(Answer, frozen=True, kw_only=True):
    """One thing that is wrong with a request, and where (a JSON pointer)."""

    pointer: str = ""
    detail: str = ""


class JobSet(Answer, frozen=True, kw_only=True):
    """A job set: how many `jobs` it has, in which `states`, and how many are still `live`."""

    queue: str
    job_set: str
    jobs: int = 0
    live: int = 0
    states: dict[str, int] = {}
    first_activity: str | None = None
    last_activity: str | None = None
    position: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether all its jobs have ended."""
        return self.live == 0

    @property
    def ended(self) -> int:
        """How many of its jobs will not change any more."""
        return self.jobs - self.live

    @property
    def bad(self) -> int:
        """How many ended otherwise than well."""
        return self.ended - self.states.get(SUCCEEDED, 0)


class AboutJob(Answer, frozen=True, kw_only=True):
    """What is said of a job wherever it is shown. `message` is a sentence about `category`.

    `waiting_for` of a queued one: hold, dependencies, startAfter or scheduling. `stopping`:
    cancel or preempt. `run` is the number of its newest run, 0 if there was none; `cluster` and
    `node` are that run's.
    """

    id: str
    queue: str
    job_set: str
    state: str
    client_id: str | None = None
    waiting_for: str | None = None
    stopping: str | None = None
    priority: int = 0
    priority_class: str = "default"
    pool: str = "default"
    submitted: str | None = None
    changed: str | None = None
    started: str | None = None
    ended: str | None = None
    run: int = 0
    cluster: str | None = None
    node: str | None = None
    exit_code: int | None = None
    category: str | None = None
    message: str | None = None
    reason: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its state will not change any more."""
        return self.state in ENDED


class JobView(AboutJob, frozen=True, kw_only=True):
    """A job as lists show it."""


class Run(Answer, frozen=True, kw_only=True):
    """One attempt of a job."""

    run: int
    state: str
    cluster: str | None = None
    node: str | None = None
    pool: str | None = None
    leased: str | None = None
    pending: str | None = None
    running: str | None = None
    ended: str | None = None
    exit_code: int | None = None
    category: str | None = None
    message: str | None = None
    reason: str | None = None
    preempted_for: str | None = None


class Why(Answer, frozen=True, kw_only=True):
    """Why a queued job waits. `nodes`: nodes of its pool by the first thing that rules them out."""

    code: str
    sentence: str
    nodes: dict[str, int] | None = None
    jobs: int | None = None
    dependencies: dict[str, str] | None = None


class JobDetail(AboutJob, frozen=True, kw_only=True):
    """Everything about a job. `spec`, the pod spec, is there only when asked for."""

    runs: tuple[Run, ...] = ()
    why: Why | None = None
    namespace: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    after: tuple[str, ...] = ()
    hold: bool = False
    start_after: str | None = None
    max_queue_seconds: int | None = None
    max_runtime_seconds: int | None = None
    gang: dict[str, object] | None = None
    retry: dict[str, object] | None = None
    on_preemption: str | None = None
    spec: dict[str, object] | None = None

    @property
    def newest(self) -> Run | None:
        """Its last run, if it ever had one."""
        return max(self.runs, key=lambda run: run.run, default=None)


class Event(Answer, frozen=True, kw_only=True):
    """Something that happened to a job (or, with type `finished`, to a whole job set).

    `id` is what `events(since=...)` takes to go on after this one; `position` is what reads take
    as `after`. Of type `reset`: the place to go on from was too old, events may be missing here.
    """

    type: str
    id: str = ""
    position: str = ""
    time: str | None = None
    queue: str | None = None
    job_set: str | None = None
    job_id: str | None = None
    client_id: str | None = None
    run: int | None = None
    by: str | None = None
    cluster: str | None = None
    node: str | None = None
    code: str | None = None
    category: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    cause: str | None = None
    for_job: str | None = None
    will_retry: bool | None = None
    priority: int | None = None
    priority_class: str | None = None
    counts: dict[str, int] | None = None
