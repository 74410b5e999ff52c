"""Building requests about groups. No I/O."""

from collections.abc import Iterable, Mapping

import msgspec

from fairlead.calls import request_building
from fairlead.calls.exchange_types import Request
from fairlead.models.group_models import GroupChange, GroupSpec, RoleChange


def group_path(group_id: str) -> str:
    """The path of a group."""
    return f"/groups/{request_building.escape_segment(group_id)}"


def build_submission(
    queue: str,
    job_set: str,
    groups: Iterable[GroupSpec | Mapping[str, object]],
    name: str,
    *,
    dry_run: bool = False,
) -> Request:
    """The request that submits groups, or has them checked. Groups without a client id get
    `<name>-<index>`.
    """
    named = [_with_client_id(group, f"{name}-{index}") for index, group in enumerate(groups)]
    body = {"queue": queue, "jobSet": job_set, "groups": named}
    query = request_building.make_dry_run_query(dry_run)
    return request_building.build_post("/groups", body, query=query)


def _with_client_id(group: GroupSpec | Mapping[str, object], client_id: str) -> object:
    if isinstance(group, GroupSpec):
        if group.client_id is not None:
            return group
        return msgspec.structs.replace(group, client_id=client_id)
    return group if group.get("clientId") is not None else {**group, "clientId": client_id}


def build_cancellation(group_id: str, reason: str) -> Request:
    """The request that cancels a group."""
    request = request_building.build_delete(group_path(group_id))
    query = request_building.make_query({"reason": reason or None})
    return msgspec.structs.replace(request, query=tuple(query))


def build_restart(group_id: str, reason: str) -> Request:
    """The request that restarts a group. It is not repeated: each one stops all members."""
    body = {"reason": reason} if reason else {}
    return request_building.build_post(f"{group_path(group_id)}/restart", body, repeatable=False)


def build_scaling(group_id: str, roles: Mapping[str, tuple[int | None, int | None]]) -> Request:
    """The request that changes the number of members of roles."""
    changes = tuple(
        RoleChange(name=name, min=least, max=most) for name, (least, most) in roles.items()
    )
    return build_change(group_id, GroupChange(roles=changes))


def build_change(group_id: str, change: GroupChange) -> Request:
    """The request that changes a group. It is not repeated with a template: its secret values would
    be sealed again, which makes it a different one, and the members would stop again."""
    repeatable = not any(role.template is not None for role in change.roles or ())
    return request_building.build_post(
        group_path(group_id), change, method="PATCH", repeatable=repeatable
    )
