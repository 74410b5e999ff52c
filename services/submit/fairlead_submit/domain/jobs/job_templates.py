"""Job templates: the event that a job becomes, without its id.

Most jobs of a batch are equal: those that differ only in their `clientId` share one `JobTemplate`,
which is cached. Pure except for the caches.
"""

import hashlib
from collections.abc import Hashable
from typing import Final, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.records import events
from fairlead_common.domain.requests import decoding, validation
from fairlead_submit.domain import name_rules, policy, secret_variables
from fairlead_submit.domain.jobs import job_terms
from fairlead_submit.domain.jobs.job_terms import JobTerms, get_pod_spec
from fairlead_submit.domain.pods import pod_spec
from fairlead_submit.domain.policy import AllowList, JobPolicy
from fairlead_submit.domain.request_types import SHORT_FORM, After, Env, Job
from fairlead_submit.domain.secret_variables import QueueSecrets

V = TypeVar("V")

CACHE_BYTES_MAX: Final = 32 * 2**20
JOB_BYTES_MAX: Final = 2**20
"""The maximum size of a job, and of the defaults of a request: they are encoded several times."""
ENTRY_BYTES: Final = 2_000
"""The approximate size of a cached template, demand or terms without their texts."""

_SHORT_RESOURCES: Final = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"}
_FIELDS: Final = dict(zip(Job.__struct_encode_fields__, Job.__struct_fields__, strict=True))

_encode_ordered: Final = msgspec.json.Encoder(order="deterministic").encode
_encode: Final = msgspec.json.Encoder().encode
_EMPTY_DIGEST: Final = hashlib.blake2b(digest_size=16)
_Object = dict[str, object]
Defaults = tuple[tuple[str, object], ...]
"""The `defaults` of a request: fields of `Job` with their values."""


class JobTemplate(msgspec.Struct, frozen=True, gc=False):
    """A job without its id. `after`: ids and client ids as given.

    Pointers of `errors` begin at the job; pointers of `shared`, which are in `defaults`, at the
    request. `size`: the approximate size of the event in bytes.
    """

    event: events.JobSubmitted
    size: int
    after: tuple[After, ...]
    errors: tuple[FieldError, ...]
    shared: tuple[FieldError, ...]


class SharedTerms(msgspec.Struct, frozen=True):
    """What the jobs of a request share. `key` identifies all of it.

    Without `secrets`, no job of the request has any, and they are not searched.
    """

    secrets: QueueSecrets | None
    defaults: Defaults | None = None
    allow: AllowList | None = None
    key: bytes = b""


class _Pod(msgspec.Struct, frozen=True, gc=False):
    """The pod of a job: `spec` is complete, `canonical` is the given one in canonical form.

    `key` identifies its demand: None if the demand has errors, empty for the short form, whose
    amounts are among the terms.
    """

    demand: pod_spec.PodDemand
    spec: bytes
    canonical: bytes
    key: bytes | None


class BoundedCache(Generic[V]):
    """Values by key, limited in bytes: a value beyond the limit empties the cache first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._values: dict[Hashable, V] = {}
        self.get = self._values.get

    def put(self, key: Hashable, value: V, size: int) -> V:
        """Store and return the value; `size`: the approximate bytes of the key and the value."""
        if self._bytes + size > self._bytes_max:
            self._values.clear()
            self._bytes = 0
        self._bytes += size
        self._values[key] = value
        return value


class JobTemplates:
    """Makes and caches templates. Not safe for use by several threads."""

    def __init__(self, job_policy: JobPolicy) -> None:
        self._policy = job_policy
        self._defaults = job_policy.job_defaults
        self._limits = job_policy.limits
        self._templates: BoundedCache[JobTemplate] = BoundedCache(CACHE_BYTES_MAX)
        self._terms: BoundedCache[JobTerms] = BoundedCache(CACHE_BYTES_MAX)
        self._demands: BoundedCache[pod_spec.PodDemand] = BoundedCache(CACHE_BYTES_MAX)

    def make_shared_terms(
        self, queue: str, defaults: Job | None, secrets: QueueSecrets | None
    ) -> SharedTerms:
        """What the jobs of a request share."""
        allow = self._policy.allow.get(queue)
        if defaults is None and allow is None and secrets is None:
            return _NOT_SHARED
        digest = b"" if secrets is None else secrets.digest
        text = _encode_ordered((defaults, None if allow is None else queue, digest))
        key = hashlib.blake2b(text, digest_size=32).digest()
        fields = None if defaults is None else _given_fields(defaults)
        return SharedTerms(secrets, fields, allow, key)

    def get(self, job: Job, shared: SharedTerms) -> JobTemplate:
        """The template of a job whose `client_id` has been removed."""
        text = _encode_ordered(job)
        if len(text) > JOB_BYTES_MAX:
            detail = f"has {len(text)} bytes; at most {JOB_BYTES_MAX} are allowed"
            return replace(self.get(Job(), _NOT_SHARED), errors=(FieldError("", detail),))
        key = shared.key + text
        template = self._templates.get(key)
        if template is None:
            template = self._make(job, shared, text)
            if not template.errors and not template.shared:
                self._templates.put(key, template, 2 * len(key) + ENTRY_BYTES)
        return template

    def _make(self, given: Job, shared: SharedTerms, text: bytes) -> JobTemplate:
        defaults = shared.defaults
        job = given if defaults is None else apply_defaults(given, defaults)
        found: list[FieldError] = []
        own_spec = get_pod_spec(job)
        if own_spec is not None:
            pod = self._read_pod_spec(job, own_spec, shared.secrets, found)
            canonical_job = rest = _encode_ordered(replace(job, pod_spec=UNSET))
        else:
            pod = self._make_pod(job, shared.secrets, found)
            terms_only = replace(
                job, pod_spec=UNSET, image=None, command=None, env=None, working_dir=None
            )
            rest = _encode_ordered(terms_only)
            as_given = defaults is None and given.pod_spec is UNSET
            if pod.canonical:  # secret values are sealed there
                canonical_job = _encode_ordered(replace(job, pod_spec=UNSET, env=None))
            else:
                canonical_job = text if as_given else _encode_ordered(replace(job, pod_spec=UNSET))
        terms = self._get_terms(job, pod, shared, rest)
        if shared.allow is not None and not found:
            document = cast(_Object, msgspec.json.decode(pod.spec))
            found += policy.check_allowed(shared.allow, terms.event.namespace, document)
        found += terms.errors
        own, common = _split_by_origin(found, given, defaults) if found else ((), ())
        return JobTemplate(
            event=replace(
                terms.event, spec=Raw(pod.spec), digest=_make_digest(canonical_job, pod.canonical)
            ),
            size=terms.size + len(pod.spec),
            after=terms.after,
            errors=own,
            shared=common,
        )

    def _get_terms(self, job: Job, pod: _Pod, shared: SharedTerms, rest: bytes) -> JobTerms:
        """The terms, perhaps from the cache. `rest`: the encoded fields besides the pod."""
        key = (shared.key, pod.key, rest)
        cached = self._terms.get(key)
        if cached is not None:
            return cached
        shape = pod.demand.shape
        if pod.key is not None and shared.allow is not None and shared.allow.nodes is not None:
            shape = policy.restrict_to_nodes(shape, shared.allow.nodes)
        made = job_terms.read_terms(job, pod.demand, shape, self._policy)
        if pod.key is not None and not made.errors:
            self._terms.put(key, made, 2 * (len(pod.key) + len(rest)) + ENTRY_BYTES)
        return made

    def _read_pod_spec(
        self, job: Job, text: bytes, secrets: QueueSecrets | None, found: list[FieldError]
    ) -> _Pod:
        if len(text) > self._limits.pod_spec_bytes_max:
            found.append(
                FieldError(
                    "/podSpec",
                    f"has {len(text)} bytes; at most {self._limits.pod_spec_bytes_max} are allowed",
                )
            )
            return _NOTHING
        key = pod_spec.make_cache_key(text)
        demand = self._get_demand(key, text, job.priority_class)
        if demand.errors:
            found += [
                FieldError(f"/podSpec{error.pointer}", error.detail) for error in demand.errors
            ]
            return _Pod(demand, b"{}", b"", None)
        try:
            document = cast(_Object, decoding.parse_json(text))
            if _is_deep(text, document):
                found.append(
                    FieldError("/podSpec", f"is nested more than {validation.DEPTH_MAX} deep")
                )
                return _NOTHING
            canonical = _encode_ordered(document)
            if not decoding.has_all_names(text, canonical) and (
                repeated := decoding.find_repeated_names(text)
            ):
                found += [
                    FieldError(f"/podSpec{error.pointer}", error.detail) for error in repeated
                ]
                return _NOTHING
            if secrets is not None and secret_variables.may_contain_secrets(canonical):
                wrong: list[FieldError] = []
                secret_variables.seal_values(document, secrets, wrong)
                canonical = _encode_ordered(document)
                of_cluster = self._policy.job_defaults.cluster_secrets
                secret_variables.resolve_references(document, secrets, wrong, of_cluster=of_cluster)
                if wrong:
                    found += [FieldError(f"/podSpec{item.pointer}", item.detail) for item in wrong]
                    return _NOTHING
            spec = _encode(pod_spec.complete_pod_spec(document, demand))
            return _Pod(demand, spec, canonical, key)
        except ValueError as error:
            found.append(FieldError("/podSpec", f"is not valid: {error}"))
            return _NOTHING

    def _get_demand(
        self, key: bytes | None, text: bytes, priority_class: str | None
    ) -> pod_spec.PodDemand:
        if key is None:
            return pod_spec.read_pod_spec(text, priority_class, self._defaults)
        demand = self._demands.get((key, priority_class))
        if demand is None:
            demand = pod_spec.read_pod_spec(text, priority_class, self._defaults)
            self._demands.put((key, priority_class), demand, 2 * len(text) + ENTRY_BYTES)
        return demand

    def _make_pod(self, job: Job, secrets: QueueSecrets | None, found: list[FieldError]) -> _Pod:
        variables: list[_Object] | None = None
        canonical = b""
        if job.command is not None:
            if not job.command:
                found.append(FieldError("/command", "is empty"))
        elif job.image is None:
            found.append(FieldError("", "has nothing to run; set podSpec, command or image"))
        if job.env:
            _check_environment(job.env, found)
            variables, canonical = _make_environment(job.env, secrets, found)
        directory = job.working_dir
        if directory is not None and (not directory.startswith("/") or "\0" in directory):
            found.append(FieldError("/workingDir", "is not an absolute path"))
        demand = self._get_short_demand(job)
        if demand.errors:
            found += [
                FieldError(_short_pointer(item.pointer), item.detail) for item in demand.errors
            ]
        spec = pod_spec.encode_short_form(job, variables, demand)
        if len(spec) > self._limits.pod_spec_bytes_max:
            found.append(
                FieldError(
                    "",
                    f"has a pod spec of {len(spec)} bytes;"
                    f" at most {self._limits.pod_spec_bytes_max} are allowed",
                )
            )
        return _Pod(demand, spec, canonical, b"")

    def _get_short_demand(self, job: Job) -> pod_spec.PodDemand:
        key = (job.cpu, job.memory, job.gpu, job.priority_class)
        demand = self._demands.get(key)
        if demand is None:
            asked = {
                resource: quantity
                for field, resource in _SHORT_RESOURCES.items()
                if (quantity := getattr(job, field)) is not None
            }
            text = msgspec.json.encode({"containers": [{"resources": {"requests": asked}}]})
            demand = pod_spec.read_pod_spec(text, job.priority_class, self._defaults)
            self._demands.put(key, demand, 2 * len(text) + ENTRY_BYTES)
        return demand


_NOT_SHARED: Final = SharedTerms(secrets=None)
_NO_SHORT_FORM: Final = (None,) * len(SHORT_FORM)
_NOTHING: Final = _Pod(pod_spec.PodDemand(()), b"{}", b"", None)


def _given_fields(job: Job) -> Defaults:
    fields = ((name, getattr(job, name)) for name in job.__struct_fields__)
    return tuple(
        (name, value) for name, value in fields if value is not None and value is not UNSET
    )


def apply_defaults(job: Job, defaults: Defaults) -> Job:
    """`job` with `defaults` for the fields that it does not set: labels, annotations, env by key.

    A job with a pod spec takes no field of the short form from the defaults, and vice versa.
    """
    own_spec = get_pod_spec(job) is not None
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
    names = [item.name or "" for item in env] if isinstance(env, list) else env
    if not any(map(name_rules.check_variable_name, names)):
        return
    for index, name in enumerate(names):
        if detail := name_rules.check_variable_name(name):
            place = f"{index}/name" if isinstance(env, list) else validation.escape_pointer(name)
            found.append(FieldError(f"/env/{place}", detail))


def _make_environment(
    env: Env, secrets: QueueSecrets | None, found: list[FieldError]
) -> tuple[list[_Object], bytes]:
    """The variables of the container, and their canonical form if it is not the given one."""
    entries = secret_variables.make_entries(env)
    if secrets is None:
        return entries, b"" if isinstance(env, dict) else _encode_ordered(entries)
    text = _encode_ordered(entries)
    if not secret_variables.may_contain_secrets(text):
        return entries, b"" if isinstance(env, dict) else text
    wrong: list[FieldError] = []
    document = {"containers": [{"env": entries}]}
    secret_variables.seal_values(document, secrets, wrong)
    canonical = _encode_ordered(entries)
    secret_variables.resolve_references(document, secrets, wrong)
    names = None if isinstance(env, list) else list(env)
    for item in wrong:
        _, _, _, _, number, *rest = item.pointer.split("/")
        place = number if names is None else validation.escape_pointer(names[int(number)])
        found.append(FieldError("/".join(["/env", place, *rest]), item.detail))
    return entries, canonical


def _is_deep(text: bytes, document: object) -> bool:
    brackets = text.count(b"{") + text.count(b"[")
    return (
        brackets > validation.DEPTH_MAX
        and validation.measure_depth(document) > validation.DEPTH_MAX
    )


def _short_pointer(pointer: str) -> str:
    """The pointer in the short form for a pointer in the pod spec that is made of it."""
    resource = pointer.rpartition("/")[2].replace("~1", "/")
    for field, name in _SHORT_RESOURCES.items():
        if name == resource:
            return f"/{field}"
    return ""


def _make_digest(canonical_job: bytes, canonical: bytes) -> str:
    """The digest of the job and its pod spec as given, independent of the order of keys."""
    digest = _EMPTY_DIGEST.copy()  # faster than a new one
    digest.update(b"%b\0%b" % (canonical_job, canonical))
    return digest.hexdigest()


def _split_by_origin(
    found: list[FieldError], given: Job, defaults: Defaults | None
) -> tuple[tuple[FieldError, ...], tuple[FieldError, ...]]:
    """The errors of the job itself, and those in the request's `defaults`."""
    own = [item for item in found if defaults is None or _is_own(item.pointer, given)]
    shared = [
        FieldError(f"/defaults{item.pointer}", item.detail) for item in found if item not in own
    ]
    return tuple(own), tuple(shared)


def _is_own(pointer: str, given: Job) -> bool:
    """Whether the pointer is of a field that the job itself sets, not the `defaults`."""
    parts = pointer.split("/")
    value = getattr(given, _FIELDS.get(parts[1], "client_id")) if len(parts) > 1 else given
    if isinstance(value, dict) and len(parts) > 2:
        return parts[2].replace("~1", "/").replace("~0", "~") in value
    return value is not None and value is not UNSET
