"""Whether a job could ever run on the nodes there are: what a dry run says. Pure.

The rules are those of scheduling, section 6: taints, labels and amounts of the empty node, cordons
and load left aside, and the limits of the queue. The scheduler decides for itself when it sees the
job; tests hold both to the same answers. Each job is looked at by itself: whether a gang fits as a
whole, and resources that are on no node, only the scheduler knows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common import resources, shapes
from fairlead_common.classes import PriorityClass
from fairlead_common.clusters import Node, Taint
from fairlead_common.configuration import Queue
from fairlead_common.shapes import Requirement, SelectorTerm, Shape, Toleration

BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
INT64_MAX: Final = 2**63 - 1
CHECKS_MAX: Final = 2_000_000
"""Most pairs of a kind of job and a node that one dry run looks at."""


class Verdict(msgspec.Struct, frozen=True):
    """`feasible` None: nobody can tell; `why` says what stands against it."""

    feasible: bool | None
    why: str | None = None


class Kind(msgspec.Struct, frozen=True):
    """Jobs that are alike in what decides where they may run."""

    shape: bytes
    priority_class: str
    pool: str


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
        return FITS
    too_large = [
        name
        for name, amount in shape.requests.items()
        if all(node.allocatable.get(name, 0) < amount for node in suiting)
    ]
    if not too_large:
        return Verdict(False, f"none of the {len(suiting)} nodes that suit it is large enough")
    name = too_large[0]
    most = max(node.allocatable.get(name, 0) for node in suiting)
    return Verdict(
        False,
        f"needs {resources.plain(name, shape.requests[name])} {name} on one node; of the"
        f" {len(suiting)} nodes that suit it the largest has {resources.plain(name, most)}",
    )


def _beyond_limit(
    shape: Shape, total: Mapping[str, int], queue: Queue, priority_class: PriorityClass
) -> str | None:
    of_class: Mapping[str, float | str] = priority_class.limits
    of_queue = queue.limits.get(priority_class.name, {})
    for name, limit in (*of_class.items(), *of_queue.items()):
        amount = (
            resources.parse(name, limit, round_up=False)
            if isinstance(limit, str)
            else int(limit * total.get(name, 0))
        )
        if shape.requests.get(name, 0) > amount:
            return (
                f"needs {resources.plain(name, shape.requests[name])} {name}; queue"
                f" {queue.name!r} may hold {resources.plain(name, amount)} in class"
                f" {priority_class.name!r}"
            )
    return None


def _has_room(shape: Shape, node: Node) -> bool:
    return all(node.allocatable.get(name, 0) >= amount for name, amount in shape.requests.items())


def suits(shape: Shape, node: Node, priority_class: PriorityClass) -> bool:
    """Whether the node takes such jobs, at home or as guests, if it has room."""
    if any(node.labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    if shape.affinity and not any(_met(term, node) for term in shape.affinity):
        return False
    away = [entry.taints for entry in priority_class.away_node_types]
    return any(_tolerated(shape, node, extra) for extra in ((), *away))


def _tolerated(shape: Shape, node: Node, extra: Sequence[Taint]) -> bool:
    return all(
        any(_tolerates(toleration, taint) for toleration in shape.tolerations)
        or any(item.key == taint.key and item.value in ("", taint.value) for item in extra)
        for taint in node.taints
        if taint.effect in BLOCKING
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


def _met(term: SelectorTerm, node: Node) -> bool:
    """A term without anything in it meets nothing."""
    fields = {"metadata.name": node.name}
    return bool(term.match_expressions or term.match_fields) and (
        all(_holds(item, node.labels.get(item.key)) for item in term.match_expressions)
        and all(_holds(item, fields.get(item.key)) for item in term.match_fields)
    )


def _holds(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            bound = _whole(requirement.values[0]) if len(requirement.values) == 1 else None
            have = None if value is None else _whole(value)
            if bound is None or have is None:
                return False
            return have > bound if operator == "Gt" else have < bound


def _whole(text: str) -> int | None:
    """The number that Kubernetes reads in a label, if it is one."""
    digits = text.removeprefix("-") if text[:1] == "-" else text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None
