"""Why jobs and gangs can never run in a pool, in words (F1, E1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.plan import group_texts
from fairlead_scheduler.engine.plan.number_texts import (
    choose_verb,
    count_eligible,
    describe_amount,
    describe_nodes,
    format_amount,
    plural,
)
from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.snapshot import Bool, Bucket, Float, Int32, Match, Snapshot
from fairlead_scheduler.engine.state.surplus import find_surplus

CAUSES_MAX: Final = 200
"""How many different gangs of a round are examined; a cause takes up to a millisecond."""


def describe_infeasible(snapshot: Snapshot, plan: Plan, row: int, *, waits: bool) -> str:
    """`waits`: the job stays queued (`whenInfeasible: wait`, or it was feasible before)."""
    reasons = plan.reasons
    cannot = (
        f"cannot run in pool {plan.pool} as its nodes and limits are now"
        if waits
        else f"can never run in pool {plan.pool}"
    )
    if int(reasons.gang[row]) >= 0:
        return _describe_gang(snapshot, plan, row, cannot)
    limit = _describe_exceeded_limit(snapshot, plan, row)
    if limit:
        return f"The job {cannot}: it needs {limit}. Request less."
    too_small = describe_too_small(snapshot, plan, row)
    advice = (
        "Request less, or ask an operator for larger nodes."
        if too_small
        else ("Check the node selector, affinity and tolerations.")
    )
    return f"The job {cannot}: {too_small}{describe_nodes(plan, row)}. {advice}"


def _describe_exceeded_limit(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """What the row's shape needs beyond the limit of its queue or a floating resource."""
    shape, queue = int(plan.reasons.shape[row]), int(plan.reasons.queue[row])
    of_class = int(snapshot.shape_class[shape])
    needed = _sum_requests(snapshot, [_SameMembers(-1, shape, 1)])
    exceeded = _find_exceeded_limit(snapshot, queue, of_class, needed)
    if exceeded is None:
        return ""
    whose, large = exceeded
    has = "the pool has"
    if whose:
        has = f"the {whose} for priority class {snapshot.class_names[of_class]} is"
    return (
        f"{describe_amount(large.resource, large.needed)}, and {has}"
        f" {format_amount(large.resource, large.most)}"
    )


def _find_exceeded_limit(
    snapshot: Snapshot, queue: int, of_class: int, needed: Float
) -> tuple[str, _Large] | None:
    """The first resource that is needed ([R+F]) beyond a limit of the queue for the class, with the
    name of the limit; "" for a floating resource that the pool has less of."""
    nodes = len(snapshot.resources)
    total = [*snapshot.node_allocatable.sum(axis=0, dtype=np.float64), *snapshot.floating_total]
    for r, name in enumerate(snapshot.resources + snapshot.floating):
        need = float(needed[r])
        most, of_queue = find_limit(snapshot, queue, of_class, r, float(total[r]))
        if need > most * (1 + 1e-9):
            whose = f"limit of queue {snapshot.queue_names[queue]}" if of_queue else "ceiling"
            return whose, _Large(name, int(need), int(most))
        if r >= nodes and need > total[r]:
            return "", _Large(name, int(need), int(total[r]))
    return None


def find_limit(
    snapshot: Snapshot, queue: int, of_class: int, resource: int, total: float
) -> tuple[float, bool]:
    """The amount that L2 permits, and whether it is the limit of the queue, not the ceiling."""
    fractions, amounts = snapshot.queue_limit_fraction, snapshot.queue_limit_amount
    most = np.inf if amounts is None else float(amounts[queue, of_class, resource])
    if fractions is not None and np.isfinite(fractions[queue, of_class, resource]):
        most = min(most, float(fractions[queue, of_class, resource]) * total)
    ceiling = np.inf
    if snapshot.class_ceiling is not None and np.isfinite(
        snapshot.class_ceiling[of_class, resource]
    ):
        ceiling = float(snapshot.class_ceiling[of_class, resource]) * total
    return min(most, ceiling), most <= ceiling


def describe_too_small(snapshot: Snapshot, plan: Plan, row: int) -> str:
    """The first resource that the row's shape needs more of than any node with matching labels and
    taints has; "" without such a resource."""
    shape = int(plan.reasons.shape[row])
    if shape < 0 or not plan.reasons.counts[row, Bucket.TOO_SMALL]:
        return ""
    large = _find_large_request(snapshot, shape)
    if large is None:
        return ""
    return (
        f"it needs {describe_amount(large.resource, large.needed)} on one node, and the largest"
        f" node that matches has {format_amount(large.resource, large.most)}; "
    )


class _Large(NamedTuple):
    """More of a resource than there is."""

    resource: str
    needed: int
    most: int


def _find_large_request(snapshot: Snapshot, shape: int) -> _Large | None:
    """The first resource that the shape needs more of than any node that matches has."""
    matches = _match_nodes(snapshot, [shape])
    largest = snapshot.node_allocatable[matches].max(axis=0, initial=0).tolist()
    for name, needed, most in zip(
        snapshot.resources, snapshot.shape_request[shape].tolist(), largest, strict=True
    ):
        if needed > most:
            return _Large(name, needed, most)
    return None


def _match_nodes(snapshot: Snapshot, shapes: list[int]) -> Bool:
    """[N] the nodes whose labels and taints match any of these shapes."""
    found = (snapshot.shape_match[shapes] == Match.ELIGIBLE).any(axis=(0, 1))
    return np.asarray(found[snapshot.node_type])


class _SameMembers(NamedTuple):
    """Members of one role and shape that must start together."""

    role: int
    """its row; -1 for a plain gang"""
    shape: int
    number: int


def _describe_gang(snapshot: Snapshot, plan: Plan, row: int, cannot: str) -> str:
    gang, queue = int(plan.reasons.gang[row]), int(plan.reasons.queue[row])
    kind = "group" if group_texts.is_group(snapshot, gang) else "gang"
    start = (
        f"The {kind} {cannot}: {group_texts.describe_minimum(snapshot, plan, row)} must start"
        f" together{group_texts.describe_label(snapshot, plan, row)}"
    )
    cause = _find_gang_cause(snapshot, plan, gang, queue)
    if cause:
        return f"{start}, and {cause}"
    nodes, eligible = int(plan.reasons.counts[row].sum()), count_eligible(plan, row)
    return (
        f"{start}, which the nodes or the limits of queue {snapshot.queue_names[queue]} do not"
        f" permit. {eligible} of {plural(nodes, 'node')} {choose_verb(eligible, 'is', 'are')} large"
        " enough for one member."
    )


def _find_gang_cause(snapshot: Snapshot, plan: Plan, gang: int, queue: int) -> str:
    """What is too large; "" if nothing is by itself, or if too many different gangs of the plan
    were examined."""
    members = _list_members(snapshot, plan, gang)
    needs = tuple((_name_role(snapshot, each), each.shape, each.number) for each in members)
    level = group_texts.find_required_level(snapshot, gang)
    whole = snapshot.topology is not None and bool(snapshot.topology.gang_whole[gang])
    label = -1 if snapshot.gang_label is None else int(snapshot.gang_label[gang])
    key = (queue, level, whole, label, needs)
    if key not in plan.gang_causes and len(plan.gang_causes) < CAUSES_MAX:
        plan.gang_causes[key] = (
            _describe_large_member(snapshot, members)
            or _describe_large_sum(snapshot, gang, members)
            or _describe_gang_limit(snapshot, queue, members)
        )
    return plan.gang_causes.get(key, "")


def _list_members(snapshot: Snapshot, plan: Plan, gang: int) -> list[_SameMembers]:
    """The queued members that the gang needs, by role and shape; none of a plain gang that could
    start with any of several shapes."""
    rows = plan.gang_members[plan.gang_first[gang] : plan.gang_first[gang + 1]]
    rows = rows[snapshot.job_node[rows] == -1]
    rows = rows[~find_surplus(snapshot.job_priority[rows])]
    shapes, counts = np.unique(snapshot.job_shape[rows], return_counts=True)
    if snapshot.job_role is None or not group_texts.is_group(snapshot, gang):
        assert snapshot.gang_min is not None, "a gang has a minimum"
        need = int(snapshot.gang_min[gang])
        if shapes.size == 1:
            return [_SameMembers(-1, shapes.item(), need)]
        if counts.sum() > need:
            return []
        pairs = zip(shapes.tolist(), counts.tolist(), strict=True)
        return [_SameMembers(-1, shape, number) for shape, number in pairs]
    columns, counts = np.unique(
        [snapshot.job_role[rows], snapshot.job_shape[rows]], axis=1, return_counts=True
    )
    return [
        _SameMembers(role, shape, number)
        for role, shape, number in zip(*columns.tolist(), counts.tolist(), strict=True)
    ]


def _name_role(snapshot: Snapshot, members: _SameMembers) -> str:
    return "" if members.role < 0 else f" of role {snapshot.role_names[members.role]}"


def _describe_large_member(snapshot: Snapshot, members: list[_SameMembers]) -> str:
    """The first members that are too large for any node, or that match none."""
    for each in members:
        whose = _name_role(snapshot, each)
        if not _match_nodes(snapshot, [each.shape]).any():
            return f"no node matches selector, affinity and tolerations of the members{whose}."
        large = _find_large_request(snapshot, each.shape)
        if large is not None:
            return (
                f"each member{whose} needs {describe_amount(large.resource, large.needed)} on one"
                " node; the largest node that matches has"
                f" {format_amount(large.resource, large.most)}. Request less, or ask an operator"
                " for larger nodes."
            )
    return ""


class _Place(NamedTuple):
    """Where members must be together."""

    value: Int32
    """[N] the domain or label value of each node; -1 = it has none"""
    where: str
    has: str
    """the subject and verb of what there is"""


def _find_place(snapshot: Snapshot, gang: int) -> _Place:
    """Where the members of a gang must be: on the nodes of one domain or label value, or anywhere
    (all nodes have one value)."""
    level = group_texts.find_required_level(snapshot, gang)
    if level is not None:
        assert snapshot.topology is not None, "a level is of a topology"
        label = int(snapshot.topology.label[level])
        where = f" in one domain of level {snapshot.topology.names[level]}"
        has = "the largest domain has"
    else:
        label = -1 if snapshot.gang_label is None else int(snapshot.gang_label[gang])
        where, has = "", "the nodes of any value have at most"
    if label < 0 or snapshot.node_label is None:
        return _Place(
            np.zeros(snapshot.node_number.size, np.int32), "", "the nodes that match have"
        )
    return _Place(snapshot.node_label[label], where, has)


def _describe_large_sum(snapshot: Snapshot, gang: int, members: list[_SameMembers]) -> str:
    """What the members need together beyond what there is in any place where they can be."""
    place = _find_place(snapshot, gang)
    scopes = {"they": members}
    if place.where and snapshot.topology is not None and not snapshot.topology.gang_whole[gang]:
        scopes = {}
        for each in members:
            name = f"the members{_name_role(snapshot, each)}"
            scopes.setdefault(name, []).append(each)
    for whose, scope in scopes.items():
        large = _find_large_sum(snapshot, scope, place.value)
        if large is not None:
            return (
                f"{whose} need {describe_amount(large.resource, large.needed)} together"
                f"{place.where}; {place.has} {format_amount(large.resource, large.most)}."
                " Request less, lower the minimum, or ask an operator for more nodes."
            )
    return ""


def _find_large_sum(snapshot: Snapshot, members: list[_SameMembers], value: Int32) -> _Large | None:
    """The first resource that the members need more of together than the matching nodes of any
    value have."""
    matches = _match_nodes(snapshot, [each.shape for each in members]) & (value >= 0)
    has = np.zeros((int(value.max(initial=0)) + 1, len(snapshot.resources)))
    np.add.at(has, value[matches], snapshot.node_allocatable[matches])
    return _find_excess(snapshot.resources, _sum_requests(snapshot, members), has.max(axis=0))


def _sum_requests(snapshot: Snapshot, members: list[_SameMembers]) -> Float:
    """[R+F] what these members request together."""
    requests = snapshot.shape_request
    if snapshot.shape_floating is not None:
        requests = np.hstack([requests, snapshot.shape_floating])
    total = np.zeros(len(snapshot.resources) + len(snapshot.floating))
    for each in members:
        total[: requests.shape[1]] += each.number * requests[each.shape].astype(np.float64)
    return total


def _find_excess(names: Sequence[str], needed: Float, most: Float) -> _Large | None:
    """The first resource that is needed beyond what there is."""
    for name, need, has in zip(names, needed.tolist(), most.tolist(), strict=False):
        if need > has * (1 + 1e-9):
            return _Large(name, int(need), int(has))
    return None


def _describe_gang_limit(snapshot: Snapshot, queue: int, members: list[_SameMembers]) -> str:
    """What the members need together beyond a limit of the queue or a floating resource."""
    for of_class in dict.fromkeys(int(snapshot.shape_class[each.shape]) for each in members):
        some = [each for each in members if snapshot.shape_class[each.shape] == of_class]
        exceeded = _find_exceeded_limit(snapshot, queue, of_class, _sum_requests(snapshot, some))
        if exceeded is None:
            continue
        whose, large = exceeded
        if not whose:
            break
        return (
            f"they need {describe_amount(large.resource, large.needed)} together in priority class"
            f" {snapshot.class_names[of_class]}; the {whose} is"
            f" {format_amount(large.resource, large.most)}. Request less, lower the minimum, or ask"
            " an operator to raise it."
        )
    floating = len(snapshot.resources)
    short = _find_excess(
        snapshot.floating,
        _sum_requests(snapshot, members)[floating:],
        snapshot.floating_total.astype(np.float64),
    )
    if short is None:
        return ""
    return (
        f"they need {describe_amount(short.resource, short.needed)} together; the pool has"
        f" {format_amount(short.resource, short.most)}."
    )
