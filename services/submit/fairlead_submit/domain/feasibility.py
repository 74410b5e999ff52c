"""Whether a job could ever run on the nodes there are: what a dry run says. Pure.

As section 6 of docs/rules.md says: taints, labels and amounts of the empty node, cordons and load
left aside, and the limits of the queue. The scheduler decides for itself when it sees the
job. Each job is looked at by itself: whether a gang fits as a
whole, and resources that are on no node, only the scheduler knows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain import node_eligibility, quantities, shapes
from fairlead_common.domain.priority_classes import PriorityClass
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.shapes import Shape

CHECKS_MAX: Final = 2_000_000
"""Most pairs of a kind of job and a node that one dry run looks at."""


PLACES_MAX: Final = 1_000_000
"""Places on a node for jobs that ask for nothing."""


class Verdict(msgspec.Struct, frozen=True):
    """`feasible` None: nobody can tell; `why` says what stands against it."""

    feasible: bool | None
    why: str | None = None


class Kind(msgspec.Struct, frozen=True):
    """Jobs that are alike in what decides where they may run."""

    shape: bytes
    priority_class: str
    pool: str
    members: int = 1
    uniformity_label: str | None = None
    """Of a gang: how many must start together, and the label whose value their nodes share."""


FITS: Final = Verdict(True)


def verdicts(
    kinds: Iterable[Kind],
    nodes: Iterable[Node],
    queue: Queue,
    classes: Mapping[str, PriorityClass],
) -> dict[Kind, Verdict]:
    """What can be said of each kind."""
    wanted = list(dict.fromkeys(kinds))
    by_pool: dict[str, list[Node]] = {}
    for node in nodes:
        by_pool.setdefault(node.pool, []).append(node)
    left = CHECKS_MAX
    said: dict[Kind, Verdict] = {}
    for kind in wanted:
        there = by_pool.get(kind.pool, [])
        left -= len(there)
        if left < 0:
            said[kind] = Verdict(None, "there are too many kinds of jobs and nodes to look at")
        else:
            said[kind] = _verdict(kind, there, queue, classes[kind.priority_class])
    return said


def _verdict(
    kind: Kind, nodes: Sequence[Node], queue: Queue, priority_class: PriorityClass
) -> Verdict:
    if not nodes:
        return Verdict(None, f"no node of pool {kind.pool!r} has ever reported")
    shape = shapes.decode(kind.shape)
    total: dict[str, int] = {}
    for node in nodes:
        for name, amount in node.allocatable.items():
            total[name] = total.get(name, 0) + amount
    for name in shape.requests:
        if name not in total:
            return Verdict(None, f"no node of pool {kind.pool!r} has any {name}")
    beyond = _beyond_limit(shape, total, queue, priority_class)
    if beyond is not None:
        return Verdict(False, beyond)
    suiting = [node for node in nodes if suits(shape, node, priority_class)]
    if not suiting:
        detail = f"taints, labels or affinity rule out all {len(nodes)} nodes of pool {kind.pool!r}"
        return Verdict(False, detail)
    if any(_has_room(shape, node) for node in suiting):
        return _together(kind, shape, suiting)
    too_large = [
        name
        for name, amount in shape.requests.items()
        if all(node.allocatable.get(name, 0) < amount for node in suiting)
    ]
    if not too_large:
        return Verdict(False, f"none of the {len(suiting)} nodes that suit it is large enough")
    name = too_large[0]
    most = quantities.format_quantity(name, max(node.allocatable.get(name, 0) for node in suiting))
    wanted = quantities.format_quantity(name, shape.requests[name])
    where = "the only node that suits it has"
    if len(suiting) > 1:
        where = f"of the {len(suiting)} nodes that suit it the largest has"
    return Verdict(False, f"needs {wanted} {name} on one node; {where} {most}")


def _together(kind: Kind, shape: Shape, nodes: Sequence[Node]) -> Verdict:
    """Whether as many as must start together find places on the empty nodes."""
    if kind.members == 1:
        return FITS
    places: dict[str | None, int] = {}
    for node in nodes:
        value = None
        if kind.uniformity_label is not None:
            value = node.labels.get(kind.uniformity_label)
            if value is None:
                continue
        places[value] = places.get(value, 0) + _fitting(shape, node)
    most = max(places.values(), default=0)
    if most >= kind.members:
        return FITS
    where = f" with one value of {kind.uniformity_label!r}" if kind.uniformity_label else ""
    return Verdict(
        False,
        f"{kind.members} members of its gang must start together; the nodes{where} have places for"
        f" {most}, also when they are empty",
    )


def _fitting(shape: Shape, node: Node) -> int:
    """How many such jobs fit on the empty node."""
    counts = [
        node.allocatable.get(name, 0) // amount
        for name, amount in shape.requests.items()
        if amount > 0
    ]
    return max(0, min(counts, default=PLACES_MAX))


def _beyond_limit(
    shape: Shape, total: Mapping[str, int], queue: Queue, priority_class: PriorityClass
) -> str | None:
    of_class: Mapping[str, float | str] = priority_class.limits
    of_queue = queue.limits.get(priority_class.name, {})
    for name, limit in (*of_class.items(), *of_queue.items()):
        amount = (
            quantities.parse_quantity(name, limit, round_up=False)
            if isinstance(limit, str)
            else int(limit * total.get(name, 0))
        )
        if shape.requests.get(name, 0) > amount:
            return (
                f"needs {quantities.to_number(name, shape.requests[name])} {name}; queue"
                f" {queue.name!r} may hold {quantities.to_number(name, amount)} in class"
                f" {priority_class.name!r}"
            )
    return None


def _has_room(shape: Shape, node: Node) -> bool:
    return all(node.allocatable.get(name, 0) >= amount for name, amount in shape.requests.items())


def suits(shape: Shape, node: Node, priority_class: PriorityClass) -> bool:
    """Whether the node takes such jobs, at home or as guests, if it has room."""
    away = [entry.taints for entry in priority_class.away_node_types]
    return (
        node_eligibility.is_selected(shape, node.labels)
        and node_eligibility.has_affinity(shape, node.labels, node.name)
        and any(
            node_eligibility.tolerates(shape.tolerations, node.taints, more) for more in ((), *away)
        )
    )
