"""Public events in Redis: one stream per job set, from which event streams are fed.

A cache of the newest chunks, written before the view commits. Ids are made of positions, so a
chunk that is folded again is refused. Whatever is missing here is in the table: each chunk names
the event before it, so a reader notices. While Redis is away the fold goes on without it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from fairlead_common.service import clock
from fairlead_lookout.domain.event_chunks import Chunk
from fairlead_lookout.domain.model import SetKey
from fairlead_lookout.service import metrics

PREFIX: Final = "fairlead:events:"
OWNER: Final = "fairlead:events-log"
CHUNKS_MAX: Final = 64
KEPT_S: Final = 3_600
ANSWER_S_MAX: Final = 1.0
DOWN_S: Final = 5.0
BLOCK_S: Final = 0.5
WATCHED_MAX: Final = 2_000
QUEUED_MAX: Final = 64
T = TypeVar("T")
_REPEATED: Final = "equal or smaller"

_logger: Final = logging.getLogger("fairlead.lookout.streams")


def stream_key(key: SetKey) -> str:
    """The name of a job set's stream."""
    return f"{PREFIX}{key[0]}/{key[1]}"


def _id(place: tuple[int, int]) -> str:
    """A stream id; one more than the position, because 0-0 is none."""
    return f"{place[0] + 1}-{place[1]}"


class Streams:
    """Writes chunks, for at most `ANSWER_S_MAX`; leaves Redis alone for a while when it fails."""

    def __init__(self, url: str) -> None:
        self._redis: Redis = Redis.from_url(
            url, protocol=2, socket_timeout=ANSWER_S_MAX, socket_connect_timeout=ANSWER_S_MAX
        )
        self._down_until_s = 0.0
        self._renewed_s: dict[str, float] = {}

    async def belong_to(self, identity: str) -> None:
        """Drop streams that were made from another log."""
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            await _bounded(self._belong_to(identity), 10 * ANSWER_S_MAX)

    async def _belong_to(self, identity: str) -> None:
        if await self._redis.get(OWNER) == identity.encode():
            return
        async for key in self._redis.scan_iter(PREFIX + "*", count=1_000):
            await self._redis.unlink(key)
        await self._redis.set(OWNER, identity)

    async def publish(self, chunks: Sequence[Chunk]) -> None:
        """Add the chunks to their streams. Never raises for Redis being away or full."""
        now_s = clock.monotonic_s()
        if not chunks or now_s < self._down_until_s:
            return
        try:
            answers = await _bounded(self._add(chunks, now_s), ANSWER_S_MAX)
        except (RedisError, OSError, TimeoutError) as error:
            self._fail(error)
            return
        for answer in answers:
            if isinstance(answer, Exception) and _REPEATED not in str(answer):
                self._fail(answer)
                return

    async def _add(self, chunks: Sequence[Chunk], now_s: float) -> list[Any]:
        pipeline = self._redis.pipeline(transaction=False)
        for chunk in chunks:
            name = stream_key(chunk.key)
            pipeline.execute_command(
                "XADD",
                name,
                "MAXLEN",
                "~",
                CHUNKS_MAX,
                _id(chunk.last),
                "p",
                f"{chunk.previous[0]}:{chunk.previous[1]}",
                "d",
                chunk.data,
            )
            if now_s - self._renewed_s.get(name, -KEPT_S) > KEPT_S / 4:
                self._renewed_s[name] = now_s
                pipeline.execute_command("EXPIRE", name, KEPT_S)
        if len(self._renewed_s) > 10 * WATCHED_MAX:
            self._renewed_s.clear()
        return await pipeline.execute(raise_on_error=False)

    def _fail(self, error: BaseException) -> None:
        self._down_until_s = clock.monotonic_s() + DOWN_S
        metrics.STREAM_FAILURES.inc()
        _logger.warning("Redis is left alone for %.0f s: %s", DOWN_S, error or type(error).__name__)

    async def close(self) -> None:
        """Give up the connections."""
        await self._redis.aclose()


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A chunk as it came out of the stream, and the id of the event before it."""

    previous: tuple[int, int]
    data: bytes


class Watch:
    """One reader of one job set's stream."""

    def __init__(self, key: SetKey) -> None:
        self.name = stream_key(key)
        self._arrived: asyncio.Queue[Arrival] = asyncio.Queue(QUEUED_MAX)

    async def next(self, wait_s: float) -> Arrival | None:
        """The next chunk, or None after `wait_s`."""
        try:
            async with asyncio.timeout(wait_s):
                return await self._arrived.get()
        except TimeoutError:
            return None

    def offer(self, arrival: Arrival) -> None:
        """Hand a chunk over; a reader that is far behind misses it and will notice."""
        with contextlib.suppress(asyncio.QueueFull):
            self._arrived.put_nowait(arrival)


class Tail:
    """One blocking read for all watches of this process."""

    def __init__(self, url: str) -> None:
        self._redis: Redis = Redis.from_url(
            url,
            protocol=2,
            socket_timeout=BLOCK_S + 2 * ANSWER_S_MAX,
            socket_connect_timeout=ANSWER_S_MAX,
        )
        self._watches: dict[str, set[Watch]] = {}
        self._places: dict[str, str] = {}
        self._anybody = asyncio.Event()
        self.well = False

    @asynccontextmanager
    async def watch(self, key: SetKey, seen: tuple[int, int]) -> AsyncIterator[Watch]:
        """A watch of the chunks that end behind `seen`."""
        watch = Watch(key)
        watches = self._watches.setdefault(watch.name, set())
        watches.add(watch)
        # The earliest of all who watch this stream; the others skip what they have seen.
        place = _id(seen) if seen[0] >= 0 else "0-0"
        if _less(place, self._places.get(watch.name)):
            self._places[watch.name] = place
        self._anybody.set()
        try:
            yield watch
        finally:
            watches.discard(watch)
            if not watches:
                del self._watches[watch.name]
                del self._places[watch.name]

    async def run(self) -> None:
        """Read for ever; while Redis is away, readers look into the table instead."""
        while True:
            if not self._places:
                self._anybody.clear()
                await self._anybody.wait()
            try:
                await self._turn(dict(list(self._places.items())[:WATCHED_MAX]))
                self.well = True
            except (RedisError, OSError, TimeoutError) as error:
                if self.well:
                    _logger.warning("event streams poll, Redis is away: %s", error)
                self.well = False
                await asyncio.sleep(ANSWER_S_MAX)

    async def _turn(self, places: Mapping[str, str]) -> None:
        reading = self._redis.xread(
            cast("dict[Any, Any]", places), count=CHUNKS_MAX, block=round(1000 * BLOCK_S)
        )
        answer: Any = await _bounded(reading, BLOCK_S + 2 * ANSWER_S_MAX)
        for name_bytes, entries in answer or []:
            name = name_bytes.decode()
            for _, fields in entries:
                position, _, item = fields[b"p"].decode().partition(":")
                arrival = Arrival((int(position), int(item)), fields[b"d"])
                for watch in self._watches.get(name, ()):
                    watch.offer(arrival)
            # A new watch may have set the place back meanwhile; then it is read again from there.
            if entries and self._places.get(name) == places[name]:
                self._places[name] = entries[-1][0].decode()

    async def close(self) -> None:
        """Give up the connection."""
        await self._redis.aclose()


async def _bounded(work: Awaitable[T], seconds: float) -> T:
    """The result, or TimeoutError. In a task of its own: the client swallows cancellations."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_disregard)
    if not task.done():
        raise TimeoutError("Redis did not answer in time")
    return task.result()


def _disregard(task: asyncio.Future[Any]) -> None:
    """Take note of how it ended, so that nobody logs it as forgotten."""
    if not task.cancelled():
        task.exception()


def _less(place: str, other: str | None) -> bool:
    if other is None:
        return True
    return _numbers(place) < _numbers(other)


def _numbers(place: str) -> tuple[int, int]:
    position, _, item = place.partition("-")
    return int(position), int(item)
