"""The settings for jobs: defaults, limits, quotas, and what the jobs of a queue can use.

A field of an allow list (`allow`) permits what it names and nothing else. Only `nodes` refuses no
job: jobs of the queue run on these nodes. A volume is permitted by its kind (`emptyDir`), or by
kind and name (`persistentVolumeClaim/data`, `hostPath//scratch`).
"""

from collections.abc import Mapping
from typing import Final, cast

import msgspec
from msgspec import Raw

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests import validation
from fairlead_common.domain.scheduling import shapes
from fairlead_common.domain.scheduling.node_eligibility import NODE_NAME
from fairlead_common.domain.scheduling.priority_classes import (
    DEFAULT_CLASS,
    DEFAULT_CLASSES,
    PriorityClass,
)

DEFAULT_ACCOUNT: Final = "default"
HOUR_S: Final = 3600

_NAMES: Final = {
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
    "secret": "secretName",
    "hostPath": "path",
}
"""The field with the name, for kinds of volumes that have one."""

_Object = Mapping[str, object]


class JobDefaults(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Defaults for jobs.

    `requests` applies to each container that does not request a resource. A job that requests any
    of `long_resources` has the runtime limit `long_runtime_seconds`. Tolerations are added to those
    of the job, by its priority class and by the resources that it requests. With `cluster_secrets`
    a `secretKeyRef` in a pod spec is a Secret of the cluster if the queue has no secret of this
    name and key; otherwise such a job is refused. `overhead_by_runtime_class` is what a pod with
    this `runtimeClassName` uses besides its containers. `requests_by_claim` is what a claim counts
    as, by the name of its ResourceClaimTemplate or ResourceClaim.
    """

    priority_class: str = DEFAULT_CLASS
    requests: dict[str, str] = msgspec.field(default_factory=lambda: {"cpu": "1", "memory": "1Gi"})
    max_runtime_seconds: int = 72 * HOUR_S
    long_resources: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu")
    long_runtime_seconds: int = 336 * HOUR_S
    tolerations_by_class: dict[str, tuple[shapes.Toleration, ...]] = {}
    tolerations_by_resource: dict[str, tuple[shapes.Toleration, ...]] = {}
    cluster_secrets: bool = False
    overhead_by_runtime_class: dict[str, dict[str, str]] = {}
    requests_by_claim: dict[str, dict[str, str]] = {}


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Limits of one request. Bytes of a body count after decompression; `events_bytes_max` limits
    what the jobs take in the log, where each has its own pod spec.
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
    """The maximum number of live jobs, of one queue and of all, and of bytes of the events that
    submitted them. Null: no limit.
    """

    queue_jobs_max: int | None = 500_000
    jobs_max: int | None = 1_000_000
    queue_bytes_max: int | None = 2 * 2**30
    bytes_max: int | None = 4 * 2**30


class AllowList(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """What the jobs of one queue are permitted to use; null or absent: anything."""

    nodes: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    volumes: tuple[str, ...] | None = None
    service_accounts: tuple[str, ...] | None = None


class JobPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for jobs. `allow`: what the jobs of a queue can use, by the queue's name."""

    priority_classes: tuple[PriorityClass, ...] = DEFAULT_CLASSES
    job_defaults: JobDefaults = JobDefaults()
    limits: Limits = Limits()
    allow: Mapping[str, AllowList] = {}


def check_allowed(allow: AllowList, namespace: str, spec: _Object) -> list[FieldError]:
    """What the list does not permit. Pointers begin at the job; `spec` is its whole pod spec."""
    found: list[FieldError] = []
    if allow.namespaces is not None and namespace not in allow.namespaces:
        found.append(FieldError("/namespace", _detail(namespace, allow.namespaces)))
    if allow.service_accounts is not None:
        for field in ("serviceAccountName", "serviceAccount"):
            account = spec.get(field) or (DEFAULT_ACCOUNT if field.endswith("Name") else None)
            if account is not None and account not in allow.service_accounts:
                detail = _detail(account, allow.service_accounts)
                found.append(FieldError(f"/podSpec/{field}", detail))
    if allow.volumes is not None:
        volumes = spec.get("volumes")
        for index, volume in enumerate(volumes if isinstance(volumes, list) else ()):
            problem = _check_volume(volume, allow.volumes)
            if problem is not None:
                found.append(FieldError(f"/podSpec/volumes/{index}", problem))
    if allow.nodes is not None and spec.get("nodeName") is not None:
        reason = "is not permitted: the nodes of this queue are set by the operator; remove it"
        found.append(FieldError("/podSpec/nodeName", reason))
    return found


def _check_volume(volume: object, allowed: tuple[str, ...]) -> str | None:
    kinds = [key for key in volume if key != "name"] if isinstance(volume, dict) else []
    if not kinds:
        return _detail("emptyDir", allowed) if "emptyDir" not in allowed else None
    for kind in kinds:
        source = cast(_Object, volume)[kind]
        name = source.get(_NAMES.get(kind, "")) if isinstance(source, dict) else None
        if kind not in allowed and f"{kind}/{name}" not in allowed:
            return _detail(kind if name is None else f"{kind}/{name}", allowed)
    return None


def _detail(what: object, allowed: tuple[str, ...]) -> str:
    permitted = ", ".join(allowed) or "nothing"
    return f"is {validation.quote(what)}; this queue is permitted to use: {permitted}"


def restrict_to_nodes(shape: Raw, nodes: tuple[str, ...]) -> Raw:
    """The shape, restricted to these nodes."""
    known = shapes.decode(shape)
    requirement = shapes.Requirement(NODE_NAME, "In", tuple(sorted(set(nodes))))
    if not known.affinity:
        narrowed: tuple[shapes.SelectorTerm, ...] = (
            shapes.SelectorTerm(match_fields=(requirement,)),
        )
    else:
        narrowed = tuple(_restrict_term(term, requirement) for term in known.affinity)
    return shapes.encode(msgspec.structs.replace(known, affinity=narrowed))


def _restrict_term(
    term: shapes.SelectorTerm, requirement: shapes.Requirement
) -> shapes.SelectorTerm:
    """The term with one more requirement; an empty term matches no node and stays empty."""
    if not (term.match_expressions or term.match_fields):
        return term
    requirements = {
        (item.key, item.operator, item.values): item for item in (*term.match_fields, requirement)
    }
    fields = tuple(requirements[key] for key in sorted(requirements))
    return msgspec.structs.replace(term, match_fields=fields)
