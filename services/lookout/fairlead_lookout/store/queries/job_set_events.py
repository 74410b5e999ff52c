"""The public events of a job set, in order: first from the table, then from the stream.

The table has all committed events, the stream those that are about to be committed. After a chunk
that does not follow the last event the table is read again, so no event is lost or repeated.
"""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from fairlead_lookout.domain import event_chunks
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.store.event_streams import StreamReader
from fairlead_lookout.store.queries.view_reader import ViewReader

ROWS: Final = 256
ROWS_BYTES: Final = 1024 * 1024
"""Chunks read from the table at once, and the size of all but the last. They are decompressed
one by one."""
POLL_STREAMED_S: Final = 2.0
POLL_S: Final = 0.3
BEGIN: Final = (-1, 0)
_FINISHED: Final = b'"type":"finished"'

Events = list[tuple[tuple[int, int], bytes]]


class EventRange(msgspec.Struct, frozen=True):
    """The events after `seen`. `follow`: also all new events; `until_finished`: until all jobs have
    ended."""

    seen: tuple[int, int] = BEGIN
    follow: bool = False
    until_finished: bool = False


async def is_too_old(view: ViewReader, job_set: JobSet, seen: tuple[int, int]) -> bool:
    """Whether events after this one may have been dropped."""
    if seen == BEGIN:
        return False
    rows = await view.fetch("dropped", job_set.partition)
    return bool(rows) and seen[0] < rows[0]["position"]


async def read_events(
    view: ViewReader, streams: StreamReader, job_set: JobSet, wanted: EventRange
) -> AsyncIterator[Events]:
    """Batches of (id, line). An empty batch: no event for some seconds."""
    seen = wanted.seen
    async for some in _read_table(view, job_set, seen):
        seen = some[-1][0]
        yield some
    if wanted.until_finished and await _has_finished(view, job_set, seen):
        return
    if not (wanted.follow or wanted.until_finished):
        return
    async with streams.subscribe(job_set.key, seen) as subscription:
        while True:
            chunk = await subscription.next(POLL_STREAMED_S if streams.connected else POLL_S)
            ended = False
            if chunk is None or chunk.previous > seen:
                async for some in _read_table(view, job_set, seen):
                    seen = some[-1][0]
                    yield some
                ended = wanted.until_finished and await _has_finished(view, job_set, seen)
            some = [] if chunk is None else list(event_chunks.split_after(chunk.data, seen))
            if some:
                seen = some[-1][0]
                ended = _FINISHED in some[-1][1]
            yield some
            if ended and wanted.until_finished:
                return


async def _read_table(
    view: ViewReader, job_set: JobSet, seen: tuple[int, int]
) -> AsyncIterator[Events]:
    """The events in the table after `seen`."""
    while True:
        rows = await view.fetch("events_after", job_set.number, *seen, ROWS, ROWS_BYTES)
        for row in rows:
            some = list(event_chunks.split_after(row["lines"], seen))
            if some:
                seen = some[-1][0]
                yield some
        if len(rows) < ROWS and sum(len(row["lines"]) for row in rows) < ROWS_BYTES:
            return


async def _has_finished(view: ViewReader, job_set: JobSet, seen: tuple[int, int]) -> bool:
    now = await view.read_job_set(*job_set.key)
    return now is not None and now.live == 0 and now.last <= seen


def encode_sse(partition: int, events: Events) -> bytes:
    """As server-sent events."""
    return b"".join(
        b"id: %d-%d-%d\ndata: %s\n\n" % (partition, *place, line) for place, line in events
    )


def encode_ndjson(events: Events) -> bytes:
    """One JSON object a line."""
    return b"".join(line + b"\n" for _, line in events)
