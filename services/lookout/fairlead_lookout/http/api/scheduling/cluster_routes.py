"""Routes of clusters: what they have, what is used, what runs on their nodes."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from fairlead_common.domain.permissions import QueueScope
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import after_position
from fairlead_lookout.http.lookups import cluster_lookup
from fairlead_lookout.http.request_parameters import QueueName
from fairlead_lookout.http.responses import cluster_responses
from fairlead_lookout.http.responses.json_answers import document_responses, json_response


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Clusters and their nodes."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/clusters",
        summary="All clusters with their resources and usage",
        dependencies=[after_position(deps)],
        responses=document_responses(cluster_responses.ClustersResponse, "All clusters.", 400),
    )
    async def list_clusters() -> Response:
        return json_response(await cluster_lookup.describe_clusters(deps))

    @router.get(
        "/clusters/{executor}/nodes",
        summary="The nodes of a cluster and what runs there",
        dependencies=[after_position(deps)],
        responses=document_responses(
            cluster_responses.NodesResponse, "Its nodes and what runs there.", 400, 404
        ),
    )
    async def list_nodes(visible_queues: VisibleQueues, executor: QueueName) -> Response:
        return json_response(await cluster_lookup.describe_nodes(deps, executor, visible_queues))
