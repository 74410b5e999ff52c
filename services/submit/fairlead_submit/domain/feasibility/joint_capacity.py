"""Whether members that start together fit on empty nodes together.

The answer "no" is certain. "Yes" is exact for members of one shape; for several shapes it follows
from an upper bound on the members of each node and from the sums of their requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import quantities

PLACES_MAX: Final = 1_000_000
"""Places on a node for jobs that request nothing."""
_PARTS_LISTED_MAX: Final = 5


class Part(msgspec.Struct, frozen=True):
    """Equal members that start together with the members of the other parts.

    `eligible`: the nodes, by their index, on which they can run.
    """

    name: str
    members: int
    requests: Mapping[str, int]
    eligible: frozenset[int]


class Shortage(msgspec.Struct, frozen=True):
    """Why members do not fit together. `resource` None: no single resource is short.

    `needed` of the resource and `available` on the eligible nodes, which have space for `fitting`
    of the members at most.
    """

    members: int
    fitting: int
    nodes: int
    resource: str | None = None
    needed: int = 0
    available: int = 0


def make_part(
    name: str, members: int, requests: Mapping[str, int], eligible: Iterable[int]
) -> Part:
    """Equal members with these requests."""
    positive = {key: amount for key, amount in requests.items() if amount > 0}
    return Part(name, members, positive, frozenset(eligible))


def count_places(requests: Mapping[str, int], node: Node) -> int:
    """The number of jobs with these positive requests that fit on the empty node."""
    counts = [node.allocatable.get(name, 0) // amount for name, amount in requests.items()]
    return max(0, min(counts, default=PLACES_MAX))


def find_shortage(
    parts: Sequence[Part], nodes: Sequence[Node], among: Iterable[int]
) -> Shortage | None:
    """What the nodes with these indexes lack for all members; None if nothing is known to lack."""
    members = sum(part.members for part in parts)
    needed: dict[str, int] = {}
    for part in parts:
        for name, amount in part.requests.items():
            needed[name] = needed.get(name, 0) + part.members * amount
    available, places = dict.fromkeys(needed, 0), dict.fromkeys(needed, 0)
    fitting = count = 0
    for at in among:
        able = [part for part in parts if at in part.eligible]
        if not able:
            continue
        count += 1
        node = nodes[at]
        counts = [min(part.members, count_places(part.requests, node)) for part in able]
        most = sum(counts)
        for name in needed:
            amount = node.allocatable.get(name, 0)
            available[name] += amount
            fit = _count_smallest(able, counts, name, amount)
            places[name] += fit
            most = min(most, fit)
        fitting += most
        if fitting >= members and all(available[name] >= needed[name] for name in needed):
            return None
    for name, amount in needed.items():
        if amount > available[name] or places[name] < members:
            return Shortage(members, min(fitting, members), count, name, amount, available[name])
    return Shortage(members, fitting, count)


def _count_smallest(
    parts: Sequence[Part], counts: Sequence[int], resource: str, amount: int
) -> int:
    """How many of these members fit into an amount of one resource, the smallest ones first."""
    fit = 0
    pairs = [
        (part.requests.get(resource, 0), most) for part, most in zip(parts, counts, strict=True)
    ]
    for request, most in sorted(pairs):
        taken = min(most, amount // request) if request else most
        fit += taken
        amount -= taken * request
        if taken < most:
            break
    return fit


def explain_shortage(parts: Sequence[Part], nodes: Sequence[Node]) -> str | None:
    """Why the members do not fit on the nodes together; None if nothing is known to lack."""
    shortage = find_shortage(parts, nodes, range(len(nodes)))
    if shortage is None:
        return None
    where = f"the {shortage.nodes} eligible nodes have"
    if shortage.nodes == 1:
        where = "the only eligible node has"
    return _describe(parts, shortage, where)


def explain_domain_shortage(
    parts: Sequence[Part], nodes: Sequence[Node], label: str, values: Sequence[str | None]
) -> str | None:
    """Why the members do not fit on nodes with one value of a label; None if they could.

    `values`: of each node, None for a node without the label.
    """
    domains: dict[str, list[int]] = {}
    for at, value in enumerate(values):
        if value is not None and any(at in part.eligible for part in parts):
            domains.setdefault(value, []).append(at)
    if not domains:
        return (
            f"its members need nodes with one value of {label!r}, and no eligible node has that"
            " label"
        )
    most: tuple[str, Shortage] | None = None
    for value, among in domains.items():
        shortage = find_shortage(parts, nodes, among)
        if shortage is None:
            return None
        if most is None or _size(shortage) > _size(most[1]):
            most = value, shortage
    assert most is not None, "there is a domain"
    where = f"the largest of the {len(domains)} domains of {label!r}, {most[0]!r}, has"
    if len(domains) == 1:
        where = f"the only domain of {label!r}, {most[0]!r}, has"
    return _describe(parts, most[1], where)


def _size(shortage: Shortage) -> tuple[int, int]:
    return shortage.fitting, shortage.available


def _describe(parts: Sequence[Part], shortage: Shortage, where: str) -> str:
    """The shortage in words. `where` ends in a verb: "the only eligible node has"."""
    who = f"{shortage.members} members must start together and need"
    if shortage.members == 1:
        who = "1 member needs"
    most = shortage.fitting if len(parts) == 1 else f"at most {shortage.fitting}"
    space = f"space for {most} of them"
    if shortage.resource is None:
        return f"{who} more than there is{_list_parts(parts, None)}; {where} {space}"
    name = shortage.resource
    needed, available = (
        quantities.format_quantity(name, amount) for amount in (shortage.needed, shortage.available)
    )
    text = f"{who} {needed} {name}{_list_parts(parts, name)}; {where} {available}"
    return f"{text}, with {space}" if 1 <= shortage.fitting < shortage.members else text


def _list_parts(parts: Sequence[Part], resource: str | None) -> str:
    """The parts that need the resource, those that need most first; "" for a single part."""
    if len(parts) == 1:
        return ""
    if resource is None:
        needs = [(part.members, f"{part.members} of role {part.name}") for part in parts]
    else:
        needs = [
            (
                part.members * part.requests[resource],
                f"role {part.name} {part.members} x "
                f"{quantities.format_quantity(resource, part.requests[resource])}",
            )
            for part in parts
            if resource in part.requests
        ]
    texts = [text for _, text in sorted(needs, key=lambda need: -need[0])]
    if len(texts) > _PARTS_LISTED_MAX:
        texts = [*texts[:_PARTS_LISTED_MAX], f"{len(texts) - _PARTS_LISTED_MAX} more"]
    return f" ({', '.join(texts)})"
