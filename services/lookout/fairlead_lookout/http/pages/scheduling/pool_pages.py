"""The pages of pools: all of them, and one with its last rounds, shares and reasons."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter

from fairlead_common.domain.permissions import ALL_QUEUES, Caller, QueueScope
from fairlead_common.service import clock
from fairlead_lookout.domain.fairness_fold import MINUTE_MS
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ListExport, Rows, split_rows
from fairlead_lookout.http.lookups import cluster_lookup, report_lookup
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Text, Values
from fairlead_lookout.http.pages.saved_view_pages import read_views
from fairlead_lookout.http.pages.scheduling.cluster_pages import draw_bars
from fairlead_lookout.http.pages.scheduling.pool_history import PoolHistory, Shares, draw_history
from fairlead_lookout.http.pages.scheduling.queue_pages import QueueLine, describe_share
from fairlead_lookout.http.pages.table_orders import SORT, Column, parse_order
from fairlead_lookout.http.responses.report_responses import PoolReportResponse, RoundResponse
from fairlead_lookout.http.responses.response_base import ResponseBody
from fairlead_lookout.store.queries.fairness_history import Period, read_shares

PATH: Final = "/pools"
ROUNDS_DRAWN: Final = 100
ROUNDS_LISTED: Final = 20
HISTORY_MS: Final = 6 * HOUR_MS
HISTORY_QUEUES_MAX: Final = 12
"""Queues in the picture of shares: those with the greatest share or demand now."""
WIDTH: Final = 1_000
HEIGHT: Final = 160


POOL_COLUMNS: Final = {
    "pool": Column(lambda each: each.pool),
    "nodes": Column(lambda each: each.round and each.round.nodes, is_descending=True),
    "waiting": Column(lambda each: each.round and each.round.waiting, is_descending=True),
    "round": Column(lambda each: each.round and each.round.time, is_descending=True),
    "duration": Column(
        lambda each: each.round and sum(each.round.steps_ms.values()), is_descending=True
    ),
    "placed": Column(lambda each: each.round and each.round.scheduled, is_descending=True),
    "preempted": Column(lambda each: each.round and each.round.preempted, is_descending=True),
}
SHARE_COLUMNS: Final = {
    "queue": Column(lambda share: share.queue),
    "share": Column(lambda share: share.actual_share, is_descending=True),
    "fairShare": Column(lambda share: share.fair_share, is_descending=True),
    "demand": Column(lambda share: share.demand_share, is_descending=True),
    "running": Column(lambda share: share.running, is_descending=True),
    "waiting": Column(lambda share: share.queued, is_descending=True),
}


class PoolLine(ResponseBody, frozen=True, kw_only=True):
    """A pool with its last round, as a line of an export."""

    pool: str
    nodes: int | None = None
    waiting: int | None = None
    round: str | None = None
    outcome: str | None = None
    stopped_by: str | None = None
    error: str | None = None
    duration_ms: float | None = None
    placed: int | None = None
    preempted: int | None = None
    topology: tuple[str, ...] = ()


class RoundBar(msgspec.Struct, frozen=True):
    """A round in the picture: its duration is the height of its bar. `summary`: what it did."""

    x: float
    width: float
    y: float
    height: float
    outcome: str
    time: str
    summary: str


class StepTime(msgspec.Struct, frozen=True):
    """A step of rounds: its mean and longest time, and its part of the time of all steps."""

    name: str
    mean_ms: float
    max_ms: float
    fraction: float


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The pages and their streams."""
    sender.add_page(router, PATH, "pools.html", "pools", _pools, is_exported=True)
    sender.add_page(router, f"{PATH}/{{pool}}", "pool.html", "pools", _pool, is_exported=True)


async def _pools(deps: Deps, sort: Text = None) -> Fragment:
    """All pools with their last round."""
    order = parse_order(sort, POOL_COLUMNS, "pool", PATH)
    query = {SORT: order.parameter}

    def read_reports(visible_queues: QueueScope) -> list[PoolReportResponse]:
        return order.sort_rows(
            [
                report_lookup.describe_pool_report(deps, name, visible_queues)
                for name in sorted(deps.clusters.list_pools() | deps.reports.list_pools())
            ]
        )

    async def read(visible_queues: QueueScope) -> Values:
        use = await cluster_lookup.sum_pools(deps)
        return {
            "live": build_address(f"/live{PATH}", query),
            "exports": build_address(f"/export{PATH}", query),
            "order": order,
            "reports": read_reports(visible_queues),
            "bars": {pool: draw_bars(each.used, each.allocatable) for pool, each in use.items()},
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return await read_views(deps, caller, PATH)

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        async def read_lines() -> Rows:
            return [_describe_pool(each) for each in read_reports(visible_queues)]

        return [ListExport("pools", PoolLine, split_rows(read_lines))]

    return Fragment(
        "_pools.html", (order.sort,), read, read_own=read_own, list_exports=list_exports
    )


def _describe_pool(report: PoolReportResponse) -> PoolLine:
    last = report.round
    if last is None:
        return PoolLine(pool=report.pool)
    return PoolLine(
        pool=report.pool,
        nodes=last.nodes,
        waiting=last.waiting,
        round=last.time,
        outcome=last.outcome,
        stopped_by=last.stopped_by,
        error=last.error,
        duration_ms=round(sum(last.steps_ms.values()), 3),
        placed=last.scheduled,
        preempted=last.preempted,
        topology=last.topology,
    )


async def _pool(deps: Deps, pool: str, sort: Text = None) -> Fragment:
    """The last rounds of a pool, the shares of its queues, why jobs wait."""
    path = f"{PATH}/{quote(pool, safe='')}"
    order = parse_order(sort, SHARE_COLUMNS, "-share", path)
    query = {SORT: order.parameter}

    async def read(visible_queues: QueueScope) -> Values:
        report_lookup.require_pool(deps, pool)
        rounds = (await report_lookup.describe_rounds(deps, pool, ROUNDS_DRAWN)).rounds
        report = report_lookup.describe_pool_report(deps, pool, visible_queues)
        use = (await cluster_lookup.sum_pools(deps, pool)).get(pool)
        return {
            "live": build_address(f"/live{path}", query),
            "exports": {
                name: build_address(f"/export{path}", {**query, "table": name})
                for name in ("shares", "rounds")
            },
            "order": order,
            "pool": pool,
            "report": report,
            "use": draw_bars(use.used, use.allocatable) if use else [],
            "shares": order.sort_rows(report.shares),
            "history": await _read_history(deps, pool, visible_queues),
            "steps": summarize_steps(rounds),
            "bars": draw_rounds(rounds),
            "longest_ms": max((sum(each.steps_ms.values()) for each in rounds), default=0.0),
            "rounds": rounds[:ROUNDS_LISTED],
        }

    async def read_own(caller: Caller, _: Values) -> Values:
        return await read_views(deps, caller, path)

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        async def read_shares() -> Rows:
            report_lookup.require_pool(deps, pool)
            report = report_lookup.describe_pool_report(deps, pool, visible_queues)
            return [describe_share(share) for share in order.sort_rows(report.shares)]

        async def read_rounds() -> Rows:
            report_lookup.require_pool(deps, pool)
            most = report_lookup.ROUNDS_MAX
            return (await report_lookup.describe_rounds(deps, pool, most)).rounds

        return [
            ListExport("shares", QueueLine, split_rows(read_shares)),
            ListExport("rounds", RoundResponse, split_rows(read_rounds)),
        ]

    key = (pool, order.sort)
    return Fragment("_pool.html", key, read, read_own=read_own, list_exports=list_exports)


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
        buckets = await read_shares(deps.view, name, Period(MINUTE_MS, from_ms, to_ms, to_ms))
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
                time=each.time,
                summary=f"{duration_ms:.0f} ms, {each.scheduled} placed,"
                f" {each.preempted} preempted, {each.waiting} waiting",
            )
        )
    return bars
