"""T3: the domain that the engine chooses is the one that a plain scan of all domains chooses
(hypothesis)."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead_scheduler.cases.case_file import Case
from fairlead_scheduler.cases.case_world import World
from tests.properties.engine.worlds import BOUNDED

NODES_MAX = 16
"""As many domains of a level are tried (T3)."""


class Node(NamedTuple):
    """A node, and what is free there."""

    name: str
    path: tuple[str, ...]
    cpu: int
    memory: int


class Asked(NamedTuple):
    """A group of equal members."""

    members: int
    cpu: int
    memory: int
    widest: int
    """the level that it requires; 0 where it only prefers nearness"""
    required: bool


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[Node], Asked]:
    nodes = []
    for number in range(draw(st.integers(1, NODES_MAX))):
        zone, rack = draw(st.sampled_from("yz")), draw(st.sampled_from("abc"))
        cpu, memory = draw(st.integers(0, 6)), draw(st.integers(1, 6))
        name = f"n{number}x0"
        nodes.append(Node(name, (zone, rack, name), cpu, memory))
    asked = Asked(
        members=draw(st.integers(1, 6)),
        cpu=draw(st.integers(1, 3)),
        memory=draw(st.integers(1, 3)),
        widest=draw(st.integers(0, 2)),
        required=draw(st.booleans()),
    )
    return nodes, asked


def choose(nodes: list[Node], asked: Asked) -> set[str] | None:
    """The names of the nodes of the chosen domain; None where no domain has free capacity."""
    for level in (2, 1, 0):
        if level < (asked.widest if asked.required else 0):
            break
        fitting = []
        for path in {node.path[: level + 1] for node in nodes}:
            inside = [node for node in nodes if node.path[: level + 1] == path]
            places = (min(n.cpu // asked.cpu, n.memory // asked.memory) for n in inside)
            if sum(places) >= asked.members:
                free = sum(node.cpu for node in inside), sum(node.memory for node in inside)
                fitting.append((free, path, {node.name for node in inside}))
        if fitting:
            return min(fitting)[2]
    return None


def start(nodes: list[Node], asked: Asked) -> dict[str, str]:
    """Where the engine starts the members, by node; runs fill what is not free."""
    levels = ["zone", "rack", "hostname"]
    listed: list[dict[str, Any]] = []
    for node in nodes:
        labels = dict(zip(levels[:2], node.path, strict=False))
        amounts = {"cpu": node.cpu, "memory": f"{node.memory}Gi"}
        listed.append({"name": node.name.removesuffix("0"), "resources": amounts, "labels": labels})
    role = {"name": "w", "min": asked.members, "max": asked.members}
    request = {"cpu": asked.cpu, "memory": f"{asked.memory}Gi"}
    mode = "required" if asked.required else "preferred"
    topology = {"level": levels[asked.widest], "mode": mode}
    group = {"id": "g", "queue": "A", "roles": [{**role, **request}], "topology": topology}
    settings = {"topology": levels}
    rounds = [{"groups": [group]}]
    case = {"name": "generated", "settings": settings, "nodes": listed, "rounds": rounds}
    world = World(msgspec.convert(case, Case))
    world.begin(world.case.rounds[0], 0)
    return world.decide().placed


@BOUNDED
@given(pools())
def test_a_group_starts_in_the_domain_that_a_plain_scan_chooses(
    pool: tuple[list[Node], Asked],
) -> None:
    nodes, asked = pool
    placed, want = start(nodes, asked), choose(nodes, asked)
    if want is not None:
        assert len(placed) == asked.members
        assert set(placed.values()) <= want
    elif asked.required:
        assert not placed
