"""The fairness report: the share of each queue in a pool beside its fair share, over time."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.service import clock
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.http.api import fairness_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.pages.scheduling import share_charts
from fairlead_lookout.http.pages.scheduling.share_charts import ShareChart
from fairlead_lookout.http.responses import FairnessResponse, ShareResponse

PATH: Final = "/fairness"
QUEUES_MAX: Final = 12
"""Queues of a page: those with the greatest share or demand now."""
PERIODS: Final = {"1h": 1, "6h": 6, "24h": 24, "7d": 168, "30d": 720}
"""Hours by the value of the parameter."""
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


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page and its stream."""
    sender.add_page(router, PATH, "fairness.html", "fairness", _fairness)


async def _fairness(
    deps: Deps, pool: Text = None, q: Text = None, period: Period = None
) -> Fragment:
    """The queues of a pool whose names contain `q`, over a period."""
    chosen_period = period if period in PERIODS else "24h"
    query = {"pool": pool or None, "q": q or None, "period": period or None}

    async def read(visible_queues: QueueScope) -> Values:
        pools = sorted(deps.reports.list_pools())
        chosen = pool if pool in pools else next(iter(pools), "")
        names = _find_queues(deps, chosen, q or "", visible_queues)
        now_ms = clock.now_ms()
        from_ms = now_ms - PERIODS[chosen_period] * HOUR_MS
        rows = []
        for name in names[:QUEUES_MAX]:
            found = await fairness_routes.describe_fairness(deps, name, from_ms, now_ms, now_ms)
            rows += _describe_queue(found, chosen)
        return {
            "live": build_address(f"/live{PATH}", query),
            "query": query,
            "q": q or "",
            "pool": chosen,
            "pools": [(each, build_address(PATH, {**query, "pool": each})) for each in pools],
            "period": chosen_period,
            "periods": [(each, build_address(PATH, {**query, "period": each})) for each in PERIODS],
            "rows": rows,
            "queues": len(names),
        }

    return Fragment("_fairness.html", (pool, q, chosen_period), read)


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
