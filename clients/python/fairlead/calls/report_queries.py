"""Queries for reports, and exports of whole lists."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from fairlead import errors
from fairlead.calls import call_effects, job_queries, request_building
from fairlead.calls.call_effects import Flow, Request, Unreachable
from fairlead.models.job_models import Filter
from fairlead.models.report_models import Fairness, PoolReport, QueueReport, Round, Rounds

Format: TypeAlias = Literal["csv", "ndjson"]


def queue_report(queue: str) -> Flow[QueueReport]:
    """A queue's shares and limits, and why its jobs wait."""
    request = request_building.get(f"/queues/{request_building.part(queue)}/report")
    return (yield from request_building.ask(request, QueueReport))


def pool_report(pool: str) -> Flow[PoolReport]:
    """A pool's last round, the allocations of its queues, and why jobs wait."""
    return (
        yield from request_building.ask(
            request_building.get(f"/pools/{request_building.part(pool)}/report"), PoolReport
        )
    )


def rounds(pool: str, *, limit: int = 100) -> Flow[tuple[Round, ...]]:
    """The last rounds of a pool, newest first, at most 1,000."""
    query = (("limit", str(limit)),)
    request = request_building.get(f"/pools/{request_building.part(pool)}/rounds", query)
    return (yield from request_building.ask(request, Rounds)).rounds


def fairness(queue: str, *, since: str | None = None, until: str | None = None) -> Flow[Fairness]:
    """A queue's share over time, and the resource-hours it used and lost; times as RFC 3339."""
    query = request_building.given({"queue": queue, "from": since, "to": until})
    return (yield from request_building.ask(request_building.get("/fairness", query), Fairness))


def export_jobs(
    where: Filter | None = None,
    *,
    category: str | None = None,
    annotations: Mapping[str, str] | None = None,
    submitted_after: str | None = None,
    q: str | None = None,
    sort: str | None = None,
    after: str | None = None,
    format: Format = "csv",
    submission: bool = False,
) -> Flow[None]:
    """Iterates over the bytes of a table of all jobs that `iter_jobs` would return.

    With `submission` a line also has the fields that decide where and when the job runs.
    """
    query = job_queries.job_query(
        where,
        category=category,
        annotations=annotations,
        submitted_after=submitted_after,
        q=q,
        sort=sort,
        after=after or (yield from job_queries.written(where)),
    )
    if submission:
        query.append(("include", "submission"))
    yield from _exported("/jobs/export.csv", query, format)


def export_job_sets(
    *,
    queue: str | None = None,
    active: bool | None = None,
    q: str | None = None,
    after: str | None = None,
    format: Format = "csv",
) -> Flow[None]:
    """Iterates over the bytes of a table of all job sets that `job_sets` would return."""
    after = after or (yield from call_effects.written())
    query = job_queries.job_set_query(queue=queue, active=active, q=q, after=after)
    yield from _exported("/jobsets/export.csv", query, format)


def _exported(path: str, query: request_building.Query, format: Format) -> Flow[None]:
    """Emit the bytes of a table. Raises `ServerUnreachable`: an export cannot be resumed."""
    request = Request(path=request_building.API + path, query=(*query, ("format", format)))
    yield from request_building.opened(request)
    while True:
        answer = yield from call_effects.more()
        if isinstance(answer, Unreachable):
            raise errors.ServerUnreachable(f"The export was interrupted: {answer.reason}")
        if not answer.data:
            return
        yield from call_effects.emit(answer.data)
