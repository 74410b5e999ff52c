"""The pages of clusters: what they have and use, and the nodes of one as a heat map."""

from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter

from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.domain.scheduling import quantities
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ListExport, Rows, split_rows
from fairlead_lookout.http.lookups import cluster_lookup
from fairlead_lookout.http.pages import rendering
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.pages.saved_view_pages import read_views
from fairlead_lookout.http.pages.table_orders import SORT, Column, parse_order
from fairlead_lookout.http.responses import response_base
from fairlead_lookout.http.responses.cluster_responses import (
    EFFECTS,
    ClusterResponse,
    NodeResponse,
)
from fairlead_lookout.store.topic_caches import ClusterCache

PATH: Final = "/clusters"
NODES_DRAWN_MAX: Final = 5_000
NODES_LISTED_MAX: Final = 50
LEVELS: Final = 4
"""Colours of the heat map between free and full."""
MAIN_RESOURCES: Final = (quantities.CPU, quantities.MEMORY)
"""Shown first; the others follow by name."""


CLUSTER_COLUMNS: Final = {
    "cluster": Column(lambda each: each.executor),
    "nodes": Column(lambda each: each.nodes, is_descending=True),
    "use": Column(lambda each: find_use(each, quantities.CPU), is_descending=True),
    "runs": Column(lambda each: each.runs, is_descending=True),
    "heartbeat": Column(lambda each: each.last_heartbeat, is_descending=True),
}


class UsageBar(msgspec.Struct, frozen=True):
    """How much of a resource is used: text as people write it, the fraction from 0 to 1."""

    resource: str
    used: str
    total: str
    fraction: float


class NodeCell(msgspec.Struct, frozen=True):
    """A node in the heat map. `level`: `free`, `full`, or from 1 to `LEVELS` between them."""

    node: str
    level: str
    percent: int
    closed: bool


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The pages and their streams."""
    sender.add_page(router, PATH, "clusters.html", "clusters", _clusters, is_exported=True)
    sender.add_page(
        router, f"{PATH}/{{executor}}", "cluster.html", "clusters", _cluster, is_exported=True
    )


async def _clusters(deps: Deps, sort: Text = None) -> Fragment:
    """All clusters."""
    order = parse_order(sort, CLUSTER_COLUMNS, "cluster", PATH)
    query = {SORT: order.parameter}

    async def read_clusters() -> list[ClusterResponse]:
        return order.sort_rows((await cluster_lookup.describe_clusters(deps)).clusters)

    async def read(_: QueueScope) -> Values:
        found = await read_clusters()
        return {
            "live": build_address(f"/live{PATH}", query),
            "exports": build_address(f"/export{PATH}", query),
            "order": order,
            "clusters": found,
            "bars": {each.executor: draw_bars(each.used, each.allocatable) for each in found},
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return await read_views(deps, caller, PATH)

    def list_exports(_: QueueScope) -> list[ListExport]:
        return [ListExport("clusters", ClusterResponse, split_rows(read_clusters))]

    return Fragment(
        "_clusters.html", (order.sort,), read, read_own=read_own, list_exports=list_exports
    )


async def _cluster(
    deps: Deps, executor: str, resource: Text = None, q: Text = None, sort: Text = None
) -> Fragment:
    """The nodes of a cluster whose names contain `q`, coloured by the use of a resource."""
    path = f"{PATH}/{quote(executor, safe='')}"
    used = resource or quantities.CPU
    columns = {
        "node": Column(lambda node: node.node),
        "use": Column(lambda node: find_use(node, used), is_descending=True),
        "runs": Column(lambda node: node.runs, is_descending=True),
    }
    query = {"resource": resource or None, "q": q or None}
    order = parse_order(sort, columns, "node", path, query)
    query[SORT] = order.parameter

    async def read_nodes(visible_queues: QueueScope) -> tuple[list[NodeResponse], list[str], int]:
        """Those that match, by name, the resources of all, and how many all are."""
        found = (await cluster_lookup.describe_nodes(deps, executor, visible_queues)).nodes
        resources = order_resources({name for node in found for name in node.allocatable})
        matching = [node for node in found if not q or q in node.node]
        return matching, resources, len(found)

    async def read(visible_queues: QueueScope) -> Values:
        nodes, resources, total = await read_nodes(visible_queues)
        chosen = resource if resource in resources else (resources or [quantities.CPU])[0]
        listed = order.sort_rows(nodes)[:NODES_LISTED_MAX]
        return {
            "live": build_address(f"/live{path}", query),
            "exports": build_address(f"/export{path}", query),
            "order": order,
            "path": path,
            "executor": executor,
            "resources": [
                (name, build_address(path, {**query, "resource": name})) for name in resources
            ],
            "resource": chosen,
            "q": q or "",
            "cells": draw_cells(nodes[:NODES_DRAWN_MAX], chosen),
            "nodes": listed,
            "bars": {node.node: draw_bars(node.used, node.allocatable) for node in listed},
            "matching": len(nodes),
            "total": total,
            "cordon": deps.configuration.find_cordon(executor),
            **describe_silence(deps.clusters, executor),
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return await read_views(deps, caller, path)

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        async def read_rows() -> Rows:
            return order.sort_rows((await read_nodes(visible_queues))[0])

        return [ListExport("nodes", NodeResponse, split_rows(read_rows))]

    key = (executor, resource, q, order.sort)
    return Fragment("_cluster.html", key, read, read_own=read_own, list_exports=list_exports)


def describe_silence(clusters: ClusterCache, executor: str) -> Values:
    """The last heartbeat of an executor, and what it means if that is too old."""
    status = cluster_lookup.judge_executor(clusters, executor)
    return {
        "heartbeat": response_base.format_time(clusters.find_heartbeat_ms(executor)),
        "status": status,
        "effect": EFFECTS.get(status),
    }


def find_use(each: ClusterResponse | NodeResponse, resource: str) -> float | None:
    """The part of a resource that is in use, from 0 to 1; None without the resource."""
    total = each.allocatable.get(resource)
    return each.used.get(resource, 0) / total if total else None


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
    """The heat map: a cell for each node, coloured by the use of the resource."""
    cells = []
    for node in nodes:
        total = node.allocatable.get(resource, 0)
        fraction = min(1.0, node.used.get(resource, 0) / total) if total else 0.0
        level = "free" if fraction == 0 else str(min(LEVELS, 1 + int(LEVELS * fraction)))
        cells.append(
            NodeCell(
                node=node.node,
                level="full" if fraction >= 1 else level,
                percent=round(100 * fraction),
                closed=node.cordoned or node.unschedulable,
            )
        )
    return cells
