"""The types of request bodies, decoded with msgspec.

Every field is optional, and null means absent; required fields are checked afterwards, so that one
response can name every error. `REQUIRED` lists them for the OpenAPI document.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records.events import FailureCategory

INT32_MAX: Final = 2**31 - 1
CLIENT_ID_MAX: Final = 128
JOB_SET_MAX: Final = 256
YEAR_S: Final = 366 * 86_400

Amount = str | int | float
"""A Kubernetes quantity, as text or as a plain number."""

SECRET_LENGTH_MAX: Final = 32 * 1024
SECRET_KEY_LENGTH_MAX: Final = 253
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Reason = Annotated[str, Meta(max_length=1_000)]
Seconds = Annotated[int, Meta(ge=1, le=10 * YEAR_S)]
Int32 = Annotated[int, Meta(ge=-INT32_MAX - 1, le=INT32_MAX)]
Texts = Annotated[dict[str, str], Meta(max_length=1_000)]
ClientId = Annotated[str, Meta(min_length=1, max_length=CLIENT_ID_MAX)]


class WhenInfeasible(StrEnum):
    """What happens to a job that could run nowhere."""

    REJECT = "reject"
    WAIT = "wait"


class OnPreemption(StrEnum):
    """What happens to a job whose run is preempted."""

    REQUEUE = "requeue"
    FAIL = "fail"


class QueueOrder(StrEnum):
    """The order of a queue's jobs and groups within a class value."""

    FIFO = configuration.FIFO
    FAIR = configuration.FAIR


class Rest(StrEnum):
    """What happens to members above a gang's `minSize` that cannot be placed."""

    WAIT = "wait"
    FAIL = "fail"


class Request(
    msgspec.Struct,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """The base of all request types: unknown fields are errors."""


class Gang(Request, kw_only=True):
    """Jobs of one queue and job set that start together."""

    name: Name | None = None
    size: Annotated[int, Meta(ge=1)] | None = None
    min_size: Annotated[int, Meta(ge=1)] | None = None
    uniformity_label: Annotated[str, Meta(min_length=1, max_length=317)] | None = None
    rest: Rest | None = None
    member: Annotated[int, Meta(ge=0)] | None = None


class Retry(Request, kw_only=True):
    """How often a failed job is retried, for which failures, and with which changes."""

    limit: Annotated[int, Meta(ge=0, le=1_000)] | None = None
    on: Annotated[list[FailureCategory], Meta(max_length=len(FailureCategory))] | None = None
    memory_factor: Annotated[float, Meta(ge=1.0, le=16.0)] | None = None
    avoid_node: bool | None = None


class SecretKeyRef(Request, kw_only=True):
    """A value of a secret of the queue. An `optional` one that does not exist is empty."""

    name: Name | None = None
    key: Name | None = None
    optional: bool | None = None


class ValueFrom(Request, kw_only=True):
    """Where a value comes from; `secretRef` means the same as `secretKeyRef`."""

    secret_key_ref: SecretKeyRef | None = None
    secret_ref: SecretKeyRef | None = None


class EnvValue(Request, kw_only=True):
    """An environment variable with a secret value, or with a value from a secret."""

    value: str | None = None
    secret: bool | None = None
    value_from: ValueFrom | None = None
    secret_ref: SecretKeyRef | None = None


class EnvVar(Request, kw_only=True):
    """An environment variable in the form of a Kubernetes container, with `secret` in addition."""

    name: Name | None = None
    value: str | None = None
    secret: bool | None = None
    value_from: ValueFrom | None = None
    secret_ref: SecretKeyRef | None = None


Env = (
    Annotated[dict[str, str | EnvValue], Meta(max_length=1_000)]
    | Annotated[list[EnvVar], Meta(max_length=1_000)]
)


class NetworkObject(Request, kw_only=True):
    """A Kubernetes Service or Ingress that each run of a job has. `spec`: as in Kubernetes."""

    name: Name | None = None
    annotations: Texts | None = None
    spec: dict[str, Any] | None = None  # `Any`: JSON, for the API server to judge


NetworkObjects = Annotated[list[NetworkObject], Meta(max_length=100)]


class Array(Request, kw_only=True):
    """Many tasks with one job's fields: those with `indexes` (default: all) below `count`.

    `indexes`: `0-9,20-29:2`, ascending. `maxRunning`: how many are released at a time.
    `afterCorresponding`: an array of the job set (client id or id); each task waits until the task
    of that array with the same index has succeeded.
    """

    count: int | None = None
    indexes: Annotated[str, Meta(max_length=100_000)] | None = None
    max_running: int | None = None
    after_corresponding: ClientId | None = None


class AfterArray(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """In `after`: all tasks of an array of the job set (client id or id)."""

    array: ClientId | None = None


After = ClientId | AfterArray


class Job(Request, kw_only=True):
    """One job: a pod spec, or the short form (`SHORT_FORM`)."""

    client_id: ClientId | None = None
    priority: Int32 | None = None
    priority_class: Name | None = None
    pool: Name | None = None
    namespace: Name | None = None
    after: Annotated[list[After], Meta(max_length=10_000)] | None = None
    hold: bool | None = None
    start_after: Annotated[str, Meta(max_length=40)] | None = None
    max_queue_seconds: Seconds | None = None
    max_runtime_seconds: Seconds | None = None
    labels: Texts | None = None
    annotations: Texts | None = None
    when_infeasible: WhenInfeasible | None = None
    on_preemption: OnPreemption | None = None
    checkpoint_interval_seconds: Seconds | None = None
    gang: Gang | None = None
    array: Array | None = None
    retry: Retry | None = None
    pod_spec: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    image: str | None = None
    command: Annotated[list[str], Meta(max_length=10_000)] | None = None
    env: Env | None = None
    working_dir: Annotated[str, Meta(min_length=1, max_length=4_096)] | None = None
    cpu: Amount | None = None
    memory: Amount | None = None
    gpu: Amount | None = None
    services: NetworkObjects | None = None
    ingresses: NetworkObjects | None = None


SHORT_FORM: Final = ("image", "command", "env", "working_dir", "cpu", "memory", "gpu")
"""Fields that replace a pod spec with one container."""


class Submission(Request, kw_only=True):
    """The body of `POST /api/v1/jobs`. `defaults` apply to fields that a job does not set."""

    queue: str | None = None
    job_set: str | None = None
    defaults: Job | None = None
    jobs: list[Job] | None = None


class Manifests(Request, kw_only=True):
    """The body of `POST /api/v1/manifests`: manifests of Kubernetes, as JSON.

    `queue` and `jobSet` replace what labels and names of the manifests say.
    """

    queue: str | None = None
    job_set: str | None = None
    manifests: Annotated[list[dict[str, Any]], Meta(max_length=10_000)] | None = None
    # `Any`: JSON, which `manifests/` reads field by field


class Filter(Request, kw_only=True):
    """Selects jobs of a queue; an absent field does not restrict the selection."""

    queue: str | None = None
    job_set: str | None = None
    states: Annotated[list[JobState], Meta(max_length=len(JobState))] | None = None
    classes: Annotated[list[Name], Meta(max_length=100)] | None = None
    labels: Annotated[dict[str, str], Meta(max_length=100)] | None = None
    cluster: Name | None = None
    node: Name | None = None


class Action(Request, kw_only=True):
    """The body of cancel and preempt: either `ids` or `filter`."""

    ids: list[str] | None = None
    filter: Filter | None = None
    reason: Reason | None = None


class Reprioritization(Action, kw_only=True):
    """The body of reprioritize: either `ids` or `filter`, and the new `priority`."""

    priority: Int32 | None = None


class ArrayCancellation(Request, kw_only=True):
    """The body of a cancellation of tasks: those with `indexes`, by default all."""

    indexes: Annotated[str, Meta(max_length=100_000)] | None = None
    reason: Reason | None = None


class ArrayResubmission(Request, kw_only=True):
    """The body of a resubmission: tasks with `indexes` (default: all) become a new array.

    `clientId` names the new array.
    """

    indexes: Annotated[str, Meta(max_length=100_000)] | None = None
    client_id: ClientId | None = None


class Release(Request, kw_only=True):
    """The body of release."""

    ids: list[str] | None = None


class Resubmission(Request, kw_only=True):
    """The body of resubmit: either `ids` or `filter`, and where the new jobs belong.

    `clientId` names the action within the queue and job set, so that a repeated request does not
    create another one. `queue` is optional if all jobs are of one queue. `failed`: of the filter,
    only jobs that failed, or were cancelled because another job failed, and that have not been
    resubmitted; the new jobs belong to the same job set and have the old client ids with the number
    of the attempt. `memoryFactor` multiplies the memory that the old jobs requested.
    """

    ids: list[str] | None = None
    filter: Filter | None = None
    memory_factor: Annotated[float, Meta(ge=1.0, le=16.0)] | None = None
    queue: str | None = None
    job_set: str | None = None
    client_id: ClientId | None = None
    failed: bool | None = None


class Permission(Request, kw_only=True):
    """What users and groups are permitted to do with a queue."""

    subjects: Annotated[list[Name], Meta(max_length=1_000)] | None = None
    verbs: (
        Annotated[
            list[Literal["submit", "cancel", "preempt", "reprioritize", "view"]],
            Meta(max_length=5),
        ]
        | None
    ) = None


class Queue(Request, kw_only=True):
    """The body of `POST /api/v1/queues` and `PUT /api/v1/queues/{queue}`."""

    name: str | None = None
    weight: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    cordoned: bool | None = None
    reason: Reason | None = None
    limits: Annotated[dict[str, dict[str, Amount]], Meta(max_length=100)] | None = None
    permissions: Annotated[list[Permission], Meta(max_length=1_000)] | None = None
    labels: Texts | None = None
    retry_policy: Retry | None = None
    order: QueueOrder | None = None


class Secret(Request, kw_only=True):
    """The body of `PUT /api/v1/queues/{queue}/secrets/{name}`: all values of the secret."""

    values: (
        Annotated[
            dict[str, Annotated[str, Meta(max_length=SECRET_LENGTH_MAX)]],
            Meta(min_length=1, max_length=100),
        ]
        | None
    ) = None


class Cordon(Request, kw_only=True):
    """The body of cordon and uncordon."""

    reason: Reason | None = None


class ExecutorCordon(Request, kw_only=True):
    """The body of `PUT /api/v1/executors/{executor}` and `.../nodes/{node}`."""

    cordoned: bool | None = None
    reason: Reason | None = None


REQUIRED: Final[dict[type, tuple[str, ...]]] = {
    Submission: ("queue", "jobSet", "jobs"),
    Manifests: ("manifests",),
    Gang: ("name", "size"),
    AfterArray: ("array",),
    Array: ("count",),
    NetworkObject: ("name", "spec"),
    EnvVar: ("name",),
    SecretKeyRef: ("name", "key"),
    Secret: ("values",),
    Filter: ("queue",),
    Release: ("ids",),
    Reprioritization: ("priority",),
    Resubmission: ("jobSet",),
    ExecutorCordon: ("cordoned",),
    Permission: ("subjects", "verbs"),
}
"""Required fields by type, by their names in JSON."""
