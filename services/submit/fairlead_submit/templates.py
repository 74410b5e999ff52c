"""From what a client says of a job to the event it becomes, all but its id.

Jobs of a batch are mostly alike: those that differ in nothing but their `clientId` share one
`Template`, which is made once and kept as long as there is room. Pure but for that cache.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, cast

import msgspec
from msgspec import UNSET, Raw

from fairlead_common import clock, events
from fairlead_common.errors import Fault
from fairlead_common.ids import JobId
from fairlead_submit import allowed, armada, faults, names, podspec
from fairlead_submit.allowed import Allow
from fairlead_submit.kept import Kept
from fairlead_submit.requests import SHORT_FORM, Gang, Job, Retry
from fairlead_submit.settings import SubmitSettings

CACHE_BYTES_MAX: Final = 32 * 2**20
EVENT_BYTES: Final = 500
"""About what an event takes besides its pod spec, labels and annotations."""

ENTRY_BYTES: Final = 2_000
"""About what a kept template or demand takes besides its texts."""

CHECKPOINT_ANNOTATION: Final = "fairlead.dev/checkpoint-interval"
_SHORT_RESOURCES: Final = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"}
_NO_JOB: Final = JobId("")
_FIELDS: Final = dict(zip(Job.__struct_encode_fields__, Job.__struct_fields__, strict=True))

_encoder: Final = msgspec.json.Encoder(order="deterministic")
_Object = dict[str, object]


class Template(msgspec.Struct, frozen=True, gc=False):
    """A job without its id. `after` holds ids and client ids as they were given.

    The pointers of `faults` begin at the job; `shared` are those in the request's `defaults`.
    `size`: about how many bytes the event takes.
    """

    event: events.JobSubmitted
    size: int
    after: tuple[str, ...]
    faults: tuple[Fault, ...]
    shared: tuple[Fault, ...]


class Shared(msgspec.Struct, frozen=True):
    """What the jobs of a request share: its defaults, what its queue may use; `key` tells both."""

    defaults: Job | None = None
    allow: Allow | None = None
    key: bytes = b""


class Templates:
    """Makes templates by the settings, and keeps them."""

    def __init__(self, settings: SubmitSettings) -> None:
        self._defaults = settings.job_defaults
        self._limits = settings.limits
        self._allow = settings.allow
        self._classes = frozenset(item.name for item in settings.priority_classes)
        self._kept: Kept[Template] = Kept(CACHE_BYTES_MAX)
        self._demands: Kept[podspec.Demand] = Kept(CACHE_BYTES_MAX)

    def shared(self, queue: str, defaults: Job | None) -> Shared:
        """What tells a request apart from others whose jobs are alike."""
        allow = self._allow.get(queue)
        if defaults is None and allow is None:
            return _NOT_SHARED
        key = _encoder.encode((defaults, None if allow is None else queue)) + b"\0"
        return Shared(defaults, allow, key)

    def of(self, job: Job, shared: Shared) -> Template:
        """The template of a job whose `client_id` was taken off."""
        key = shared.key + _encoder.encode(job)
        template = self._kept.get(key)
        if template is None:
            template = self._made(job, shared, key)
            if not template.faults and not template.shared:
                self._kept.put(key, template, 2 * len(key) + ENTRY_BYTES)
        return template

    def _made(self, given: Job, shared: Shared, key: bytes) -> Template:
        defaults = shared.defaults
        job = given if defaults is None else merged(given, defaults)
        found: list[Fault] = []
        demand, spec, canonical = self._pod(job, found)
        self._check_names(job, demand, found)
        runtime_s = job.max_runtime_seconds or demand.deadline_s
        if runtime_s is None:
            is_long = any(name in demand.requests for name in self._defaults.long_resources)
            runtime_s = (
                self._defaults.long_runtime_seconds
                if is_long
                else self._defaults.max_runtime_seconds
            )
        shape = demand.shape
        if shared.allow is not None and not found:
            document = cast(_Object, msgspec.json.decode(spec))
            found += allowed.check(shared.allow, job.namespace or "default", document)
            if shared.allow.nodes is not None:
                shape = allowed.on_nodes(shape, shared.allow.nodes)
        event = events.JobSubmitted(
            job_id=_NO_JOB,
            shape=shape,
            spec=spec,
            digest=_digest(job, canonical, key if not shared.key else None),
            priority=job.priority or 0,
            priority_class=demand.priority_class or self._defaults.priority_class,
            pool=job.pool or "default",
            namespace=job.namespace or "default",
            hold=bool(job.hold),
            start_after_ms=_time_ms(job.start_after, found),
            queue_s_max=job.max_queue_seconds,
            runtime_s_max=runtime_s,
            grace_s=demand.grace_s,
            checkpoint_s=_checkpoint_s(job, found),
            when_infeasible=job.when_infeasible or "reject",
            on_preemption=job.on_preemption or "requeue",
            gang=_gang(armada.gang(job, found), self._limits.gang_size_max, found),
            retry=retry_policy(job.retry),
            labels=job.labels or {},
            annotations=job.annotations or {},
        )
        own, common = _placed(found, given, defaults) if found else ((), ())
        return Template(
            event=event,
            size=_size(spec, job) + EVENT_BYTES,
            after=tuple(dict.fromkeys(job.after)) if job.after else (),
            faults=own,
            shared=common,
        )

    def _pod(self, job: Job, found: list[Fault]) -> tuple[podspec.Demand, Raw, bytes]:
        """What the pod asks for, its spec with defaults, and its canonical text without."""
        if has_spec(job):
            if (job.image, job.command, job.env, job.cpu, job.memory, job.gpu) != _NO_SHORT_FORM:
                found += [
                    Fault(f"/{name}", "stands beside a podSpec; say one or the other")
                    for name in SHORT_FORM
                    if getattr(job, name) is not None
                ]
            return self._long(job, found)
        if job.image is None and job.command is None:
            found.append(Fault("", "says nothing to run: a podSpec, command or image is needed"))
        return self._short(job, found)

    def _long(self, job: Job, found: list[Fault]) -> tuple[podspec.Demand, Raw, bytes]:
        text = bytes(cast(Raw, job.pod_spec))
        if len(text) > self._limits.pod_spec_bytes_max:
            found.append(
                Fault(
                    "/podSpec",
                    f"has {len(text)} bytes; at most {self._limits.pod_spec_bytes_max} are allowed",
                )
            )
            return _NOTHING
        key = podspec.key_of(text)
        demand = self._demand(key, text, job.priority_class)
        found += [Fault(f"/podSpec{fault.pointer}", fault.detail) for fault in demand.faults]
        if demand.faults:
            return msgspec.structs.replace(demand, faults=()), Raw(b"{}"), b""
        try:
            document = cast(_Object, faults.parse(text))
            if _is_deep(text, document):
                found.append(Fault("/podSpec", f"is nested more than {faults.DEPTH_MAX} deep"))
                return _NOTHING
            canonical = _encoder.encode(document)
            if not faults.says_all(text, canonical) and (twice := faults.repeated(text)):
                found += [Fault(f"/podSpec{fault.pointer}", fault.detail) for fault in twice]
                return _NOTHING
            return demand, Raw(msgspec.json.encode(podspec.completed(document, demand))), canonical
        except ValueError as error:
            found.append(Fault("/podSpec", f"cannot be read: {error}"))
            return _NOTHING

    def _demand(
        self, key: tuple[object, ...] | None, text: bytes, priority_class: str | None
    ) -> podspec.Demand:
        if key is None:
            return podspec.read(text, priority_class, self._defaults)
        key = (*key, priority_class)
        demand = self._demands.get(key)
        if demand is None:
            demand = podspec.read(text, priority_class, self._defaults)
            self._demands.put(key, demand, 2 * len(text) + ENTRY_BYTES)
        return demand

    def _short(self, job: Job, found: list[Fault]) -> tuple[podspec.Demand, Raw, bytes]:
        container: _Object = {"name": "main"}
        if job.image is not None:
            container["image"] = job.image
        if job.command is not None:
            if not job.command:
                found.append(Fault("/command", "is empty"))
            container["command"] = job.command
        if job.env:
            _check_environment(job.env, found)
            container["env"] = [{"name": name, "value": value} for name, value in job.env.items()]
        demand = self._short_demand(job)
        if demand.faults:
            found += [Fault(_short_pointer(item.pointer), item.detail) for item in demand.faults]
        spec = msgspec.json.encode(podspec.completed({"containers": [container]}, demand))
        if len(spec) > self._limits.pod_spec_bytes_max:
            found.append(
                Fault(
                    "",
                    f"makes a pod spec of {len(spec)} bytes;"
                    f" at most {self._limits.pod_spec_bytes_max} are allowed",
                )
            )
        return demand, Raw(spec), b""

    def _short_demand(self, job: Job) -> podspec.Demand:
        key = (job.cpu, job.memory, job.gpu, job.priority_class)
        demand = self._demands.get(key)
        if demand is None:
            asked = {
                resource: quantity
                for field, resource in _SHORT_RESOURCES.items()
                if (quantity := getattr(job, field)) is not None
            }
            text = msgspec.json.encode({"containers": [{"resources": {"requests": asked}}]})
            demand = podspec.read(text, job.priority_class, self._defaults)
            self._demands.put(key, demand, 2 * len(text) + ENTRY_BYTES)
        return demand

    def _check_names(self, job: Job, demand: podspec.Demand, found: list[Fault]) -> None:
        name = demand.priority_class
        if name is not None and name not in self._classes:
            place = "/priorityClass" if job.priority_class else "/podSpec/priorityClassName"
            known = ", ".join(sorted(self._classes))
            found.append(Fault(place, f"is {faults.shown(name)}, not one of {known}"))
        if job.pool is not None and (detail := names.queue(job.pool)):
            found.append(Fault("/pool", detail))
        if job.namespace is not None and (detail := names.namespace(job.namespace)):
            found.append(Fault("/namespace", detail))
        for index, text in enumerate(job.after or ()):
            if detail := names.printable(text):
                found.append(Fault(f"/after/{index}", detail))
        for field in ("services", "ingresses"):
            if getattr(job, field):
                found.append(
                    Fault(f"/{field}", f"is not empty: no cluster of Fairlead makes {field} yet")
                )
        if job.labels:
            check_labels(job.labels, "/labels", self._limits.label_bytes_max, found)
        if job.annotations:
            _check_annotations(job.annotations, self._limits.annotation_bytes_max, found)


_NO_SHORT_FORM: Final = (None,) * len(SHORT_FORM)
_NOT_SHARED: Final = Shared()
_NOTHING: Final = (podspec.Demand(()), Raw(b"{}"), b"")


def _size(spec: Raw, job: Job) -> int:
    size = len(bytes(spec))
    for texts in (job.labels, job.annotations):
        if texts:
            size += sum(len(key) + len(value) + 8 for key, value in texts.items())
    return size


def has_spec(job: Job) -> bool:
    """Whether the job gives a pod spec of its own."""
    return isinstance(job.pod_spec, Raw) and bytes(job.pod_spec) != b"null"


def merged(job: Job, defaults: Job) -> Job:
    """`job` with what it leaves open from `defaults`; labels, annotations and env by key.

    A job with a pod spec takes no part of a short form from the defaults, and the other way round.
    """
    fields: dict[str, object] = {}
    own_spec = has_spec(job)
    own_short = any(getattr(job, name) is not None for name in SHORT_FORM)
    for name in job.__struct_fields__:
        own, other = getattr(job, name), getattr(defaults, name)
        if (name == "pod_spec" and own_short) or (name in SHORT_FORM and own_spec):
            other = None
        match own, other:
            case (dict(), dict()):
                fields[name] = {**other, **own}
            case (None, _):
                fields[name] = other
            case _ if name == "pod_spec":
                fields[name] = own if own_spec else (other or UNSET)
            case _:
                fields[name] = own
    return Job(**fields)  # type: ignore[arg-type]  # its own fields


def check_labels(labels: Mapping[str, str], at: str, bytes_max: int, found: list[Fault]) -> None:
    """Labels as Kubernetes has them, none of ours, and not too many."""
    for key, value in labels.items():
        place = f"{at}/{faults.escape(key)}"
        if detail := names.label_key(key) or names.label_value(value):
            found.append(Fault(place, detail))
        elif key.partition("/")[0] == names.OURS:
            found.append(Fault(place, f"begins with {names.OURS}, which is Fairlead's own"))
    _check_bytes(labels, at, bytes_max, found)


def _check_annotations(annotations: Mapping[str, str], bytes_max: int, found: list[Fault]) -> None:
    for key in annotations:
        if detail := names.label_key(key):
            found.append(Fault(f"/annotations/{faults.escape(key)}", detail))
    _check_bytes(annotations, "/annotations", bytes_max, found)


def _check_bytes(texts: Mapping[str, str], at: str, bytes_max: int, found: list[Fault]) -> None:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())
    if size > bytes_max:
        found.append(Fault(at, f"has {size} bytes; at most {bytes_max} are allowed"))


def _check_environment(env: Mapping[str, str], found: list[Fault]) -> None:
    for name in env:
        if not name or "=" in name or not name.isprintable():
            place = f"/env/{faults.escape(name)}"
            found.append(Fault(place, "is no name of an environment variable"))


def _is_deep(text: bytes, document: object) -> bool:
    brackets = text.count(b"{") + text.count(b"[")
    return brackets > faults.DEPTH_MAX and faults.nesting(document) > faults.DEPTH_MAX


def _short_pointer(pointer: str) -> str:
    """Where the short form says what stands at this place of the pod spec."""
    resource = pointer.rpartition("/")[2].replace("~1", "/")
    for field, name in _SHORT_RESOURCES.items():
        if name == resource:
            return f"/{field}"
    return ""


def _digest(job: Job, canonical: bytes, text: bytes | None) -> str:
    """Of what the client said, whatever the order of its keys; `text`: the job's, if at hand."""
    if text is None or job.pod_spec is not UNSET:
        text = _encoder.encode(msgspec.structs.replace(job, pod_spec=UNSET))
    return hashlib.blake2b(text + b"\0" + canonical, digest_size=16).hexdigest()


def _placed(
    found: list[Fault], given: Job, defaults: Job | None
) -> tuple[tuple[Fault, ...], tuple[Fault, ...]]:
    """The faults of the job itself, and those in the request's `defaults`."""
    own = [item for item in found if defaults is None or _is_own(item.pointer, given)]
    shared = [Fault(f"/defaults{item.pointer}", item.detail) for item in found if item not in own]
    return tuple(own), tuple(shared)


def _is_own(pointer: str, given: Job) -> bool:
    """Whether the place is one that the job itself filled in, not the request's `defaults`."""
    parts = pointer.split("/")
    value = getattr(given, _FIELDS.get(parts[1], "client_id")) if len(parts) > 1 else given
    if isinstance(value, dict) and len(parts) > 2:
        return parts[2].replace("~1", "/").replace("~0", "~") in value
    return value is not None and value is not UNSET


def _time_ms(text: str | None, found: list[Fault]) -> int | None:
    if text is None:
        return None
    try:
        time_ms = clock.parse_rfc3339(text)
    except (ValueError, OverflowError):
        time_ms = -1
    if time_ms < 0:
        found.append(
            Fault("/startAfter", f"is {faults.shown(text)}; write it like 2026-01-31T12:00:00Z")
        )
        return None
    return time_ms


def _checkpoint_s(job: Job, found: list[Fault]) -> int | None:
    if job.checkpoint_interval_seconds is not None or not job.annotations:
        return job.checkpoint_interval_seconds
    text = job.annotations.get(CHECKPOINT_ANNOTATION)
    if text is None:
        return None
    if len(text) > 9 or not (text.isascii() and text.isdigit()) or int(text) == 0:
        place = f"/annotations/{faults.escape(CHECKPOINT_ANNOTATION)}"
        found.append(Fault(place, f"is {faults.shown(text)}; a number of seconds is expected"))
        return None
    return int(text)


def _gang(gang: Gang | None, size_max: int, found: list[Fault]) -> events.Gang | None:
    if gang is None:
        return None
    if gang.name is None:
        found.append(Fault("/gang/name", "is missing"))
    elif detail := names.printable(gang.name):
        found.append(Fault("/gang/name", detail))
    if gang.size is None:
        found.append(Fault("/gang/size", "is missing"))
    elif gang.size > size_max:
        found.append(Fault("/gang/size", f"is {gang.size}; at most {size_max} is allowed"))
    elif gang.min_size is not None and gang.min_size > gang.size:
        found.append(Fault("/gang/minSize", f"is {gang.min_size}, above the size of {gang.size}"))
    label = gang.uniformity_label
    if label is not None and (detail := names.label_key(label)):
        found.append(Fault("/gang/uniformityLabel", detail))
    return events.Gang(
        name=gang.name or "",
        size=gang.size or 1,
        min_size=gang.min_size,
        uniformity_label=label,
        rest=gang.rest or "wait",
    )


def retry_policy(given: Retry | None) -> events.RetryPolicy | None:
    """The policy as the log has it."""
    if given is None:
        return None
    return events.RetryPolicy(
        limit=given.limit or 0,
        on=tuple(dict.fromkeys(given.on or ())),
        memory_factor=given.memory_factor or 1.0,
        avoid_node=bool(given.avoid_node),
    )
