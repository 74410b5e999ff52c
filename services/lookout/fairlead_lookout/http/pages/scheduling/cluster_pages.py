"""The pages of clusters: what they have and use, and the nodes of one as a heat map."""

from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter

from fairlead_common.domain import quantities
from fairlead_common.domain.permissions import QueueScope
from fairlead_lookout.http.api import cluster_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages import rendering
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.responses import NodeResponse

NODES_DRAWN_MAX: Final = 5_000
NODES_LISTED_MAX: Final = 50
CELLS_PER_ROW: Final = 50
LEVELS: Final = 4
"""Colours of the heat map between free and full."""
MAIN_RESOURCES: Final = (quantities.CPU, quantities.MEMORY)
"""Shown first; the others follow by name."""


class UsageBar(msgspec.Struct, frozen=True):
    """How much of a resource is used: text as people write it, the fraction from 0 to 1."""

    resource: str
    used: str
    total: str
    fraction: float


class NodeCell(msgspec.Struct, frozen=True):
    """A node in the heat map. `level`: `free`, `full`, or from 1 to `LEVELS` between them."""

    node: str
    column: int
    row: int
    level: str
    percent: int
    closed: bool


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The pages and their streams."""
    sender.add_page(router, "/clusters", "clusters.html", "clusters", _clusters)
    sender.add_page(router, "/clusters/{executor}", "cluster.html", "clusters", _cluster)


async def _clusters(deps: Deps) -> Fragment:
    """All clusters."""

    async def read(_: QueueScope) -> Values:
        found = (await cluster_routes.describe_clusters(deps)).clusters
        bars = {each.executor: draw_bars(each.used, each.allocatable) for each in found}
        return {"live": "/live/clusters", "clusters": found, "bars": bars}

    return Fragment("_clusters.html", (), read)


async def _cluster(deps: Deps, executor: str, resource: Text = None, q: Text = None) -> Fragment:
    """The nodes of a cluster whose names contain `q`, coloured by the use of a resource."""

    async def read(visible_queues: QueueScope) -> Values:
        found = await cluster_routes.describe_nodes(deps, executor, visible_queues)
        resources = order_resources({name for node in found.nodes for name in node.allocatable})
        chosen = resource if resource in resources else (resources or [quantities.CPU])[0]
        nodes = [node for node in found.nodes if not q or q in node.node]
        path = f"/clusters/{quote(executor, safe='')}"
        listed = nodes[:NODES_LISTED_MAX]
        return {
            "live": build_address(f"/live{path}", {"resource": resource, "q": q}),
            "path": path,
            "executor": executor,
            "resources": resources,
            "resource": chosen,
            "q": q or "",
            "cells": draw_cells(nodes[:NODES_DRAWN_MAX], chosen),
            "cells_per_row": CELLS_PER_ROW,
            "nodes": listed,
            "bars": {node.node: draw_bars(node.used, node.allocatable) for node in listed},
            "matching": len(nodes),
            "total": len(found.nodes),
            "cordon": deps.configuration.find_cordon(executor),
        }

    return Fragment("_cluster.html", (executor, resource, q), read)


def draw_bars(used: dict[str, float | int], allocatable: dict[str, float | int]) -> list[UsageBar]:
    """One bar for each resource that there is."""
    return [
        UsageBar(
            resource=name,
            used=rendering.format_amount(name, used.get(name, 0)),
            total=rendering.format_amount(name, allocatable[name]),
            fraction=min(1.0, used.get(name, 0) / allocatable[name]),
        )
        for name in order_resources(allocatable)
        if allocatable[name]
    ]


def order_resources(names: "set[str] | dict[str, float | int]") -> list[str]:
    """CPU and memory first, then the others by name."""
    return [name for name in MAIN_RESOURCES if name in names] + sorted(
        name for name in names if name not in MAIN_RESOURCES
    )


def draw_cells(nodes: list[NodeResponse], resource: str) -> list[NodeCell]:
    """The heat map: rows of `CELLS_PER_ROW` nodes, coloured by the use of the resource."""
    cells = []
    for at, node in enumerate(nodes):
        total = node.allocatable.get(resource, 0)
        fraction = min(1.0, node.used.get(resource, 0) / total) if total else 0.0
        level = "free" if fraction == 0 else str(min(LEVELS, 1 + int(LEVELS * fraction)))
        row, column = divmod(at, CELLS_PER_ROW)
        cells.append(
            NodeCell(
                node=node.node,
                column=column,
                row=row,
                level="full" if fraction >= 1 else level,
                percent=round(100 * fraction),
                closed=node.cordoned or node.unschedulable,
            )
        )
    return cells
