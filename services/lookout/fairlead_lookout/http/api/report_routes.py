"""Routes of the scheduler's reports: shares, reasons why jobs wait, and rounds."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Response

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import configuration, scheduling_reports
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import after_position, require_queue
from fairlead_lookout.http.request_parameters import QueueName
from fairlead_lookout.http.responses import report_responses
from fairlead_lookout.http.responses.json_answers import document_responses, json_response

ROUNDS_MAX: Final = 1_000
WAITING_MAX: Final = 100
"""Reasons with their sentences in one report; the counts by code include all reasons."""


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
        await require_queue(deps, visible_queues, queue)
        return json_response(describe_queue_report(deps, queue))

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
        require_pool(deps, pool)
        return json_response(describe_pool_report(deps, pool, visible_queues))

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
        require_pool(deps, pool)
        return json_response(await describe_rounds(deps, pool, limit))


def describe_queue_report(deps: Deps, queue: str) -> report_responses.QueueReportResponse:
    """The shares of a queue in all pools, its limits, and why its jobs wait."""
    found = deps.reports.read_queue(queue)
    configured = deps.configuration.find_queue(queue)
    return report_responses.QueueReportResponse(
        queue=queue,
        weight=configured.weight if configured else None,
        order=configured.order if configured else configuration.FIFO,
        cordoned=configured.cordoned if configured else False,
        reason=(configured.reason or None) if configured else None,
        limits=configured.limits if configured else {},
        shares=found.shares,
        waiting=found.waiting[:WAITING_MAX],
        reasons=_count_reasons(found.waiting),
    )


def describe_pool_report(
    deps: Deps, pool: str, visible_queues: QueueScope
) -> report_responses.PoolReportResponse:
    """The last round of a pool, the shares of the visible queues, and why their jobs wait."""
    found = deps.reports.read_pool(pool, visible_queues)
    return report_responses.PoolReportResponse(
        pool=pool,
        round=None if found.round is None else report_responses.describe_round(found.round),
        shares=sorted(found.shares, key=lambda share: share.queue),
        waiting=found.waiting[:WAITING_MAX],
        reasons=_count_reasons(found.waiting),
    )


async def describe_rounds(deps: Deps, pool: str, limit: int) -> report_responses.RoundsResponse:
    """The last rounds of a pool, newest first."""
    rounds = await deps.view.read_rounds(pool, limit)
    return report_responses.RoundsResponse(
        pool=pool, rounds=[report_responses.describe_round(each) for each in rounds]
    )


def _count_reasons(waiting: list[scheduling_reports.WaitingReport]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for reason in waiting:
        totals[reason.code] = totals.get(reason.code, 0) + reason.jobs
    return totals


def require_pool(deps: Deps, pool: str) -> None:
    """Raises a 404 `Problem` for a pool without nodes and without reports."""
    nodes = (node for _, _, nodes in deps.clusters.read_all() for node in nodes)
    if not deps.reports.has_pool(pool) and all(node.pool != pool for node in nodes):
        raise Problem("not-found", f"Pool {pool!r} does not exist: it has never had a node.")
