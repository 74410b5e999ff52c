"""The pages of pools: all of them, and one with its last rounds, shares and reasons."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter

from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.service import clock
from fairlead_lookout.domain.fairness_fold import MINUTE_MS
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.http.api import report_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.http.pages.scheduling.pool_history import PoolHistory, Shares, draw_history
from fairlead_lookout.http.responses import RoundResponse
from fairlead_lookout.store.queries.fairness_history import read_shares

ROUNDS_DRAWN: Final = 100
ROUNDS_LISTED: Final = 20
HISTORY_MS: Final = 6 * HOUR_MS
HISTORY_QUEUES_MAX: Final = 12
"""Queues in the picture of shares: those with the greatest share or demand now."""
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


class StepTime(msgspec.Struct, frozen=True):
    """A step of rounds: its mean and longest time, and its part of the time of all steps."""

    name: str
    mean_ms: float
    max_ms: float
    fraction: float


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
            "history": await _read_history(deps, pool, visible_queues),
            "steps": summarize_steps(rounds),
            "bars": draw_rounds(rounds),
            "longest_ms": max((sum(each.steps_ms.values()) for each in rounds), default=0.0),
            "rounds": rounds[:ROUNDS_LISTED],
        }

    return Fragment("_pool.html", (pool,), read)


async def _read_history(deps: Deps, pool: str, visible_queues: QueueScope) -> PoolHistory | None:
    """The shares of the greatest queues over the last hours. Those of queues that the caller may
    not view are added up."""
    to_ms = clock.now_ms()
    from_ms = to_ms - HISTORY_MS
    shares = deps.reports.read_pool(pool, ALL_QUEUES).shares
    shares.sort(key=lambda each: (-max(each.actual_share, each.demand_share), each.queue))
    found: list[tuple[str | None, Shares]] = []
    others: dict[int, float] = {}
    for name in [each.queue for each in shares[:HISTORY_QUEUES_MAX]]:
        buckets = await read_shares(deps.view, name, MINUTE_MS, from_ms, to_ms, to_ms)
        means = {at: each.actual_share / each.ms for at, of, each in buckets if of == pool}
        if name in visible_queues:
            found.append((name, means))
        else:
            for at, share in means.items():
                others[at] = others.get(at, 0.0) + share
    return draw_history([*found, *([(None, others)] if others else [])], from_ms, to_ms, MINUTE_MS)


def summarize_steps(rounds: Sequence[RoundResponse]) -> list[StepTime]:
    """The time of each step in these rounds, the longest first."""
    times: dict[str, list[float]] = {}
    for each in rounds:
        for name, ms in each.steps_ms.items():
            times.setdefault(name, []).append(ms)
    total = sum(map(sum, times.values())) or 1.0
    steps = [
        StepTime(name, sum(found) / len(rounds), max(found), sum(found) / total)
        for name, found in times.items()
    ]
    return sorted(steps, key=lambda step: -step.fraction)


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
