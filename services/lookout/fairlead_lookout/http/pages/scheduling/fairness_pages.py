"""The fairness report: the share of each queue in a pool beside its fair share, over time."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query

from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.domain.scheduling import quantities
from fairlead_common.service import clock
from fairlead_lookout.domain.fairness_fold import MINUTE_MS, ShareTotals
from fairlead_lookout.domain.resource_usage import HOUR_MS, start_of_hour
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ListExport, Rows, split_rows
from fairlead_lookout.http.lookups.fairness_lookup import MINUTES_SPAN_MS
from fairlead_lookout.http.lookups.report_lookup import require_pool
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.pages.saved_view_pages import read_views
from fairlead_lookout.http.pages.scheduling import share_charts
from fairlead_lookout.http.pages.scheduling.share_charts import ShareChart
from fairlead_lookout.http.pages.table_orders import SORT, Column, TableOrder, parse_order
from fairlead_lookout.http.responses import response_base
from fairlead_lookout.http.responses.response_base import ResponseBody
from fairlead_lookout.store.queries.fairness_history import (
    Period,
    UsedAndLost,
    read_pool_shares,
    read_pool_totals,
    read_pool_usage,
)
from fairlead_lookout.store.queries.list_filters import invalid_parameter

PATH: Final = "/fairness"
QUEUES_PER_PAGE: Final = 12
"""Queues of a page, each with a picture."""
QUEUES_MAX: Final = 1_000
"""Queues that are compared: those with the greatest share or demand now."""
PERIODS: Final = {"1h": 1, "6h": 6, "24h": 24, "7d": 168, "30d": 720}
"""Hours by the value of the parameter."""
PeriodName = Annotated[str | None, Query(max_length=10)]
Offset = Annotated[int, Query(ge=0, le=QUEUES_MAX)]


class QueueFairness(msgspec.Struct, frozen=True):
    """A queue in a pool over the period: means, and what it used and lost there, where that has
    been read."""

    queue: str
    share: float
    fair_share: float
    waiting: float
    used: dict[str, float] = {}
    lost: dict[str, float] = {}
    chart: ShareChart | None = None

    @property
    def difference(self) -> float:
        """Above 0: more than its fair share."""
        return self.share - self.fair_share


COLUMNS: Final = {
    "distance": Column(lambda row: abs(row.difference), is_descending=True),
    "queue": Column(lambda row: row.queue),
    "share": Column(lambda row: row.share, is_descending=True),
    "fairShare": Column(lambda row: row.fair_share, is_descending=True),
    "difference": Column(lambda row: row.difference, is_descending=True),
    "waiting": Column(lambda row: row.waiting, is_descending=True),
    "used": Column(lambda row: row.used.get(quantities.CPU, 0.0), is_descending=True),
    "lost": Column(lambda row: row.lost.get(quantities.CPU, 0.0), is_descending=True),
}
DEFAULT_ORDER: Final = "-distance"
OF_USAGE: Final = ("used", "lost")
"""Orders for which the usage of all queues is read, and not only of those that are listed."""


class FairnessLine(ResponseBody, frozen=True, kw_only=True):
    """A queue in a pool over the period, as a line of an export: means, and resource-hours."""

    queue: str
    pool: str
    share: float
    fair_share: float
    difference: float
    waiting: float
    used: dict[str, float]
    lost: dict[str, float]


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page, its stream and its export."""
    sender.add_page(router, PATH, "fairness.html", "fairness", _fairness, is_exported=True)


async def _fairness(
    deps: Deps,
    pool: Text = None,
    q: Text = None,
    period: PeriodName = None,
    sort: Text = None,
    offset: Offset = 0,
) -> Fragment:
    """The queues of a pool whose names contain `q`, over a period, from the one at `offset`.

    Raises a 404 or 422 `Problem` if the pool or the period does not exist.
    """
    hours = period or "24h"
    if hours not in PERIODS:
        raise invalid_parameter("period", f"{hours!r} is not a period. Use {', '.join(PERIODS)}.")
    if pool:
        require_pool(deps, pool)
    query = {"pool": pool or None, "q": q or None, "period": period or None}
    order = parse_order(sort, COLUMNS, DEFAULT_ORDER, PATH, query)
    query[SORT] = order.parameter

    async def read(visible_queues: QueueScope) -> Values:
        chosen = _choose_pool(deps, pool)
        pools = sorted({*deps.reports.list_pools(), chosen} - {""})
        names = _find_queues(deps, chosen, q or "", visible_queues)
        span = _make_period(hours)
        rows = await _read_rows(deps, chosen, names[:QUEUES_MAX], span, order)
        listed = rows[offset : offset + QUEUES_PER_PAGE]
        if order.sort.removeprefix("-") not in OF_USAGE:
            listed = await _add_usage(deps, chosen, listed, span)

        def find_address(begin: int) -> str:
            return build_address(PATH, {**query, "offset": str(begin) if begin else None})

        end = offset + QUEUES_PER_PAGE
        return {
            "live": build_address(
                f"/live{PATH}", {**query, "offset": str(offset) if offset else None}
            ),
            "exports": build_address(f"/export{PATH}", query),
            "order": order,
            "by_distance": build_address(PATH, {**query, SORT: None}),
            "query": query,
            "q": q or "",
            "pool": chosen,
            "pools": [(each, build_address(PATH, {**query, "pool": each})) for each in pools],
            "period": hours,
            "periods": [(each, build_address(PATH, {**query, "period": each})) for each in PERIODS],
            "rows": await _add_charts(deps, chosen, listed, span),
            "first": offset + 1,
            "matching": len(rows),
            "left_out": max(0, len(names) - QUEUES_MAX),
            "compared": QUEUES_MAX,
            "previous": find_address(max(0, offset - QUEUES_PER_PAGE)) if offset else None,
            "next": find_address(end) if end < len(rows) else None,
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return await read_views(deps, caller, PATH)

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        async def read_lines() -> Rows:
            chosen = _choose_pool(deps, pool)
            names = _find_queues(deps, chosen, q or "", visible_queues)
            span = _make_period(hours)
            rows = await _read_rows(deps, chosen, names[:QUEUES_MAX], span, order)
            if order.sort.removeprefix("-") not in OF_USAGE:
                rows = await _add_usage(deps, chosen, rows, span)
            return [_describe_line(row, chosen) for row in rows]

        return [ListExport("fairness", FairnessLine, split_rows(read_lines))]

    key = (pool, q, hours, order.sort, offset)
    return Fragment("_fairness.html", key, read, read_own=read_own, list_exports=list_exports)


def _choose_pool(deps: Deps, pool: str | None) -> str:
    """This pool, or without one the first that has a report, or ""."""
    return pool or min(deps.reports.list_pools(), default="")


def _make_period(hours: str) -> Period:
    """The time until now, from the beginning of its first step."""
    now_ms = clock.now_ms()
    length_ms = PERIODS[hours] * HOUR_MS
    width_ms = MINUTE_MS if length_ms <= MINUTES_SPAN_MS else HOUR_MS
    from_ms = now_ms - length_ms
    return Period(width_ms, from_ms - from_ms % width_ms, now_ms, now_ms)


def _find_queues(deps: Deps, pool: str, text: str, visible_queues: QueueScope) -> list[str]:
    """The queues with a share of the pool, the greatest share or demand first."""
    shares = deps.reports.read_pool(pool, visible_queues).shares
    shares.sort(key=lambda each: (-max(each.actual_share, each.demand_share), each.queue))
    return [each.queue for each in shares if text in each.queue]


async def _read_rows(
    deps: Deps, pool: str, queues: Sequence[str], period: Period, order: TableOrder
) -> list[QueueFairness]:
    """Those that had a share of the pool in the period, in their order, without pictures."""
    found = await read_pool_totals(deps.view, pool, queues, period)
    rows = [_describe_queue(queue, found[queue]) for queue in queues if queue in found]
    if order.sort.removeprefix("-") in OF_USAGE:
        rows = await _add_usage(deps, pool, rows, period)
    return order.sort_rows(rows)


def _describe_queue(queue: str, totals: ShareTotals) -> QueueFairness:
    means = totals.means()
    return QueueFairness(
        queue, share=means.share, fair_share=means.fair_share, waiting=means.queued
    )


async def _add_usage(
    deps: Deps, pool: str, rows: Sequence[QueueFairness], period: Period
) -> list[QueueFairness]:
    begin = msgspec.structs.replace(period, from_ms=start_of_hour(period.from_ms))
    found = await read_pool_usage(deps.view, pool, [row.queue for row in rows], begin)
    nothing: UsedAndLost = {"used": {}, "lost": {}}
    return [
        msgspec.structs.replace(
            row,
            **{
                kind: response_base.to_resource_hours(amounts)
                for kind, amounts in found.get(row.queue, nothing).items()
            },
        )
        for row in rows
    ]


async def _add_charts(
    deps: Deps, pool: str, rows: Sequence[QueueFairness], period: Period
) -> list[QueueFairness]:
    found = await read_pool_shares(deps.view, pool, [row.queue for row in rows], period)
    charts = {
        queue: share_charts.draw_chart(
            pool,
            [share_charts.make_point(*bucket) for bucket in buckets],
            period.from_ms,
            period.to_ms,
            period.width_ms,
        )
        for queue, buckets in found.items()
        if buckets
    }
    return [msgspec.structs.replace(row, chart=charts.get(row.queue)) for row in rows]


def _describe_line(row: QueueFairness, pool: str) -> FairnessLine:
    return FairnessLine(
        queue=row.queue,
        pool=pool,
        share=round(row.share, 6),
        fair_share=round(row.fair_share, 6),
        difference=round(row.difference, 6),
        waiting=round(row.waiting, 3),
        used=row.used,
        lost=row.lost,
    )
