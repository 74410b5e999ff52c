"""The fields of a pod spec that submit reads; all others pass through without a check."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from fairlead_submit.domain.request_types import Amount

CONTAINERS_MAX: Final = 100
TERMS_MAX: Final = 100

Quantities = dict[str, Amount]


class _PodPart(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """A part of a pod spec. Unknown fields are ignored; null means absent."""


class Resources(_PodPart, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(_PodPart, frozen=True):
    name: str | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class Requirement(_PodPart, frozen=True):
    key: str
    operator: str
    values: Annotated[list[str], Meta(max_length=1_000)] | None = None


class SelectorTerm(_PodPart, frozen=True):
    match_expressions: Annotated[list[Requirement], Meta(max_length=TERMS_MAX)] | None = None
    match_fields: Annotated[list[Requirement], Meta(max_length=TERMS_MAX)] | None = None


class NodeSelector(_PodPart, frozen=True):
    node_selector_terms: Annotated[list[SelectorTerm], Meta(max_length=TERMS_MAX)] | None = None


class PreferredTerm(_PodPart, frozen=True):
    weight: Annotated[int, Meta(ge=1, le=100)]
    preference: SelectorTerm


class NodeAffinity(_PodPart, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: Annotated[list[PreferredTerm], Meta(max_length=TERMS_MAX)] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_PodPart, frozen=True):
    node_affinity: NodeAffinity | None = None


class Toleration(_PodPart, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class PodResourceClaim(_PodPart, frozen=True):
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


_Containers = Annotated[list[Container], Meta(max_length=CONTAINERS_MAX)]


class Pod(_PodPart, frozen=True):
    """The fields of a pod spec that are read."""

    containers: _Containers | None = None
    init_containers: _Containers | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: Annotated[list[Toleration], Meta(max_length=TERMS_MAX)] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None
    runtime_class_name: str | None = None
    resource_claims: Annotated[list[PodResourceClaim], Meta(max_length=TERMS_MAX)] | None = None
    priority_class_name: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: Annotated[int, Meta(ge=1)] | None = None


class ContainerText(_PodPart, frozen=True):
    resources: Raw | UnsetType = UNSET
    restart_policy: str | None = None


class PodText(_PodPart, frozen=True):
    """The same parts as raw JSON: the key under which the demand of a pod is cached."""

    containers: list[ContainerText] | None = None
    init_containers: list[ContainerText] | None = None
    node_selector: Raw | UnsetType = UNSET
    affinity: Raw | UnsetType = UNSET
    tolerations: Raw | UnsetType = UNSET
    overhead: Raw | UnsetType = UNSET
    runtime_class_name: str | None = None
    resource_claims: Raw | UnsetType = UNSET
    resources: Raw | UnsetType = UNSET
    priority_class_name: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
