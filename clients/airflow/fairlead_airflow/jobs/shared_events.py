"""Event streams that all triggers of a process share: one per job set, one client per server."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from fairlead import AsyncClient, Event, errors
from fairlead_airflow.hook import ServerAddress, open_client
from fairlead_airflow.jobs.batches import Batch

log: Final = logging.getLogger(__name__)

LAST_EVENTS: Final = frozenset({"succeeded", "failed", "cancelled", "rejected", "preempted"})
"""Types of events after which a job has possibly ended: a preempted job can be queued again."""

_STARTED: Final = "started "
"""Before the id of a job: counts of its started runs, not of its ends."""
RETRY_S: Final = 5.0
OUTAGES: Final = (errors.ServerUnreachable, errors.Unavailable, errors.Busy)

T = TypeVar("T")
Item = TypeVar("Item")


class StreamKey(NamedTuple):
    """What one event stream is about."""

    address: ServerAddress
    queue: str
    job_set: str


class JobSetEvents:
    """The stream of one job set, read as soon as a task waits. `client`: open until `close`.

    `position`: of the last event. Events can be ahead of what the server answers, so a read that
    follows an event has to ask for this position.
    """

    def __init__(self, client: AsyncClient, key: StreamKey) -> None:
        self.client = client
        self.users = 0
        self.position: str | None = None
        self._key = key
        self._counts: Counter[str] = Counter()
        self._resets = 0
        self._waiters: defaultdict[str, list[asyncio.Future[None]]] = defaultdict(list)
        self._reader: asyncio.Task[None] | None = None
        self._results: dict[str, asyncio.Task[object]] = {}
        self._batches: dict[str, Batch[Any, Any]] = {}  # a batch for each kind of item

    async def run_once(self, name: str, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """The result of this work, which only the first caller starts; failed work is repeated."""
        task = self._results.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._results[name] = asyncio.create_task(work())
        return cast(T, await asyncio.shield(task))

    async def run_together(
        self,
        name: str,
        item: Item,
        work: Callable[[list[Item]], Coroutine[object, object, list[T]]],
    ) -> T:
        """The result of this item, for which one call of `work` is made with others of this name.

        Raises what `work` raises.
        """
        batch: Batch[Item, T] = self._batches.setdefault(name, Batch(work))
        return await batch.run(item)

    async def wait_for_end(self, job_id: str, seen: int = 0) -> int:
        """Wait until a job has possibly ended more often than `seen`; the new number.

        The empty id stands for the whole job set. Raises `FairleadError` if the server refuses the
        stream.
        """
        return await self._wait_for(job_id, seen)

    async def wait_for_start(self, job_id: str, seen: int = 0) -> int:
        """Wait until a run of a job has possibly started more often than `seen`; the new number.

        Raises `FairleadError` if the server refuses the stream.
        """
        return await self._wait_for(_STARTED + job_id, seen)

    async def _wait_for(self, key: str, seen: int) -> int:
        while (count := self._counts[key] + self._resets) <= seen:
            if self._reader is None:
                name = f"fairlead events of {self._key.job_set}"
                log.info("Following the events of %s/%s", self._key.queue, self._key.job_set)
                self._reader = asyncio.create_task(self._read(), name=name)
            elif self._reader.done():
                self._reader.result()
            waiter = asyncio.get_running_loop().create_future()
            self._waiters[key].append(waiter)
            await waiter
        return count

    async def close(self) -> None:
        """End the stream and its connection."""
        tasks = [*self._results.values(), *([] if self._reader is None else [self._reader])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for batch in self._batches.values():
            await batch.close()
        await self.client.close()

    async def _read(self) -> None:
        """Read events until the stream is closed, also across outages of the server."""
        last: str | None = None
        try:
            while True:
                try:
                    async for event in self.client.events(
                        self._key.queue, self._key.job_set, since=last
                    ):
                        last = event.id or last
                        self._note(event)
                except OUTAGES as error:
                    log.warning("Fairlead does not answer; trying again: %s", error)
                    await asyncio.sleep(RETRY_S)
        finally:
            self._wake(list(self._waiters))

    def _note(self, event: Event) -> None:
        self.position = event.position or self.position
        if event.type == "reset":
            self._resets += 1
            self._wake(list(self._waiters))
        elif event.type == "finished":
            self._count("")
        elif event.type == "arrayEnded" and event.array is not None:
            self._count(event.array)
        elif event.type in LAST_EVENTS and event.job_id is not None:
            self._count(event.job_id)
        elif event.type == "running" and event.job_id is not None:
            self._count(_STARTED + event.job_id)

    def _count(self, key: str) -> None:
        self._counts[key] += 1
        self._wake([key])

    def _wake(self, keys: list[str]) -> None:
        for key in keys:
            for waiter in self._waiters.pop(key, ()):
                if not waiter.done():
                    waiter.set_result(None)


_open: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[StreamKey, JobSetEvents]]] = (
    WeakKeyDictionary()
)


_closing: Final[set[asyncio.Task[None]]] = set()


@asynccontextmanager
async def share_events(
    address: ServerAddress, queue: str, job_set: str, position: str = "", linger_s: float = 0.0
) -> AsyncIterator[JobSetEvents]:
    """The stream of this job set, opened by its first user and closed `linger_s` after its last.

    `position`: of the submission; the stream waits until the server's view includes it.
    """
    key = StreamKey(address, queue, job_set)
    streams = _open.setdefault(asyncio.get_running_loop(), {})
    if key not in streams:
        client = open_client(address)
        if position:
            client.expect(queue, job_set, position)
        streams[key] = JobSetEvents(client, key)
    stream = streams[key]
    stream.users += 1
    try:
        yield stream
    finally:
        stream.users -= 1
        if stream.users == 0 and linger_s > 0:
            closing = asyncio.create_task(_close_later(streams, key, linger_s))
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)
        elif stream.users == 0:
            del streams[key]
            await stream.close()


async def _close_later(
    streams: dict[StreamKey, JobSetEvents], key: StreamKey, linger_s: float
) -> None:
    """Close a stream that nobody uses then."""
    stream = streams[key]
    await asyncio.sleep(linger_s)
    if stream.users == 0 and streams.get(key) is stream:
        del streams[key]
        await stream.close()


async def outlast_outages(call: Callable[[], Awaitable[T]]) -> T:
    """The result of the call, repeated for as long as the server is unavailable."""
    while True:
        try:
            return await call()
        except OUTAGES as error:
            log.warning("Fairlead does not answer; trying again: %s", error)
            await asyncio.sleep(RETRY_S)
