"""The page about this installation: versions, the health of each part, the lag of each view.

It shows what `/readyz` checks, what executors and the scheduler report in their heartbeats, and how
far lookout is behind the log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
from fastapi import APIRouter

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.service import clock
from fairlead_common.service.health import VERSION, Check, Degraded
from fairlead_common.web.server import run_check
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.lookups import cluster_lookup
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.http.responses import cluster_responses, response_base
from fairlead_lookout.store.topic_caches import ClusterCache

CHECK: Final = "Check whether its process runs."


class HealthDeps(msgspec.Struct, frozen=True):
    """The checks of `/readyz`, and a function that reads the lag of the view by partition."""

    checks: Mapping[str, Check]
    read_lags: Callable[[], Awaitable[dict[int, int]]]


class PartHealth(msgspec.Struct, frozen=True):
    """A part of the installation. `status`: ok, degraded, failed, stale, lost or reading; `detail`:
    a sentence, if it is not ok. `heartbeat`: its last one, if it sends any."""

    name: str
    status: str
    version: str = ""
    detail: str = ""
    heartbeat: str | None = None


class ViewLag(msgspec.Struct, frozen=True):
    """How far a view is behind the log. `messages`: None if it is unknown."""

    name: str
    messages: int | None
    detail: str


def add_routes(router: APIRouter, sender: PageSender, health: HealthDeps) -> None:
    """The page and its stream."""

    async def about(deps: Deps) -> Fragment:
        return _about(deps, health)

    sender.add_page(router, "/about", "about.html", "about", about)


def _about(deps: Deps, health: HealthDeps) -> Fragment:
    async def read(_: QueueScope) -> Values:
        parts = [*await _run_checks(health), *_describe_services(deps)]
        lags = await health.read_lags()
        return {
            "live": "/live/about",
            "version": VERSION,
            "parts": parts,
            "wrong": sum(part.status not in ("ok", "reading") for part in parts),
            "lags": [_describe_lag(lags), *_describe_caches(deps)],
        }

    return Fragment("_about.html", (), read)


async def _run_checks(health: HealthDeps) -> list[PartHealth]:
    """The checks of `/readyz`, all at the same time."""
    found = await asyncio.gather(*(run_check(check) for check in health.checks.values()))
    return [
        PartHealth(
            name=(name[:1].upper() + name[1:]).replace("-", " "),
            status="ok"
            if problem is None
            else ("degraded" if isinstance(problem, Degraded) else "failed"),
            version=VERSION,
            detail=str(problem or ""),
        )
        for name, problem in zip(health.checks, found, strict=True)
    ]


def _describe_services(deps: Deps) -> list[PartHealth]:
    """The leading scheduler and the executors, from their heartbeats."""
    parts = [_describe_scheduler(deps.clusters)]
    for executor in deps.clusters.list_executors():
        heartbeat = deps.clusters.find_heartbeat(executor)
        status = cluster_lookup.judge_executor(deps.clusters, executor)
        effect = cluster_responses.EFFECTS.get(status)
        parts.append(
            PartHealth(
                name=f"Executor {executor}",
                status=status.lower() if effect else "ok",
                version=heartbeat.version if heartbeat else "",
                detail=f"{effect} {CHECK}" if effect else "",
                heartbeat=response_base.format_time(deps.clusters.find_heartbeat_ms(executor)),
            )
        )
    return parts


def _describe_scheduler(clusters: ClusterCache) -> PartHealth:
    """Stale after the same time as an executor: it sends heartbeats more often."""
    leader = clusters.find_leader()
    if leader is None:
        detail = f"It has not sent a heartbeat. {CHECK}"
        return PartHealth(name="Scheduler", status="stale", detail=detail)
    heartbeat, time_ms = leader
    is_stale = clock.now_ms() - time_ms > heartbeat.executor_stale_ms
    return PartHealth(
        name="Scheduler",
        status="stale" if is_stale else "ok",
        version=heartbeat.version,
        detail=f"No job is placed until a scheduler leads. {CHECK}" if is_stale else "",
        heartbeat=response_base.format_time(time_ms),
    )


def _describe_lag(lags: Mapping[int, int]) -> ViewLag:
    """The view of jobs."""
    lagging = sum(lag > 0 for lag in lags.values())
    detail = f"{lagging} of {len(lags)} partitions are behind the log." if lagging else ""
    return ViewLag("Jobs", sum(lags.values()), detail)


def _describe_caches(deps: Deps) -> list[ViewLag]:
    """The views in memory. Their lag is 0 once they have read up to the end of the log."""
    caches = (
        ("Clusters and nodes", deps.clusters.ready),
        ("Queues and cordons", deps.configuration.ready),
        ("Reports of the scheduler", deps.reports.ready),
        ("Quarantined records", deps.quarantine.ready),
    )
    return [
        ViewLag(name, None, "" if is_ready else "It is reading its topic from the beginning.")
        for name, is_ready in caches
    ]
