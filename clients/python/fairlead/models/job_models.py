"""The objects of the API about jobs and queues, as frozen structs: of requests and of responses.

Amounts are Kubernetes quantities ("500m", "2Gi"); times are RFC 3339 text as the server wrote it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.models.job_parts import AfterArray, Array, Gang, NetworkObject, Retry
from fairlead.models.model_bases import RequestModel, ResponseModel

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


class Job(RequestModel, frozen=True, kw_only=True):
    """A job to submit: the short form (`command`, `cpu`, `memory`, `gpu`, `env`, `working_dir`) or
    a `pod_spec`.

    `client_id` identifies the job within its queue and job set: a second submission with the same
    id creates no job. The client library generates an id for a job without one, so that its own
    retries are safe. A value of `env` can also be `{"value": ..., "secret": True}`, which the
    server never returns, or `{"secretRef": {"name": ..., "key": ...}}`, a secret of the queue
    (`set_secret`).
    `after` lists jobs (client ids or ids) and arrays of the same job set that must succeed first.
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
    after: tuple[str | AfterArray, ...] | None = None
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
    array: Array | None = None
    retry: Retry | None = None
    services: tuple[NetworkObject, ...] | None = None
    ingresses: tuple[NetworkObject, ...] | None = None


def require_list(name: str, texts: Iterable[str]) -> None:
    """Raises `TypeError` if `texts` is a single string, which type checkers accept as a sequence
    of strings.
    """
    if isinstance(texts, str):
        raise TypeError(f"{name} must be a list of strings, for example [{texts[:40]!r}]")


class Filter(RequestModel, frozen=True, kw_only=True):
    """Selects the jobs that match all fields that are set. Actions require `queue`."""

    queue: str | None = None
    job_set: str | None = None
    states: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    cluster: str | None = None
    node: str | None = None

    def __post_init__(self) -> None:
        """Raises `TypeError` for a single string in place of a list of strings."""
        require_list("states", self.states)
        require_list("classes", self.classes)


class Permission(RequestModel, frozen=True, kw_only=True):
    """Grants verbs (submit, cancel, preempt, reprioritize, view) to subjects (users, groups)."""

    subjects: tuple[str, ...]
    verbs: tuple[str, ...]


QUEUE_BY_SERVER: Final = ("version", "position", "pending")
"""Fields of a queue that only the server sets."""


class Queue(ResponseModel, frozen=True, kw_only=True, omit_defaults=True):
    """A queue. `limits`: class -> resource -> fraction of a pool (number) or amount (text).
    `order`: of its jobs and groups within a class value, `fifo` (by priority, then submission) or
    `fair` (by weighted running time, least first).

    The server sets `version`, `position` and `pending`. `replace_queue` replaces only this
    `version`; a read with `after=position` includes this state of the queue. `pending`: the change
    that returned this is stored, but jobs that are submitted now can be scheduled without it,
    because the log is not available.
    """

    name: str
    version: int = 0
    position: str = ""
    pending: bool = False
    weight: float = 1.0
    cordoned: bool = False
    reason: str = ""
    limits: Mapping[str, dict[str, str | float]] = {}
    permissions: tuple[Permission, ...] = ()
    labels: Mapping[str, str] = {}
    retry_policy: Retry | None = None
    order: str = "fifo"


class SubmittedJob(ResponseModel, frozen=True, kw_only=True):
    """One accepted job. `duplicate`: it existed before. `tasks` of an array, whose id `id` is."""

    id: str
    client_id: str | None = None
    duplicate: bool = False
    tasks: int | None = None


class SubmitResult(ResponseModel, frozen=True, kw_only=True):
    """The result of `submit`: the jobs, in the order in which they were given.

    `position` is the position of the jobs in the log; a read with `after=position` includes them.
    """

    position: str
    jobs: tuple[SubmittedJob, ...]


class JobValidation(SubmittedJob, frozen=True, kw_only=True):
    """The result of `check` for one job. `feasible`: whether any node could ever run it; None if
    that is unknown. `why`: the reason if it is not feasible.
    """

    feasible: bool | None = None
    why: str | None = None


class ValidationResult(ResponseModel, frozen=True, kw_only=True):
    """The result of `check`, in the order of the jobs."""

    jobs: tuple[JobValidation, ...] = ()


class JobMatch(ResponseModel, frozen=True, kw_only=True):
    """One of the jobs that an action would affect."""

    id: str
    job_set: str
    state: str


class ActionResult(ResponseModel, frozen=True, kw_only=True):
    """The result of an action. `matched`: the number of affected jobs; None if it is unknown.

    The result of a dry run has no `position`, and has a `sample` of the affected jobs.
    """

    position: str | None = None
    matched: int | None = None
    sample: tuple[JobMatch, ...] = ()


class StartedAction(ResponseModel, frozen=True, kw_only=True):
    """An action that the server continues after its response. `action`: its id. `total`: the
    number of its jobs.
    """

    action: str
    total: int


class RefusedJob(ResponseModel, frozen=True, kw_only=True):
    """A job that an action could not process, and the reason."""

    id: str
    reason: str


class Action(ResponseModel, frozen=True, kw_only=True):
    """The progress of an action: `done` of `total` jobs were processed, and `made` new jobs were
    submitted.

    `refused` lists the first jobs that could not be resubmitted. A read with `after=position`
    includes the new jobs.
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


class Problem(ResponseModel, frozen=True, kw_only=True):
    """An RFC 9457 problem document."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    instance: str = ""
    errors: tuple["FieldError", ...] = ()


class FieldError(ResponseModel, frozen=True, kw_only=True):
    """One error of a request: the field (`pointer`, a JSON pointer) and the reason (`detail`)."""

    pointer: str = ""
    detail: str = ""


class JobSet(ResponseModel, frozen=True, kw_only=True):
    """A job set: the number of its `jobs`, by state (`states`), and of those not ended (`live`).

    `failures`: failed and rejected jobs by category. `resource_hours`: the allocations of its runs
    so far, in cores, bytes and units times hours. `eta`: the estimated time of its end.
    `superseded`: jobs that did not succeed and were resubmitted as other jobs.
    """

    queue: str
    job_set: str
    jobs: int = 0
    live: int = 0
    states: Mapping[str, int] = {}
    first_activity: str | None = None
    last_activity: str | None = None
    position: str | None = None
    failures: Mapping[str, int] = {}
    resource_hours: Mapping[str, float] = {}
    eta: str | None = None
    superseded: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether all its jobs have ended."""
        return self.live == 0

    @property
    def ended(self) -> int:
        """The number of its jobs that have ended."""
        return self.jobs - self.live

    @property
    def bad(self) -> int:
        """The number of jobs that ended without success and were not resubmitted."""
        return self.ended - self.states.get(SUCCEEDED, 0) - self.superseded


class JobFields(ResponseModel, frozen=True, kw_only=True):
    """The fields of a job that lists and details share. `message` describes `category`.

    `waiting_for` of a queued job is hold, dependencies, startAfter or scheduling. `stopping` is
    cancel or preempt. `run` is the number of its newest run, 0 without a run; `cluster` and `node`
    are those of this run.
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
        """Whether its state is final."""
        return self.state in ENDED


class JobView(JobFields, frozen=True, kw_only=True):
    """A job in a list."""


class Group(ResponseModel, frozen=True, kw_only=True):
    """The number of jobs with these values; None stands for an absent value."""

    group: dict[str, str | None]
    jobs: int


class Groups(ResponseModel, frozen=True, kw_only=True):
    """Counts per group, greatest first."""

    groups: tuple[Group, ...]


class Run(ResponseModel, frozen=True, kw_only=True):
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
    preemption_cause: str | None = None


class WaitingReason(ResponseModel, frozen=True, kw_only=True):
    """Why a job waits: in its queue, or (`waiting-for-preempted-runs`) until runs on its node end.

    `nodes`: the number of nodes of its pool by the first reason that excludes them.
    `dependencies`: the states, by job id, of the jobs that it depends on; `client_ids`: their
    client ids, by job id.
    """

    code: str
    sentence: str
    nodes: dict[str, int] | None = None
    jobs: int | None = None
    dependencies: dict[str, str] | None = None
    client_ids: dict[str, str] | None = None


class UserRequest(ResponseModel, frozen=True, kw_only=True):
    """What a user requested for a job: `cancel`, `preempt` or `reprioritize` (with `priority`)."""

    time: str
    action: str
    by: str
    reason: str | None = None
    priority: int | None = None


class JobDetail(JobFields, frozen=True, kw_only=True):
    """All details of a job. `spec`, the pod spec, is included only on request.

    `position_in_queue`: its position in its queue, from 1 ("10000+" beyond 10,000).
    `user_requests`: the newest 10, oldest first.
    """

    position_in_queue: str | None = None
    submitted_by: str | None = None
    user_requests: tuple[UserRequest, ...] = ()
    runs: tuple[Run, ...] = ()
    why: WaitingReason | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    after: tuple[str, ...] = ()
    hold: bool = False
    start_after: str | None = None
    max_queue_seconds: int | None = None
    max_runtime_seconds: int | None = None
    gang: dict[str, object] | None = None
    array: dict[str, object] | None = None
    retry: dict[str, object] | None = None
    on_preemption: str | None = None
    spec: dict[str, object] | None = None

    @property
    def newest(self) -> Run | None:
        """Its newest run; None without a run."""
        return max(self.runs, key=lambda run: run.run, default=None)

    def may_have_log(self, run: int | None = None) -> bool:
        """Whether this run, or the newest one, has started or will never start."""
        newest = self.newest
        at = 0 if newest is None else newest.run
        if self.has_ended or run not in (None, at, at + 1):
            return True
        if newest is None or run == at + 1:
            return False
        return newest.running is not None or (run == at and newest.ended is not None)


class Event(ResponseModel, frozen=True, kw_only=True):
    """A public event of a job, group or array, or with the type `finished` of a whole job set.
    `events(since=id)` continues after this event; a read with `after=position` includes it. The
    type `reset` says that `since` was too old: events before this one are possibly missing."""

    type: str
    id: str = ""
    position: str = ""
    time: str | None = None
    queue: str | None = None
    job_set: str | None = None
    job_id: str | None = None
    group: str | None = None
    array: str | None = None
    tasks: int | None = None
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
