"""The terms of a job: all its fields except its pod, validated and converted to an event.

Most jobs of a request have the same terms, which are cached by `job_templates`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from fairlead_common.domain import timestamps
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.requests import validation
from fairlead_submit.domain import name_rules
from fairlead_submit.domain.jobs import gang_fields
from fairlead_submit.domain.pods import pod_spec
from fairlead_submit.domain.policy import JobDefaults, JobPolicy
from fairlead_submit.domain.request_types import (
    SHORT_FORM,
    After,
    Gang,
    Job,
    NetworkObject,
    Retry,
)

CHECKPOINT_ANNOTATION: Final = "fairlead.dev/checkpoint-interval"
EVENT_BYTES: Final = 500
"""The approximate size of an event without its pod spec, labels and annotations."""

RETRYABLE: Final = (
    FailureCategory.EXIT_CODE,
    FailureCategory.OOM,
    FailureCategory.EVICTED,
    FailureCategory.IMAGE_PULL,
    FailureCategory.NODE_LOST,
    FailureCategory.POD_DELETED,
    FailureCategory.INTERNAL,
)
"""Failures after which a retry can succeed. Not among them: a run that exceeded its runtime limit,
a command that cannot be started, and a pod that the cluster refuses.
"""

_NO_JOB: Final = JobId("")
_NOTHING: Final = Raw(b"{}")
_ENCODED: Final = dict(zip(Job.__struct_fields__, Job.__struct_encode_fields__, strict=True))
"""The name of each field of a job in JSON."""


class JobTerms(msgspec.Struct, frozen=True, gc=False):
    """`event` has no id, spec or digest yet. `after`: ids and client ids as given.

    The pointers of `errors` begin at the job. `size`: the approximate size of the event in bytes.
    """

    event: events.JobSubmitted
    size: int
    after: tuple[After, ...]
    errors: tuple[FieldError, ...]


def read_terms(job: Job, demand: pod_spec.PodDemand, shape: Raw, policy: JobPolicy) -> JobTerms:
    """The terms of a job whose pod has this demand and this shape."""
    defaults, limits = policy.job_defaults, policy.limits
    found: list[FieldError] = []
    _check_names(job, demand, policy, found)
    event = events.JobSubmitted(
        job_id=_NO_JOB,
        shape=shape,
        spec=_NOTHING,
        digest="",
        priority=job.priority or 0,
        priority_class=demand.priority_class or defaults.priority_class,
        pool=job.pool or "default",
        namespace=job.namespace or "default",
        hold=bool(job.hold),
        start_after_ms=_read_start_ms(job.start_after, found),
        queue_s_max=job.max_queue_seconds,
        runtime_s_max=job.max_runtime_seconds
        or demand.deadline_s
        or _default_runtime_s(demand, defaults),
        grace_s=demand.grace_s,
        checkpoint_s=_read_checkpoint_s(job, found),
        when_infeasible=job.when_infeasible or "reject",
        on_preemption=job.on_preemption or "requeue",
        gang=_check_gang(gang_fields.read_gang(job, found), limits.gang_size_max, found),
        retry=make_retry_policy(job.retry),
        labels=job.labels or {},
        annotations=job.annotations or {},
        services=_read_network_objects(job.services, "services", policy, found),
        ingresses=_read_network_objects(job.ingresses, "ingresses", policy, found),
    )
    _check_network_specs(job, found)
    return JobTerms(
        event=event,
        size=EVENT_BYTES
        + _measure_bytes(event.labels)
        + _measure_bytes(event.annotations)
        + sum(map(_measure_object, (*event.services, *event.ingresses))),
        after=tuple(dict.fromkeys(job.after)) if job.after else (),
        errors=tuple(found),
    )


def _default_runtime_s(demand: pod_spec.PodDemand, defaults: JobDefaults) -> int:
    if any(name in demand.requests for name in defaults.long_resources):
        return defaults.long_runtime_seconds
    return defaults.max_runtime_seconds


def _measure_bytes(texts: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) + 8 for key, value in texts.items())


def _measure_object(item: events.NetworkObject) -> int:
    return len(item.name) + len(item.spec) + _measure_bytes(item.annotations) + 50


def get_pod_spec(job: Job) -> bytes | None:
    """The pod spec of the job itself, if it has one."""
    if job.pod_spec is UNSET:
        return None
    text = bytes(job.pod_spec)
    return None if text == b"null" else text


def _check_names(
    job: Job, demand: pod_spec.PodDemand, policy: JobPolicy, found: list[FieldError]
) -> None:
    if get_pod_spec(job) is not None:
        found += [
            FieldError(f"/{_ENCODED[name]}", "cannot be combined with podSpec; remove one of them")
            for name in SHORT_FORM
            if getattr(job, name) is not None
        ]
    name = demand.priority_class
    classes = sorted(item.name for item in policy.priority_classes)
    if name is not None and name not in classes:
        place = "/priorityClass" if job.priority_class else "/podSpec/priorityClassName"
        found.append(
            FieldError(
                place,
                f"is {validation.quote(name)}; the priority classes are: {', '.join(classes)}",
            )
        )
    if job.pool is not None and (detail := name_rules.check_name(job.pool)):
        found.append(FieldError("/pool", detail))
    if job.namespace is not None and (detail := name_rules.check_namespace(job.namespace)):
        found.append(FieldError("/namespace", detail))
    for index, given in enumerate(job.after or ()):
        _check_dependency(given, f"/after/{index}", found)
    if job.labels:
        check_labels(job.labels, "/labels", policy.limits.label_bytes_max, found)
    if job.annotations:
        _check_annotations(job.annotations, policy.limits.annotation_bytes_max, found)


def _check_dependency(given: After, pointer: str, found: list[FieldError]) -> None:
    name = given if isinstance(given, str) else given.array
    if not isinstance(given, str):
        pointer += "/array"
    detail = "is missing" if name is None else name_rules.check_printable(name)
    if detail:
        found.append(FieldError(pointer, detail))


def check_labels(
    labels: Mapping[str, str], at: str, bytes_max: int, found: list[FieldError]
) -> None:
    """Check labels by the rules of Kubernetes, the reserved prefix and their size."""
    for key, value in labels.items():
        place = f"{at}/{validation.escape_pointer(key)}"
        if detail := name_rules.check_label_key(key) or name_rules.check_label_value(value):
            found.append(FieldError(place, detail))
        elif key.partition("/")[0] == name_rules.RESERVED_PREFIX:
            found.append(
                FieldError(
                    place,
                    f"begins with {name_rules.RESERVED_PREFIX}, which is reserved for Fairlead",
                )
            )
    _check_bytes(labels, at, bytes_max, found)


def _check_annotations(
    annotations: Mapping[str, str], bytes_max: int, found: list[FieldError]
) -> None:
    for key in annotations:
        if detail := name_rules.check_label_key(key):
            found.append(FieldError(f"/annotations/{validation.escape_pointer(key)}", detail))
    _check_bytes(annotations, "/annotations", bytes_max, found)


def _check_bytes(
    texts: Mapping[str, str], at: str, bytes_max: int, found: list[FieldError]
) -> None:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())
    if size > bytes_max:
        found.append(FieldError(at, f"has {size} bytes; at most {bytes_max} are allowed"))


def _read_network_objects(
    given: Sequence[NetworkObject] | None, field: str, policy: JobPolicy, found: list[FieldError]
) -> tuple[events.NetworkObject, ...]:
    """The services or ingresses, without errors that the API server finds."""
    made: list[events.NetworkObject] = []
    names: set[str] = set()
    for index, item in enumerate(given or ()):
        place = f"/{field}/{index}"
        name = item.name or ""
        if item.name is None:
            found.append(FieldError(f"{place}/name", "is missing"))
        elif detail := name_rules.check_network_object(name):
            found.append(FieldError(f"{place}/name", detail))
        elif name in names:
            found.append(FieldError(f"{place}/name", f"is {name!r} again; choose another name"))
        names.add(name)
        for key in item.annotations or {}:
            if detail := name_rules.check_label_key(key):
                pointer = f"{place}/annotations/{validation.escape_pointer(key)}"
                found.append(FieldError(pointer, detail))
        if item.spec is None:
            found.append(FieldError(f"{place}/spec", "is missing"))
        elif validation.measure_depth(item.spec) > validation.DEPTH_MAX:
            detail = f"is nested more than {validation.DEPTH_MAX} deep"
            found.append(FieldError(f"{place}/spec", detail))
        else:
            spec = Raw(msgspec.json.encode(item.spec))
            annotations = item.annotations or {}
            made.append(events.NetworkObject(name=name, annotations=annotations, spec=spec))
    size, size_max = sum(map(_measure_object, made)), policy.limits.pod_spec_bytes_max
    if size > size_max:
        found.append(FieldError(f"/{field}", f"has {size} bytes; at most {size_max} are allowed"))
    return tuple(made)


def _check_network_specs(job: Job, found: list[FieldError]) -> None:
    """Check what Fairlead sets in the spec of a service, and the services that ingresses name."""
    names = [item.name for item in job.services or ()]  # a list: the other name is any JSON
    for index, item in enumerate(job.services or ()):
        if item.spec is not None and "selector" in item.spec:
            detail = "is set by Fairlead to the pod of the run; remove it"
            found.append(FieldError(f"/services/{index}/spec/selector", detail))
    for index, item in enumerate(job.ingresses or ()):
        for pointer, name in _find_backends(item.spec or {}):
            if name not in names:
                found.append(
                    FieldError(
                        f"/ingresses/{index}/spec{pointer}/service/name",
                        f"is {validation.quote(name)}, which is not a service of the job",
                    )
                )


def _find_backends(spec: Mapping[str, Any]) -> Iterator[tuple[str, object]]:  # `Any`: JSON
    """The pointer of each backend of an ingress, and the service that it names."""
    if (name := _name_service(spec.get("defaultBackend"))) is not None:
        yield "/defaultBackend", name
    for number, rule in enumerate(_list_objects(spec.get("rules"))):
        http = rule.get("http")
        paths = _list_objects(http.get("paths") if isinstance(http, dict) else None)
        for index, path in enumerate(paths):
            if (name := _name_service(path.get("backend"))) is not None:
                yield f"/rules/{number}/http/paths/{index}/backend", name


def _list_objects(value: object) -> list[dict[str, Any]]:  # `Any`: JSON
    """The objects of a list; something else becomes an empty object."""
    items = value if isinstance(value, list) else []
    return [item if isinstance(item, dict) else {} for item in items]


def _name_service(backend: object) -> object:
    service = backend.get("service") if isinstance(backend, dict) else None
    return service.get("name") if isinstance(service, dict) else None


def _read_start_ms(text: str | None, found: list[FieldError]) -> int | None:
    if text is None:
        return None
    try:
        time_ms = timestamps.parse_rfc3339(text)
    except (ValueError, OverflowError):
        time_ms = -1
    if time_ms < 0:
        found.append(
            FieldError(
                "/startAfter",
                f"is {validation.quote(text)}; a time like 2026-01-31T12:00:00Z is expected",
            )
        )
        return None
    return time_ms


def _read_checkpoint_s(job: Job, found: list[FieldError]) -> int | None:
    if job.checkpoint_interval_seconds is not None or not job.annotations:
        return job.checkpoint_interval_seconds
    text = job.annotations.get(CHECKPOINT_ANNOTATION)
    if text is None:
        return None
    if len(text) > 9 or not (text.isascii() and text.isdigit()) or int(text) == 0:
        place = f"/annotations/{validation.escape_pointer(CHECKPOINT_ANNOTATION)}"
        found.append(
            FieldError(place, f"is {validation.quote(text)}; a number of seconds is expected")
        )
        return None
    return int(text)


def _check_gang(gang: Gang | None, size_max: int, found: list[FieldError]) -> events.Gang | None:
    if gang is None:
        return None
    if gang.name is None:
        found.append(FieldError("/gang/name", "is missing"))
    elif detail := name_rules.check_printable(gang.name):
        found.append(FieldError("/gang/name", detail))
    if gang.size is None:
        found.append(FieldError("/gang/size", "is missing"))
    elif gang.size > size_max:
        found.append(FieldError("/gang/size", f"is {gang.size}; at most {size_max} is allowed"))
    elif gang.min_size is not None and gang.min_size > gang.size:
        found.append(
            FieldError(
                "/gang/minSize", f"is {gang.min_size}, more than `size`, which is {gang.size}"
            )
        )
    elif gang.member is not None and gang.member >= gang.size:
        detail = f"is {gang.member}; the {gang.size} members have the numbers 0 to {gang.size - 1}"
        found.append(FieldError("/gang/member", detail))
    label = gang.uniformity_label
    if label is not None and (detail := name_rules.check_label_key(label)):
        found.append(FieldError("/gang/uniformityLabel", detail))
    return events.Gang(
        name=gang.name or "",
        size=gang.size or 1,
        min_size=gang.min_size,
        uniformity_label=label,
        rest=gang.rest or "wait",
        member=gang.member,
    )


def make_retry_policy(given: Retry | None) -> events.RetryPolicy | None:
    """The policy as events have it. Without `on`: all categories of `RETRYABLE`."""
    if given is None:
        return None
    return events.RetryPolicy(
        limit=given.limit or 0,
        on=tuple(dict.fromkeys(RETRYABLE if given.on is None else given.on)),
        memory_factor=given.memory_factor or 1.0,
        avoid_node=bool(given.avoid_node),
    )
