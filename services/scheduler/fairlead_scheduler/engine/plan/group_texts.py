"""Reasons of groups in words (G11): which role does not fit, and what surplus members wait for."""

from __future__ import annotations

from fairlead_scheduler.engine.plan.number_texts import (
    plural,
)
from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.snapshot import Code, Snapshot
from fairlead_scheduler.engine.topology import NO_LEVEL, TopologyMode


def is_group(snapshot: Snapshot, gang: int) -> bool:
    """Whether the gang in this row has roles."""
    return snapshot.role_gang is not None and bool((snapshot.role_gang == gang).any())


def describe_minimum(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """How many members of the row's gang must start together."""
    gang = int(plan.reasons.gang[row])
    if gang < 0 or snapshot.gang_min is None:
        return "its members"
    return plural(int(snapshot.gang_min[gang]), "member")


def describe_label(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """The condition on the nodes of the row's gang, if it has a `uniformityLabel`; else ""."""
    gang = int(plan.reasons.gang[row])
    label = -1 if snapshot.gang_label is None else int(snapshot.gang_label[gang])
    return f" on nodes with the same value of {snapshot.label_names[label]}" if label >= 0 else ""


def describe_misfit(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """Which role of the row's group does not fit, and how many members of it do."""
    assert snapshot.role_min is not None, "a row with a role is of a snapshot with roles"
    role = int(plan.reasons.role[row])
    fits, needed = int(plan.reasons.role_members[row]), int(snapshot.role_min[role])
    where = _devices(snapshot, role)
    return (
        f"The group does not fit: role {snapshot.role_names[role]}: {needed} of {needed} needed"
        f"{where}, {fits} {'fits' if fits == 1 else 'fit'}."
    )


def find_required_level(snapshot: Snapshot, gang: int) -> int | None:
    """The level whose domains are required by the gang (T2), if the pool has it."""
    topology = snapshot.topology
    if topology is None or topology.gang_mode[gang] != TopologyMode.REQUIRED:
        return None
    level = int(topology.gang_level[gang])
    return None if level == NO_LEVEL else level


def requires_domain(snapshot: Snapshot, plan: Plan, row: int) -> bool:
    """Whether the row's gang requires a domain of a level that the pool has."""
    return find_required_level(snapshot, int(plan.reasons.gang[row])) is not None


def describe_scope(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """Whose members must be in one domain: a role of the row's gang, or all of it."""
    gang, role = int(plan.reasons.gang[row]), int(plan.reasons.role[row])
    assert snapshot.topology is not None, "a required domain is of a topology"
    if role >= 0 and not snapshot.topology.gang_whole[gang]:
        return f"role {snapshot.role_names[role]}"
    return f"the {'group' if is_group(snapshot, gang) else 'gang'}"


def describe_unknown_level(snapshot: Snapshot, plan: Plan) -> str:
    """Which levels the pool has, for a group that requires another one."""
    assert snapshot.topology is not None, "a level is required of a topology"
    names = snapshot.topology.names
    levels = ", ".join(
        f"{name} ({hops} hops)"
        for name, hops in zip(names, snapshot.topology.hops[:-1], strict=True)
    )
    has = f"its levels are {levels}" if names else "it has no levels"
    return (
        f"Pool {plan.pool} does not have the level of the topology that the group requires: {has}."
        " Submit the group with one of them, or ask an operator to set `topology` of the pool."
    )


def describe_surplus(snapshot: Snapshot, plan: Plan, row: int, capacity: str) -> str:
    """What the surplus members of the row's group wait for. `capacity`: what is short on all
    eligible nodes together, if no domain is required."""
    if requires_domain(snapshot, plan, row):
        assert snapshot.topology is not None, "a required domain is of a topology"
        gang = int(plan.reasons.gang[row])
        level = snapshot.topology.names[int(snapshot.topology.gang_level[gang])]
        capacity = (
            f"All members of {describe_scope(snapshot, plan, row)} must be in one domain of level"
            f" {level}, and no eligible node of their domain has free capacity for another one"
        )
    return f"Waits for free capacity; {_describe_size(snapshot, plan, row)}. {capacity}."


def describe_wait(snapshot: Snapshot, plan: Plan, row: int, code: Code) -> str:
    """Why the row's group starts no surplus member now although it could."""
    size = _describe_size(snapshot, plan, row)
    if code == Code.GROUP_FROZEN:
        return (
            "Waits until `freezeSeconds` after the last start or stop of a surplus member have "
            f"passed; {size}."
        )
    return f"This round started as many members of the role as `stepMax` permits; {size}."


def _describe_size(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """How many members of the row's role run, of how many."""
    role = int(plan.reasons.role[row])
    if role < 0 or snapshot.role_max is None:
        return "its group runs"
    runs, most = int(plan.reasons.role_members[row]), int(snapshot.role_max[role])
    return (
        f"the group runs with {runs} of at most {most} members of role {snapshot.role_names[role]}"
    )


def _devices(snapshot: Snapshot, role: int) -> str:
    """On which nodes the members of a role can be, by the devices that they request."""
    if snapshot.job_role is None:
        return ""
    members = snapshot.job_shape[(snapshot.job_role == role) & (snapshot.job_node >= -1)]
    if not members.size:
        return ""
    request = snapshot.shape_request[members[0]]
    names = [
        name
        for name, amount in zip(snapshot.resources, request.tolist(), strict=True)
        if amount and "/" in name
    ]
    return f" on nodes with {' and '.join(names)}" if names else ""
