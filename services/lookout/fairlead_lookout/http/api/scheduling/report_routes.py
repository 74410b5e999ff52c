"""Routes of the scheduler's reports: shares, reasons why jobs wait, and rounds."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from fairlead_common.domain.permissions import QueueScope
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import after_position
from fairlead_lookout.http.lookups import queue_lookup, report_lookup
from fairlead_lookout.http.lookups.report_lookup import ROUNDS_MAX
from fairlead_lookout.http.request_parameters import QueueName
from fairlead_lookout.http.responses import report_responses
from fairlead_lookout.http.responses.json_answers import document_responses, json_response


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Reports of queues and pools."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/queues/{queue}/report",
        summary="The shares of a queue, and why its jobs wait",
        dependencies=[after_position(deps)],
        responses=document_responses(
            report_responses.QueueReportResponse, "Shares and reasons of a queue.", 400, 404
        ),
    )
    async def queue_report(visible_queues: VisibleQueues, queue: QueueName) -> Response:
        await queue_lookup.require_queue(deps, visible_queues, queue)
        return json_response(report_lookup.describe_queue_report(deps, queue))

    @router.get(
        "/pools/{pool}/report",
        summary="The last round of a pool, the shares of its queues, and why jobs wait",
        dependencies=[after_position(deps)],
        responses=document_responses(
            report_responses.PoolReportResponse,
            "The last round, shares and reasons of a pool.",
            400,
            404,
        ),
    )
    async def pool_report(visible_queues: VisibleQueues, pool: QueueName) -> Response:
        report_lookup.require_pool(deps, pool)
        return json_response(report_lookup.describe_pool_report(deps, pool, visible_queues))

    @router.get(
        "/pools/{pool}/rounds",
        summary="The last rounds of a pool, newest first",
        dependencies=[after_position(deps)],
        responses=document_responses(
            report_responses.RoundsResponse, "The last rounds of a pool, newest first.", 400, 404
        ),
    )
    async def pool_rounds(
        pool: QueueName, limit: Annotated[int, Query(ge=1, le=ROUNDS_MAX)] = 100
    ) -> Response:
        report_lookup.require_pool(deps, pool)
        return json_response(await report_lookup.describe_rounds(deps, pool, limit))
