"""The pages of pools: all of them, and one with its last rounds, shares and reasons."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter

from fairlead_common.domain.permissions import QueueScope
from fairlead_lookout.http.api import report_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.http.responses import RoundResponse

ROUNDS_DRAWN: Final = 100
ROUNDS_LISTED: Final = 20
WIDTH: Final = 1_000
HEIGHT: Final = 160


class RoundBar(msgspec.Struct, frozen=True):
    """A round in the picture: its duration is the height of its bar."""

    x: float
    width: float
    y: float
    height: float
    outcome: str
    title: str


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The pages and their streams."""
    sender.add_page(router, "/pools", "pools.html", "pools", _pools)
    sender.add_page(router, "/pools/{pool}", "pool.html", "pools", _pool)


async def _pools(deps: Deps) -> Fragment:
    """All pools with their last round."""

    async def read(visible_queues: QueueScope) -> Values:
        names = {node.pool for _, _, nodes in deps.clusters.read_all() for node in nodes}
        reports = [
            report_routes.describe_pool_report(deps, name, visible_queues)
            for name in sorted(names | deps.reports.list_pools())
        ]
        return {"live": "/live/pools", "reports": reports}

    return Fragment("_pools.html", (), read)


async def _pool(deps: Deps, pool: str) -> Fragment:
    """The last rounds of a pool, the shares of its queues, why jobs wait."""

    async def read(visible_queues: QueueScope) -> Values:
        report_routes.require_pool(deps, pool)
        rounds = (await report_routes.describe_rounds(deps, pool, ROUNDS_DRAWN)).rounds
        report = report_routes.describe_pool_report(deps, pool, visible_queues)
        shares = sorted(report.shares, key=lambda share: -share.actual_share)
        return {
            "live": f"/live/pools/{quote(pool, safe='')}",
            "pool": pool,
            "report": report,
            "shares": shares,
            "bars": draw_rounds(rounds),
            "longest_ms": max((sum(each.steps_ms.values()) for each in rounds), default=0.0),
            "rounds": rounds[:ROUNDS_LISTED],
        }

    return Fragment("_pool.html", (pool,), read)


def draw_rounds(rounds: Sequence[RoundResponse]) -> list[RoundBar]:
    """One bar for each of `ROUNDS_DRAWN` rounds, the newest at the right edge; the longest has the
    whole height."""
    longest_ms = max((sum(each.steps_ms.values()) for each in rounds), default=0.0) or 1.0
    width = WIDTH / ROUNDS_DRAWN
    bars = []
    for at, each in enumerate(rounds[:ROUNDS_DRAWN], start=1):
        duration_ms = sum(each.steps_ms.values())
        height = max(2.0, HEIGHT * duration_ms / longest_ms)
        bars.append(
            RoundBar(
                x=round(WIDTH - at * width, 2),
                width=width - 1,
                y=round(HEIGHT - height, 2),
                height=round(height, 2),
                outcome=each.outcome,
                title=f"{each.time[11:19]} UTC: {duration_ms:.0f} ms, {each.scheduled} placed,"
                f" {each.preempted} preempted, {each.waiting} waiting",
            )
        )
    return bars
