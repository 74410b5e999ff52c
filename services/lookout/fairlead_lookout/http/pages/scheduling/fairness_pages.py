"""The fairness report: the share of each queue in a pool beside its fair share, over time."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query

from fairlead_common.domain import quantities
from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_common.service import clock
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.http.api import fairness_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ListExport, Rows, split_rows
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.pages.saved_view_pages import read_views
from fairlead_lookout.http.pages.scheduling import share_charts
from fairlead_lookout.http.pages.scheduling.share_charts import ShareChart
from fairlead_lookout.http.pages.table_orders import SORT, Column, parse_order
from fairlead_lookout.http.responses import FairnessResponse, ResponseBody, ShareResponse

PATH: Final = "/fairness"
QUEUES_MAX: Final = 12
"""Queues of a page: those with the greatest share or demand now."""
PERIODS: Final = {"1h": 1, "6h": 6, "24h": 24, "7d": 168, "30d": 720}
"""Hours by the value of the parameter."""
QUEUES_EXPORTED_MAX: Final = 1_000
Period = Annotated[str | None, Query(max_length=10)]


class QueueFairness(msgspec.Struct, frozen=True):
    """A queue in a pool over the period: means, and what it used and lost there."""

    queue: str
    chart: ShareChart
    share: float
    fair_share: float
    waiting: float
    used: dict[str, float]
    lost: dict[str, float]

    @property
    def difference(self) -> float:
        """Above 0: more than its fair share."""
        return self.share - self.fair_share


COLUMNS: Final = {
    "queue": Column(lambda row: row.queue),
    "share": Column(lambda row: row.share, is_descending=True),
    "fairShare": Column(lambda row: row.fair_share, is_descending=True),
    "difference": Column(lambda row: row.difference, is_descending=True),
    "waiting": Column(lambda row: row.waiting, is_descending=True),
    "used": Column(lambda row: row.used.get(quantities.CPU, 0.0), is_descending=True),
    "lost": Column(lambda row: row.lost.get(quantities.CPU, 0.0), is_descending=True),
}


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
    deps: Deps, pool: Text = None, q: Text = None, period: Period = None, sort: Text = None
) -> Fragment:
    """The queues of a pool whose names contain `q`, over a period."""
    chosen_period = period if period in PERIODS else "24h"
    query = {"pool": pool or None, "q": q or None, "period": period or None}
    order = parse_order(sort, COLUMNS, "-share", PATH, query)
    query[SORT] = order.parameter

    async def read_rows(
        visible_queues: QueueScope, chosen: str, rows_max: int
    ) -> tuple[list[QueueFairness], int]:
        """The queues with the greatest share or demand in their order, and how many match."""
        names = _find_queues(deps, chosen, q or "", visible_queues)
        now_ms = clock.now_ms()
        from_ms = now_ms - PERIODS[chosen_period] * HOUR_MS
        rows = []
        for name in names[:rows_max]:
            found = await fairness_routes.describe_fairness(deps, name, from_ms, now_ms, now_ms)
            rows += _describe_queue(found, chosen)
        return order.sort_rows(rows), len(names)

    async def read(visible_queues: QueueScope) -> Values:
        pools = sorted(deps.reports.list_pools())
        chosen = _choose_pool(deps, pool)
        rows, matching = await read_rows(visible_queues, chosen, QUEUES_MAX)
        return {
            "live": build_address(f"/live{PATH}", query),
            "exports": build_address(f"/export{PATH}", query),
            "order": order,
            "query": query,
            "q": q or "",
            "pool": chosen,
            "pools": [(each, build_address(PATH, {**query, "pool": each})) for each in pools],
            "period": chosen_period,
            "periods": [(each, build_address(PATH, {**query, "period": each})) for each in PERIODS],
            "rows": rows,
            "queues": matching,
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return await read_views(deps, caller, PATH)

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        async def read_lines() -> Rows:
            chosen = _choose_pool(deps, pool)
            rows, _ = await read_rows(visible_queues, chosen, QUEUES_EXPORTED_MAX)
            return [_describe_line(row, chosen) for row in rows]

        return [ListExport("fairness", FairnessLine, split_rows(read_lines))]

    key = (pool, q, chosen_period, order.sort)
    return Fragment("_fairness.html", key, read, read_own=read_own, list_exports=list_exports)


def _choose_pool(deps: Deps, pool: str | None) -> str:
    """This pool if it has a report, else the first that has one, or ""."""
    pools = deps.reports.list_pools()
    return pool if pool in pools else min(pools, default="")


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


def _find_queues(deps: Deps, pool: str, text: str, visible_queues: QueueScope) -> list[str]:
    """The queues with a share of the pool, the greatest share or demand first."""
    shares = deps.reports.read_pool(pool, visible_queues).shares
    shares.sort(key=lambda each: (-max(each.actual_share, each.demand_share), each.queue))
    return [each.queue for each in shares if text in each.queue]


def _describe_queue(found: FairnessResponse, pool: str) -> list[QueueFairness]:
    """The queue in this pool; nothing if it had no share there in the period."""
    points = [point for point in found.points if point.pool == pool]
    if not points:
        return []
    (chart,) = [each for each in share_charts.draw_charts(found) if each.pool == pool]
    usage = [each for each in found.usage if each.pool == pool]
    return [
        QueueFairness(
            queue=found.queue,
            chart=chart,
            share=_mean(points, "share"),
            fair_share=_mean(points, "fair_share"),
            waiting=_mean(points, "queued"),
            used=_add([each.used for each in usage]),
            lost=_add([each.lost for each in usage]),
        )
    ]


def _mean(points: Sequence[ShareResponse], name: str) -> float:
    return float(sum(getattr(point, name) for point in points)) / len(points)


def _add(amounts: Sequence[dict[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for each in amounts:
        for name, amount in each.items():
            totals[name] = totals.get(name, 0) + amount
    return totals
