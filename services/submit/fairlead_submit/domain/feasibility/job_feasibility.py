"""Whether a job could ever run on the existing nodes: what a dry run reports.

By section 6 of docs/rules.md: taints, labels and capacity of the empty nodes, without cordons and
load, and the limits of the queue. The scheduler decides again when the job is submitted. Each job
is checked by itself: whether a gang of different jobs fits, only the scheduler knows. The roles of
groups are checked together by `group_feasibility`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.scheduling import node_eligibility, quantities, shapes
from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_common.domain.scheduling.shapes import Shape
from fairlead_submit.domain.feasibility import joint_capacity

CHECKS_MAX: Final = 2_000_000
"""Maximum number of pairs of a job kind and a node that one dry run checks."""


class Verdict(msgspec.Struct, frozen=True):
    """`feasible` None: unknown; `why`: what prevents the job from running."""

    feasible: bool | None
    why: str | None = None


class JobKind(msgspec.Struct, frozen=True):
    """Jobs that are equal in everything that decides where they are able to run."""

    shape: bytes
    priority_class: str
    pool: str
    members: int = 1
    uniformity_label: str | None = None
    """Of a gang: how many members start together, and the label that their nodes share."""


FEASIBLE: Final = Verdict(True)


def check_feasibility(
    kinds: Iterable[JobKind],
    nodes: Iterable[Node],
    queue: Queue,
    classes: Mapping[str, PriorityClass],
) -> dict[JobKind, Verdict]:
    """The verdict for each kind."""
    wanted = list(dict.fromkeys(kinds))
    by_pool = group_by_pool(nodes)
    left = CHECKS_MAX
    found: dict[JobKind, Verdict] = {}
    for kind in wanted:
        there = by_pool.get(kind.pool, [])
        left -= len(there)
        if left < 0:
            found[kind] = Verdict(
                None, "there are too many different jobs and nodes to check in one dry run"
            )
        else:
            found[kind] = _check_kind(kind, there, queue, classes[kind.priority_class])
    return found


def group_by_pool(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """The nodes of each pool, in their order."""
    by_pool: dict[str, list[Node]] = {}
    for node in nodes:
        by_pool.setdefault(node.pool, []).append(node)
    return by_pool


def _check_kind(
    kind: JobKind, nodes: Sequence[Node], queue: Queue, priority_class: PriorityClass
) -> Verdict:
    if not nodes:
        return Verdict(None, f"pool {kind.pool!r} has no nodes")
    shape = shapes.decode(kind.shape)
    total: dict[str, int] = {}
    for node in nodes:
        for name, amount in node.allocatable.items():
            total[name] = total.get(name, 0) + amount
    for name in shape.requests:
        if name not in total:
            return Verdict(None, f"no node of pool {kind.pool!r} has {name}")
    beyond = _find_exceeded_limit(kind, shape, total, queue, priority_class)
    if beyond is not None:
        return Verdict(False, beyond)
    places = list_eligible(shape, nodes, priority_class)
    eligible = [nodes[at] for at in places]
    if not eligible:
        detail = f"taints, labels or affinity exclude all {len(nodes)} nodes of pool {kind.pool!r}"
        return Verdict(False, detail)
    if any(_fits_on(shape, node) for node in eligible):
        return _check_gang(kind, shape, nodes, places)
    too_large = [
        name
        for name, amount in shape.requests.items()
        if all(node.allocatable.get(name, 0) < amount for node in eligible)
    ]
    if not too_large:
        return Verdict(False, f"none of the {len(eligible)} eligible nodes is large enough")
    name = too_large[0]
    most = quantities.format_quantity(name, max(node.allocatable.get(name, 0) for node in eligible))
    wanted = quantities.format_quantity(name, shape.requests[name])
    where = "the only eligible node has"
    if len(eligible) > 1:
        where = f"the largest of the {len(eligible)} eligible nodes has"
    return Verdict(False, f"needs {wanted} {name} on one node; {where} {most}")


def _check_gang(
    kind: JobKind, shape: Shape, nodes: Sequence[Node], eligible: Sequence[int]
) -> Verdict:
    """Whether the members that start together fit on the empty nodes."""
    if kind.members == 1:
        return FEASIBLE
    parts = [joint_capacity.make_part("", kind.members, shape.requests, eligible)]
    label = kind.uniformity_label
    if label is None:
        why = joint_capacity.explain_shortage(parts, nodes)
    else:
        values = [node.labels.get(label) for node in nodes]
        why = joint_capacity.explain_domain_shortage(parts, nodes, label, values)
    return FEASIBLE if why is None else Verdict(False, why)


def _find_exceeded_limit(
    kind: JobKind,
    shape: Shape,
    total: Mapping[str, int],
    queue: Queue,
    priority_class: PriorityClass,
) -> str | None:
    """The first limit that the job, or its members that start together, exceed (L2)."""
    for name, amount in _list_limits(total, queue, priority_class):
        needed = kind.members * shape.requests.get(name, 0)
        if needed > amount:
            members = f" for {kind.members} members" if kind.members > 1 else ""
            return _describe_excess(name, needed, members, amount, queue, priority_class)
    return None


def find_exceeded_group_limit(
    kinds: Sequence[JobKind],
    nodes: Iterable[Node],
    queue: Queue,
    classes: Mapping[str, PriorityClass],
) -> str | None:
    """The first limit that the minimal members of all roles of a group exceed together (L2).

    `kinds`: one for each role, all in one pool.
    """
    total: Counter[str] = Counter()
    for node in nodes:
        if kinds and node.pool == kinds[0].pool:
            total.update(node.allocatable)
    if not total:
        return None
    for class_name in dict.fromkeys(kind.priority_class for kind in kinds):
        own = [kind for kind in kinds if kind.priority_class == class_name]
        shapes_of = [shapes.decode(kind.shape) for kind in own]
        for name, amount in _list_limits(total, queue, classes[class_name]):
            needed = sum(
                kind.members * shape.requests.get(name, 0)
                for kind, shape in zip(own, shapes_of, strict=True)
            )
            if needed > amount:
                members = f" for the {sum(kind.members for kind in own)} members of all roles"
                return _describe_excess(name, needed, members, amount, queue, classes[class_name])
    return None


def _list_limits(
    total: Mapping[str, int], queue: Queue, priority_class: PriorityClass
) -> Iterator[tuple[str, int]]:
    """Resources with their limits. A limit of the queue replaces that of the class."""
    limits: Mapping[str, float | str] = {
        **priority_class.limits,
        **queue.limits.get(priority_class.name, {}),
    }
    for name, limit in limits.items():
        if isinstance(limit, str):
            yield name, quantities.parse_recorded_limit(name, limit)
        else:
            yield name, int(limit * total.get(name, 0))


def _describe_excess(
    name: str, needed: int, members: str, limit: int, queue: Queue, priority_class: PriorityClass
) -> str:
    return (
        f"needs {quantities.to_number(name, needed)} {name}{members}; the limit of queue"
        f" {queue.name!r} is {quantities.to_number(name, limit)} in class"
        f" {priority_class.name!r}"
    )


def _fits_on(shape: Shape, node: Node) -> bool:
    return all(node.allocatable.get(name, 0) >= amount for name, amount in shape.requests.items())


def list_eligible(shape: Shape, nodes: Sequence[Node], priority_class: PriorityClass) -> list[int]:
    """The indexes of the nodes on which jobs of this shape are able to run."""
    return [at for at, node in enumerate(nodes) if is_eligible(shape, node, priority_class)]


def is_eligible(shape: Shape, node: Node, priority_class: PriorityClass) -> bool:
    """Whether jobs of this shape are able to run on the empty node, at home or away."""
    away = [entry.taints for entry in priority_class.away_node_types]
    return (
        node_eligibility.is_selected(shape, node.labels)
        and node_eligibility.has_affinity(shape, node.labels, node.name)
        and any(
            node_eligibility.tolerates(shape.tolerations, node.taints, more) for more in ((), *away)
        )
    )
