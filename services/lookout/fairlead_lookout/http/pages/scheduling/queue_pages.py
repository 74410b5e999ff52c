"""The pages of queues: the shares of all of them, and one with its shares over the last day."""

from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter

from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.domain.records.configuration import FIFO, Queue
from fairlead_common.domain.records.scheduling_reports import QueueShare, WaitingReport
from fairlead_common.domain.scheduling import quantities
from fairlead_common.service import clock
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ListExport, Rows, split_rows
from fairlead_lookout.http.lookups import fairness_lookup, queue_lookup, report_lookup
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.pages.saved_view_pages import read_views
from fairlead_lookout.http.pages.scheduling import share_charts
from fairlead_lookout.http.pages.table_orders import SORT, Column, parse_order
from fairlead_lookout.http.responses.fairness_responses import FairnessResponse, ShareResponse
from fairlead_lookout.http.responses.job_set_responses import JobSetResponse, describe_job_sets
from fairlead_lookout.http.responses.response_base import ResponseBody
from fairlead_lookout.store.queries.list_filters import JobSetFilter

PATH: Final = "/queues"
JOB_SETS_EXAMINED: Final = 100
JOB_SETS_LISTED: Final = 10
USERS_LISTED: Final = 20


class QueueRow(msgspec.Struct, frozen=True):
    """A queue in one pool. Without a `share` the scheduler has not reported one yet."""

    queue: str
    weight: float | None
    order: str
    cordoned: bool
    share: QueueShare | None
    reason: WaitingReport | None


COLUMNS: Final = {
    "queue": Column(lambda row: row.queue),
    "pool": Column(lambda row: row.share and row.share.pool),
    "share": Column(lambda row: row.share and row.share.actual_share, is_descending=True),
    "fairShare": Column(lambda row: row.share and row.share.fair_share, is_descending=True),
    "demand": Column(lambda row: row.share and row.share.demand_share, is_descending=True),
    "running": Column(lambda row: row.share and row.share.running, is_descending=True),
    "waiting": Column(lambda row: row.share and row.share.queued, is_descending=True),
}


class QueueLine(ResponseBody, frozen=True, kw_only=True):
    """A queue in one pool, as a line of an export. `reason`: why most of its waiting jobs wait."""

    queue: str
    pool: str | None = None
    weight: float | None = None
    share: float | None = None
    fair_share: float | None = None
    demand: float | None = None
    running: int | None = None
    waiting: int | None = None
    order: str | None = None
    cordoned: bool = False
    reason: str | None = None


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The pages and their streams."""
    sender.add_page(router, PATH, "queues.html", "queues", _queues, is_exported=True)
    sender.add_page(router, f"{PATH}/{{queue}}", "queue.html", "queues", _queue, is_exported=True)


async def _queues(deps: Deps, sort: Text = None) -> Fragment:
    """All queues with their shares, and those without jobs."""
    order = parse_order(sort, COLUMNS, "-share", PATH)
    query = {SORT: order.parameter}

    async def read_rows(visible_queues: QueueScope) -> list[QueueRow]:
        with_jobs = await deps.view.read_queues(visible_queues)
        created = {
            queue.name: queue
            for queue in deps.configuration.read_queues()
            if queue.name in visible_queues
        }
        return order.sort_rows(
            [
                row
                for name in sorted(created.keys() | with_jobs)
                for row in _describe_queue(deps, name, created.get(name))
            ]
        )

    async def read(visible_queues: QueueScope) -> Values:
        return {
            "live": build_address(f"/live{PATH}", query),
            "exports": build_address(f"/export{PATH}", query),
            "order": order,
            "rows": await read_rows(visible_queues),
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return await read_views(deps, caller, PATH)

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        async def read_lines() -> Rows:
            return [_describe_line(row) for row in await read_rows(visible_queues)]

        return [ListExport("queues", QueueLine, split_rows(read_lines))]

    return Fragment(
        "_queues.html", (order.sort,), read, read_own=read_own, list_exports=list_exports
    )


def describe_share(share: QueueShare) -> QueueLine:
    """A share as a line of an export."""
    return QueueLine(
        queue=share.queue,
        pool=share.pool,
        weight=share.weight,
        share=share.actual_share,
        fair_share=share.fair_share,
        demand=share.demand_share,
        running=share.running,
        waiting=share.queued,
    )


def _describe_line(row: QueueRow) -> QueueLine:
    line = QueueLine(queue=row.queue) if row.share is None else describe_share(row.share)
    return msgspec.structs.replace(
        line,
        weight=row.weight,
        order=row.order,
        cordoned=row.cordoned,
        reason=None if row.reason is None else row.reason.code,
    )


def _describe_queue(deps: Deps, queue: str, configured: Queue | None) -> list[QueueRow]:
    """One row for each pool in which it has a share; one row if it has none."""
    found = deps.reports.read_queue(queue)
    reasons: dict[str, WaitingReport] = {}
    for reason in found.waiting:  # the one of most jobs first
        reasons.setdefault(reason.pool, reason)
    shares: list[QueueShare | None] = [*sorted(found.shares, key=lambda share: share.pool)]
    return [
        QueueRow(
            queue=queue,
            weight=configured.weight if configured else None,
            order=configured.order if configured else FIFO,
            cordoned=configured.cordoned if configured else False,
            share=share,
            reason=reasons.get(share.pool) if share else None,
        )
        for share in shares or [None]
    ]


async def _queue(deps: Deps, queue: str) -> Fragment:
    """The shares of a queue over the last day, why its jobs wait, what they used."""

    path = f"{PATH}/{quote(queue, safe='')}"

    async def read_shares(visible_queues: QueueScope) -> FairnessResponse:
        await queue_lookup.require_queue(deps, visible_queues, queue)
        now_ms = clock.now_ms()
        return await fairness_lookup.describe_fairness(
            deps, queue, now_ms - fairness_lookup.SPAN_MS, now_ms, now_ms
        )

    async def read(visible_queues: QueueScope) -> Values:
        found = await read_shares(visible_queues)
        now_ms = clock.now_ms()
        users = await fairness_lookup.rank_users(
            deps, queue, now_ms - fairness_lookup.SPAN_MS, now_ms, now_ms
        )
        return {
            "live": f"/live{path}",
            "exports": f"/export{path}",
            "queue": queue,
            "totals": await deps.view.count_jobs_by_state(visible_queues, queue),
            "report": report_lookup.describe_queue_report(deps, queue),
            "job_sets": await _rank_job_sets(deps, queue, visible_queues),
            "charts": share_charts.draw_charts(found, is_trimmed=True),
            "used": found.used,
            "lost": found.lost,
            "users": users[:USERS_LISTED],
        }

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        async def read_points() -> Rows:
            return (await read_shares(visible_queues)).points

        return [ListExport("shares", ShareResponse, split_rows(read_points))]

    return Fragment("_queue.html", (queue,), read, list_exports=list_exports)


async def _rank_job_sets(
    deps: Deps, queue: str, visible_queues: QueueScope
) -> list[JobSetResponse]:
    """Of the newest job sets of a queue those that used most processor time."""
    wanted = JobSetFilter(visible_queues=visible_queues, queue=queue)
    found = await deps.view.read_job_sets(wanted, JOB_SETS_EXAMINED, None)
    described = [each for each in describe_job_sets(found).job_sets if each.resource_hours]
    described.sort(key=lambda each: -each.resource_hours.get(quantities.CPU, 0.0))
    return described[:JOB_SETS_LISTED]
