"""From what a client says of a job to the event it becomes, all but its id.

Jobs of a batch are mostly alike: those that differ in nothing but their `clientId` share one
`Template`, which is made once and kept as long as there is room. Pure but for that cache.
"""

import hashlib
from typing import Final, cast

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.records import events
from fairlead_submit.domain import job_terms, pod_spec, policy, secret_variables
from fairlead_submit.domain import validation as faults
from fairlead_submit.domain.bounded_cache import Kept
from fairlead_submit.domain.job_terms import Terms, spec_of
from fairlead_submit.domain.policy import Allow, JobPolicy
from fairlead_submit.domain.request_types import SHORT_FORM, Env, Job
from fairlead_submit.domain.secret_variables import QueueSecrets

CACHE_BYTES_MAX: Final = 32 * 2**20
ENTRY_BYTES: Final = 2_000
"""About what a kept template, demand or terms take besides their texts."""

_SHORT_RESOURCES: Final = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"}
_FIELDS: Final = dict(zip(Job.__struct_encode_fields__, Job.__struct_fields__, strict=True))

_encode_ordered: Final = msgspec.json.Encoder(order="deterministic").encode
_encode: Final = msgspec.json.Encoder().encode
_Object = dict[str, object]
Defaults = tuple[tuple[str, object], ...]
"""What a request says of all its jobs: fields of `Job` with their values."""


class Template(msgspec.Struct, frozen=True, gc=False):
    """A job without its id. `after` holds ids and client ids as they were given.

    The pointers of `faults` begin at the job; `shared` are those in the request's `defaults`.
    `size`: about how many bytes the event takes.
    """

    event: events.JobSubmitted
    size: int
    after: tuple[str, ...]
    faults: tuple[FieldError, ...]
    shared: tuple[FieldError, ...]


class Shared(msgspec.Struct, frozen=True):
    """What the jobs of a request share: its defaults, what its queue may use; `key` tells both."""

    defaults: Defaults | None = None
    allow: Allow | None = None
    key: bytes = b""
    secrets: QueueSecrets = secret_variables.NONE


class _Pod(msgspec.Struct, frozen=True, gc=False):
    """What a job runs: `spec` is whole, `canonical` as it was given.

    `key` tells its demand: None where that has faults, nothing for the short form, whose amounts
    are among the terms.
    """

    demand: pod_spec.Demand
    spec: bytes
    canonical: bytes
    key: bytes | None


class Templates:
    """Makes templates by the settings, and keeps them."""

    def __init__(self, job_policy: JobPolicy) -> None:
        self._policy = job_policy
        self._defaults = job_policy.job_defaults
        self._limits = job_policy.limits
        self._kept: Kept[Template] = Kept(CACHE_BYTES_MAX)
        self._terms: Kept[Terms] = Kept(CACHE_BYTES_MAX)
        self._demands: Kept[pod_spec.Demand] = Kept(CACHE_BYTES_MAX)

    def shared(
        self, queue: str, defaults: Job | None, secrets: QueueSecrets = secret_variables.NONE
    ) -> Shared:
        """What tells a request apart from others whose jobs are alike."""
        allow = self._policy.allow.get(queue)
        if defaults is None and allow is None and secrets is secret_variables.NONE:
            return _NOT_SHARED
        text = _encode_ordered((defaults, None if allow is None else queue, secrets.digest))
        key = hashlib.blake2b(text, digest_size=32).digest()
        return Shared(None if defaults is None else _said(defaults), allow, key, secrets)

    def of(self, job: Job, shared: Shared) -> Template:
        """The template of a job whose `client_id` was taken off."""
        text = _encode_ordered(job)
        key = shared.key + text
        template = self._kept.get(key)
        if template is None:
            template = self._made(job, shared, text)
            if not template.faults and not template.shared:
                self._kept.put(key, template, 2 * len(key) + ENTRY_BYTES)
        return template

    def _made(self, given: Job, shared: Shared, text: bytes) -> Template:
        defaults = shared.defaults
        job = given if defaults is None else merged(given, defaults)
        found: list[FieldError] = []
        own_spec = spec_of(job)
        if own_spec is not None:
            pod = self._long(job, own_spec, shared.secrets, found)
            said = rest = _encode_ordered(replace(job, pod_spec=UNSET))
        else:
            pod = self._short(job, shared.secrets, found)
            terms_only = replace(
                job, pod_spec=UNSET, image=None, command=None, env=None, working_dir=None
            )
            rest = _encode_ordered(terms_only)
            as_given = defaults is None and given.pod_spec is UNSET
            if pod.canonical:  # secret values are sealed there
                said = _encode_ordered(replace(job, pod_spec=UNSET, env=None))
            else:
                said = text if as_given else _encode_ordered(replace(job, pod_spec=UNSET))
        agreed = self._terms_of(job, pod, shared, rest)
        if shared.allow is not None and not found:
            document = cast(_Object, msgspec.json.decode(pod.spec))
            found += policy.check(shared.allow, agreed.event.namespace, document)
        found += agreed.faults
        own, common = _placed(found, given, defaults) if found else ((), ())
        return Template(
            event=replace(agreed.event, spec=Raw(pod.spec), digest=_digest(said, pod.canonical)),
            size=agreed.size + len(pod.spec),
            after=agreed.after,
            faults=own,
            shared=common,
        )

    def _terms_of(self, job: Job, pod: _Pod, shared: Shared, rest: bytes) -> Terms:
        """`rest`: all that the job says but what its pod runs."""
        key = (shared.key, pod.key, rest)
        kept = self._terms.get(key)
        if kept is not None:
            return kept
        shape = pod.demand.shape
        if pod.key is not None and shared.allow is not None and shared.allow.nodes is not None:
            shape = policy.on_nodes(shape, shared.allow.nodes)
        made = job_terms.read(job, pod.demand, shape, self._policy)
        if pod.key is not None and not made.faults:
            self._terms.put(key, made, 2 * (len(pod.key) + len(rest)) + ENTRY_BYTES)
        return made

    def _long(self, job: Job, text: bytes, secrets: QueueSecrets, found: list[FieldError]) -> _Pod:
        if len(text) > self._limits.pod_spec_bytes_max:
            found.append(
                FieldError(
                    "/podSpec",
                    f"has {len(text)} bytes; at most {self._limits.pod_spec_bytes_max} are allowed",
                )
            )
            return _NOTHING
        key = pod_spec.key_of(text)
        demand = self._demand(key, text, job.priority_class)
        if demand.faults:
            found += [
                FieldError(f"/podSpec{fault.pointer}", fault.detail) for fault in demand.faults
            ]
            return _Pod(demand, b"{}", b"", None)
        try:
            document = cast(_Object, faults.parse(text))
            if _is_deep(text, document):
                found.append(FieldError("/podSpec", f"is nested more than {faults.DEPTH_MAX} deep"))
                return _NOTHING
            canonical = _encode_ordered(document)
            if not faults.says_all(text, canonical) and (twice := faults.repeated(text)):
                found += [FieldError(f"/podSpec{fault.pointer}", fault.detail) for fault in twice]
                return _NOTHING
            if secret_variables.may_have_secrets(canonical):
                wrong: list[FieldError] = []
                secret_variables.seal_values(document, secrets, wrong)
                canonical = _encode_ordered(document)
                secret_variables.resolve(document, secrets, wrong)
                if wrong:
                    found += [FieldError(f"/podSpec{item.pointer}", item.detail) for item in wrong]
                    return _NOTHING
            spec = _encode(pod_spec.completed(document, demand))
            return _Pod(demand, spec, canonical, key)
        except ValueError as error:
            found.append(FieldError("/podSpec", f"cannot be read: {error}"))
            return _NOTHING

    def _demand(
        self, key: bytes | None, text: bytes, priority_class: str | None
    ) -> pod_spec.Demand:
        if key is None:
            return pod_spec.read(text, priority_class, self._defaults)
        demand = self._demands.get((key, priority_class))
        if demand is None:
            demand = pod_spec.read(text, priority_class, self._defaults)
            self._demands.put((key, priority_class), demand, 2 * len(text) + ENTRY_BYTES)
        return demand

    def _short(self, job: Job, secrets: QueueSecrets, found: list[FieldError]) -> _Pod:
        container: _Object = {"name": "main"}
        canonical = b""
        if job.image is not None:
            container["image"] = job.image
        if job.command is not None:
            if not job.command:
                found.append(FieldError("/command", "is empty"))
            container["command"] = job.command
        elif job.image is None:
            found.append(
                FieldError("", "says nothing to run: a podSpec, command or image is needed")
            )
        if job.env:
            _check_environment(job.env, found)
            container["env"], canonical = _environment(job.env, secrets, found)
        if job.working_dir is not None:
            if not job.working_dir.startswith("/") or "\0" in job.working_dir:
                found.append(FieldError("/workingDir", "is not an absolute path"))
            container["workingDir"] = job.working_dir
        demand = self._short_demand(job)
        if demand.faults:
            found += [
                FieldError(_short_pointer(item.pointer), item.detail) for item in demand.faults
            ]
        spec = _encode(pod_spec.completed({"containers": [container]}, demand))
        if len(spec) > self._limits.pod_spec_bytes_max:
            found.append(
                FieldError(
                    "",
                    f"makes a pod spec of {len(spec)} bytes;"
                    f" at most {self._limits.pod_spec_bytes_max} are allowed",
                )
            )
        return _Pod(demand, spec, canonical, b"")

    def _short_demand(self, job: Job) -> pod_spec.Demand:
        key = (job.cpu, job.memory, job.gpu, job.priority_class)
        demand = self._demands.get(key)
        if demand is None:
            asked = {
                resource: quantity
                for field, resource in _SHORT_RESOURCES.items()
                if (quantity := getattr(job, field)) is not None
            }
            text = msgspec.json.encode({"containers": [{"resources": {"requests": asked}}]})
            demand = pod_spec.read(text, job.priority_class, self._defaults)
            self._demands.put(key, demand, 2 * len(text) + ENTRY_BYTES)
        return demand


_NOT_SHARED: Final = Shared()
_NO_SHORT_FORM: Final = (None,) * len(SHORT_FORM)
_NOTHING: Final = _Pod(pod_spec.Demand(()), b"{}", b"", None)


def _said(job: Job) -> Defaults:
    fields = ((name, getattr(job, name)) for name in job.__struct_fields__)
    return tuple(
        (name, value) for name, value in fields if value is not None and value is not UNSET
    )


def merged(job: Job, defaults: Defaults) -> Job:
    """`job` with what it leaves open from `defaults`; labels, annotations and env by key.

    A job with a pod spec takes no part of a short form from the defaults, and the other way round.
    """
    own_spec = spec_of(job) is not None
    parts = (job.image, job.command, job.env, job.working_dir, job.cpu, job.memory, job.gpu)
    fields: dict[str, object] = {} if own_spec else {"pod_spec": UNSET}
    for name, other in defaults:
        if name == "pod_spec":
            if not own_spec and parts == _NO_SHORT_FORM:
                fields[name] = other
        elif not (own_spec and name in SHORT_FORM):
            own = getattr(job, name)
            if own is None:
                fields[name] = other
            elif isinstance(own, dict) and isinstance(other, dict):
                fields[name] = {**cast(_Object, other), **own}
    return replace(job, **fields)


def _check_environment(env: Env, found: list[FieldError]) -> None:
    named = (
        [(f"/env/{index}/name", item.name or "") for index, item in enumerate(env)]
        if isinstance(env, list)
        else [(f"/env/{faults.escape(name)}", name) for name in env]
    )
    for place, name in named:
        if not name or "=" in name or not name.isprintable():
            found.append(FieldError(place, "is no name of an environment variable"))


def _environment(
    env: Env, secrets: QueueSecrets, found: list[FieldError]
) -> tuple[list[_Object], bytes]:
    """The variables of the container, and, where there are secrets, how they name the job."""
    entries = secret_variables.entries(env)
    text = _encode_ordered(entries)
    if not secret_variables.may_have_secrets(text):
        return entries, b"" if isinstance(env, dict) else text
    wrong: list[FieldError] = []
    document = {"containers": [{"env": entries}]}
    secret_variables.seal_values(document, secrets, wrong)
    canonical = _encode_ordered(entries)
    secret_variables.resolve(document, secrets, wrong)
    names = None if isinstance(env, list) else list(env)
    for item in wrong:
        _, _, _, _, number, *rest = item.pointer.split("/")
        place = number if names is None else faults.escape(names[int(number)])
        found.append(FieldError("/".join(["/env", place, *rest]), item.detail))
    return entries, canonical


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


def _digest(said: bytes, canonical: bytes) -> str:
    """Of what the client said, whatever the order of its keys: the job, and its pod spec."""
    return hashlib.blake2b(b"%b\0%b" % (said, canonical), digest_size=16).hexdigest()


def _placed(
    found: list[FieldError], given: Job, defaults: Defaults | None
) -> tuple[tuple[FieldError, ...], tuple[FieldError, ...]]:
    """The faults of the job itself, and those in the request's `defaults`."""
    own = [item for item in found if defaults is None or _is_own(item.pointer, given)]
    shared = [
        FieldError(f"/defaults{item.pointer}", item.detail) for item in found if item not in own
    ]
    return tuple(own), tuple(shared)


def _is_own(pointer: str, given: Job) -> bool:
    """Whether the place is one that the job itself filled in, not the request's `defaults`."""
    parts = pointer.split("/")
    value = getattr(given, _FIELDS.get(parts[1], "client_id")) if len(parts) > 1 else given
    if isinstance(value, dict) and len(parts) > 2:
        return parts[2].replace("~1", "/").replace("~0", "~") in value
    return value is not None and value is not UNSET
