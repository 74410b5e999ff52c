"""What manifests of groups have in common: roles from pod templates, and the group itself."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead_submit.domain.groups.group_types import RESTARTS_MAX
from fairlead_submit.domain.manifests.manifest_fields import ManifestObject
from fairlead_submit.domain.manifests.pod_manifests import Document, Metadata, read_pod

RESTART_LIMIT: Final = f"restartLimit, at most {RESTARTS_MAX}"
"""What the number of restarts becomes."""


class RoleTemplate(msgspec.Struct, frozen=True):
    """A role as a manifest describes it: `least` is its own minimum, None if it has none.

    `pointer`: where its pod spec is. `places`: where its `name`, `min` and `max` are.
    """

    name: str
    count: int
    least: int | None
    template: Document
    pointer: str
    places: Mapping[str, str] = {}


class ConvertedGroup(msgspec.Struct, frozen=True):
    """The group that a manifest becomes, in the form of `POST /api/v1/groups`, and its roles.

    `places`: where its other fields are, by their pointers in the group.
    """

    metadata: Metadata
    group: Document
    roles: Sequence[RoleTemplate]
    places: Mapping[str, str]


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
        return members_max
    return 1 if count is None else count


def point_at_pod_spec(parent: ManifestObject) -> str:
    """The pointer of the pod spec in the template that `read_template` takes."""
    return f"{parent.pointer}/template/spec"


def point_at_fields(item: ManifestObject, **fields: str) -> dict[str, str]:
    """`places` of a role: the pointers of fields of its manifest."""
    return {name: f"{item.pointer}/{field}" for name, field in fields.items()}


def take_minima(parent: ManifestObject, field: str, roles: Sequence[RoleTemplate]) -> list[int]:
    """Take the minimum of all roles together; the minimum of each.

    A role has at least its own minimum. Roles without one come first when the rest is spread, in
    their order. Without a minimum of all together they need all their members.
    """
    total = parent.take_count(field, "the minima of the roles, and at least their own", least=1)
    if total is None:
        return [role.count if role.least is None else role.least for role in roles]
    members = sum(role.count for role in roles)
    if roles and total > members:
        detail = f"is {total}, more than all replicas ({members}); lower it, or add replicas"
        parent.refuse_field(field, detail)
    minima = [role.least or 0 for role in roles]
    left = total - sum(minima)
    for index in sorted(range(len(roles)), key=lambda index: roles[index].least is not None):
        part = max(0, min(left, roles[index].count - minima[index]))
        minima[index] += part
        left -= part
    return minima


def make_group(
    metadata: Metadata,
    roles: Sequence[RoleTemplate],
    minima: Sequence[int],
    places: Mapping[str, str],
    **terms: object,
) -> ConvertedGroup:
    """The group in the form of `POST /api/v1/groups`; without terms that have no value."""
    group: Document = {
        "clientId": metadata.name,
        "roles": [
            {"name": role.name, "min": least, "max": role.count, "template": role.template}
            for role, least in zip(roles, minima, strict=True)
        ],
    }
    if metadata.labels:
        group["labels"] = metadata.labels
    if metadata.namespace:
        for role in roles:
            role.template.setdefault("namespace", metadata.namespace)
    given = {name: value for name, value in terms.items() if value is not None}
    return ConvertedGroup(metadata, {**group, **given}, roles, places)
