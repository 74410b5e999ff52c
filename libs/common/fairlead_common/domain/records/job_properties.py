"""Properties of jobs that events carry: gang, retry policy, network objects; filters of jobs."""

from enum import StrEnum

import msgspec

from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records.value_ranges import Int32


class FailureCategory(StrEnum):
    """Why a run failed, in one word that policies and people can use."""

    EXIT_CODE = "exit-code"
    OOM = "oom"
    EVICTED = "evicted"
    DEADLINE = "deadline"
    START = "start"
    IMAGE_PULL = "image-pull"
    NODE_LOST = "node-lost"
    POD_DELETED = "pod-deleted"
    ADMISSION = "admission"
    INTERNAL = "internal"


class Gang(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Jobs of one queue and job set that start together. `member`: which of them this one is."""

    name: str
    size: Int32
    min_size: Int32 | None = None
    uniformity_label: str | None = None
    rest: str = "wait"
    member: Int32 | None = None


class RetryPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How often a failed run is retried, after which failures, and with which changes."""

    limit: Int32 = 0
    on: tuple[FailureCategory, ...] = ()
    memory_factor: float = 1.0
    avoid_node: bool = False


class NetworkObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A Kubernetes Service or Ingress that exists together with each run of a job.

    `spec` is the `spec` of the object. `name` is unique among the objects of the job: backends of
    ingresses name its services by it, and the object of a run is named `<name>-<run id>`.
    """

    name: str
    annotations: dict[str, str] = {}
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class JobFilter(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which jobs of a queue an action concerns; an absent field does not restrict."""

    queue: str
    job_set: str | None = None
    states: tuple[JobState, ...] = ()
    classes: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    executor: str | None = None
    node: str | None = None
