"""The routes of lookout's API (`docs`: api.md sections 1, 4 and 5). All of them only read."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from fairlead_common import auth, clock, positions
from fairlead_common.auth import Caller
from fairlead_common.errors import Fault
from fairlead_common.lifecycle import JobState
from fairlead_common.problems import Problem
from fairlead_lookout import durations, history, metrics, public, shown, why
from fairlead_lookout.model import JobSet
from fairlead_lookout.openapi import JSON, answers
from fairlead_lookout.parts import Parts, Place
from fairlead_lookout.reads import GROUPS, JobFilter

AFTER_S: Final = 10.0
REREAD_S: Final = 0.25
COMMENT_S: Final = 15.0
NDJSON: Final = "application/x-ndjson"
SSE: Final = "text/event-stream"
_encode: Final = msgspec.json.Encoder().encode


Text = Annotated[str | None, Query(max_length=300)]
QueueName = Annotated[str, Path(max_length=256)]
JobSetName = Annotated[str, Path(max_length=256)]
JobIdText = Annotated[str, Path(max_length=64)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Cursor = Annotated[str | None, Query(max_length=400)]
After = Annotated[
    str | None,
    Query(max_length=2_000, description="Wait until this position of an earlier change is seen."),
]
Wait = Annotated[str | None, Query(max_length=20, description="How long to wait, like 30s.")]


def answer(value: object, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_encode(value), media_type=JSON, headers=headers)


def routes(parts: Parts) -> list[APIRouter]:
    """All routes of the API. Each needs a caller who may view."""

    async def viewer(request: Request) -> Caller:
        caller = await parts.authenticate(request)
        auth.require(caller, "operator", "submitter", "viewer")
        return caller

    router = APIRouter(prefix="/api/v1", dependencies=[Depends(viewer)], tags=["lookout"])
    # A job set's name may hold slashes: what ends in /events is asked first.
    _event_routes(router, parts)
    _job_set_routes(router, parts)
    _job_routes(router, parts)
    _report_routes(router, parts)
    return [router]


async def reach(parts: Parts, after: str | None, wait_s: float) -> None:
    """Wait until the view has folded a position. Raises `Problem`."""
    if after is None:
        return
    try:
        target = positions.decode(after)
    except ValueError as error:
        fault = Fault("/query/after", str(error))
        raise Problem("malformed", "The position cannot be read.", [fault]) from None
    with Place(parts, "waits"):
        reached = await parts.progress.reached(target, wait_s)
    if not reached:
        behind = sum(
            max(0, at - parts.progress.positions.get(number, 0)) for number, at in target.items()
        )
        raise Problem(
            "unavailable",
            f"The view has not come that far within {wait_s:g} s: {behind} messages to go.",
            retry_after_s=1,
        )


async def find_set(parts: Parts, queue: str, job_set: str) -> JobSet:
    """The job set. Raises a 404 `Problem`."""
    found = await parts.view.job_set(queue, job_set)
    if found is None:
        raise Problem("not-found", f"Queue {queue!r} has no job set {job_set!r} with jobs in it.")
    return found


def _job_set_routes(router: APIRouter, parts: Parts) -> None:
    @router.get("/jobsets", responses=answers(shown.JobSetsShown, "Job sets, newest first.", 400))
    async def list_job_sets(
        queue: Text = None,
        active: bool | None = None,
        q: Text = None,
        limit: Limit = 100,
        cursor: Cursor = None,
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        await reach(parts, after, durations.wait_s(wait, AFTER_S))
        return answer(await parts.view.job_sets(queue, active, q, limit, cursor))

    @router.get(
        "/jobsets/{queue}/{job_set:path}",
        responses=answers(shown.JobSetShown, "The job set.", 304, 400, 404),
    )
    async def get_job_set(
        queue: QueueName,
        job_set: JobSetName,
        wait: Wait = None,
        until: Literal["finished"] | None = None,
        after: After = None,
        if_none_match: Annotated[str | None, Header(max_length=100)] = None,
    ) -> Response:
        await reach(parts, after, durations.wait_s(wait, AFTER_S))
        wait_s = durations.wait_s(wait, 0.0)
        with Place(parts, "waits"):
            known = await _settled(parts, queue, job_set, wait_s, until, if_none_match)
        etag = f'"{known.position}"'
        if if_none_match == etag and until is None:
            return Response(status_code=304, headers={"ETag": etag})
        return answer(await parts.view.show_set(known), {"ETag": etag})


async def _settled(
    parts: Parts,
    queue: str,
    job_set: str,
    wait_s: float,
    until: str | None,
    seen: str | None,
) -> JobSet:
    """The job set once it is what was waited for, or after `wait_s`."""
    deadline = clock.monotonic_s() + wait_s
    while True:
        before = parts.progress.positions
        known = await find_set(parts, queue, job_set)
        done = known.live == 0 if until else seen != f'"{known.position}"'
        left_s = deadline - clock.monotonic_s()
        if done or left_s <= 0:
            return known
        at = before.get(known.partition)
        await asyncio.sleep(min(REREAD_S, left_s))
        while parts.progress.positions.get(known.partition) == at:
            left_s = deadline - clock.monotonic_s()
            if left_s <= 0 or not await parts.progress.moved(left_s):
                break


def _event_routes(router: APIRouter, parts: Parts) -> None:
    @router.get(
        "/jobsets/{queue}/{job_set:path}/events",
        responses=answers(public.PublicEvent, "One a line, or SSE.", 400, 404, media=NDJSON),
    )
    async def get_events(
        queue: QueueName,
        job_set: JobSetName,
        until: Literal["finished"] | None = None,
        follow: bool = False,
        after: After = None,
        wait: Wait = None,
        accept: Annotated[str, Header(max_length=500)] = NDJSON,
        last_event_id: Annotated[str | None, Header(max_length=60)] = None,
        from_: Annotated[
            str | None, Query(alias="lastEventId", max_length=60, description="As the header.")
        ] = None,
    ) -> Response:
        await reach(parts, after, durations.wait_s(wait, AFTER_S))
        known = await find_set(parts, queue, job_set)
        seen = _seen(last_event_id or from_)
        as_sse = SSE in accept
        too_old = await history.is_too_old(parts.view, known, seen)
        wanted = history.Wanted(
            seen=history.BEGIN if too_old else seen,
            follow=follow or as_sse,
            until_finished=until is not None,
        )
        place = Place(parts, "streams")
        place.check()
        return StreamingResponse(
            _stream(parts, known, wanted, place, as_sse=as_sse, reset=too_old),
            media_type=SSE if as_sse else NDJSON,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def _seen(event_id: str | None) -> tuple[int, int]:
    if not event_id:
        return history.BEGIN
    try:
        return public.parse_id(event_id)
    except ValueError as error:
        fault = Fault("/header/last-event-id", str(error))
        raise Problem("malformed", "The event id cannot be read.", [fault]) from None


async def _stream(
    parts: Parts,
    known: JobSet,
    wanted: history.Wanted,
    place: Place,
    *,
    as_sse: bool,
    reset: bool,
) -> AsyncIterator[bytes]:
    with place, metrics.EVENT_STREAMS.track_inprogress():
        if reset:
            text = _encode({"type": "reset", "reason": "Events after that id are gone."})
            yield b"event: reset\ndata: %s\n\n" % text if as_sse else text + b"\n"
        elif as_sse:
            yield b"retry: 1000\n\n"
        written_s = clock.monotonic_s()
        async for some in history.events(parts.view, parts.tail, known, wanted):
            if some:
                yield history.sse(some) if as_sse else history.ndjson(some)
                written_s = clock.monotonic_s()
            elif as_sse and clock.monotonic_s() - written_s > COMMENT_S:
                yield b": still here\n\n"
                written_s = clock.monotonic_s()


def _filter(
    queue: str | None, job_set: str | None, state: str | None, class_: str | None
) -> JobFilter:
    states = tuple(part for part in (state or "").upper().split(",") if part)
    wrong = [part for part in states if part not in JobState.__members__]
    if wrong:
        words = ", ".join(JobState)
        fault = Fault("/query/state", f"{wrong[0][:40]!r} is no state; there are {words}.")
        raise Problem("invalid", "A parameter is not valid.", [fault])
    classes = tuple(part for part in (class_ or "").split(",") if part)
    return JobFilter(queue, job_set, states, classes)


def _dimensions(group_by: str) -> list[str]:
    names = [name for name in group_by.split(",") if name]
    wrong = [name for name in names if name not in GROUPS]
    if wrong or not names:
        words = ", ".join(GROUPS)
        fault = Fault("/query/groupBy", f"{(wrong or [''])[0][:40]!r} is none of {words}.")
        raise Problem("invalid", "A parameter is not valid.", [fault])
    return list(dict.fromkeys(names))


def _job_routes(router: APIRouter, parts: Parts) -> None:
    @router.get(
        "/jobs",
        responses=answers(
            (shown.JobsShown, shown.GroupsShown), "Jobs, newest first, or counts by group.", 400
        ),
    )
    async def list_jobs(
        queue: Text = None,
        job_set: Annotated[str | None, Query(alias="jobSet", max_length=256)] = None,
        state: Text = None,
        class_: Annotated[str | None, Query(alias="class", max_length=300)] = None,
        group_by: Annotated[str | None, Query(alias="groupBy", max_length=100)] = None,
        include: Literal["count"] | None = None,
        limit: Limit = 100,
        cursor: Cursor = None,
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        wanted = _filter(queue, job_set, state, class_)
        by = None if group_by is None else _dimensions(group_by)
        await reach(parts, after, durations.wait_s(wait, AFTER_S))
        if by is not None:
            return answer(await parts.view.groups(wanted, by, limit))
        counted = include is not None
        return answer(await parts.view.jobs(wanted, limit, cursor, count=counted))

    @router.get("/jobs/{job_id}", responses=answers(shown.JobDetailShown, "The job.", 400, 404))
    async def get_job(
        job_id: JobIdText, spec: bool = False, after: After = None, wait: Wait = None
    ) -> Response:
        await reach(parts, after, durations.wait_s(wait, AFTER_S))
        return answer(await describe(parts, job_id, spec=spec))

    @router.get(
        "/jobs/{job_id}/logs",
        responses=answers(str, "The log's bytes.", 400, 404, media="text/plain"),
    )
    async def get_logs(
        job_id: JobIdText,
        run: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
        stream: Literal["stdout", "stderr"] = "stdout",
        tail: Annotated[int | None, Query(ge=0, le=1_000_000)] = None,
        since_bytes: Annotated[int | None, Query(alias="sinceBytes", ge=0)] = None,
        follow: bool = False,
    ) -> Response:
        place = Place(parts, "streams")
        parameters = {"stream": stream, "follow": "true" if follow else "false"}
        if tail is not None:
            parameters["tail"] = str(tail)
        if since_bytes is not None:
            parameters["since_bytes"] = str(since_bytes)
        with place:
            body = await open_log(parts, job_id, run, parameters)
        return StreamingResponse(
            _counted(body, place),
            media_type="text/plain; charset=utf-8",
            headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
        )


async def _counted(body: AsyncIterator[bytes], place: Place) -> AsyncIterator[bytes]:
    """The body, in a place among the open streams."""
    with place:
        async for part in body:
            yield part


async def describe(parts: Parts, job_id: str, *, spec: bool) -> shown.JobDetailShown:
    """Everything about a job. Raises a 404 `Problem`."""
    found = await parts.view.job(job_id)
    if found is None:
        raise Problem("not-found", f"There is no job {job_id!r}.")
    said = found.submitted
    now_ms = clock.now_ms()
    return shown.JobDetailShown(
        **msgspec.structs.asdict(shown.job(found.row, now_ms, found.waits_for_others)),
        why=why.explain(found, parts.reports, now_ms),
        runs=[shown.run(row) for row in found.runs],
        namespace=said.namespace,
        labels=said.labels,
        annotations=said.annotations,
        after=said.after,
        hold=found.row["held"],
        start_after=shown.time(said.start_after_ms),
        max_queue_seconds=said.queue_s_max,
        max_runtime_seconds=said.runtime_s_max,
        gang=said.gang,
        retry=said.retry,
        on_preemption=said.on_preemption,
        spec=said.spec if spec else None,
    )


async def open_log(
    parts: Parts, job_id: str, run: int | None, parameters: dict[str, str]
) -> AsyncIterator[bytes]:
    """The log of a run, by default the newest. Raises `Problem`."""
    rows = await parts.view.fetch("runs_of_job", job_id)
    wanted = [row for row in rows if run is None or row["number"] == run]
    if not wanted:
        if await parts.view.job(job_id) is None:
            raise Problem("not-found", f"There is no job {job_id!r}.")
        which = "has not run yet" if run is None else f"has no run {run}"
        raise Problem("not-found", f"The job {job_id} {which}, so there is no log.")
    newest: Any = wanted[0]
    return await parts.logs.open(newest["executor"], job_id, newest["number"], parameters)


def _report_routes(router: APIRouter, parts: Parts) -> None:
    @router.get("/clusters", responses=answers(shown.ClustersShown, "All clusters."))
    async def list_clusters() -> Response:
        return answer(parts.clusters.all())

    @router.get(
        "/queues/{queue}/report",
        responses=answers(shown.QueueReportShown, "Shares and reasons of a queue."),
    )
    async def queue_report(queue: QueueName) -> Response:
        return answer(parts.reports.of_queue(queue))

    @router.get(
        "/pools/{pool}/report",
        responses=answers(shown.PoolReportShown, "The last round, shares and reasons of a pool."),
    )
    async def pool_report(pool: QueueName) -> Response:
        return answer(parts.reports.of_pool(pool))
