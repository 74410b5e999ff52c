"""Settings of submit, on top of those that every service has."""

from typing import Final

import msgspec

from fairlead_common import classes, resources
from fairlead_common.classes import DEFAULT_CLASS, DEFAULT_CLASSES, PriorityClass
from fairlead_common.errors import Fault
from fairlead_common.settings import Settings, SettingsError
from fairlead_common.shapes import Toleration
from fairlead_submit.allowed import Allow

HOUR_S: Final = 3600


class JobDefaults(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """What a job gets where it says nothing.

    `requests` holds for each container that asks for nothing of a resource. A job that asks for
    any of `long_resources` may run for `long_runtime_seconds`. Tolerations are added to those
    that the job has: by its class, and by the resources that it asks for.
    """

    priority_class: str = DEFAULT_CLASS
    requests: dict[str, str] = msgspec.field(default_factory=lambda: {"cpu": "1", "memory": "1Gi"})
    max_runtime_seconds: int = 72 * HOUR_S
    long_resources: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu")
    long_runtime_seconds: int = 336 * HOUR_S
    tolerations_by_class: dict[str, tuple[Toleration, ...]] = {}
    tolerations_by_resource: dict[str, tuple[Toleration, ...]] = {}


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Bounds of one request. Bytes of a body count inflated; `events_bytes_max` bounds what the
    jobs take in the log, where each has a pod spec of its own.
    """

    jobs_max: int = 10_000
    body_bytes_max: int = 32 * 2**20
    events_bytes_max: int = 48 * 2**20
    pod_spec_bytes_max: int = 64 * 2**10
    label_bytes_max: int = 5_000
    annotation_bytes_max: int = 64 * 2**10
    ids_max: int = 10_000
    resubmitted_max: int = 1_000_000
    after_max: int = 100_000
    gang_size_max: int = 10_000


class Quotas(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How many live jobs there are allowed to be in one queue and in all, and how many bytes the
    events that submitted them take. Null: no limit.
    """

    queue_jobs_max: int | None = 500_000
    jobs_max: int | None = 1_000_000
    queue_bytes_max: int | None = 2 * 2**30
    bytes_max: int | None = 4 * 2**30


class SubmitSettings(Settings, frozen=True, kw_only=True, rename="camel"):
    """`instance` names this process among all processes of submit, the same after a restart: its
    producer of the log has that name. Without it the name of the host is taken, which differs
    between containers. `allow`: what queues may use, by the queue's name. `quotas`: how many live
    jobs there are allowed to be. `pending_bytes_max`: what may wait for the log before requests are
    refused. `tokens_for_others`: whether tokens are made for other people, or with fewer rights
    than an admin's; `fairlead up` switches it off where jobs can read the secrets of the
    installation.
    """

    http_port: int = 8081
    instance: str = ""
    priority_classes: tuple[PriorityClass, ...] = DEFAULT_CLASSES
    job_defaults: JobDefaults = JobDefaults()
    limits: Limits = Limits()
    quotas: Quotas = Quotas()
    allow: dict[str, Allow] = msgspec.field(default_factory=dict)
    pending_bytes_max: int = 128 * 2**20
    append_bytes_max: int = 16 * 2**20
    sign_in_days: int = 30
    tokens_for_others: bool = True

    def with_instance(self, host: str) -> "SubmitSettings":
        """These settings, with the name of the host where `instance` is not set."""
        return msgspec.structs.replace(self, instance=self.instance or host)

    def check(self) -> None:
        """Raises `SettingsError` for what types cannot say."""
        found = classes.faults(self.priority_classes)
        defaults = self.job_defaults
        names = sorted({item.name for item in self.priority_classes})
        if defaults.priority_class not in names:
            detail = f"is {defaults.priority_class!r}, none of the classes: {', '.join(names)}"
            found.append(Fault("jobDefaults.priorityClass", detail))
        for name, quantity in defaults.requests.items():
            try:
                resources.parse(name, quantity, round_up=True)
            except ValueError as error:
                found.append(Fault(f"jobDefaults.requests.{name}", str(error)))
        for field in msgspec.structs.fields(Limits):
            bound = getattr(self.limits, field.name)
            if bound < 1:
                detail = f"is {bound}; at least 1 is expected"
                found.append(Fault(f"limits.{field.encode_name}", detail))
        for name, most in msgspec.structs.asdict(self.quotas).items():
            if most is not None and most < 0:
                found.append(Fault(f"quotas.{name}", f"is {most}; at least 0 is expected"))
        if found:
            raise SettingsError(found)
