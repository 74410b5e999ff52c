"""The page of a node: what it has, what runs there, its cordon."""

from urllib.parse import quote

from fastapi import APIRouter

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.lookups import cluster_lookup
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.http.pages.scheduling.cluster_pages import describe_silence, draw_bars
from fairlead_lookout.http.responses import job_responses


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page and its stream."""
    sender.add_page(router, "/clusters/{executor}/nodes/{node}", "node.html", "clusters", _node)


async def _node(deps: Deps, executor: str, node: str) -> Fragment:
    """A node of a cluster."""

    async def read(visible_queues: QueueScope) -> Values:
        nodes = (await cluster_lookup.describe_nodes(deps, executor, visible_queues)).nodes
        found = next((each for each in nodes if each.node == node), None)
        if found is None:
            raise Problem("not-found", f"Cluster {executor!r} has no node {node!r}.")
        path = f"/clusters/{quote(executor, safe='')}/nodes/{quote(node, safe='')}"
        return {
            "live": f"/live{path}",
            "exports": build_address(
                "/api/v1/jobs/export.csv",
                {"cluster": executor, "node": node, "state": "LEASED,PENDING,RUNNING"},
            ),
            "executor": executor,
            "node": found,
            "bars": draw_bars(found.used, found.allocatable),
            "jobs": job_responses.describe_jobs(
                await deps.view.read_jobs(found.jobs), deps.clusters
            ),
            **describe_silence(deps.clusters, executor),
        }

    return Fragment("_node.html", (executor, node), read)
