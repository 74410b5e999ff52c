"""Changes of groups: the events of a cancellation, a restart and a new number of members."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.records import events
from fairlead_common.domain.requests import validation
from fairlead_submit.domain.groups import group_submission
from fairlead_submit.domain.groups.group_types import GroupChange, RoleChange

Place = tuple[str, int]
"""(role, index) of a member."""


def change_terms(terms: events.Group, change: GroupChange) -> tuple[events.Group, list[FieldError]]:
    """The new terms of a group, and everything that is wrong with the change."""
    found: list[FieldError] = []
    known = {role.name: role for role in terms.roles}
    changes: dict[str, RoleChange] = {}
    if change.roles is None:
        found.append(FieldError("/roles", "is missing"))
    for index, role in enumerate(change.roles or ()):
        pointer = f"/roles/{index}"
        if role.name is None:
            found.append(FieldError(f"{pointer}/name", "is missing"))
        elif role.name not in known:
            detail = f"{validation.quote(role.name)} is not a role of this group"
            found.append(FieldError(f"{pointer}/name", detail))
        elif role.name in changes:
            detail = f"{validation.quote(role.name)} is changed twice"
            found.append(FieldError(f"{pointer}/name", detail))
        elif role.min is None and role.max is None:
            found.append(FieldError(pointer, "changes nothing; give `min` or `max`"))
        else:
            changes[role.name] = role
    new = msgspec.structs.replace(
        terms, roles=tuple(_change_role(role, changes.get(role.name)) for role in terms.roles)
    )
    if not found:
        places = {role.name or "": index for index, role in enumerate(change.roles or ())}
        found += [_locate(error, new, places) for error in group_submission.check_terms("", new)]
    return new, found


def _change_role(role: events.GroupRole, change: RoleChange | None) -> events.GroupRole:
    if change is None:
        return role
    return events.GroupRole(
        role.name,
        role.min if change.min is None else change.min,
        role.max if change.max is None else change.max,
    )


def _locate(error: FieldError, terms: events.Group, places: Mapping[str, int]) -> FieldError:
    """The error with the pointer of the role in the change, if it is about a role."""
    parts = error.pointer.split("/")
    if len(parts) == 4 and parts[1] == "roles" and parts[2].isdecimal():
        name = terms.roles[int(parts[2])].name
        if name in places:
            return FieldError(f"/roles/{places[name]}/{parts[3]}", error.detail)
    return FieldError("/roles", error.detail)


def list_missing(
    terms: events.Group, present: Collection[Place], all_members: Counter[Place]
) -> tuple[list[Place], list[str]]:
    """The places without a member under these terms, and what tells the client id of each new
    member from those of `all_members` that the place has had.

    `present`: the places of members that have not ended, or have succeeded.
    """
    places = [
        (role.name, index)
        for role in terms.roles
        for index in range(role.max)
        if (role.name, index) not in present
    ]
    return places, [f"~{all_members[place] + 1}" if all_members[place] else "" for place in places]


def make_new_members(
    queue: str,
    job_set: str,
    group: GroupId,
    client_id: str | None,
    templates: Mapping[str, events.JobSubmitted],
    places: Sequence[Place],
    suffixes: Sequence[str],
) -> list[events.JobSubmitted]:
    """The submissions of new members, which are like earlier ones of their roles."""
    return group_submission.make_members(
        queue, job_set, group, client_id or group, templates, places, suffixes
    )
