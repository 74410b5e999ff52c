"""The event log in Kafka: production.

An append is a transaction of a producer whose `transactional.id` is the producer's name: the
brokers fence its predecessor. Readers see what is committed. `aiokafka` waits without bound while
the brokers are away, so every call here has a deadline, and a commit that missed it is unknown.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aiokafka import TopicPartition
from aiokafka.errors import (
    InvalidProducerEpoch,
    KafkaError,
    OffsetOutOfRangeError,
)
from aiokafka.errors import (
    ProducerFenced as FencedByBroker,
)

from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogUnavailable,
    PositionExpired,
    ProducerFenced,
    TopicMismatch,
)
from fairlead_common.log.append_limits import check_append, check_topic
from fairlead_common.log.kafka import address as kafka_address
from fairlead_common.log.kafka import kafka_clients
from fairlead_common.log.kafka.address import KafkaAddress
from fairlead_common.log.kafka.kafka_clients import BROKER_ERRORS, BrokerQueries, Consumer
from fairlead_common.log.protocol import (
    READ_BYTES_MAX,
    Appended,
    Batch,
    Entry,
    Positions,
    Record,
    Topic,
    caught_up,
    partition_of,
)
from fairlead_common.service import clock

TIMEOUT_S: Final = 10.0
"""How long a call tries to reach unavailable brokers; the longest time of an append."""
ABORT_S_MAX: Final = 2.0
PROBE_S: Final = 1.0
"""How often a reader that receives nothing checks that the brokers are available."""
VISIBLE_S_MIN: Final = 0.001
VISIBLE_S_MAX: Final = 0.05

_FENCED: Final = (FencedByBroker, InvalidProducerEpoch)

_Batches = dict[TopicPartition, list[Record]]


class KafkaLog:
    """An `EventLog`; see `open`."""

    def __init__(self, address: KafkaAddress, timeout_s: float) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self.queries = BrokerQueries(address, timeout_s)
        self.tombstone_retention_ms = kafka_clients.TOMBSTONE_RETENTION_MS
        self._identity = ""
        self._opened: list[KafkaProducer | KafkaReader] = []

    @classmethod
    async def open(cls, url: str, *, timeout_s: float = TIMEOUT_S) -> "KafkaLog":
        """The log of the brokers that a URL names; see `address.py`.

        Raises `LogUrlInvalid`, and `LogUnavailable` if no broker can be reached within `timeout_s`
        or all refuse the credentials.
        """
        log = cls(kafka_address.parse(url), timeout_s)
        log._identity = f"kafka/{await log.queries.cluster_id()}"
        return log

    async def identity(self) -> str:
        """See `EventLog`."""
        return self._identity

    async def create(self, topic: Topic) -> None:
        """See `EventLog`."""
        check_topic(topic)
        await self.queries.create(topic)

    async def producer(self, name: str) -> "KafkaProducer":
        """See `EventLog`."""
        client = await kafka_clients.retry_until_deadline(
            self.address,
            self.timeout_s,
            lambda: kafka_clients.start_client(
                kafka_clients.new_producer(self.address, name, self.timeout_s)
            ),
        )
        producer = KafkaProducer(self, name, client)
        self._opened.append(producer)
        return producer

    async def reader(self, topic: str, positions: Positions) -> "KafkaReader":
        """See `EventLog`."""
        partitions = await self.queries.partitions(topic)
        unknown = [number for number in positions if not 0 <= number < partitions]
        if unknown:
            raise TopicMismatch(f"{topic} has no partition {unknown[0]}")
        reader = KafkaReader(self, topic, positions, await new_consumer(self))
        self._opened.append(reader)
        if topic in self.queries.compacted:
            await reader.guard()
        return reader

    async def start_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return _by_number(await self.queries.start_offsets(await self._places(topic)))

    async def end_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return _by_number(await self.queries.end_offsets(await self._places(topic)))

    async def close(self) -> None:
        """See `EventLog`."""
        await asyncio.gather(*(opened.close() for opened in tuple(self._opened)))
        self._opened.clear()
        await self.queries.close()

    def forget(self, opened: "KafkaProducer | KafkaReader") -> None:
        """Do not close a producer or reader that its owner has closed."""
        if opened in self._opened:
            self._opened.remove(opened)

    async def _places(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, n) for n in range(await self.queries.partitions(topic))]


async def new_consumer(log: KafkaLog) -> Consumer:
    """A started consumer. Raises `LogUnavailable`."""
    return await kafka_clients.retry_until_deadline(
        log.address,
        log.timeout_s,
        lambda: kafka_clients.start_client(kafka_clients.new_consumer(log.address, log.timeout_s)),
    )


def _by_number(offsets: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {place.partition: offset for place, offset in sorted(offsets.items())}


class _ClientStop:
    """Stops a client of aiokafka once, even if both its owner and the log request it."""

    def __init__(self, on_stopped: Callable[[], None]) -> None:
        self._on_stopped = on_stopped
        self._task: asyncio.Task[None] | None = None

    @property
    def begun(self) -> bool:
        """Whether the stop was requested."""
        return self._task is not None

    def begin(self, client: kafka_clients.Producer | Consumer) -> "asyncio.Task[None]":
        """Stop the client in a task, which takes up to several seconds without brokers."""
        if self._task is None:
            self._task = asyncio.create_task(kafka_clients.stop_client(client))
            self._task.add_done_callback(lambda _: self._on_stopped())
        return self._task


class KafkaProducer:
    """A `Producer`: one epoch of a transactional id."""

    def __init__(self, log: KafkaLog, name: str, client: kafka_clients.Producer) -> None:
        self.name = name
        self._log = log
        self._client = client
        self._client_stop = _ClientStop(lambda: log.forget(self))
        self._turn = asyncio.Lock()
        self._usable = True

    async def append(self, records: Sequence[Record]) -> Appended:
        """See `Producer`."""
        check_append(records)
        async with self._turn:
            if not self._usable:
                raise ProducerFenced(f"this producer {self.name!r} can no longer be used")
            if not records:
                return {}
            batches = await self._batches(records)
            # Unless the outcome is known, and good or harmless, this was the last append.
            self._usable = False
            try:
                deadline = asyncio.get_running_loop().time() + self._log.timeout_s
                last = await self._transact(batches, deadline)
                await self._wait_until_visible(last)
                self._usable = True
            finally:
                if not self._usable:
                    self._client_stop.begin(self._client)
        return {(place.topic, place.partition): offset + 1 for place, offset in last.items()}

    async def close(self) -> None:
        """See `Producer`."""
        self._usable = False
        await asyncio.shield(self._client_stop.begin(self._client))

    async def _batches(self, records: Sequence[Record]) -> _Batches:
        batches: _Batches = {}
        for record in records:
            try:
                partitions = await self._log.queries.partitions(record.topic)
            except (TopicMismatch, LogUnavailable) as error:
                raise AppendRefused(str(error)) from error
            number = record.partition
            if number is None:
                number = partition_of(record.key, partitions)
            elif not 0 <= number < partitions:
                raise AppendRefused(f"{record.topic} has no partition {number}")
            batches.setdefault(TopicPartition(record.topic, number), []).append(record)
        return batches

    async def _transact(self, batches: _Batches, deadline: float) -> Mapping[TopicPartition, int]:
        """The offset of the last record in each partition. Raises as `append` does."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._client.begin_transaction()
                last = await self._send(batches)
        except _FENCED as error:
            raise ProducerFenced(f"a newer producer {self.name!r} exists: {error}") from error
        except BROKER_ERRORS as error:
            await self._abort(error)
            raise AppendRefused(f"Kafka refused the append: {_text(error)}") from error
        try:
            async with asyncio.timeout_at(deadline):
                await self._client.commit_transaction()
        except _FENCED as error:
            raise ProducerFenced(f"a newer producer {self.name!r} exists: {error}") from error
        except BROKER_ERRORS as error:
            raise AppendUnknown(f"the commit was not confirmed: {_text(error)}") from error
        return last

    async def _send(self, batches: _Batches) -> Mapping[TopicPartition, int]:
        """Send all batches concurrently; return when all records were written."""
        sends = [asyncio.ensure_future(self._send_to(*item)) for item in batches.items()]
        try:
            results = await asyncio.gather(*sends, return_exceptions=True)
        finally:
            for send in sends:
                send.cancel()
        errors = [result for result in results if isinstance(result, BaseException)]
        if errors:
            # Being fenced breaks the other sends in other ways.
            raise next((error for error in errors if isinstance(error, _FENCED)), errors[0])
        return dict(zip(batches, (send.result() for send in sends), strict=True))

    async def _send_to(self, place: TopicPartition, records: list[Record]) -> int:
        """Send the records of one partition, in as many batches as they need; the last offset."""
        waiting = deque(records)
        written = []
        while waiting:
            batch = self._client.create_batch()
            while waiting:
                record = waiting[0]
                if not batch.append(key=record.key.encode(), value=record.value, timestamp=None):
                    break
                waiting.popleft()
            count = batch.record_count()
            batch.close()
            written.append(
                await self._client.send_batch(batch, place.topic, partition=place.partition)
            )
        metadata = await asyncio.gather(*written)
        last: int = metadata[-1].offset + count - 1
        return last

    async def _abort(self, reason: Exception) -> None:
        """Abort the transaction. Raises `AppendUnknown` if the abort is not confirmed.

        (The transaction will not be committed, but this producer can no longer be used.)
        """
        try:
            async with asyncio.timeout(ABORT_S_MAX):
                await self._client.abort_transaction()
        except (*BROKER_ERRORS, AssertionError) as error:  # its states are assertions
            raise AppendUnknown(f"the append was aborted: {_text(reason)}") from error
        self._usable = True

    async def _wait_until_visible(self, last: Mapping[TopicPartition, int]) -> None:
        """Wait until readers see the commit, which is confirmed before its markers are written.

        After `timeout_s` the append succeeds nevertheless. Readers see it when the brokers are
        available, or when an open transaction of another producer in the partition has ended.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._log.timeout_s
        pause = VISIBLE_S_MIN
        while loop.time() < deadline:
            try:
                ends = await self._log.queries.end_offsets(list(last))
            except LogUnavailable:
                return
            if all(ends[place] > offset for place, offset in last.items()):
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, VISIBLE_S_MAX)


class KafkaReader:
    """A `Reader` with its own consumer. Records beyond the limits wait for the next read."""

    def __init__(self, log: KafkaLog, topic: str, positions: Positions, client: Consumer) -> None:
        self.topic = topic
        self._log = log
        self._client = client
        self._client_stop = _ClientStop(lambda: log.forget(self))
        self._places = [TopicPartition(topic, number) for number in positions]
        self._fetched: deque[deque[Entry]] = deque()
        """Each of one partition, none empty, and no two of the same partition."""
        self._guarded_s: float | None = None
        """When it was last certain that no tombstone was missed; None: not checked."""
        self._seek(positions)

    async def guard(self) -> None:
        """From now on, raise `PositionExpired` when a tombstone could have been missed."""
        starts = await self._log.queries.start_offsets(self._places)
        positions = await self._positions()
        is_whole = all(positions[place.partition] <= starts[place] for place in self._places)
        self._guarded_s = asyncio.get_running_loop().time() if is_whole else -math.inf

    async def read(
        self, *, records_max: int = 10_000, bytes_max: int = READ_BYTES_MAX, wait_s: float = 1.0
    ) -> Batch:
        """See `Reader`."""
        before = await self._positions()
        await self._check_tombstones(before)
        began = asyncio.get_running_loop().time()
        if not self._fetched:
            await self._fetch(min(wait_s, PROBE_S))
        while not self._fetched and await self._positions() == before:
            passed = asyncio.get_running_loop().time() - began
            left = wait_s - passed
            if await self._is_more():
                if passed > max(wait_s, self._log.timeout_s):
                    await self._replace_consumer(before)
                    raise LogUnavailable(
                        f"{self.topic}: the partition has more records, but Kafka does"
                        f" not deliver them"
                    )
                left = max(left, PROBE_S)
            if left <= 0:
                break
            await self._fetch(min(left, PROBE_S))
        entries = self._take(records_max, bytes_max)
        return Batch(entries, await self._positions())

    async def close(self) -> None:
        """See `Reader`."""
        await asyncio.shield(
            self._client_stop.begin(self._client)
        )  # `KafkaLog.close` waits for it if this is cancelled

    def _seek(self, positions: Positions) -> None:
        self._client.assign(self._places)
        for place in self._places:
            self._client.seek(place, positions[place.partition])

    async def _replace_consumer(self, positions: Positions) -> None:
        """Replace a consumer that delivers nothing."""
        replaced, self._client = self._client, await new_consumer(self._log)
        self._seek(positions)
        await kafka_clients.stop_client(replaced)

    async def _fetch(self, wait_s: float) -> None:
        if self._client_stop.begun:
            raise LogUnavailable("this reader was closed")
        try:
            found = await self._client.getmany(timeout_ms=round(wait_s * 1000))
        except OffsetOutOfRangeError as error:
            raise await self._describe_expired(error) from error
        except KafkaError as error:
            raise LogUnavailable(f"Kafka refused the read: {_text(error)}") from error
        for place, records in found.items():
            number = place.partition
            entries = (Entry(number, r.offset, _key(r.key), r.value, r.timestamp) for r in records)
            self._fetched.append(deque(entries))

    async def _is_more(self) -> bool:
        """Whether there are committed records that were not fetched yet.

        This queries the brokers, so it raises `LogUnavailable` if they are unavailable.
        """
        ends = await self._log.queries.end_offsets(self._places)
        return not caught_up(await self._positions(), _by_number(ends))

    async def _positions(self) -> dict[int, int]:
        """The position after the last record that was returned, in each partition.

        Markers and compacted records are skipped; fetched records that still wait are not."""
        positions = {place.partition: await self._client.position(place) for place in self._places}
        for entries in self._fetched:
            positions[entries[0].partition] = entries[0].position
        return positions

    def _take(self, records_max: int, bytes_max: int) -> list[Entry]:
        """Entries within the limits. The partition that was served first is the last next time."""
        entries: list[Entry] = []
        size = 0
        while self._fetched and len(entries) < records_max:
            entry = self._fetched[0][0]
            size += len(entry.value or b"") + len(entry.key)
            if entries and size > bytes_max:
                break
            entries.append(self._fetched[0].popleft())
            if not self._fetched[0]:
                self._fetched.popleft()
        self._fetched.rotate(-1)
        return entries

    async def _check_tombstones(self, positions: Positions) -> None:
        """Raise `PositionExpired` if unread records are older than the retention of tombstones.

        Checked at the first read, and then twice per retention time at most."""
        loop = asyncio.get_running_loop()
        retained_ms = self._log.tombstone_retention_ms // 2
        if self._guarded_s is None or loop.time() - self._guarded_s < retained_ms / 1000:
            return
        asked_s = loop.time()
        queries = self._log.queries
        firsts = await queries.offsets_since(self._places, clock.now_ms() - retained_ms)
        ends = await queries.end_offsets(self._places)
        for place in self._places:
            young = firsts[place]
            position = positions[place.partition]
            if position < (ends[place] if young is None else young):
                starts = await queries.start_offsets([place])
                raise PositionExpired(self.topic, place.partition, position, starts[place])
        self._guarded_s = asked_s

    async def _describe_expired(self, error: OffsetOutOfRangeError) -> PositionExpired:
        """The brokers' error as a `PositionExpired`."""
        place, position = next(iter(error.args[0].items()))
        starts = await self._log.queries.start_offsets([place])
        return PositionExpired(self.topic, place.partition, position, starts[place])


def _key(key: bytes | None) -> str:
    """The key as text, also one that another program has written."""
    return "" if key is None else key.decode(errors="surrogateescape")


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
