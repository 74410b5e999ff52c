"""Pod specs: their resource requests, their shape, and the spec completed with defaults.

Only the fields in `pod_fields.py` are read; all others pass to the cluster without a check.
The effective request is the rule of Kubernetes (KEP-753): the sum over containers and sidecars
(init containers with `restartPolicy: Always`), at least the largest init container counted with
the sidecars that start before it, plus the overhead. Without a request, it is the limit.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests import decoding, validation
from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_submit.domain.pods.pod_fields import (
    Affinity,
    Pod,
    PodText,
    Requirement,
    Resources,
    SelectorTerm,
    Toleration,
)
from fairlead_submit.domain.policy import JobDefaults
from fairlead_submit.domain.request_types import Amount, Job

GRACE_S_MAX: Final = 300
QUANTITY_LENGTH_MAX: Final = 64
RESOURCE_LENGTH_MAX: Final = 317

_Object = dict[str, object]
Document = dict[str, Any]
"""A pod spec as JSON. Only the parts that are read here have been validated."""


class FilledResources(msgspec.Struct, frozen=True):
    """The completed resources of a container, also as JSON."""

    requests: Mapping[str, Amount]
    limits: Mapping[str, Amount]
    text: Raw


class PodDemand(msgspec.Struct, frozen=True):
    """What Fairlead uses of a pod. `completed`: for each container, then each init container.

    `tolerations` are to be added to the pod's own. Pointers of `errors` begin at the pod spec.
    """

    errors: tuple[FieldError, ...]
    requests: Mapping[str, int] = {}
    shape: Raw = Raw(b"{}")
    completed: tuple[FilledResources, ...] = ()
    tolerations: tuple[_Object, ...] = ()
    grace_s: int = 1
    deadline_s: int | None = None
    priority_class: str | None = None


_AMOUNTS: Final = frozenset({"requests", "limits"})
_text_decoder: Final = msgspec.json.Decoder(PodText)
_text_encoder: Final = msgspec.json.Encoder()
_pod_decoder: Final = msgspec.json.Decoder(Pod)
_order_encoder: Final = msgspec.json.Encoder(order="deterministic")


def make_cache_key(spec: bytes) -> bytes | None:
    """The text that the demand depends on; None for a spec that is not valid."""
    try:
        return _text_encoder.encode(_text_decoder.decode(spec))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def read_pod_spec(spec: bytes, priority_class: str | None, defaults: JobDefaults) -> PodDemand:
    """The demand of a pod spec; `priority_class` is that of the job, if it has one."""
    known: list[FieldError] = []
    try:
        pod = _pod_decoder.decode(spec)
    except (msgspec.ValidationError, RecursionError, UnicodeDecodeError):
        try:
            document = decoding.parse_json(spec)
        except ValueError as error:
            return PodDemand((FieldError("", f"cannot be read: {error}"),))
        known, cleaned = validation.validate_document(document, Pod)
        if not isinstance(document, dict):
            return PodDemand(tuple(known))
        pod = msgspec.convert(cleaned if cleaned is not None else {}, Pod)
    demand = _read_demand(pod, priority_class, defaults)
    return msgspec.structs.replace(
        demand, errors=(*known, *validation.without_implied(demand.errors, known))
    )


def _read_demand(pod: Pod, priority_class: str | None, defaults: JobDefaults) -> PodDemand:
    found: list[FieldError] = []
    if not pod.containers:
        found.append(FieldError("/containers", "has no container; at least one is required"))
    pod_level = _read_resources(pod.resources, "/resources", {}, found)[0]
    implied = {name: text for name, text in defaults.requests.items() if name not in pod_level}
    completed: list[FilledResources] = []
    apps: list[Mapping[str, int]] = []
    inits: list[tuple[Mapping[str, int], bool]] = []
    for index, container in enumerate(pod.containers or ()):
        at = f"/containers/{index}/resources"
        amounts, filled = _read_resources(container.resources, at, implied, found)
        apps.append(amounts)
        completed.append(filled)
    for index, container in enumerate(pod.init_containers or ()):
        at = f"/initContainers/{index}/resources"
        amounts, filled = _read_resources(container.resources, at, {}, found)
        inits.append((amounts, container.restart_policy == "Always"))
        completed.append(filled)
    overhead = _read_overhead(pod, defaults, found)
    requests = compute_effective_request(apps, inits, overhead, pod_level)
    name = priority_class or pod.priority_class_name
    if priority_class and pod.priority_class_name not in (None, priority_class):
        found.append(
            FieldError(
                "/priorityClassName",
                f"is {validation.quote(pod.priority_class_name)}, but `priorityClass` of the job is"
                f" {validation.quote(priority_class)}",
            )
        )
    added = _added_tolerations(name or defaults.priority_class, requests, defaults)
    return PodDemand(
        requests=requests,
        shape=shapes.encode(_make_shape(pod, requests, added, found)),
        completed=tuple(completed),
        tolerations=tuple(cast(_Object, msgspec.to_builtins(item)) for item in added),
        grace_s=_read_grace_s(pod, found),
        deadline_s=pod.active_deadline_seconds,
        priority_class=name,
        errors=tuple(found),
    )


def _read_overhead(pod: Pod, defaults: JobDefaults, found: list[FieldError]) -> dict[str, int]:
    """What the pod uses besides its containers: its overhead, and the devices of its claims.

    The API server adds the overhead of a runtime class to a pod that has none.
    """
    of_class = defaults.overhead_by_runtime_class.get(pod.runtime_class_name or "")
    total = _parse_amounts(pod.overhead or of_class, "/overhead", found)
    for index, claim in enumerate(pod.resource_claims or ()):
        name = claim.resource_claim_template_name or claim.resource_claim_name or ""
        amounts = defaults.requests_by_claim.get(name)
        for resource, amount in _parse_amounts(amounts, f"/resourceClaims/{index}", found).items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _read_grace_s(pod: Pod, found: list[FieldError]) -> int:
    grace_s = pod.termination_grace_period_seconds or 1
    if not 1 <= grace_s <= GRACE_S_MAX:
        found.append(
            FieldError(
                "/terminationGracePeriodSeconds",
                f"is {validation.quote(grace_s)}; 1 to {GRACE_S_MAX} is allowed",
            )
        )
        return 1
    return grace_s


def parse_amount(resource: str, quantity: Amount) -> int | str:
    """The amount in the unit of the resource, or what is wrong with the quantity."""
    if isinstance(quantity, str) and len(quantity) > QUANTITY_LENGTH_MAX:
        return f"has {len(quantity)} characters; at most {QUANTITY_LENGTH_MAX} are allowed"
    if not resource or len(resource) > RESOURCE_LENGTH_MAX or not resource.isprintable():
        return "is not a valid resource name"
    return _parse_cached_amount(resource, quantity)


@lru_cache(maxsize=65_536)
def _parse_cached_amount(resource: str, quantity: Amount) -> int | str:
    try:
        return quantities.parse_quantity(resource, quantity, round_up=True)
    except ValueError as error:
        return str(error)


def _parse_amounts(
    quantities: Mapping[str, Amount] | None, at: str, found: list[FieldError]
) -> dict[str, int]:
    """Resource -> amount. A quantity that is not valid is an error and counts as nothing."""
    amounts: dict[str, int] = {}
    for name, quantity in (quantities or {}).items():
        parsed = parse_amount(name, quantity)
        if isinstance(parsed, str):
            found.append(FieldError(f"{at}/{validation.escape_pointer(name)}", parsed))
        else:
            amounts[name] = parsed
    return amounts


def _read_resources(
    given: Resources | None, at: str, implied: Mapping[str, str], found: list[FieldError]
) -> tuple[dict[str, int], FilledResources]:
    """The requests of a container, and its completed requests and limits."""
    own = given or Resources()
    requests = _parse_amounts(own.requests, f"{at}/requests", found)
    limits = _parse_amounts(own.limits, f"{at}/limits", found)
    for name in limits.keys() & requests.keys():
        if limits[name] < requests[name]:
            assert own.limits is not None
            assert own.requests is not None
            found.append(
                FieldError(
                    f"{at}/limits/{validation.escape_pointer(name)}",
                    f"is {own.limits[name]}, less than the request of {own.requests[name]}",
                )
            )
    texts: dict[str, Amount] = {**implied, **(own.limits or {}), **(own.requests or {})}
    for name in texts.keys() - requests.keys():
        parsed = limits.get(name, parse_amount(name, texts[name]))
        if isinstance(parsed, int):
            requests[name] = parsed
    bounds = {**texts, **(own.limits or {})}
    text = msgspec.json.encode({"requests": texts, "limits": bounds})
    return requests, FilledResources(texts, bounds, Raw(text))


def compute_effective_request(
    apps: Sequence[Mapping[str, int]],
    inits: Sequence[tuple[Mapping[str, int], bool]],
    overhead: Mapping[str, int],
    pod_level: Mapping[str, int],
) -> dict[str, int]:
    """What the pod uses of a node. `inits`: in order, each with whether it is a sidecar.

    Requests of the pod as a whole (`pod_level`) replace the sums (KEP-2837).
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for amounts, is_sidecar in inits:
        for name in running.keys() | amounts.keys():
            total_at_start = running.get(name, 0) + amounts.get(name, 0)
            peak[name] = max(peak.get(name, 0), total_at_start)
            if is_sidecar:
                running[name] = total_at_start
    for amounts in apps:
        for name, amount in amounts.items():
            running[name] = running.get(name, 0) + amount
    names = running.keys() | peak.keys() | overhead.keys() | pod_level.keys()
    total = {
        name: pod_level.get(name, max(running.get(name, 0), peak.get(name, 0)))
        + overhead.get(name, 0)
        for name in sorted(names)
    }
    return {name: taken for name, taken in total.items() if taken > 0}


def _added_tolerations(
    priority_class: str, requests: Mapping[str, int], defaults: JobDefaults
) -> list[shapes.Toleration]:
    added = list(defaults.tolerations_by_class.get(priority_class, ()))
    for name, tolerations in defaults.tolerations_by_resource.items():
        if name in requests:
            added += tolerations
    return added


def _make_shape(
    pod: Pod, requests: Mapping[str, int], added: list[shapes.Toleration], found: list[FieldError]
) -> shapes.Shape:
    """The canonical shape: where the order has no meaning, sorted and without duplicates."""
    tolerations = [_normalize_toleration(item) for item in pod.tolerations or ()]
    for index, toleration in enumerate(tolerations):
        _check_toleration(toleration, f"/tolerations/{index}", found)
    return shapes.Shape(
        requests=dict(requests),
        node_selector=pod.node_selector or {},
        affinity=tuple(_sort_distinct(_read_terms(pod.affinity, found))),
        tolerations=tuple(
            _sort_distinct([*tolerations, *(_normalize_toleration(item) for item in added)])
        ),
        preferred=tuple(_sort_distinct(_read_preferred(pod.affinity, found))),
    )


def _normalize_toleration(given: Toleration | shapes.Toleration) -> shapes.Toleration:
    """The toleration without default values, so that equal ones have the same encoding."""
    values = {name: getattr(given, name) for name in ("key", "operator", "value", "effect")}
    return shapes.Toleration(
        **{name: text for name, text in values.items() if text and (name, text) != _EQUAL}
    )


_EQUAL: Final = ("operator", "Equal")
_EMPTY: Final = shapes.SelectorTerm()
T = TypeVar("T", shapes.Toleration, shapes.SelectorTerm, shapes.Requirement, shapes.Preference)


def _sort_distinct(items: Sequence[T]) -> list[T]:
    by_text = {_order_encoder.encode(item): item for item in items}
    return [by_text[text] for text in sorted(by_text)]


def _check_toleration(toleration: shapes.Toleration, at: str, found: list[FieldError]) -> None:
    if toleration.operator not in ("Equal", "Exists", "Gt", "Lt"):
        found.append(FieldError(f"{at}/operator", "must be Equal, Exists, Gt or Lt"))
    elif toleration.operator == "Exists" and toleration.value:
        found.append(FieldError(f"{at}/value", "is not allowed with the operator Exists"))
    elif not toleration.key and toleration.operator != "Exists":
        found.append(
            FieldError(f"{at}/key", "is missing; it is required unless the operator is Exists")
        )
    if toleration.effect not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        found.append(
            FieldError(f"{at}/effect", "must be NoSchedule, PreferNoSchedule or NoExecute")
        )


_TERMS_AT: Final = (
    "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
)
_PREFERRED_AT: Final = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution"


def _read_terms(affinity: Affinity | None, found: list[FieldError]) -> list[shapes.SelectorTerm]:
    if not affinity or not affinity.node_affinity or not affinity.node_affinity.required:
        return []
    given = affinity.node_affinity.required.node_selector_terms
    if not given:
        found.append(FieldError(_TERMS_AT, "has no term; at least one is required"))
        return []
    return [_read_term(term, f"{_TERMS_AT}/{index}", found) for index, term in enumerate(given)]


def _read_preferred(affinity: Affinity | None, found: list[FieldError]) -> list[shapes.Preference]:
    """The preferred terms with their weights, added up for equal terms; empty terms are dropped."""
    if not affinity or not affinity.node_affinity or not affinity.node_affinity.preferred:
        return []
    weights: Counter[shapes.SelectorTerm] = Counter()
    for index, preferred in enumerate(affinity.node_affinity.preferred):
        term = _read_term(preferred.preference, f"{_PREFERRED_AT}/{index}/preference", found)
        if term != _EMPTY:
            weights[term] += preferred.weight
    return [shapes.Preference(weight, term) for term, weight in weights.items()]


def _read_term(given: SelectorTerm, at: str, found: list[FieldError]) -> shapes.SelectorTerm:
    expressions = _read_requirements(given.match_expressions, f"{at}/matchExpressions", found)
    fields = _read_requirements(given.match_fields, f"{at}/matchFields", found)
    return shapes.SelectorTerm(tuple(expressions), tuple(fields))


def _read_requirements(
    given: Sequence[Requirement] | None, at: str, found: list[FieldError]
) -> list[shapes.Requirement]:
    made = []
    for index, item in enumerate(given or ()):
        values = item.values or []
        detail = _check_requirement(item.operator, values)
        if detail is not None:
            found.append(FieldError(f"{at}/{index}", detail))
        made.append(shapes.Requirement(item.key, item.operator, tuple(sorted(set(values)))))
    return _sort_distinct(made)


def _check_requirement(operator: str, values: Sequence[str]) -> str | None:
    match operator:
        case "In" | "NotIn":
            return (
                None if values else f"has no values; the operator {operator} requires at least one"
            )
        case "Exists" | "DoesNotExist":
            return f"has values; the operator {operator} takes none" if values else None
        case "Gt" | "Lt":
            whole = len(values) == 1 and values[0].removeprefix("-").isdecimal()
            return (
                None if whole else f"must have one integer as its value; the operator is {operator}"
            )
        case _:
            return f"has the operator {validation.quote(operator)}, which Kubernetes does not have"


def complete_pod_spec(document: Document, demand: PodDemand) -> Document:
    """The pod spec that is sent to the cluster: `document`, changed in place."""
    number = 0
    for field in ("containers", "initContainers"):
        for container in document.get(field) or ():
            filled = demand.completed[number]
            if not container.get("name"):
                container["name"] = f"c{number}" if number else "main"
            given = container.get("resources")
            if given and not given.keys() <= _AMOUNTS:
                own = {"requests": filled.requests, "limits": filled.limits}
                container["resources"] = {**given, **own}
            elif filled.requests or filled.limits:
                container["resources"] = filled.text
            number += 1
    assert number == len(demand.completed), "every container was read"
    if demand.tolerations:
        document["tolerations"] = [*(document.get("tolerations") or ()), *demand.tolerations]
    document.pop("priorityClassName", None)
    document["terminationGracePeriodSeconds"] = demand.grace_s
    document["restartPolicy"] = document.get("restartPolicy") or "Never"
    return document


class _ShortContainer(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    name: str
    image: str | None = None
    command: list[str] | None = None
    env: list[_Object] | None = None
    working_dir: str | None = None
    resources: Raw | UnsetType = UNSET


class _ShortPodSpec(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    containers: tuple[_ShortContainer]
    termination_grace_period_seconds: int
    restart_policy: str
    tolerations: tuple[_Object, ...] = ()


def encode_short_form(job: Job, variables: list[_Object] | None, demand: PodDemand) -> bytes:
    """The completed pod spec of a job in the short form; `variables`: its environment."""
    filled = demand.completed[0]
    resources = filled.text if filled.requests or filled.limits else UNSET
    container = _ShortContainer(
        "main", job.image, job.command, variables, job.working_dir, resources
    )
    return _text_encoder.encode(
        _ShortPodSpec((container,), demand.grace_s, "Never", demand.tolerations)
    )
