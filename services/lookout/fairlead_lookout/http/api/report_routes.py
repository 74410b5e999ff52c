"""Routes of what the scheduler and the executors say: reports, rounds, clusters and their nodes."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_lookout.http import responses
from fairlead_lookout.http.api import cluster_responses
from fairlead_lookout.http.deps import Parts
from fairlead_lookout.http.long_polls import QueueName, answer, coming, require_queue
from fairlead_lookout.http.openapi import answers

ROUNDS_MAX = 1_000


def add_routes(router: APIRouter, parts: Parts) -> None:
    """Reports of queues and pools; clusters."""
    Seen = Annotated[QueueScope, Depends(parts.sight)]
    come = [coming(parts)]

    @router.get(
        "/clusters",
        summary="The clusters: what they have, what of it is used",
        dependencies=come,
        responses=answers(responses.ClustersShown, "All clusters.", 400),
    )
    async def list_clusters() -> Response:
        return answer(await cluster_responses.clusters(parts))

    @router.get(
        "/clusters/{executor}/nodes",
        summary="The nodes of a cluster, and what runs there",
        dependencies=come,
        responses=answers(responses.NodesShown, "Its nodes and what runs there.", 400, 404),
    )
    async def list_nodes(reach: Seen, executor: QueueName) -> Response:
        return answer(await cluster_responses.nodes(parts, executor, reach))

    @router.get(
        "/queues/{queue}/report",
        summary="What a queue holds and is owed, and why its jobs wait",
        dependencies=come,
        responses=answers(responses.QueueReportShown, "Shares and reasons of a queue.", 400, 404),
    )
    async def queue_report(reach: Seen, queue: QueueName) -> Response:
        await require_queue(parts, reach, queue)
        return answer(parts.reports.of_queue(queue, parts.configured.queue(queue)))

    @router.get(
        "/pools/{pool}/report",
        summary="The last round of a pool, what its queues hold, and why jobs wait",
        dependencies=come,
        responses=answers(
            responses.PoolReportShown, "The last round, shares and reasons of a pool.", 400, 404
        ),
    )
    async def pool_report(reach: Seen, pool: QueueName) -> Response:
        _require_pool(parts, pool)
        return answer(parts.reports.of_pool(pool, reach))

    @router.get(
        "/pools/{pool}/rounds",
        summary="The last rounds of a pool, newest first",
        dependencies=come,
        responses=answers(
            responses.RoundsShown, "The last rounds of a pool, newest first.", 400, 404
        ),
    )
    async def pool_rounds(
        pool: QueueName, limit: Annotated[int, Query(ge=1, le=ROUNDS_MAX)] = 100
    ) -> Response:
        _require_pool(parts, pool)
        rounds = [responses.round_of(done) for done in await parts.view.rounds(pool, limit)]
        return answer(responses.RoundsShown(pool=pool, rounds=rounds))


def _require_pool(parts: Parts, pool: str) -> None:
    """Raises a 404 `Problem` for a pool that has no node and of which nobody has said anything."""
    nodes = (node for _, _, nodes in parts.clusters.all() for node in nodes)
    if not parts.reports.knows_pool(pool) and all(node.pool != pool for node in nodes):
        raise Problem("not-found", f"No node has ever been in a pool {pool!r}.")
