"""Reads the nodes of a simulation: a list in the form of the worked cases, with times at which
nodes come, change and go."""

from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from fairlead_common.domain import quantities
from fairlead_common.domain.records.clusters import Node
from fairlead_scheduler.cases import case_file
from fairlead_scheduler.simulate.input import input_errors as faulty
from fairlead_scheduler.simulate.input import yaml_documents
from fairlead_scheduler.simulate.input.input_errors import Faults
from fairlead_scheduler.simulate.input.job_lines import Above0, Seconds, ms
from fairlead_scheduler.simulate.input.yaml_documents import Document

NODES_MAX: Final = 200_000
_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")


class Change(case_file.Form):
    """From now on the nodes of the group have this; a resource that is not named stays."""

    at_seconds: Above0
    resources: dict[str, case_file.Amount]


class Group(case_file.Nodes):
    """As in a case. The nodes are there from `from_seconds` until `until_seconds`."""

    from_seconds: Seconds = 0.0
    until_seconds: Above0 | None = None
    changes: tuple[Change, ...] = ()


class Step(NamedTuple):
    """What becomes of a node at a time: what it is from then on, or that it is gone."""

    at_ms: int
    node: Node
    gone: bool = False


class Machines(NamedTuple):
    """The nodes that are there at first, and what happens to nodes later, in order of time."""

    nodes: list[Node]
    steps: list[Step]


def read(path: Path, pool: str, faults: Faults) -> Machines:
    """The nodes of this pool, numbered in the order of the file."""
    document = yaml_documents.read(path, faults)
    if document is None:
        return Machines([], [])
    if not isinstance(document.value, list):
        faults.add(document.file, 1, "", "is no list of nodes (`- {name: n, resources: {cpu: 8}}`)")
        return Machines([], [])
    before = faults.count
    nodes: list[Node] = []
    steps: list[Step] = []
    numbers: dict[str, int] = {}
    for place, item in enumerate(document.value):
        group = _group(document, place, item, faults)
        if group is None:
            continue
        first = numbers.get(group.name, 0)
        numbers[group.name] = first + group.count
        if sum(numbers.values()) > NODES_MAX:
            faults.add(document.file, document.line(place), "count", f"more than {NODES_MAX} nodes")
            return Machines([], [])
        for n in range(group.count if group.pool == pool else 0):
            life = _life(group, f"{group.name}{first + n}")
            nodes += [step.node for step in life if step.at_ms == 0]
            steps += [step for step in life if step.at_ms > 0]
    if not nodes and not steps and faults.count == before:
        faults.add(document.file, 1, "", f"names no node of pool {pool}")
    return Machines(nodes, sorted(steps, key=lambda step: step.at_ms))


def _life(group: Group, name: str) -> list[Step]:
    """What becomes of one of the group's nodes, in order of time."""
    amounts = dict(group.resources)
    life = [Step(ms(group.from_seconds), group.node(name))]
    for change in sorted(group.changes, key=lambda change: change.at_seconds):
        amounts |= change.resources
        now = case_file.parse_all(amounts, round_up=False)
        node = msgspec.structs.replace(life[0].node, allocatable=now)
        life.append(Step(max(1, ms(change.at_seconds)), node))
    if group.until_seconds is not None:
        life.append(Step(max(1, ms(group.until_seconds)), life[0].node, gone=True))
    return life


def processors(count: int) -> list[Node]:
    """One node of so many processors: how a Standard Workload Format trace sees its machine."""
    amounts = {quantities.CPU: 1000 * count}
    return [Node(executor="e0", name="machine0", allocatable=amounts)]


def _group(document: Document, place: int, item: object, faults: Faults) -> Group | None:
    found = faulty.per_field(item, Group)
    values = cast(dict[str, Any], item) if isinstance(item, dict) else {}  # checked field by field
    found += _bad_amounts("resources", values.get("resources"))
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
    group = msgspec.convert(item, Group)
    wrong = _bad_times(group)
    for field, reason in wrong:
        line = document.line(place, *field.split(".", 1))
        faults.add(document.file, line, field, reason)
    if wrong:
        return None
    for at, taint in enumerate(group.taints):
        if taint.effect not in _EFFECTS:
            line = document.line(place, "taints", at, "effect")
            reason = f"{taint.effect!r} is none of {', '.join(_EFFECTS)}"
            faults.add(document.file, line, "taints", reason)
    return group


def _bad_amounts(field: str, given: object) -> list[tuple[str, str]]:
    found = []
    for name, amount in given.items() if isinstance(given, dict) else ():
        try:
            quantities.parse_quantity(str(name), amount, round_up=False)
        except ValueError as error:
            found.append((f"{field}.{name}", str(error)))
    return found


def _bad_times(group: Group) -> list[tuple[str, str]]:
    """What of the times at which nodes come, change and go contradicts itself."""
    first, last = group.from_seconds, group.until_seconds
    found = []
    if last is not None and last <= first:
        found.append(("untilSeconds", f"is {last:g}, not after fromSeconds ({first:g})"))
    for change in group.changes:
        if change.at_seconds <= first or (last is not None and change.at_seconds >= last):
            found.append(("changes", f"at {change.at_seconds:g} s the nodes are not there"))
        found += _bad_amounts("changes", change.resources)
    return found
