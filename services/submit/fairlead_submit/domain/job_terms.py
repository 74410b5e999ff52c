"""The terms of a job: all that it says besides what its pod runs, checked and in the log's words.

Jobs with pods of their own mostly agree in their terms, which are then read once. Pure.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from fairlead_common.domain import timestamps
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import FailureCategory
from fairlead_submit.domain import gang_fields, name_rules, pod_spec
from fairlead_submit.domain import validation as faults
from fairlead_submit.domain.policy import JobDefaults, JobPolicy
from fairlead_submit.domain.request_types import SHORT_FORM, Gang, Job, Retry

CHECKPOINT_ANNOTATION: Final = "fairlead.dev/checkpoint-interval"
EVENT_BYTES: Final = 500
"""About what an event takes besides its pod spec, labels and annotations."""

RETRYABLE: Final = (
    FailureCategory.EXIT_CODE,
    FailureCategory.OOM,
    FailureCategory.EVICTED,
    FailureCategory.IMAGE_PULL,
    FailureCategory.NODE_LOST,
    FailureCategory.POD_DELETED,
    FailureCategory.INTERNAL,
)
"""Failures after which another try may succeed. Without: a run that took too long, a command that
cannot be started, and what the cluster refuses.
"""

_NO_JOB: Final = JobId("")
_NOTHING: Final = Raw(b"{}")
_ENCODED: Final = dict(zip(Job.__struct_fields__, Job.__struct_encode_fields__, strict=True))
"""The name of each field of a job in JSON."""


class Terms(msgspec.Struct, frozen=True, gc=False):
    """`event` lacks the job's id, spec and digest. `after` holds ids and client ids as given.

    The pointers of `faults` begin at the job. `size`: about how many bytes the event takes.
    """

    event: events.JobSubmitted
    size: int
    after: tuple[str, ...]
    faults: tuple[FieldError, ...]


def read(job: Job, demand: pod_spec.Demand, shape: Raw, policy: JobPolicy) -> Terms:
    """The terms of a job whose pod asks for `demand` and may run where `shape` says."""
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
        start_after_ms=_time_ms(job.start_after, found),
        queue_s_max=job.max_queue_seconds,
        runtime_s_max=job.max_runtime_seconds or demand.deadline_s or _runtime_s(demand, defaults),
        grace_s=demand.grace_s,
        checkpoint_s=_checkpoint_s(job, found),
        when_infeasible=job.when_infeasible or "reject",
        on_preemption=job.on_preemption or "requeue",
        gang=_gang(gang_fields.gang(job, found), limits.gang_size_max, found),
        retry=retry_policy(job.retry),
        labels=job.labels or {},
        annotations=job.annotations or {},
    )
    return Terms(
        event=event,
        size=EVENT_BYTES + _size(event.labels) + _size(event.annotations),
        after=tuple(dict.fromkeys(job.after)) if job.after else (),
        faults=tuple(found),
    )


def _runtime_s(demand: pod_spec.Demand, defaults: JobDefaults) -> int:
    if any(name in demand.requests for name in defaults.long_resources):
        return defaults.long_runtime_seconds
    return defaults.max_runtime_seconds


def _size(texts: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) + 8 for key, value in texts.items())


def spec_of(job: Job) -> bytes | None:
    """The job's own pod spec, if it gives one."""
    if job.pod_spec is UNSET:
        return None
    text = bytes(job.pod_spec)
    return None if text == b"null" else text


def _check_names(
    job: Job, demand: pod_spec.Demand, policy: JobPolicy, found: list[FieldError]
) -> None:
    if spec_of(job) is not None:
        found += [
            FieldError(f"/{_ENCODED[name]}", "stands beside a podSpec; say one or the other")
            for name in SHORT_FORM
            if getattr(job, name) is not None
        ]
    name = demand.priority_class
    classes = sorted(item.name for item in policy.priority_classes)
    if name is not None and name not in classes:
        place = "/priorityClass" if job.priority_class else "/podSpec/priorityClassName"
        found.append(FieldError(place, f"is {faults.shown(name)}, not one of {', '.join(classes)}"))
    if job.pool is not None and (detail := name_rules.queue(job.pool)):
        found.append(FieldError("/pool", detail))
    if job.namespace is not None and (detail := name_rules.namespace(job.namespace)):
        found.append(FieldError("/namespace", detail))
    for index, text in enumerate(job.after or ()):
        if detail := name_rules.printable(text):
            found.append(FieldError(f"/after/{index}", detail))
    for field in ("services", "ingresses"):
        if getattr(job, field):
            found.append(
                FieldError(f"/{field}", f"is not empty: no cluster of Fairlead makes {field} yet")
            )
    if job.labels:
        check_labels(job.labels, "/labels", policy.limits.label_bytes_max, found)
    if job.annotations:
        _check_annotations(job.annotations, policy.limits.annotation_bytes_max, found)


def check_labels(
    labels: Mapping[str, str], at: str, bytes_max: int, found: list[FieldError]
) -> None:
    """Labels as Kubernetes has them, none of ours, and not too many."""
    for key, value in labels.items():
        place = f"{at}/{faults.escape(key)}"
        if detail := name_rules.label_key(key) or name_rules.label_value(value):
            found.append(FieldError(place, detail))
        elif key.partition("/")[0] == name_rules.OURS:
            found.append(
                FieldError(place, f"begins with {name_rules.OURS}, which is Fairlead's own")
            )
    _check_bytes(labels, at, bytes_max, found)


def _check_annotations(
    annotations: Mapping[str, str], bytes_max: int, found: list[FieldError]
) -> None:
    for key in annotations:
        if detail := name_rules.label_key(key):
            found.append(FieldError(f"/annotations/{faults.escape(key)}", detail))
    _check_bytes(annotations, "/annotations", bytes_max, found)


def _check_bytes(
    texts: Mapping[str, str], at: str, bytes_max: int, found: list[FieldError]
) -> None:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())
    if size > bytes_max:
        found.append(FieldError(at, f"has {size} bytes; at most {bytes_max} are allowed"))


def _time_ms(text: str | None, found: list[FieldError]) -> int | None:
    if text is None:
        return None
    try:
        time_ms = timestamps.parse_rfc3339(text)
    except (ValueError, OverflowError):
        time_ms = -1
    if time_ms < 0:
        found.append(
            FieldError(
                "/startAfter", f"is {faults.shown(text)}; write it like 2026-01-31T12:00:00Z"
            )
        )
        return None
    return time_ms


def _checkpoint_s(job: Job, found: list[FieldError]) -> int | None:
    if job.checkpoint_interval_seconds is not None or not job.annotations:
        return job.checkpoint_interval_seconds
    text = job.annotations.get(CHECKPOINT_ANNOTATION)
    if text is None:
        return None
    if len(text) > 9 or not (text.isascii() and text.isdigit()) or int(text) == 0:
        place = f"/annotations/{faults.escape(CHECKPOINT_ANNOTATION)}"
        found.append(FieldError(place, f"is {faults.shown(text)}; a number of seconds is expected"))
        return None
    return int(text)


def _gang(gang: Gang | None, size_max: int, found: list[FieldError]) -> events.Gang | None:
    if gang is None:
        return None
    if gang.name is None:
        found.append(FieldError("/gang/name", "is missing"))
    elif detail := name_rules.printable(gang.name):
        found.append(FieldError("/gang/name", detail))
    if gang.size is None:
        found.append(FieldError("/gang/size", "is missing"))
    elif gang.size > size_max:
        found.append(FieldError("/gang/size", f"is {gang.size}; at most {size_max} is allowed"))
    elif gang.min_size is not None and gang.min_size > gang.size:
        found.append(
            FieldError("/gang/minSize", f"is {gang.min_size}, above the size of {gang.size}")
        )
    elif gang.member is not None and gang.member >= gang.size:
        detail = f"is {gang.member}; the {gang.size} members count from 0 to {gang.size - 1}"
        found.append(FieldError("/gang/member", detail))
    label = gang.uniformity_label
    if label is not None and (detail := name_rules.label_key(label)):
        found.append(FieldError("/gang/uniformityLabel", detail))
    return events.Gang(
        name=gang.name or "",
        size=gang.size or 1,
        min_size=gang.min_size,
        uniformity_label=label,
        rest=gang.rest or "wait",
        member=gang.member,
    )


def retry_policy(given: Retry | None) -> events.RetryPolicy | None:
    """The policy as the log has it. Without `on`, all categories of `RETRYABLE`."""
    if given is None:
        return None
    return events.RetryPolicy(
        limit=given.limit or 0,
        on=tuple(dict.fromkeys(RETRYABLE if given.on is None else given.on)),
        memory_factor=given.memory_factor or 1.0,
        avoid_node=bool(given.avoid_node),
    )
