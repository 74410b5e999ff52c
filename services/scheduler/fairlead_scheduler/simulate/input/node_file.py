"""Reads the nodes of a simulation: a list in the form of the worked cases, with the times at which
nodes are added, changed and removed."""

from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import quantities
from fairlead_scheduler.cases import case_file
from fairlead_scheduler.simulate.input import input_errors, yaml_documents
from fairlead_scheduler.simulate.input.input_errors import InputErrors
from fairlead_scheduler.simulate.input.job_lines import to_ms
from fairlead_scheduler.simulate.input.line_fields import PositiveSeconds, Seconds
from fairlead_scheduler.simulate.input.yaml_documents import Document

NODES_MAX: Final = 200_000
_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")


class Change(case_file.Form):
    """New resources of the nodes of a group; a resource that is not named does not change."""

    at_seconds: PositiveSeconds
    resources: dict[str, case_file.Amount]


class Group(case_file.Nodes):
    """As in a case. The nodes exist from `from_seconds` until `until_seconds`."""

    from_seconds: Seconds = 0.0
    until_seconds: PositiveSeconds | None = None
    changes: tuple[Change, ...] = ()


class NodeChange(NamedTuple):
    """A node is added, changed or removed at a time."""

    at_ms: int
    node: Node
    removed: bool = False


class NodeTimeline(NamedTuple):
    """The nodes at the start, and the later changes in order of time."""

    nodes: list[Node]
    changes: list[NodeChange]


def read_nodes(path: Path, pool: str, errors: InputErrors) -> NodeTimeline:
    """The nodes of this pool, numbered in the order of the file."""
    document = yaml_documents.read_document(path, errors)
    if document is None:
        return NodeTimeline([], [])
    if not isinstance(document.value, list):
        reason = "is not a list of nodes (`- {name: n, resources: {cpu: 8}}`)"
        errors.add(document.file, 1, "", reason)
        return NodeTimeline([], [])
    before = errors.count
    nodes: list[Node] = []
    changes: list[NodeChange] = []
    numbers: dict[str, int] = {}
    for place, item in enumerate(document.value):
        group = _read_group(document, place, item, errors)
        if group is None:
            continue
        first = numbers.get(group.name, 0)
        numbers[group.name] = first + group.count
        if sum(numbers.values()) > NODES_MAX:
            errors.add(document.file, document.line(place), "count", f"more than {NODES_MAX} nodes")
            return NodeTimeline([], [])
        for n in range(group.count if group.pool == pool else 0):
            timeline = _list_changes(group, f"{group.name}{first + n}")
            nodes += [change.node for change in timeline if change.at_ms == 0]
            changes += [change for change in timeline if change.at_ms > 0]
    if not nodes and not changes and errors.count == before:
        errors.add(document.file, 1, "", f"has no node of pool {pool}")
    return NodeTimeline(nodes, sorted(changes, key=lambda change: change.at_ms))


def _list_changes(group: Group, name: str) -> list[NodeChange]:
    """The changes of one node of the group, in order of time."""
    amounts = dict(group.resources)
    timeline = [NodeChange(to_ms(group.from_seconds), group.node(name))]
    for change in sorted(group.changes, key=lambda change: change.at_seconds):
        amounts |= change.resources
        now = case_file.parse_all(amounts, round_up=False)
        node = msgspec.structs.replace(timeline[0].node, allocatable=now)
        timeline.append(NodeChange(max(1, to_ms(change.at_seconds)), node))
    if group.until_seconds is not None:
        timeline.append(
            NodeChange(max(1, to_ms(group.until_seconds)), timeline[0].node, removed=True)
        )
    return timeline


def make_processor_node(count: int) -> list[Node]:
    """One node with this number of processors: the machine of a Standard Workload Format trace."""
    amounts = {quantities.CPU: 1000 * count}
    return [Node(executor="e0", name="machine0", allocatable=amounts)]


def _read_group(document: Document, place: int, item: object, errors: InputErrors) -> Group | None:
    found = input_errors.find_field_errors(item, Group)
    values = cast(dict[str, Any], item) if isinstance(item, dict) else {}  # checked field by field
    found += _check_amounts("resources", values.get("resources"))
    count = values.get("count", 1)
    if isinstance(count, int) and not 1 <= count <= NODES_MAX:
        found.append(("count", f"is {count}; 1 to {NODES_MAX} are permitted"))
    if values.get("name") == "":
        found.append(("name", "is empty"))
    for field, reason in found:
        line = document.line(place, *field.split(".", 1))
        errors.add(document.file, line, field, reason)
    if found:
        return None
    group = msgspec.convert(item, Group)
    wrong = _check_times(group)
    for field, reason in wrong:
        line = document.line(place, *field.split(".", 1))
        errors.add(document.file, line, field, reason)
    if wrong:
        return None
    for at, taint in enumerate(group.taints):
        if taint.effect not in _EFFECTS:
            line = document.line(place, "taints", at, "effect")
            reason = f"{taint.effect!r} is not one of {', '.join(_EFFECTS)}"
            errors.add(document.file, line, "taints", reason)
    return group


def _check_amounts(field: str, amounts: object) -> list[tuple[str, str]]:
    found = []
    for name, amount in amounts.items() if isinstance(amounts, dict) else ():
        try:
            quantities.parse_quantity(str(name), amount, round_up=False)
        except ValueError as error:
            found.append((f"{field}.{name}", str(error)))
    return found


def _check_times(group: Group) -> list[tuple[str, str]]:
    """Contradictions between the times at which nodes are added, changed and removed."""
    first, last = group.from_seconds, group.until_seconds
    found = []
    if last is not None and last <= first:
        found.append(("untilSeconds", f"is {last:g}, not after fromSeconds ({first:g})"))
    for change in group.changes:
        if change.at_seconds <= first or (last is not None and change.at_seconds >= last):
            found.append(("changes", f"at {change.at_seconds:g} s the nodes do not exist"))
        found += _check_amounts("changes", change.resources)
    return found
