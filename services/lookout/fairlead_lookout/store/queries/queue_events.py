"""The public events of a whole queue: what is in the table, then whatever is added to it.

A queue's job sets are spread over the log's partitions. In each partition chunks are read in the
order in which batches wrote them (position, job set, item), those of several partitions by time.
A reader's place is the last chunk of each partition that he has seen whole, and how many events of
the one he is in; so he goes on exactly there, with whatever process answers him.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_lookout.domain import event_chunks
from fairlead_lookout.store.queries.view_reader import View
from fairlead_lookout.store.view_progress import Progress

ROWS: Final = 16
"""Chunks looked for at once; one at a time is read."""
REST_S: Final = 0.5
"""A stream looks for more at most so often."""
QUIET_S: Final = 5.0
ID_MAX: Final = 2_000

ChunkPlace = tuple[int, int, int]
"""(last position, number of the job set, last item) of a chunk"""
_BEGIN: Final[ChunkPlace] = (-1, 0, 0)


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a reader is: chunks seen whole, and how many events of the one behind them.

    `view` names the tables that these numbers are about: a view that was built anew cut its
    chunks otherwise.
    """

    view: str
    seen: dict[int, ChunkPlace] = {}
    partition: int = 0
    events: int = 0


_decoder: Final = msgspec.msgpack.Decoder(Place)


def encode(place: Place) -> str:
    """The place as the id of the last event before it."""
    text = base64.urlsafe_b64encode(msgspec.msgpack.encode(place))
    return text.decode().rstrip("=")


def decode(text: str) -> Place:
    """The inverse of `encode`. Raises ValueError for what is no id of ours."""
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
        raise ValueError(f"this is not the id of an event of a queue: {error}") from None
    return place


async def view_name(view: View) -> str:
    """The name of the tables as they are now; "" before the first fold."""
    rows = await view.fetch("view_name")
    return rows[0]["view"] if rows else ""


async def beginning(view: View, queue: str) -> Place:
    """Where a queue's events begin: behind those that were dropped already."""
    dropped = await view.fetch("dropped_of_queue", queue)
    seen: dict[int, ChunkPlace] = {row["partition"]: (row["position"], 0, 0) for row in dropped}
    return Place(await view_name(view), seen)


async def is_too_old(view: View, queue: str, place: Place) -> bool:
    """Whether events behind this place may have been dropped already, or never were here."""
    if not place.seen and not place.events:
        return False
    if place.view != await view_name(view):
        return True
    dropped = await view.fetch("dropped_of_queue", queue)
    return any(place.seen.get(row["partition"], _BEGIN)[0] < row["position"] for row in dropped)


Events = list[tuple[str, bytes]]
"""(id, line)"""


async def events(
    view: View, progress: Progress, queue: str, place: Place, *, follow: bool
) -> AsyncIterator[Events]:
    """Batches of events; an empty one says that nothing happened for a while."""
    reading = _Reading(view, queue, place)
    at: Mapping[int, int] = progress.positions
    wanted = list(range(JOB_PARTITIONS))
    while True:
        async for some in reading.some(wanted):
            yield some
        if not follow:
            return
        await asyncio.sleep(REST_S)
        await progress.beyond(at, QUIET_S)
        now = progress.positions
        wanted = [number for number in now if now[number] != at.get(number)]
        at = now
        yield []


class _Reading:
    """Reads on from a place."""

    def __init__(self, view: View, queue: str, place: Place) -> None:
        self._view = view
        self._queue = queue
        self._seen = dict(place.seen)
        self._name = place.view
        self._skip = {place.partition: place.events} if place.events else {}

    async def some(self, partitions: list[int]) -> AsyncIterator[Events]:
        """What there is of these partitions, a chunk at a time."""
        while partitions:
            places = [self._seen.get(number, _BEGIN) for number in partitions]
            positions, sets, items = (list(column) for column in zip(*places, strict=True))
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
                    yield self._numbered(row["partition"], found[0]["lines"])
                self._seen[row["partition"]] = (
                    row["last_position"],
                    row["set_number"],
                    row["last_item"],
                )
                self._skip.pop(row["partition"], None)
            if len(rows) < ROWS:
                return

    def _numbered(self, partition: int, data: bytes) -> Events:
        skip = self._skip.get(partition, 0)
        lines = event_chunks.inflate(data).split(b"\n")
        return [
            (encode(Place(self._name, self._seen, partition, number + 1)), line)
            for number, line in enumerate(lines)
            if number >= skip
        ]


def sse(events_: Events) -> bytes:
    """As server-sent events."""
    return b"".join(b"id: %s\ndata: %s\n\n" % (id_.encode(), line) for id_, line in events_)


def ndjson(events_: Events) -> bytes:
    """One JSON object a line."""
    return b"".join(line + b"\n" for _, line in events_)
