"""The pages of queues: the shares of all of them, and one with its shares over the last day."""

from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter

from fairlead_common.domain import quantities
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.records.configuration import FIFO, Queue
from fairlead_common.domain.records.scheduling_reports import QueueShare, WaitingReport
from fairlead_common.service import clock
from fairlead_lookout.http.api import fairness_routes, report_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import require_queue
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.http.pages.scheduling import share_charts
from fairlead_lookout.http.responses import JobSetResponse, describe_job_sets
from fairlead_lookout.store.queries.list_filters import JobSetFilter

JOB_SETS_EXAMINED: Final = 100
JOB_SETS_LISTED: Final = 10


class QueueRow(msgspec.Struct, frozen=True):
    """A queue in one pool. Without a `share` the scheduler has not reported one yet."""

    queue: str
    weight: float | None
    order: str
    cordoned: bool
    share: QueueShare | None
    reason: WaitingReport | None


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The pages and their streams."""
    sender.add_page(router, "/queues", "queues.html", "queues", _queues)
    sender.add_page(router, "/queues/{queue}", "queue.html", "queues", _queue)


async def _queues(deps: Deps) -> Fragment:
    """All queues with their shares, the greatest share first, and those without jobs."""

    async def read(visible_queues: QueueScope) -> Values:
        with_jobs = await deps.view.read_queues(visible_queues)
        created = {
            queue.name: queue
            for queue in deps.configuration.read_queues()
            if queue.name in visible_queues
        }
        rows = [
            row
            for name in created.keys() | with_jobs
            for row in _describe_queue(deps, name, created.get(name))
        ]
        rows.sort(key=lambda row: (-(row.share.actual_share if row.share else 0.0), row.queue))
        return {"live": "/live/queues", "rows": rows}

    return Fragment("_queues.html", (), read)


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

    async def read(visible_queues: QueueScope) -> Values:
        await require_queue(deps, visible_queues, queue)
        now_ms = clock.now_ms()
        found = await fairness_routes.describe_fairness(
            deps, queue, now_ms - fairness_routes.SPAN_MS, now_ms, now_ms
        )
        return {
            "live": f"/live/queues/{quote(queue, safe='')}",
            "queue": queue,
            "totals": await deps.view.count_jobs_by_state(visible_queues, queue),
            "report": report_routes.describe_queue_report(deps, queue),
            "job_sets": await _rank_job_sets(deps, queue, visible_queues),
            "charts": share_charts.draw_charts(found, is_trimmed=True),
            "used": found.used,
            "lost": found.lost,
        }

    return Fragment("_queue.html", (queue,), read)


async def _rank_job_sets(
    deps: Deps, queue: str, visible_queues: QueueScope
) -> list[JobSetResponse]:
    """Of the newest job sets of a queue those that used most processor time."""
    wanted = JobSetFilter(visible_queues=visible_queues, queue=queue)
    found = await deps.view.read_job_sets(wanted, JOB_SETS_EXAMINED, None)
    described = [each for each in describe_job_sets(found).job_sets if each.resource_hours]
    described.sort(key=lambda each: -each.resource_hours.get(quantities.CPU, 0.0))
    return described[:JOB_SETS_LISTED]
