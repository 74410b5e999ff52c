"""Reads the nodes of a simulation: a list in the form of the worked cases."""

from pathlib import Path
from typing import Any, Final, cast

import msgspec

from fairlead_common import resources
from fairlead_common.clusters import Node
from fairlead_scheduler.cases import form
from fairlead_scheduler.simulate import faults as faulty
from fairlead_scheduler.simulate import yamls
from fairlead_scheduler.simulate.faults import Faults
from fairlead_scheduler.simulate.yamls import Document

NODES_MAX: Final = 200_000
_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def read(path: Path, pool: str, faults: Faults) -> list[Node]:
    """The nodes of this pool, numbered in the order of the file."""
    document = yamls.read(path, faults)
    if document is None:
        return []
    if not isinstance(document.value, list):
        faults.add(document.file, 1, "", "is no list of nodes (`- {name: n, resources: {cpu: 8}}`)")
        return []
    before = faults.count
    nodes: list[Node] = []
    numbers: dict[str, int] = {}
    for place, item in enumerate(document.value):
        group = _group(document, place, item, faults)
        if group is None:
            continue
        first = numbers.get(group.name, 0)
        numbers[group.name] = first + group.count
        if sum(numbers.values()) > NODES_MAX:
            faults.add(document.file, document.line(place), "count", f"more than {NODES_MAX} nodes")
            return []
        if group.pool == pool:
            nodes += [group.node(f"{group.name}{first + n}") for n in range(group.count)]
    if not nodes and faults.count == before:
        faults.add(document.file, 1, "", f"names no node of pool {pool}")
    return nodes


def processors(count: int) -> list[Node]:
    """One node of so many processors: how a Standard Workload Format trace sees its machine."""
    amounts = {resources.CPU: 1000 * count}
    return [Node(executor="e0", name="machine0", allocatable=amounts)]


def _group(document: Document, place: int, item: object, faults: Faults) -> form.Nodes | None:
    found = faulty.per_field(item, form.Nodes)
    values = cast(dict[str, Any], item) if isinstance(item, dict) else {}  # checked field by field
    given = values.get("resources")
    for name, amount in given.items() if isinstance(given, dict) else ():
        try:
            resources.parse(str(name), amount, round_up=False)
        except ValueError as error:
            found.append((f"resources.{name}", str(error)))
    count = values.get("count", 1)
    if isinstance(count, int) and not 1 <= count <= NODES_MAX:
        found.append(("count", f"is {count}; 1 to {NODES_MAX} are possible"))
    if values.get("name") == "":
        found.append(("name", "is empty"))
    for field, reason in found:
        line = document.line(place, *field.split(".", 1))
        faults.add(document.file, line, field, reason)
    if found:
        return None
    group = msgspec.convert(item, form.Nodes)
    for at, taint in enumerate(group.taints):
        if taint.effect not in _EFFECTS:
            line = document.line(place, "taints", at, "effect")
            reason = f"{taint.effect!r} is none of {', '.join(_EFFECTS)}"
            faults.add(document.file, line, "taints", reason)
    return group
