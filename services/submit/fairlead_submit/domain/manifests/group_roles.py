"""What manifests of groups have in common: roles from pod templates, and the group itself."""

from collections.abc import Sequence

import msgspec

from fairlead_submit.domain.manifests.manifest_fields import ManifestObject
from fairlead_submit.domain.manifests.pod_manifests import Document, Metadata, read_pod


class RoleTemplate(msgspec.Struct, frozen=True):
    """A role as a manifest describes it: `least` is its own minimum, None if it has none.

    `pointer`: where its pod spec is.
    """

    name: str
    count: int
    least: int | None
    template: Document
    pointer: str


class ConvertedGroup(msgspec.Struct, frozen=True):
    """The group that a manifest becomes, in the form of `POST /api/v1/groups`, and its roles."""

    metadata: Metadata
    group: Document
    roles: Sequence[RoleTemplate]


def read_template(parent: ManifestObject) -> Document:
    """Take the pod template of a role; the job that it becomes."""
    if not parent.has("template"):
        parent.refuse_field("template", "is missing")
    return read_pod(parent.open("template"), template=True)[1]


def take_replicas(task: ManifestObject, members_max: int) -> int:
    """Take the number of members of a task, 1 if it is absent, at most `members_max`."""
    count = task.take_count("replicas", "max of the role", least=1)
    if count is not None and count > members_max:
        task.refuse_field("replicas", f"is {count}; a group has at most {members_max} members")
        return 1
    return 1 if count is None else count


def point_at_pod_spec(parent: ManifestObject) -> str:
    """The pointer of the pod spec in the template that `read_template` takes."""
    return f"{parent.pointer}/template/spec"


def spread_minimum(roles: Sequence[RoleTemplate], total: int | None) -> list[int]:
    """The minimum of each role: its own, or its part of `total`, which the roles share in their
    order; without either, all of its members.
    """
    if total is None:
        return [role.count if role.least is None else role.least for role in roles]
    left = max(0, total - sum(role.least or 0 for role in roles))
    minima = []
    for role in roles:
        if role.least is not None:
            minima.append(role.least)
            continue
        part = min(left, role.count)
        minima.append(part)
        left -= part
    return minima


def make_group(
    metadata: Metadata, roles: Sequence[RoleTemplate], minima: Sequence[int], **terms: object
) -> ConvertedGroup:
    """The group in the form of `POST /api/v1/groups`; without terms that have no value."""
    group: Document = {
        "roles": [
            {"name": role.name, "min": least, "max": role.count, "template": role.template}
            for role, least in zip(roles, minima, strict=True)
        ]
    }
    if metadata.name:
        group["clientId"] = metadata.name
    if metadata.labels:
        group["labels"] = metadata.labels
    if metadata.namespace:
        for role in roles:
            role.template.setdefault("namespace", metadata.namespace)
    given = {name: value for name, value in terms.items() if value is not None}
    return ConvertedGroup(metadata, {**group, **given}, roles)
