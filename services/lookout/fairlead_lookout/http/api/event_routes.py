"""Routes of public events: the history of a job set or of a queue, and what follows it."""

from collections.abc import AsyncIterator
from typing import Annotated, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import StreamingResponse

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.web.query_validation import After, Wait
from fairlead_lookout.domain import public_events
from fairlead_lookout.http.deps import Parts, Place
from fairlead_lookout.http.long_polls import (
    NDJSON,
    SSE,
    JobSetName,
    QueueName,
    come_to,
    find_set,
    require_queue,
)
from fairlead_lookout.http.openapi import answers
from fairlead_lookout.service import metrics
from fairlead_lookout.store.queries import job_set_events, queue_events

COMMENT_S: Final = 15.0
Accept = Annotated[str, Header(max_length=500)]
LastEventId = Annotated[str | None, Header(max_length=queue_events.ID_MAX)]
LastEventIdToo = Annotated[
    str | None,
    Query(alias="lastEventId", max_length=queue_events.ID_MAX, description="As the header."),
]
_ANSWERS: Final = answers(public_events.PublicEvent, "One a line, or SSE.", 400, 404, media=NDJSON)
_ANSWERS[200]["content"][SSE] = {
    "schema": {"type": "string", "description": "`id:` and `data:` of one event after another."}
}
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def add_routes(router: APIRouter, parts: Parts) -> None:
    """Events of queues and of job sets."""
    Seen = Annotated[QueueScope, Depends(parts.sight)]

    @router.get(
        "/events",
        summary="What happened to the jobs of a queue, and with `follow` what happens",
        responses=_ANSWERS,
    )
    async def get_queue_events(
        reach: Seen,
        queue: Annotated[str, Query(max_length=256)],
        follow: bool = False,
        after: After = None,
        wait: Wait = None,
        accept: Accept = NDJSON,
        last_event_id: LastEventId = None,
        from_: LastEventIdToo = None,
    ) -> StreamingResponse:
        await come_to(parts, after, wait)
        await require_queue(parts, reach, queue)
        seen = _place(last_event_id or from_)
        too_old = seen is not None and await queue_events.is_too_old(parts.view, queue, seen)
        if seen is None or too_old:
            seen = await queue_events.beginning(parts.view, queue)
        as_sse = SSE in accept
        told = queue_events.events(parts.view, parts.progress, queue, seen, follow=follow or as_sse)
        written = (
            (queue_events.sse(some) if as_sse else queue_events.ndjson(some)) async for some in told
        )
        return _streamed(parts, written, as_sse=as_sse, reset=too_old)

    @router.get(
        "/jobsets/{queue}/{job_set:path}/events",
        summary="What happened to the jobs of a job set, and with `follow` what happens",
        responses=_ANSWERS,
    )
    async def get_job_set_events(
        reach: Seen,
        queue: QueueName,
        job_set: JobSetName,
        until: Literal["finished"] | None = None,
        follow: bool = False,
        after: After = None,
        wait: Wait = None,
        accept: Accept = NDJSON,
        last_event_id: LastEventId = None,
        from_: LastEventIdToo = None,
    ) -> StreamingResponse:
        await come_to(parts, after, wait)
        known = await find_set(parts, reach, queue, job_set)
        seen = _seen(last_event_id or from_)
        as_sse = SSE in accept
        too_old = await job_set_events.is_too_old(parts.view, known, seen)
        wanted = job_set_events.Wanted(
            seen=job_set_events.BEGIN if too_old else seen,
            follow=follow or as_sse,
            until_finished=until is not None,
        )
        told = job_set_events.events(parts.view, parts.tail, known, wanted)
        written = (
            (job_set_events.sse(known.partition, some) if as_sse else job_set_events.ndjson(some))
            async for some in told
        )
        return _streamed(parts, written, as_sse=as_sse, reset=too_old)


def _seen(event_id: str | None) -> tuple[int, int]:
    try:
        return public_events.parse_id(event_id) if event_id else job_set_events.BEGIN
    except ValueError as error:
        raise _unreadable(error) from None


def _place(event_id: str | None) -> queue_events.Place | None:
    try:
        return queue_events.decode(event_id) if event_id else None
    except ValueError as error:
        raise _unreadable(error) from None


def _unreadable(error: ValueError) -> Problem:
    fault = FieldError("/header/last-event-id", str(error))
    return Problem("malformed", "The event id cannot be read.", [fault])


def _streamed(
    parts: Parts, written: AsyncIterator[bytes], *, as_sse: bool, reset: bool
) -> StreamingResponse:
    place = Place(parts, "streams")
    place.check()
    return StreamingResponse(
        _stream(written, place, as_sse=as_sse, reset=reset),
        media_type=SSE if as_sse else NDJSON,
        headers=_HEADERS,
    )


async def _stream(
    written: AsyncIterator[bytes], place: Place, *, as_sse: bool, reset: bool
) -> AsyncIterator[bytes]:
    """What is written, with a comment now and then so that nobody takes the stream for dead."""
    with place, metrics.EVENT_STREAMS.track_inprogress():
        if reset:
            text = msgspec.json.encode(
                {"type": "reset", "reason": "Events after that id are gone."}
            )
            yield b"event: reset\ndata: %s\n\n" % text if as_sse else text + b"\n"
        elif as_sse:
            yield b"retry: 1000\n\n"
        written_s = clock.monotonic_s()
        async for some in written:
            if some:
                yield some
                written_s = clock.monotonic_s()
            elif as_sse and clock.monotonic_s() - written_s > COMMENT_S:
                yield b": still here\n\n"
                written_s = clock.monotonic_s()
