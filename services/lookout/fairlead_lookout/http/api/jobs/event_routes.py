"""Routes of public events: the history of a job set, queue or group, and new events as a stream."""

from collections.abc import AsyncIterator
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Depends, Header, Path, Query
from fastapi.responses import StreamingResponse
from prometheus_client import Gauge

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import partition_of_job
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.web.requests.query_validation import After, Wait
from fairlead_lookout.domain import public_events
from fairlead_lookout.http.deps import Deps, Slot
from fairlead_lookout.http.long_polls import wait_for_position
from fairlead_lookout.http.lookups import group_lookup, job_set_lookup, queue_lookup
from fairlead_lookout.http.request_parameters import JobSetName, QueueName
from fairlead_lookout.http.responses.json_answers import NDJSON, SSE, document_responses
from fairlead_lookout.store.queries import (
    group_history,
    job_set_events,
    queue_events,
)
from fairlead_lookout.store.queries.job_set_events import EventRange, Events

COMMENT_S: Final = 15.0
EVENT_STREAMS: Final = Gauge("fairlead_lookout_event_streams", "Event streams open now.")
Accept = Annotated[str, Header(max_length=500)]
LastEventId = Annotated[str | None, Header(max_length=queue_events.ID_MAX)]
LastEventIdQuery = Annotated[
    str | None,
    Query(alias="lastEventId", max_length=queue_events.ID_MAX, description="As the header."),
]
_ANSWERS: Final = document_responses(
    public_events.PublicEvent, "One event per line, or server-sent events.", 400, 404, media=NDJSON
)
_ANSWERS[200]["content"][SSE] = {
    "schema": {"type": "string", "description": "`id:` and `data:` of one event after another."}
}
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventQuery(NamedTuple):
    """Which events of a job set or group a request is for, and in which form."""

    wanted: EventRange
    as_sse: bool

    def from_beginning(self) -> "EventQuery":
        """The same from the first event on."""
        return self._replace(wanted=msgspec.structs.replace(self.wanted, seen=job_set_events.BEGIN))


def parse_event_query(
    until: Literal["finished"] | None = None,
    follow: bool = False,
    accept: Accept = NDJSON,
    last_event_id: LastEventId = None,
    from_: LastEventIdQuery = None,
) -> EventQuery:
    """The query of these parameters. Raises a 400 `Problem` for an invalid event id."""
    as_sse = SSE in accept
    wanted = EventRange(
        seen=_parse_seen(last_event_id or from_),
        follow=follow or as_sse,
        until_finished=until is not None,
    )
    return EventQuery(wanted, as_sse)


_Query = Annotated[EventQuery, Depends(parse_event_query)]


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Events of queues, of job sets and of groups."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/events",
        summary="The events of the jobs of a queue; with `follow` also new ones",
        responses=_ANSWERS,
    )
    async def get_queue_events(
        visible_queues: VisibleQueues,
        queue: Annotated[str, Query(max_length=256)],
        follow: bool = False,
        after: After = None,
        wait: Wait = None,
        accept: Accept = NDJSON,
        last_event_id: LastEventId = None,
        from_: LastEventIdQuery = None,
    ) -> StreamingResponse:
        await wait_for_position(deps, after, wait)
        await queue_lookup.require_queue(deps, visible_queues, queue)
        seen = _parse_place(last_event_id or from_)
        too_old = seen is not None and await queue_events.is_too_old(deps.view, queue, seen)
        if seen is None or too_old:
            seen = await queue_events.find_beginning(deps.view, queue)
        as_sse = SSE in accept
        batches = queue_events.read_events(
            deps.view, deps.progress, queue, seen, follow=follow or as_sse
        )
        written = (
            (queue_events.encode_sse(some) if as_sse else queue_events.encode_ndjson(some))
            async for some in batches
        )
        return _make_stream(deps, written, as_sse=as_sse, reset=too_old)

    @router.get(
        "/jobsets/{queue}/{job_set:path}/events",
        summary="The events of the jobs of a job set; with `follow` also new ones",
        responses=_ANSWERS,
    )
    async def get_job_set_events(
        visible_queues: VisibleQueues,
        queue: QueueName,
        job_set: JobSetName,
        query: _Query,
        after: After = None,
        wait: Wait = None,
    ) -> StreamingResponse:
        await wait_for_position(deps, after, wait)
        found = await job_set_lookup.find_job_set(deps, visible_queues, queue, job_set)
        too_old = await job_set_events.is_too_old(deps.view, found, query.wanted.seen)
        if too_old:
            query = query.from_beginning()
        batches = job_set_events.read_events(deps.view, deps.streams, found, query.wanted)
        return _stream_batches(deps, found.partition, batches, query, reset=too_old)

    @router.get(
        "/groups/{group}/events",
        summary="The events of a group, without events of its members; with `follow` also new ones",
        responses=_ANSWERS,
    )
    async def get_group_events(
        visible_queues: VisibleQueues,
        group: Annotated[str, Path(max_length=64)],
        query: _Query,
        after: After = None,
        wait: Wait = None,
    ) -> StreamingResponse:
        await wait_for_position(deps, after, wait)
        await group_lookup.find_group_row(deps, visible_queues, group)
        batches = group_history.read_events(deps.view, deps.progress, group, query.wanted)
        return _stream_batches(deps, partition_of_job(group), batches, query, reset=False)


def _parse_seen(event_id: str | None) -> tuple[int, int]:
    try:
        return public_events.parse_id(event_id) if event_id else job_set_events.BEGIN
    except ValueError as error:
        raise _invalid_id(error) from None


def _parse_place(event_id: str | None) -> queue_events.Place | None:
    try:
        return queue_events.decode_place(event_id) if event_id else None
    except ValueError as error:
        raise _invalid_id(error) from None


def _invalid_id(error: ValueError) -> Problem:
    field_error = FieldError("/header/last-event-id", str(error))
    return Problem(
        "malformed",
        "The event id is not valid. Use the `id` of an event of this stream.",
        [field_error],
    )


def _stream_batches(
    deps: Deps,
    partition: int,
    batches: AsyncIterator[Events],
    query: EventQuery,
    *,
    reset: bool,
) -> StreamingResponse:
    """The response of these batches of events of a partition."""
    written = (
        (
            job_set_events.encode_sse(partition, some)
            if query.as_sse
            else job_set_events.encode_ndjson(some)
        )
        async for some in batches
    )
    return _make_stream(deps, written, as_sse=query.as_sse, reset=reset)


def _make_stream(
    deps: Deps, written: AsyncIterator[bytes], *, as_sse: bool, reset: bool
) -> StreamingResponse:
    slot = Slot(deps, "streams")
    slot.check()
    return StreamingResponse(
        _stream(written, slot, as_sse=as_sse, reset=reset),
        media_type=SSE if as_sse else NDJSON,
        headers=_HEADERS,
    )


async def _stream(
    written: AsyncIterator[bytes], slot: Slot, *, as_sse: bool, reset: bool
) -> AsyncIterator[bytes]:
    """The events, with a comment every few seconds so that no proxy closes an idle stream."""
    with slot, EVENT_STREAMS.track_inprogress():
        if reset:
            text = msgspec.json.encode(
                {"type": "reset", "reason": "Events after that id were removed."}
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
                yield b": keep-alive\n\n"
                written_s = clock.monotonic_s()
