"""The public events of a whole queue: those in the table, then those that are added to it.

The job sets of a queue are spread over the partitions of the log. In each partition chunks are read
in the order in which batches wrote them (position, job set, item), chunks of several partitions by
time. The place of a reader is the last chunk of each partition that it has read completely, and
the number of events that it has read of the next one; so any process can continue there.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from fairlead_common.db import to_columns
from fairlead_common.domain.records import line_chunks
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_lookout.store.queries.view_reader import ViewReader
from fairlead_lookout.store.view_progress import ViewProgress

ROWS: Final = 16
"""Chunks listed at once; they are read one by one."""
POLL_S_MIN: Final = 0.5
"""A stream reads the table at most this often."""
QUIET_S: Final = 5.0
ID_MAX: Final = 2_000

ChunkPlace = tuple[int, int, int]
"""(last position, number of the job set, last item) of a chunk"""
_BEGIN: Final[ChunkPlace] = (-1, 0, 0)


class Place(msgspec.Struct, frozen=True, array_like=True):
    """The place of a reader: the chunks that it has read completely, and the number of events that
    it has read of the next chunk.

    `view` identifies the tables: a view that was rebuilt has other chunks.
    """

    view: str
    seen: dict[int, ChunkPlace] = {}
    partition: int = 0
    events: int = 0


_decoder: Final = msgspec.msgpack.Decoder(Place)


def encode_place(place: Place) -> str:
    """The place as the id of the last event before it."""
    text = base64.urlsafe_b64encode(msgspec.msgpack.encode(place))
    return text.decode().rstrip("=")


def decode_place(text: str) -> Place:
    """The inverse of `encode_place`. Raises `ValueError` for an invalid id."""
    try:
        if len(text) > ID_MAX:
            raise ValueError("it is too long")
        place = _decoder.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        numbers = [number for chunk in place.seen.values() for number in chunk]
        if not all(-1 <= number < 2**31 for number in (*place.seen, place.events)) or not all(
            -1 <= number < 2**62 for number in numbers
        ):
            raise ValueError("a number in it is out of range")
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"not the id of an event of a queue: {error}") from None
    return place


async def read_view_name(view: ViewReader) -> str:
    """The identity of the tables; "" before the first fold."""
    rows = await view.fetch("view_name")
    return rows[0]["view"] if rows else ""


async def find_beginning(view: ViewReader, queue: str) -> Place:
    """The place before the first event of a queue that was not dropped."""
    dropped = await view.fetch("dropped_of_queue", queue)
    seen: dict[int, ChunkPlace] = {row["partition"]: (row["position"], 0, 0) for row in dropped}
    return Place(await read_view_name(view), seen)


async def is_too_old(view: ViewReader, queue: str, place: Place) -> bool:
    """Whether events after this place may have been dropped, or the view was rebuilt."""
    if not place.seen and not place.events:
        return False
    if place.view != await read_view_name(view):
        return True
    dropped = await view.fetch("dropped_of_queue", queue)
    return any(place.seen.get(row["partition"], _BEGIN)[0] < row["position"] for row in dropped)


Events = list[tuple[str, bytes]]
"""(id, line)"""


async def read_events(
    view: ViewReader, progress: ViewProgress, queue: str, place: Place, *, follow: bool
) -> AsyncIterator[Events]:
    """Batches of events. An empty batch: no event for some seconds."""
    reader = _Reader(view, queue, place)
    at: Mapping[int, int] = progress.positions
    wanted = list(range(JOB_PARTITIONS))
    while True:
        async for some in reader.read_partitions(wanted):
            yield some
        if not follow:
            return
        await asyncio.sleep(POLL_S_MIN)
        await progress.wait_for_change(at, QUIET_S)
        now = progress.positions
        wanted = [number for number in now if now[number] != at.get(number)]
        at = now
        yield []


class _Reader:
    """Reads from a place on."""

    def __init__(self, view: ViewReader, queue: str, place: Place) -> None:
        self._view = view
        self._queue = queue
        self._seen = dict(place.seen)
        self._name = place.view
        self._skip = {place.partition: place.events} if place.events else {}

    async def read_partitions(self, partitions: list[int]) -> AsyncIterator[Events]:
        """The events of these partitions, one chunk at a time."""
        while partitions:
            places = [self._seen.get(number, _BEGIN) for number in partitions]
            positions, sets, items = to_columns(places)
            rows = await self._view.fetch(
                "queue_events_after", self._queue, partitions, positions, sets, items, ROWS
            )
            for row in rows:
                found = await self._view.fetch(
                    "chunk_lines",
                    row["set_number"],
                    row["last_position"],
                    row["last_item"],
                    row["day"],
                )
                if found:
                    yield self._split_chunk(row["partition"], found[0]["lines"])
                self._seen[row["partition"]] = (
                    row["last_position"],
                    row["set_number"],
                    row["last_item"],
                )
                self._skip.pop(row["partition"], None)
            if len(rows) < ROWS:
                return

    def _split_chunk(self, partition: int, data: bytes) -> Events:
        skip = self._skip.get(partition, 0)
        lines = line_chunks.decompress(data).split(b"\n")
        return [
            (encode_place(Place(self._name, self._seen, partition, number + 1)), line)
            for number, line in enumerate(lines)
            if number >= skip
        ]


def encode_sse(events: Events) -> bytes:
    """As server-sent events."""
    return b"".join(b"id: %s\ndata: %s\n\n" % (id_.encode(), line) for id_, line in events)


def encode_ndjson(events: Events) -> bytes:
    """One JSON object a line."""
    return b"".join(line + b"\n" for _, line in events)
