"""Public events in Redis: one stream per job set, which the event streams of the API read.

A cache of the newest chunks, written before the view commits. Ids are made of positions, so Redis
refuses a chunk that is folded again. What is missing here is in the table: each chunk has the id of
the event before it, so a reader notices a gap. While Redis is unavailable the fold continues
without it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

import msgspec
from prometheus_client import Counter
from redis.asyncio import Redis
from redis.exceptions import RedisError

from fairlead_common.service import clock
from fairlead_lookout.domain.event_chunks import Chunk
from fairlead_lookout.domain.model import JobSetKey

PREFIX: Final = "fairlead:events:"
OWNER: Final = "fairlead:events-log"
CHUNKS_MAX: Final = 64
EXPIRE_S: Final = 3_600
ANSWER_S_MAX: Final = 1.0
DOWN_S: Final = 5.0
BLOCK_S: Final = 0.5
STREAMS_READ_MAX: Final = 2_000
QUEUED_MAX: Final = 64
T = TypeVar("T")
_REPEATED: Final = "equal or smaller"
"""Part of the error for an id that the stream already has."""
STREAM_FAILURES: Final = Counter(
    "fairlead_lookout_stream_failures_total", "Batches whose events did not reach Redis."
)

_logger: Final = logging.getLogger("fairlead.lookout.streams")


def stream_key(key: JobSetKey) -> str:
    """The name of a job set's stream."""
    return f"{PREFIX}{key[0]}/{key[1]}"


def _stream_id(place: tuple[int, int]) -> str:
    """A stream id. It uses the position plus 1, because Redis does not allow 0-0."""
    return f"{place[0] + 1}-{place[1]}"


class StreamWriter:
    """Writes chunks, for at most `ANSWER_S_MAX`. After an error it skips Redis for `DOWN_S`."""

    def __init__(self, url: str) -> None:
        self._redis: Redis = Redis.from_url(
            url, protocol=2, socket_timeout=ANSWER_S_MAX, socket_connect_timeout=ANSWER_S_MAX
        )
        self._down_until_s = 0.0
        self._renewed_s: dict[str, float] = {}

    async def drop_streams_of_other_logs(self, identity: str) -> None:
        """Drop the streams if they were made from another log."""
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            await _run_bounded(self._drop_streams(identity), 10 * ANSWER_S_MAX)

    async def _drop_streams(self, identity: str) -> None:
        if await self._redis.get(OWNER) == identity.encode():
            return
        async for key in self._redis.scan_iter(PREFIX + "*", count=1_000):
            await self._redis.unlink(key)
        await self._redis.set(OWNER, identity)

    async def publish(self, chunks: Sequence[Chunk]) -> None:
        """Add the chunks to their streams. Does not raise if Redis is unavailable or full."""
        now_s = clock.monotonic_s()
        if not chunks or now_s < self._down_until_s:
            return
        try:
            answers = await _run_bounded(self._add(chunks, now_s), ANSWER_S_MAX)
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
                _stream_id(chunk.last),
                "p",
                f"{chunk.previous[0]}:{chunk.previous[1]}",
                "d",
                chunk.data,
            )
            if now_s - self._renewed_s.get(name, -EXPIRE_S) > EXPIRE_S / 4:
                self._renewed_s[name] = now_s
                pipeline.execute_command("EXPIRE", name, EXPIRE_S)
        if len(self._renewed_s) > 10 * STREAMS_READ_MAX:
            self._renewed_s.clear()
        return await pipeline.execute(raise_on_error=False)

    def _fail(self, error: BaseException) -> None:
        self._down_until_s = clock.monotonic_s() + DOWN_S
        STREAM_FAILURES.inc()
        _logger.warning("Redis is skipped for %.0f s: %s", DOWN_S, error or type(error).__name__)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


class StreamedChunk(msgspec.Struct, frozen=True, gc=False):
    """A chunk that was read from a stream, and the id of the event before it."""

    previous: tuple[int, int]
    data: bytes


class Subscription:
    """One reader of the stream of one job set."""

    def __init__(self, key: JobSetKey) -> None:
        self.name = stream_key(key)
        self._chunks: asyncio.Queue[StreamedChunk] = asyncio.Queue(QUEUED_MAX)

    async def next(self, wait_s: float) -> StreamedChunk | None:
        """The next chunk, or None after `wait_s`."""
        try:
            async with asyncio.timeout(wait_s):
                return await self._chunks.get()
        except TimeoutError:
            return None

    def offer(self, chunk: StreamedChunk) -> None:
        """Pass a chunk on. A slow reader misses it and notices the gap."""
        with contextlib.suppress(asyncio.QueueFull):
            self._chunks.put_nowait(chunk)


class StreamReader:
    """Reads the streams for all subscriptions of this process with one blocking call."""

    def __init__(self, url: str) -> None:
        self._redis: Redis = Redis.from_url(
            url,
            protocol=2,
            socket_timeout=BLOCK_S + 2 * ANSWER_S_MAX,
            socket_connect_timeout=ANSWER_S_MAX,
        )
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._places: dict[str, str] = {}
        self._has_subscriptions = asyncio.Event()
        self.connected = False

    @asynccontextmanager
    async def subscribe(self, key: JobSetKey, seen: tuple[int, int]) -> AsyncIterator[Subscription]:
        """A subscription to the chunks that end after `seen`."""
        subscription = Subscription(key)
        subscriptions = self._subscriptions.setdefault(subscription.name, set())
        subscriptions.add(subscription)
        # The earliest place of all subscriptions; the others skip what they have seen.
        place = _stream_id(seen) if seen[0] >= 0 else "0-0"
        if _is_earlier(place, self._places.get(subscription.name)):
            self._places[subscription.name] = place
        self._has_subscriptions.set()
        try:
            yield subscription
        finally:
            subscriptions.discard(subscription)
            if not subscriptions:
                del self._subscriptions[subscription.name]
                del self._places[subscription.name]

    async def run(self) -> None:
        """Read for ever. While Redis is unavailable, readers of events poll the table."""
        while True:
            if not self._places:
                self._has_subscriptions.clear()
                await self._has_subscriptions.wait()
            try:
                await self._read(dict(list(self._places.items())[:STREAMS_READ_MAX]))
                self.connected = True
            except (RedisError, OSError, TimeoutError) as error:
                if self.connected:
                    _logger.warning("event streams poll, Redis is unavailable: %s", error)
                self.connected = False
                await asyncio.sleep(ANSWER_S_MAX)

    async def _read(self, places: Mapping[str, str]) -> None:
        reading = self._redis.xread(
            cast("dict[Any, Any]", places), count=CHUNKS_MAX, block=round(1000 * BLOCK_S)
        )
        answer: Any = await _run_bounded(reading, BLOCK_S + 2 * ANSWER_S_MAX)
        for name_bytes, entries in answer or []:
            name = name_bytes.decode()
            for _, fields in entries:
                position, _, item = fields[b"p"].decode().partition(":")
                chunk = StreamedChunk((int(position), int(item)), fields[b"d"])
                for subscription in self._subscriptions.get(name, ()):
                    subscription.offer(chunk)
            # A new subscription may have moved the place back meanwhile; then it is read again.
            if entries and self._places.get(name) == places[name]:
                self._places[name] = entries[-1][0].decode()

    async def close(self) -> None:
        """Close the connection."""
        await self._redis.aclose()


async def _run_bounded(work: Awaitable[T], seconds: float) -> T:
    """The result, or TimeoutError. It needs its own task: the client swallows cancellations."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_ignore_result)
    if not task.done():
        raise TimeoutError("Redis did not answer in time")
    return task.result()


def _ignore_result(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


def _is_earlier(place: str, other: str | None) -> bool:
    if other is None:
        return True
    return _parse_stream_id(place) < _parse_stream_id(other)


def _parse_stream_id(place: str) -> tuple[int, int]:
    position, _, item = place.partition("-")
    return int(position), int(item)
