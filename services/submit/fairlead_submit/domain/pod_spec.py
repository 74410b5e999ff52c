"""Pod specs: what a pod asks for, where it may run, and the spec with its defaults filled in.

Only the fields below are read; everything else passes through unchecked to the cluster. Pure.
The effective request is the rule of Kubernetes (KEP-753): the sum over containers and sidecars
(init containers with `restartPolicy: Always`), at least the largest init container counted with
the sidecars that start before it, plus the overhead; a limit is a request where none is said.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from fairlead_common.domain import quantities, shapes
from fairlead_common.domain.errors import FieldError
from fairlead_submit.domain import validation as faults
from fairlead_submit.domain.policy import JobDefaults
from fairlead_submit.domain.request_types import Amount

GRACE_S_MAX: Final = 300
CONTAINERS_MAX: Final = 100
TERMS_MAX: Final = 100
QUANTITY_LENGTH_MAX: Final = 64
RESOURCE_LENGTH_MAX: Final = 317

Quantities = dict[str, Amount]
_Object = dict[str, object]
Document = dict[str, Any]
"""A pod spec as JSON, of which only the parts that are read here are known to be as they should."""


class _Read(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """A part that is read; unknown fields are left alone, and null is as good as absent."""


class Resources(_Read, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(_Read, frozen=True):
    name: str | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class Requirement(_Read, frozen=True):
    key: str
    operator: str
    values: Annotated[list[str], Meta(max_length=1_000)] | None = None


class SelectorTerm(_Read, frozen=True):
    match_expressions: Annotated[list[Requirement], Meta(max_length=TERMS_MAX)] | None = None
    match_fields: Annotated[list[Requirement], Meta(max_length=TERMS_MAX)] | None = None


class NodeSelector(_Read, frozen=True):
    node_selector_terms: Annotated[list[SelectorTerm], Meta(max_length=TERMS_MAX)] | None = None


class PreferredTerm(_Read, frozen=True):
    weight: Annotated[int, Meta(ge=1, le=100)]
    preference: SelectorTerm


class NodeAffinity(_Read, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: Annotated[list[PreferredTerm], Meta(max_length=TERMS_MAX)] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_Read, frozen=True):
    node_affinity: NodeAffinity | None = None


class Toleration(_Read, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


_Containers = Annotated[list[Container], Meta(max_length=CONTAINERS_MAX)]


class Pod(_Read, frozen=True):
    """The fields of a pod spec that are read."""

    containers: _Containers | None = None
    init_containers: _Containers | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: Annotated[list[Toleration], Meta(max_length=TERMS_MAX)] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None
    priority_class_name: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: Annotated[int, Meta(ge=1)] | None = None


class _ContainerText(_Read, frozen=True):
    resources: Raw | UnsetType = UNSET
    restart_policy: str | None = None


class _PodText(_Read, frozen=True):
    """The same parts as texts: pods that are equal in them are read once."""

    containers: list[_ContainerText] | None = None
    init_containers: list[_ContainerText] | None = None
    node_selector: Raw | UnsetType = UNSET
    affinity: Raw | UnsetType = UNSET
    tolerations: Raw | UnsetType = UNSET
    overhead: Raw | UnsetType = UNSET
    resources: Raw | UnsetType = UNSET
    priority_class_name: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class Filled(msgspec.Struct, frozen=True):
    """The resources of a container with nothing left open, and as JSON."""

    requests: Mapping[str, Amount]
    limits: Mapping[str, Amount]
    text: Raw


class Demand(msgspec.Struct, frozen=True):
    """What is read of a pod. `completed`: of each container, then of each init container.

    `tolerations` are those to be added. Pointers of faults begin at the pod spec.
    """

    faults: tuple[FieldError, ...]
    requests: Mapping[str, int] = {}
    shape: Raw = Raw(b"{}")
    completed: tuple[Filled, ...] = ()
    tolerations: tuple[_Object, ...] = ()
    grace_s: int = 1
    deadline_s: int | None = None
    priority_class: str | None = None


_AMOUNTS: Final = frozenset({"requests", "limits"})
_text_decoder: Final = msgspec.json.Decoder(_PodText)
_text_encoder: Final = msgspec.json.Encoder()
_pod_decoder: Final = msgspec.json.Decoder(Pod)
_order_encoder: Final = msgspec.json.Encoder(order="deterministic")


def key_of(spec: bytes) -> bytes | None:
    """What `read` depends on; None for a spec that is not as it should be."""
    try:
        return _text_encoder.encode(_text_decoder.decode(spec))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def read(spec: bytes, priority_class: str | None, defaults: JobDefaults) -> Demand:
    """What this pod asks for; `priority_class` is the job's own word, if it has one."""
    known: list[FieldError] = []
    try:
        pod = _pod_decoder.decode(spec)
    except (msgspec.ValidationError, RecursionError, UnicodeDecodeError):
        try:
            document = faults.parse(spec)
        except ValueError as error:
            return Demand((FieldError("", f"cannot be read: {error}"),))
        known, kept = faults.examine(document, Pod)
        if not isinstance(document, dict):
            return Demand(tuple(known))
        pod = msgspec.convert(kept if kept is not None else {}, Pod)
    demand = _demand(pod, priority_class, defaults)
    return msgspec.structs.replace(demand, faults=(*known, *faults.further(demand.faults, known)))


def _demand(pod: Pod, priority_class: str | None, defaults: JobDefaults) -> Demand:
    found: list[FieldError] = []
    if not pod.containers:
        found.append(FieldError("/containers", "has no container; at least one is needed"))
    pod_level = _amounts(pod.resources, "/resources", {}, found)[0]
    implied = {name: text for name, text in defaults.requests.items() if name not in pod_level}
    completed: list[Filled] = []
    apps: list[Mapping[str, int]] = []
    inits: list[tuple[Mapping[str, int], bool]] = []
    for index, container in enumerate(pod.containers or ()):
        at = f"/containers/{index}/resources"
        amounts, filled = _amounts(container.resources, at, implied, found)
        apps.append(amounts)
        completed.append(filled)
    for index, container in enumerate(pod.init_containers or ()):
        at = f"/initContainers/{index}/resources"
        amounts, filled = _amounts(container.resources, at, {}, found)
        inits.append((amounts, container.restart_policy == "Always"))
        completed.append(filled)
    overhead = _parsed(pod.overhead, "/overhead", found)
    requests = effective_request(apps, inits, overhead, pod_level)
    name = priority_class or pod.priority_class_name
    if priority_class and pod.priority_class_name not in (None, priority_class):
        found.append(
            FieldError(
                "/priorityClassName",
                f"is {faults.shown(pod.priority_class_name)}, but the job's priorityClass is"
                f" {faults.shown(priority_class)}",
            )
        )
    added = _added_tolerations(name or defaults.priority_class, requests, defaults)
    return Demand(
        requests=requests,
        shape=shapes.encode(_shape(pod, requests, added, found)),
        completed=tuple(completed),
        tolerations=tuple(cast(_Object, msgspec.to_builtins(item)) for item in added),
        grace_s=_grace_s(pod, found),
        deadline_s=pod.active_deadline_seconds,
        priority_class=name,
        faults=tuple(found),
    )


def _grace_s(pod: Pod, found: list[FieldError]) -> int:
    grace_s = pod.termination_grace_period_seconds or 1
    if not 1 <= grace_s <= GRACE_S_MAX:
        found.append(
            FieldError(
                "/terminationGracePeriodSeconds",
                f"is {faults.shown(grace_s)}; from 1 to {GRACE_S_MAX} is allowed",
            )
        )
        return 1
    return grace_s


def amount(resource: str, quantity: Amount) -> int | str:
    """The amount in the resource's fixed unit, or what is wrong with the quantity."""
    if isinstance(quantity, str) and len(quantity) > QUANTITY_LENGTH_MAX:
        return f"is a text of {len(quantity)} characters, not a quantity"
    if not resource or len(resource) > RESOURCE_LENGTH_MAX or not resource.isprintable():
        return "is no name of a resource"
    return _amount(resource, quantity)


@lru_cache(maxsize=65_536)
def _amount(resource: str, quantity: Amount) -> int | str:
    try:
        return quantities.parse_quantity(resource, quantity, round_up=True)
    except ValueError as error:
        return str(error)


def _parsed(quantities: Quantities | None, at: str, found: list[FieldError]) -> dict[str, int]:
    """Resource -> amount; what cannot be read is a fault and counts as nothing."""
    amounts: dict[str, int] = {}
    for name, quantity in (quantities or {}).items():
        parsed = amount(name, quantity)
        if isinstance(parsed, str):
            found.append(FieldError(f"{at}/{faults.escape(name)}", parsed))
        else:
            amounts[name] = parsed
    return amounts


def _amounts(
    given: Resources | None, at: str, implied: Mapping[str, str], found: list[FieldError]
) -> tuple[dict[str, int], Filled]:
    """What a container asks for, and its requests and limits with nothing left open."""
    asked = given or Resources()
    requests = _parsed(asked.requests, f"{at}/requests", found)
    limits = _parsed(asked.limits, f"{at}/limits", found)
    for name in limits.keys() & requests.keys():
        if limits[name] < requests[name]:
            assert asked.limits is not None
            assert asked.requests is not None
            found.append(
                FieldError(
                    f"{at}/limits/{faults.escape(name)}",
                    f"is {asked.limits[name]}, less than the request of {asked.requests[name]}",
                )
            )
    texts: dict[str, Amount] = {**implied, **(asked.limits or {}), **(asked.requests or {})}
    for name in texts.keys() - requests.keys():
        parsed = limits.get(name, amount(name, texts[name]))
        if isinstance(parsed, int):
            requests[name] = parsed
    bounds = {**texts, **(asked.limits or {})}
    text = msgspec.json.encode({"requests": texts, "limits": bounds})
    return requests, Filled(texts, bounds, Raw(text))


def effective_request(
    apps: Sequence[Mapping[str, int]],
    inits: Sequence[tuple[Mapping[str, int], bool]],
    overhead: Mapping[str, int],
    pod_level: Mapping[str, int],
) -> dict[str, int]:
    """What the pod takes of a node. `inits`: in order, each with whether it is a sidecar.

    Amounts said for the pod as a whole take the place of the sums (KEP-2837).
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for amounts, is_sidecar in inits:
        for name in running.keys() | amounts.keys():
            beside = running.get(name, 0) + amounts.get(name, 0)
            peak[name] = max(peak.get(name, 0), beside)
            if is_sidecar:
                running[name] = beside
    for amounts in apps:
        for name, asked in amounts.items():
            running[name] = running.get(name, 0) + asked
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


def _shape(
    pod: Pod, requests: Mapping[str, int], added: list[shapes.Toleration], found: list[FieldError]
) -> shapes.Shape:
    """The canonical shape: what may stand in any order is sorted, what is twice is there once."""
    tolerations = [_toleration(item) for item in pod.tolerations or ()]
    for index, toleration in enumerate(tolerations):
        _check_toleration(toleration, f"/tolerations/{index}", found)
    return shapes.Shape(
        requests=dict(requests),
        node_selector=pod.node_selector or {},
        affinity=tuple(_sorted(_terms(pod.affinity, found))),
        tolerations=tuple(_sorted([*tolerations, *(_toleration(item) for item in added)])),
        preferred=tuple(_sorted(_preferred(pod.affinity, found))),
    )


def _toleration(given: Toleration | shapes.Toleration) -> shapes.Toleration:
    """With what is as good as absent left out: else equal things would have several texts."""
    said = {name: getattr(given, name) for name in ("key", "operator", "value", "effect")}
    return shapes.Toleration(
        **{name: text for name, text in said.items() if text and (name, text) != _EQUAL}
    )


_EQUAL: Final = ("operator", "Equal")
_EMPTY: Final = shapes.SelectorTerm()
T = TypeVar("T", shapes.Toleration, shapes.SelectorTerm, shapes.Requirement, shapes.Preference)


def _sorted(items: Sequence[T]) -> list[T]:
    by_text = {_order_encoder.encode(item): item for item in items}
    return [by_text[text] for text in sorted(by_text)]


def _check_toleration(toleration: shapes.Toleration, at: str, found: list[FieldError]) -> None:
    if toleration.operator not in ("Equal", "Exists"):
        found.append(FieldError(f"{at}/operator", "is neither Equal nor Exists"))
    elif toleration.operator == "Exists" and toleration.value:
        found.append(FieldError(f"{at}/value", "has no meaning with the operator Exists"))
    elif not toleration.key and toleration.operator != "Exists":
        found.append(FieldError(f"{at}/key", "is missing: only the operator Exists works without"))
    if toleration.effect not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        found.append(
            FieldError(f"{at}/effect", "is none of NoSchedule, PreferNoSchedule and NoExecute")
        )


_TERMS_AT: Final = (
    "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
)
_PREFERRED_AT: Final = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution"


def _terms(affinity: Affinity | None, found: list[FieldError]) -> list[shapes.SelectorTerm]:
    if not affinity or not affinity.node_affinity or not affinity.node_affinity.required:
        return []
    given = affinity.node_affinity.required.node_selector_terms
    if not given:
        found.append(FieldError(_TERMS_AT, "has no term; at least one is needed"))
        return []
    return [_term(term, f"{_TERMS_AT}/{index}", found) for index, term in enumerate(given)]


def _preferred(affinity: Affinity | None, found: list[FieldError]) -> list[shapes.Preference]:
    """Weights of one term add up; a term without anything in it meets nothing."""
    if not affinity or not affinity.node_affinity or not affinity.node_affinity.preferred:
        return []
    weights: Counter[shapes.SelectorTerm] = Counter()
    for index, wish in enumerate(affinity.node_affinity.preferred):
        term = _term(wish.preference, f"{_PREFERRED_AT}/{index}/preference", found)
        if term != _EMPTY:
            weights[term] += wish.weight
    return [shapes.Preference(weight, term) for term, weight in weights.items()]


def _term(given: SelectorTerm, at: str, found: list[FieldError]) -> shapes.SelectorTerm:
    expressions = _requirements(given.match_expressions, f"{at}/matchExpressions", found)
    fields = _requirements(given.match_fields, f"{at}/matchFields", found)
    return shapes.SelectorTerm(tuple(expressions), tuple(fields))


def _requirements(
    given: Sequence[Requirement] | None, at: str, found: list[FieldError]
) -> list[shapes.Requirement]:
    made = []
    for index, item in enumerate(given or ()):
        values = item.values or []
        detail = _requirement_fault(item.operator, values)
        if detail is not None:
            found.append(FieldError(f"{at}/{index}", detail))
        made.append(shapes.Requirement(item.key, item.operator, tuple(sorted(set(values)))))
    return _sorted(made)


def _requirement_fault(operator: str, values: Sequence[str]) -> str | None:
    match operator:
        case "In" | "NotIn":
            return None if values else f"needs values with the operator {operator}"
        case "Exists" | "DoesNotExist":
            return f"takes no values with the operator {operator}" if values else None
        case "Gt" | "Lt":
            whole = len(values) == 1 and values[0].removeprefix("-").isdecimal()
            return None if whole else f"needs one whole number with the operator {operator}"
        case _:
            return f"has the operator {faults.shown(operator)}, which Kubernetes does not know"


def completed(document: Document, demand: Demand) -> Document:
    """The pod spec as it goes to the cluster: `document`, changed in place."""
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
