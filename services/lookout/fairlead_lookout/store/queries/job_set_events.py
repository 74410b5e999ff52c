"""The public events of a job set, in order: first from the table, then as they happen.

The table has everything that was committed; the streams have what is about to be. A chunk that
does not follow what was seen sends the reader back to the table, so nothing is missed or doubled.
"""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from fairlead_lookout.domain import event_chunks
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.store.event_streams import Tail
from fairlead_lookout.store.queries.view_reader import View

ROWS: Final = 256
ROWS_BYTES: Final = 1024 * 1024
"""Chunks read from the table at once, as they are kept, and their size but for the last; they are
inflated one after the other."""
POLL_WELL_S: Final = 2.0
POLL_S: Final = 0.3
BEGIN: Final = (-1, 0)
_FINISHED: Final = b'"type":"finished"'

Events = list[tuple[tuple[int, int], bytes]]


class Wanted(msgspec.Struct, frozen=True):
    """Events behind `seen`; `follow` goes on for ever, `until_finished` until all jobs ended."""

    seen: tuple[int, int] = BEGIN
    follow: bool = False
    until_finished: bool = False


async def is_too_old(view: View, job_set: JobSet, seen: tuple[int, int]) -> bool:
    """Whether events behind this one may have been dropped already."""
    if seen == BEGIN:
        return False
    rows = await view.fetch("dropped", job_set.partition)
    return bool(rows) and seen[0] < rows[0]["position"]


async def events(view: View, tail: Tail, job_set: JobSet, wanted: Wanted) -> AsyncIterator[Events]:
    """Batches of (id, line); an empty batch says that nothing happened for a while."""
    seen = wanted.seen
    async for some in _stored(view, job_set, seen):
        seen = some[-1][0]
        yield some
    if wanted.until_finished and await _has_finished(view, job_set, seen):
        return
    if not (wanted.follow or wanted.until_finished):
        return
    async with tail.watch(job_set.key, seen) as watch:
        while True:
            arrival = await watch.next(POLL_WELL_S if tail.well else POLL_S)
            ended = False
            if arrival is None or arrival.previous > seen:
                async for some in _stored(view, job_set, seen):
                    seen = some[-1][0]
                    yield some
                ended = wanted.until_finished and await _has_finished(view, job_set, seen)
            some = [] if arrival is None else list(event_chunks.after(arrival.data, seen))
            if some:
                seen = some[-1][0]
                ended = _FINISHED in some[-1][1]
            yield some
            if ended and wanted.until_finished:
                return


async def _stored(view: View, job_set: JobSet, seen: tuple[int, int]) -> AsyncIterator[Events]:
    """What the table holds behind `seen`."""
    while True:
        rows = await view.fetch("events_after", job_set.number, *seen, ROWS, ROWS_BYTES)
        for row in rows:
            some = list(event_chunks.after(row["lines"], seen))
            if some:
                seen = some[-1][0]
                yield some
        if len(rows) < ROWS and sum(len(row["lines"]) for row in rows) < ROWS_BYTES:
            return


async def _has_finished(view: View, job_set: JobSet, seen: tuple[int, int]) -> bool:
    now = await view.job_set(*job_set.key)
    return now is not None and now.live == 0 and now.last <= seen


def sse(partition: int, events_: Events) -> bytes:
    """As server-sent events."""
    return b"".join(
        b"id: %d-%d-%d\ndata: %s\n\n" % (partition, *place, line) for place, line in events_
    )


def ndjson(events_: Events) -> bytes:
    """One JSON object a line."""
    return b"".join(line + b"\n" for _, line in events_)
