"""Whether a changed group could still run. A change that stops a group for members that can never
run is refused, and so is one for members that might never run: the group would end for it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.records import events
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_submit.domain.feasibility import group_feasibility
from fairlead_submit.domain.feasibility.group_feasibility import GroupKind, RoleKind
from fairlead_submit.domain.groups.group_changes import TermsChange


class ChangedGroup(msgspec.Struct, frozen=True):
    """A group before and after a change. `new`: the roles with another template.

    `succeeded`: by role, how many of its members have succeeded, which the group needs no more.
    """

    terms: events.Group
    change: TermsChange
    templates_before: Mapping[str, events.JobSubmitted]
    templates: Mapping[str, events.JobSubmitted]
    new: Collection[str]
    succeeded: Counter[str]


def find_untemplated_roles(
    change: TermsChange, templates: Mapping[str, events.JobSubmitted]
) -> Iterator[FieldError]:
    """Roles that the change gives members, and that have never had any."""
    for role in change.terms.roles:
        if role.max and role.name not in templates:
            detail = "cannot be raised: the role has never had a member; give a `template`"
            yield FieldError(f"/roles/{change.places[role.name]}/max", detail)


def list_demanding_roles(changed: ChangedGroup) -> dict[str, str]:
    """The roles that need more or something else after the change, with the pointer to it."""
    before = {role.name: role.min for role in changed.terms.roles}
    places = changed.change.places
    found = {}
    for role in changed.change.terms.roles:
        if role.name in changed.new:
            found[role.name] = f"/roles/{places[role.name]}/template"
        elif role.min > before[role.name]:
            found[role.name] = f"/roles/{places[role.name]}/min"
    return found


def check_change(
    changed: ChangedGroup,
    nodes: Sequence[Node],
    queue: Queue,
    classes: Mapping[str, PriorityClass],
) -> list[FieldError]:
    """Why the group could not run after the change, which asks more of some role."""
    pointers = list_demanding_roles(changed)
    group = GroupKind(tuple(_list_roles(changed)), changed.terms.topology)
    verdict = group_feasibility.check_groups([group], nodes, queue, classes)[group]
    found = [
        FieldError(pointer, f"role {name} could never run: {verdict.roles[name].why}")
        for name, pointer in pointers.items()
        if name in verdict.roles and verdict.roles[name].feasible is False
    ]
    if not found and verdict.group.feasible is False:
        detail = f"the group could never run: {verdict.group.why}"
        found = [FieldError(pointer, detail) for pointer in list(pointers.values())[:1]]
    return found or list(_find_new_demands(changed, group.roles, pointers, nodes))


def _list_roles(changed: ChangedGroup) -> Iterator[RoleKind]:
    for role in changed.change.terms.roles:
        if role.name in changed.templates:
            minimum = role.min
            if not changed.new:  # else the members that have succeeded are repeated
                minimum = max(0, minimum - changed.succeeded[role.name])
            yield group_feasibility.make_role_kind(role.name, minimum, changed.templates[role.name])


def _find_new_demands(
    changed: ChangedGroup,
    roles: Sequence[RoleKind],
    pointers: Mapping[str, str],
    nodes: Sequence[Node],
) -> Iterator[FieldError]:
    """New templates that ask what no node is known to have, unless they say `whenInfeasible: wait`.

    The members that run now would be stopped for members that can be rejected.
    """
    before = [
        group_feasibility.make_role_kind(name, 1, member).kind
        for name, member in changed.templates_before.items()
    ]
    for role in roles:
        waits = changed.templates[role.name].when_infeasible == "wait"
        if role.name not in changed.new or waits:
            continue
        demand = group_feasibility.find_new_demand(role.kind, before, nodes)
        if demand is not None:
            detail = (
                f"would stop the group for members of role {role.name} that may never run:"
                f" {demand}. If the group is to wait for it, set `whenInfeasible: wait`"
            )
            yield FieldError(pointers[role.name], detail)
