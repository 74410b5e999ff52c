"""The objects of the API as frozen structs: of requests and of responses.

Sent structs refuse unknown fields when they are read from text; answers ignore fields that this
version does not know, so that a newer server can be asked by an older client. Amounts are
Kubernetes quantities ("500m", "2Gi"); times are RFC 3339 text as the server wrote it.
"""

from collections.abc import Iterable, Mapping
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
    """The base of structs that clients send."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of structs that the server sends."""


class Gang(Sent, frozen=True, kw_only=True):
    """Jobs of one queue and job set that start together; `member` counts from 0."""

    name: str
    size: int
    min_size: int | None = None
    uniformity_label: str | None = None
    rest: str | None = None
    member: int | None = None


class Retry(Sent, frozen=True, kw_only=True):
    """How often a failed run is tried again, after which failures, and with what changed."""

    limit: int = 0
    on: tuple[str, ...] = ()
    memory_factor: float | None = None
    avoid_node: bool | None = None


class NetworkObject(Sent, frozen=True, kw_only=True):
    """A Service or Ingress of a job on Kubernetes; `spec` is that of the Kubernetes object.

    Ingresses refer to services of the job by `name`.
    """

    name: str
    spec: Mapping[str, object]
    annotations: Mapping[str, str] | None = None


class Job(Sent, frozen=True, kw_only=True):
    """A job to submit: the short form (`command`, `cpu`, `memory`, `gpu`, `env`, `working_dir`) or
    a `pod_spec`.

    `client_id` names the job within its queue and job set: submitting it again creates nothing.
    The client library makes one up where it is absent, so that its own retries are safe.
    A value of `env` may be `{"value": ..., "secret": True}`, which nobody is shown, or
    `{"secretRef": {"name": ..., "key": ...}}`, a secret of the queue (`set_secret`).
    `after` lists jobs of the same job set (client ids or ids) that must succeed first.
    """

    client_id: str | None = None
    image: str | None = None
    command: tuple[str, ...] | None = None
    env: Mapping[str, str | Mapping[str, object]] | None = None
    working_dir: str | None = None
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
    services: tuple[NetworkObject, ...] | None = None
    ingresses: tuple[NetworkObject, ...] | None = None


def several(name: str, texts: Iterable[str]) -> None:
    """Raises `TypeError` for one text: its letters are never meant, and no type checker sees it."""
    if isinstance(texts, str):
        raise TypeError(f"{name}: a list of texts is meant, as [{texts[:40]!r}]")


class Filter(Sent, frozen=True, kw_only=True):
    """Which jobs: those that meet every field that is given. Actions need a `queue`."""

    queue: str | None = None
    job_set: str | None = None
    states: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    cluster: str | None = None
    node: str | None = None

    def __post_init__(self) -> None:
        """Raises `TypeError` for one text where several are meant."""
        several("states", self.states)
        several("classes", self.classes)


class Permission(Sent, frozen=True, kw_only=True):
    """Who (users, groups) may do what: submit, cancel, preempt, reprioritize, view."""

    subjects: tuple[str, ...]
    verbs: tuple[str, ...]


QUEUE_BY_SERVER: Final = ("version", "position")
"""Fields of a queue that only the server sets."""


class Queue(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A queue. `limits`: class -> resource -> fraction of a pool (number) or amount (text).

    `version` and `position` are the server's: the one names what `replace_queue` is to replace,
    reads that are given the other know the queue so.
    """

    name: str
    version: int = 0
    position: str = ""
    weight: float = 1.0
    cordoned: bool = False
    reason: str = ""
    limits: dict[str, dict[str, str | float]] = {}
    permissions: tuple[Permission, ...] = ()
    labels: dict[str, str] = {}
    retry_policy: Retry | None = None


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


class CheckedJob(SubmittedJob, frozen=True, kw_only=True):
    """One job that was not created. `feasible`: whether it could ever run, None if unknown.

    `why` says what keeps it from running.
    """

    feasible: bool | None = None
    why: str | None = None


class Checked(Answer, frozen=True, kw_only=True):
    """The results of a dry run, in the order of the jobs."""

    jobs: tuple[CheckedJob, ...] = ()


class FoundJob(Answer, frozen=True, kw_only=True):
    """One of the jobs that an action would concern."""

    id: str
    job_set: str
    state: str


class Acted(Answer, frozen=True, kw_only=True):
    """`matched`: how many jobs an action concerned, as far as the server knows, else None.

    A dry run has no `position`, and a `sample` of the jobs.
    """

    position: str | None = None
    matched: int | None = None
    sample: tuple[FoundJob, ...] = ()


class Started(Answer, frozen=True, kw_only=True):
    """An action that continues after its response, and the number of its jobs."""

    action: str
    total: int


class RefusedJob(Answer, frozen=True, kw_only=True):
    """A job with which an action could do nothing, and why."""

    id: str
    reason: str


class Action(Answer, frozen=True, kw_only=True):
    """How far an action is: `done` of `total` jobs were dealt with, `made` of them submitted again.

    `refused` names the first that were not. Reads that are given `position` see what was made.
    """

    action: str
    kind: str
    queue: str
    job_set: str
    by: str = ""
    state: str
    total: int
    done: int
    made: int
    refused: tuple[RefusedJob, ...] = ()
    position: str | None = None
    created_at: str | None = None
    changed_at: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the action has ended."""
        return self.state == "DONE"


class Problem(Answer, frozen=True, kw_only=True):
    """An RFC 9457 problem document."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    instance: str = ""
    errors: tuple["FieldError", ...] = ()


class FieldError(Answer, frozen=True, kw_only=True):
    """One thing that is wrong with a request, and where (a JSON pointer)."""

    pointer: str = ""
    detail: str = ""


class JobSet(Answer, frozen=True, kw_only=True):
    """A job set: how many `jobs` it has, in which `states`, and how many are still `live`.

    `failures`: failed and rejected jobs by category. `resource_hours`: what its runs held so far,
    in cores, bytes and units times hours. `eta`: when it is done if it goes on as it did.
    `superseded`: jobs that did not succeed and in whose place others were submitted.
    """

    queue: str
    job_set: str
    jobs: int = 0
    live: int = 0
    states: dict[str, int] = {}
    first_activity: str | None = None
    last_activity: str | None = None
    position: str | None = None
    failures: dict[str, int] = {}
    resource_hours: dict[str, float] = {}
    eta: str | None = None
    superseded: int = 0

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
        """The number of jobs that ended without success and were not resubmitted."""
        return self.ended - self.states.get(SUCCEEDED, 0) - self.superseded


class AboutJob(Answer, frozen=True, kw_only=True):
    """The fields that every view of a job has. `message` is a sentence about `category`.

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
    superseded_by: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its state will not change any more."""
        return self.state in ENDED


class JobView(AboutJob, frozen=True, kw_only=True):
    """A job in a list."""


class Group(Answer, frozen=True, kw_only=True):
    """How many jobs share these values; None for what a job has not."""

    group: dict[str, str | None]
    jobs: int


class Groups(Answer, frozen=True, kw_only=True):
    """Counts per group, greatest first."""

    groups: tuple[Group, ...]


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
    """Why a job waits: in its queue, or (`waiting-for-preempted-runs`) until runs on its node end.

    `nodes`: nodes of its pool by the first thing that rules them out. `dependencies`: states by job
    id of those it waits for; `client_ids` of them, where they have one.
    """

    code: str
    sentence: str
    nodes: dict[str, int] | None = None
    jobs: int | None = None
    dependencies: dict[str, str] | None = None
    client_ids: dict[str, str] | None = None


class JobDetail(AboutJob, frozen=True, kw_only=True):
    """Everything about a job. `spec`, the pod spec, is included only on request.

    `position_in_queue`: how many jobs of its queue are before it, itself counted ("10000+" beyond).
    """

    position_in_queue: str | None = None
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

    def may_have_log(self, run: int | None = None) -> bool:
        """Whether that run, or its newest one, has begun to write, or never will."""
        newest = self.newest
        at = 0 if newest is None else newest.run
        if self.has_ended or run not in (None, at, at + 1):
            return True
        if newest is None or run == at + 1:
            return False
        return newest.running is not None or (run == at and newest.ended is not None)


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
