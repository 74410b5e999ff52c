"""Changes of groups: new terms, new templates of roles, and the members that are submitted."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import GroupChangeKind
from fairlead_common.domain.requests import validation
from fairlead_submit.domain.groups import group_submission
from fairlead_submit.domain.groups.group_types import Elastic, GroupChange, RoleChange
from fairlead_submit.domain.jobs.job_templates import JobTemplates, SharedTerms
from fairlead_submit.domain.request_types import Job

Place = tuple[str, int]
"""(role, index) of a member."""


class TermsChange(msgspec.Struct, frozen=True):
    """The new terms of a group. `places`: role -> its index in the request."""

    terms: events.Group
    changes: Mapping[str, RoleChange]
    places: Mapping[str, int]


def change_terms(terms: events.Group, change: GroupChange) -> tuple[TermsChange, list[FieldError]]:
    """The new terms of a group, and everything that is wrong with the change."""
    found: list[FieldError] = []
    known = {role.name: role for role in terms.roles}
    changes: dict[str, RoleChange] = {}
    if change.roles is None and change.priority is None and change.elastic is None:
        found.append(FieldError("", "changes nothing; give `roles`, `priority` or `elastic`"))
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
        elif role.min is None and role.max is None and role.template is None:
            detail = "changes nothing; give `min`, `max` or `template`"
            found.append(FieldError(pointer, detail))
        else:
            changes[role.name] = role
    elastic = change.elastic or Elastic()
    new = msgspec.structs.replace(
        terms,
        roles=tuple(_change_role(role, changes.get(role.name)) for role in terms.roles),
        freeze_s=terms.freeze_s if elastic.freeze_seconds is None else elastic.freeze_seconds,
        step_max=terms.step_max if elastic.step_max is None else elastic.step_max,
        priority=terms.priority if change.priority is None else change.priority,
    )
    places = {role.name or "": index for index, role in enumerate(change.roles or ())}
    if not found:
        found += [_locate(error, new, places) for error in group_submission.check_terms("", new)]
        found += [
            FieldError(
                f"/roles/{places[role.name]}/template",
                "has no effect: the role has no members; raise its `max` in the same request",
            )
            for role in new.roles
            if role.max == 0 and role.name in changes and changes[role.name].template is not None
        ]
    return TermsChange(new, changes, places), found


def _change_role(role: events.GroupRole, change: RoleChange | None) -> events.GroupRole:
    if change is None:
        return role
    return events.GroupRole(
        role.name,
        role.min if change.min is None else change.min,
        role.max if change.max is None else change.max,
    )


def read_changed_templates(
    change: TermsChange,
    known: Mapping[str, events.JobSubmitted],
    priority: int | None,
    labels: Mapping[str, str],
    templates: JobTemplates,
    make_shared_terms: Callable[[Job], SharedTerms],
) -> tuple[dict[str, events.JobSubmitted], list[FieldError]]:
    """The templates of roles that the request changes, and what is wrong with them.

    A template without a priority class or a priority takes that of the `known` one of its role
    (`priority`: of all members); all have the labels of the group.
    """
    made: dict[str, events.JobSubmitted] = {}
    found: list[FieldError] = []
    for name, role in change.changes.items():
        if role.template is None:
            continue
        pointer, before = f"/roles/{change.places[name]}/template", known.get(name)
        common = Job(
            priority_class=None if before is None else before.priority_class,
            priority=before.priority if priority is None and before is not None else priority,
            labels=dict(labels) or None,
        )
        template, wrong = group_submission.read_template(
            pointer, role.template, templates, make_shared_terms(common)
        )
        found += wrong
        found += [FieldError(pointer, error.detail) for error in template.shared]
        if before is None or not _is_same(before, template.event):
            made[name] = template.event
    if not found:
        found += _check_pools(change, {**known, **made})
    return made, found


def _is_same(one: events.JobSubmitted, other: events.JobSubmitted) -> bool:
    """Whether both templates make equal members."""
    identity = {"job_id": "", "client_id": None, "digest": "", "group": None}
    return msgspec.structs.replace(one, **identity) == msgspec.structs.replace(other, **identity)


def _check_pools(
    change: TermsChange, templates: Mapping[str, events.JobSubmitted]
) -> Iterator[FieldError]:
    """All members of a group run in one pool."""
    pools = {
        role.name: templates[role.name].pool
        for role in change.terms.roles
        if role.max and role.name in templates
    }
    for name, pool in pools.items():
        others = sorted(other for other in pools if pools[other] != pool)
        if others and name in change.changes and change.changes[name].template is not None:
            detail = (
                f"is {pool!r}, but role {others[0]} has pool {pools[others[0]]!r}; all members of"
                " a group run in one pool"
            )
            yield FieldError(f"/roles/{change.places[name]}/template/pool", detail)


def describe_change(
    old: events.Group, new: events.Group, recreated: Collection[str]
) -> tuple[GroupChangeKind, str]:
    """What kind of change this is, and its reason for events. `recreated`: roles with another
    template."""
    parts = [f"template of role {name}" for name in sorted(recreated)]
    numbers = [
        f"role {role.name} {before.min} to {before.max} -> {role.min} to {role.max}"
        for before, role in zip(old.roles, new.roles, strict=True)
        if before != role
    ]
    parts += numbers
    if new.priority is not None and new.priority != old.priority:
        parts.append(f"priority {new.priority}")
    if new.freeze_s != old.freeze_s:
        parts.append(f"freezeSeconds {new.freeze_s}")
    if new.step_max != old.step_max:
        parts.append(f"stepMax {new.step_max}")
    kind = GroupChangeKind.SCALED if numbers else GroupChangeKind.UPDATED
    return (GroupChangeKind.RECREATED if recreated else kind), ", ".join(parts)


def _locate(error: FieldError, terms: events.Group, places: Mapping[str, int]) -> FieldError:
    """The error with the pointer of the role in the change, if it is about a role; of another field
    of the group, which no change has, with its name."""
    parts = error.pointer.split("/")
    if len(parts) == 4 and parts[1] == "roles" and parts[2].isdecimal():
        name = terms.roles[int(parts[2])].name
        if name in places:
            return FieldError(f"/roles/{places[name]}/{parts[3]}", error.detail)
    field = ".".join(parts[1:]) if parts[1] != "roles" else ""
    return FieldError("/roles", f"{field} {error.detail}".lstrip())


def list_missing(
    terms: events.Group, present: Collection[Place], all_members: Counter[Place]
) -> tuple[list[Place], list[str]]:
    """The places without a member under these terms, and the suffix of the client id of each new
    member, which tells it apart from earlier members of the place (`all_members`).

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
    generation: int,
) -> list[events.JobSubmitted]:
    """The submissions of new members by the templates of their roles."""
    name = client_id or group
    return group_submission.make_members(
        queue, job_set, group, name, templates, places, suffixes, generation
    )
