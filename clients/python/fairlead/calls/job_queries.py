"""Queries for jobs and job sets, and waiting for them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fairlead import errors
from fairlead.calls import call_effects, request_building
from fairlead.calls.call_effects import Flow, Request
from fairlead.models.job_models import Filter, Group, Groups, JobDetail, JobSet, JobView, several

LONG_POLL_S: Final = 30.0
LONG_POLL_SLACK_S: Final = 45.0
"""The server can first wait the same time for the given position."""

SEEN_S: Final = 10.0
POLL_S: Final = 0.5
GROUPS_MAX: Final = 1_000


def job_set(
    queue: str, name: str, *, after: str | None = None, wait_s: float = SEEN_S
) -> Flow[JobSet]:
    """One job set that includes the position `after`, for which the server waits up to `wait_s`.

    The default is the position of this client's last submission to the job set.
    """
    after = after or (yield from call_effects.written((queue, name)))
    query = request_building.seen(after, wait_s)
    return (
        yield from request_building.ask(
            request_building.get(request_building.job_set_path(queue, name), query), JobSet
        )
    )


def job_sets(
    *,
    queue: str | None = None,
    active: bool | None = None,
    q: str | None = None,
    after: str | None = None,
) -> Flow[None]:
    """Iterates over job sets, latest activity first."""
    after = after or (yield from call_effects.written())
    query = job_set_query(queue=queue, active=active, q=q, after=after)
    yield from request_building.pages("/jobsets", query, "jobSets", JobSet)


def job_set_query(
    *, queue: str | None, active: bool | None, q: str | None, after: str | None
) -> list[tuple[str, str]]:
    """The parameters that select job sets."""
    query = request_building.given({"queue": queue, "active": active, "q": q})
    return [*query, *request_building.seen(after, SEEN_S)]


def job(
    job_id: str, *, spec: bool = False, after: str | None = None, wait_s: float = SEEN_S
) -> Flow[JobDetail]:
    """One job with its runs and, with `spec`, its submission."""
    after = after or (yield from call_effects.written())
    query = (*request_building.seen(after, wait_s), *((("spec", "true"),) if spec else ()))
    return (
        yield from request_building.ask(
            request_building.get(f"/jobs/{request_building.part(job_id)}", query), JobDetail
        )
    )


def iter_jobs(
    where: Filter | None = None,
    *,
    category: str | None = None,
    annotations: Mapping[str, str] | None = None,
    submitted_after: str | None = None,
    q: str | None = None,
    sort: str | None = None,
    after: str | None = None,
) -> Flow[None]:
    """Iterates over the jobs that match all filters, newest first.

    `category` is that of a failure, `q` a part of a client id, job set or id; `sort` is one of
    submitted, changed, started, ended, priority, with a minus for the greatest first.
    """
    query = job_query(
        where,
        category=category,
        annotations=annotations,
        submitted_after=submitted_after,
        q=q,
        sort=sort,
        after=after or (yield from written(where)),
    )
    yield from request_building.pages("/jobs", query, "jobs", JobView)


def written(where: Filter | None) -> Flow[str | None]:
    """The position of this client's last submission to the filter's job set, or to any."""
    if where is None or where.queue is None or where.job_set is None:
        return (yield from call_effects.written())
    return (yield from call_effects.written((where.queue, where.job_set)))


def job_query(
    where: Filter | None,
    *,
    category: str | None,
    annotations: Mapping[str, str] | None,
    submitted_after: str | None,
    q: str | None,
    sort: str | None,
    after: str | None,
) -> list[tuple[str, str]]:
    """The parameters that select and order jobs."""
    return [
        *_filters(where or Filter()),
        *request_building.given(
            {"category": category, "submittedAfter": submitted_after, "q": q, "sort": sort}
        ),
        *((f"annotation.{name}", value) for name, value in (annotations or {}).items()),
        *request_building.seen(after, SEEN_S),
    ]


def count_jobs(
    by: Sequence[str], where: Filter | None = None, *, after: str | None = None
) -> Flow[tuple[Group, ...]]:
    """The number of jobs by queue, jobSet, state, class, cluster, node or `label.NAME`."""
    query = [
        *_filters(where or Filter()),
        ("groupBy", ",".join(by)),
        ("limit", str(GROUPS_MAX)),
        *request_building.seen(after or (yield from written(where)), SEEN_S),
    ]
    return (yield from request_building.ask(request_building.get("/jobs", query), Groups)).groups


def wait(
    queue: str, job_set: str, *, timeout_s: float | None = None, after: str | None = None
) -> Flow[JobSet]:
    """Wait until every job of the job set has ended. Raises `WaitTimeout`.

    `after`: a position to include; the default is that of this client's last submission to it.
    """
    after = after or (yield from call_effects.written((queue, job_set)))
    started_s = yield from call_effects.now_s()
    path = request_building.job_set_path(queue, job_set)
    while True:
        now = yield from call_effects.now_s()
        left_s = LONG_POLL_S if timeout_s is None else started_s + timeout_s - now
        wait_s = max(0.0, min(LONG_POLL_S, left_s))
        query = (
            *request_building.seen(after, None),
            ("until", "finished"),
            ("wait", request_building.duration(wait_s)),
        )
        request = request_building.get(path, query, read_s=wait_s + LONG_POLL_SLACK_S)
        reply = yield from request_building.answered(request)
        if reply.status != 304:
            found = request_building.decoded(reply, JobSet)
            if found.is_finished:
                return found
        if left_s <= 0:
            raise errors.WaitTimeout(
                f"Not all jobs of {queue}/{job_set} ended within {timeout_s:g} s."
            )
        if (yield from call_effects.now_s()) - now < POLL_S:
            yield from call_effects.pause(POLL_S)


def watch(queue: str, job_set: str, *, after: str | None = None) -> Flow[None]:
    """Iterates over the states of a job set, one for each change, until all jobs have ended."""
    after = after or (yield from call_effects.written((queue, job_set)))
    path = request_building.job_set_path(queue, job_set)
    yield from _states(path, after, JobSet, lambda found: found.is_finished)


def watch_job(job_id: str, *, after: str | None = None) -> Flow[None]:
    """Iterates over the states of one job, one for each change, until it has ended."""
    after = after or (yield from call_effects.written())
    path = f"/jobs/{request_building.part(job_id)}"
    yield from _states(path, after, JobDetail, lambda found: found.has_ended)


def _states(
    path: str,
    after: str | None,
    kind: type[request_building.A],
    is_last: Callable[[request_building.A], bool],
) -> Flow[None]:
    etag: str | None = None
    while True:
        reply = yield from request_building.answered(_changed(path, etag, LONG_POLL_S, after))
        if reply.status != 304:
            found = request_building.decoded(reply, kind)
            yield from call_effects.emit(found)
            if is_last(found):
                return
            etag = reply.headers.get("etag")
        yield from call_effects.pause(POLL_S)


def wait_job(
    job_id: str, *, timeout_s: float | None = None, after: str | None = None
) -> Flow[JobDetail]:
    """Wait until one job has ended. Raises `WaitTimeout`."""
    after = after or (yield from call_effects.written())
    started_s = yield from call_effects.now_s()
    etag: str | None = None
    while True:
        now = yield from call_effects.now_s()
        left_s = LONG_POLL_S if timeout_s is None else started_s + timeout_s - now
        wait_s = max(0.0, min(LONG_POLL_S, left_s))
        reply = yield from request_building.answered(
            _changed(f"/jobs/{request_building.part(job_id)}", etag, wait_s, after)
        )
        if reply.status != 304:
            found = request_building.decoded(reply, JobDetail)
            if found.has_ended:
                return found
            etag = reply.headers.get("etag")
        if left_s <= 0:
            raise _late(job_id, timeout_s)
        if (yield from call_effects.now_s()) - now < POLL_S:
            yield from call_effects.pause(POLL_S)


def wait_jobs(
    ids: Sequence[str], *, timeout_s: float | None = None, after: str | None = None
) -> Flow[tuple[JobDetail, ...]]:
    """Wait until all of these jobs have ended; returns them in order. Raises `WaitTimeout`."""
    several("ids", ids)
    started_s = yield from call_effects.now_s()
    ended = []
    for job_id in ids:
        left_s = timeout_s
        if timeout_s is not None:
            left_s = max(0.0, started_s + timeout_s - (yield from call_effects.now_s()))
        try:
            ended.append((yield from wait_job(job_id, timeout_s=left_s, after=after)))
        except errors.WaitTimeout:
            raise _late(job_id, timeout_s) from None
    return tuple(ended)


def _late(job_id: str, timeout_s: float | None) -> errors.WaitTimeout:
    return errors.WaitTimeout(f"Job {job_id} did not end within {timeout_s:g} s.")


def _changed(path: str, etag: str | None, wait_s: float, after: str | None) -> Request:
    """A read that is answered when its resource no longer has that ETag."""
    return Request(
        path=request_building.API + path,
        query=(*request_building.seen(after, None), ("wait", request_building.duration(wait_s))),
        headers=(("if-none-match", etag),) if etag else (),
        read_s=wait_s + LONG_POLL_SLACK_S,
    )


def _filters(where: Filter) -> list[tuple[str, str]]:
    query = request_building.given(
        {
            "queue": where.queue,
            "jobSet": where.job_set,
            "state": ",".join(where.states) or None,
            "class": ",".join(where.classes) or None,
            "cluster": where.cluster,
            "node": where.node,
        }
    )
    return [*query, *((f"label.{name}", value) for name, value in where.labels.items())]
