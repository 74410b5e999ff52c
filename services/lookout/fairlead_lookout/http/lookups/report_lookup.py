"""What the scheduler reports of a queue or a pool: shares, reasons why jobs wait, and rounds."""

from typing import Final

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import configuration, scheduling_reports
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.responses import report_responses

ROUNDS_MAX: Final = 1_000
WAITING_MAX: Final = 100
"""Reasons with their sentences in one report; the counts by code include all reasons."""


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
    if not deps.reports.has_pool(pool) and not deps.clusters.has_nodes(pool):
        raise Problem("not-found", f"Pool {pool!r} does not exist: it has never had a node.")
