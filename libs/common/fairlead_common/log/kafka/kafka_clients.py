"""Bounds around `aiokafka`: its own waits end only when the brokers are back.

Here are the settings of its clients, calls with a deadline, and topics as Kafka keeps them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    IllegalOperation,
    KafkaError,
    UnknownTopicOrPartitionError,
    for_code,
)

from fairlead_common.domain.errors import LogUnavailable, TopicMismatch
from fairlead_common.log.kafka.address import KafkaAddress
from fairlead_common.log.protocol import READ_BYTES_MAX, RECORD_BYTES_MAX, Topic

T = TypeVar("T")

Consumer: TypeAlias = Any
"""An `AIOKafkaConsumer`; the library carries no types."""

Producer: TypeAlias = Any
"""An `AIOKafkaProducer`."""

MESSAGE_BYTES_MAX: Final = 2 * RECORD_BYTES_MAX
TRANSACTION_S_MAX: Final = 10
"""The brokers end a transaction of a producer that died; readers wait behind it that long."""
CLOSE_S_MAX: Final = 3.0
PAUSE_S_MIN: Final = 0.05
PAUSE_S_MAX: Final = 0.5
RETRY_MS: Final = 50
DAY_MS: Final = 86_400_000
MINUTE_MS: Final = 60_000
TOMBSTONE_RETENTION_MS: Final = 15 * MINUTE_MS
"""How long the brokers keep a tombstone after the older records of its key have gone. Readers
assume half of it, so that their clocks can differ from the brokers'."""

_EXISTS: Final = 36
_ABSENT: Final = 3

_RETENTION: Final = ("retention.ms", "delete.retention.ms", "max.compaction.lag.ms")
"""Settings of a topic that are brought up to date when they differ."""


BROKER_ERRORS: Final = (KafkaError, IllegalOperation, OSError)
"""What calls raise while the brokers are away, or refuse."""


async def bounded(address: KafkaAddress, away_s: float, attempt: Callable[[], Awaitable[T]]) -> T:
    """The result of a call that may be repeated. Raises `LogUnavailable` past the bound."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + away_s
    pause = PAUSE_S_MIN
    reason = ""
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                return await attempt()
        except BROKER_ERRORS as error:
            # A timeout has no message: use that of the attempt before.
            reason = str(error) or reason or type(error).__name__
            if loop.time() + pause > deadline:
                raise LogUnavailable(
                    f"Kafka at {address!r} did not answer in time: {reason}"
                ) from error
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_S_MAX)


async def stop(client: Any) -> None:
    """Stop a producer or consumer of `aiokafka`, within a bound, whatever state it is in.

    A producer that cannot flush would wait for ever. Then the task that sends is ended first, and
    the connections are closed last, for which there are no public ways.
    """
    stopping = asyncio.ensure_future(client.stop())
    done, _ = await asyncio.wait([stopping], timeout=CLOSE_S_MAX)
    if not done:
        sender = getattr(client, "_sender", None)
        if sender is not None and sender.sender_task is not None:
            sender.sender_task.cancel()
            await asyncio.wait([stopping], timeout=CLOSE_S_MAX)
        stopping.cancel()
        connections = client.client if sender is not None else client._client
        await asyncio.wait([stopping, asyncio.ensure_future(connections.close())])
    if not stopping.cancelled():
        error = stopping.exception()
        if error is not None and not isinstance(error, BROKER_ERRORS):
            raise error


def new_producer(address: KafkaAddress, name: str, away_s: float) -> Producer:
    """A producer of transactions, not started."""
    return AIOKafkaProducer(
        **address.options(),
        client_id=f"fairlead-{name}",
        transactional_id=f"fairlead.{name}",
        transaction_timeout_ms=TRANSACTION_S_MAX * 1000,
        max_batch_size=MESSAGE_BYTES_MAX,
        max_request_size=MESSAGE_BYTES_MAX,
        request_timeout_ms=round(away_s * 1000),
        retry_backoff_ms=RETRY_MS,
    )


def new_consumer(address: KafkaAddress, away_s: float) -> Consumer:
    """A consumer of what is committed, not started and of no group."""
    return AIOKafkaConsumer(
        **address.options(),
        client_id="fairlead",
        group_id=None,
        isolation_level="read_committed",
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_bytes=READ_BYTES_MAX,
        max_partition_fetch_bytes=READ_BYTES_MAX // 2,
        request_timeout_ms=round(away_s * 1000),
        retry_backoff_ms=RETRY_MS,
    )


@asynccontextmanager
async def admin(address: KafkaAddress, away_s: float) -> AsyncIterator[Any]:
    """A started `AIOKafkaAdminClient`, closed afterwards."""
    client = AIOKafkaAdminClient(
        **address.options(),
        client_id="fairlead",
        request_timeout_ms=round(away_s * 1000),
        retry_backoff_ms=RETRY_MS,
    )
    try:
        await _start_shielded(client)
        yield client
    finally:
        await client.close()


class BrokerQueries:
    """What a log asks its brokers besides records: topics, offsets, who they are."""

    def __init__(self, address: KafkaAddress, away_s: float) -> None:
        self._address = address
        self._away_s = away_s
        self._consumer: Consumer = None
        self._starting = asyncio.Lock()
        self._partitions: dict[str, int] = {}
        self.compacted: set[str] = set()
        """The compacted topics among those that this process has made or checked."""

    async def cluster_id(self) -> str:
        """The name that the brokers gave themselves for good."""

        async def attempt() -> str:
            async with admin(self._address, self._away_s) as client:
                return str((await client.describe_cluster())["cluster_id"])

        return await bounded(self._address, self._away_s, attempt)

    async def create(self, topic: Topic) -> None:
        """Make the topic, or check the one that is there. Raises `TopicMismatch`.

        The controller says that it is made before the brokers have heard of it: we wait for them.
        """

        async def attempt() -> int:
            async with admin(self._address, self._away_s) as client:
                await _create(client, topic)
                return await _known_partitions(client, topic.name)

        self._partitions[topic.name] = await bounded(self._address, self._away_s, attempt)
        if topic.compacted:
            self.compacted.add(topic.name)

    async def partitions(self, topic: str) -> int:
        """How many it has, which never changes. Raises `TopicMismatch` if it is not there."""
        known = self._partitions.get(topic)
        if known is not None:
            return known

        async def attempt() -> int:
            async with admin(self._address, self._away_s) as client:
                return await _count_partitions(client, topic)

        found = await bounded(self._address, self._away_s, attempt)
        if not found:
            raise TopicMismatch(f"there is no topic {topic!r}")
        self._partitions[topic] = found
        return found

    async def ends(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The offset behind everything committed and visible, for each."""

        async def attempt() -> Mapping[TopicPartition, int]:
            consumer = await self._get_consumer()
            found: Mapping[TopicPartition, int] = await consumer.end_offsets(partitions)
            return found

        return await bounded(self._address, self._away_s, attempt)

    async def first_since(
        self, partitions: list[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, int | None]:
        """The offset of the first record from that time on, for each; None without one."""

        async def attempt() -> Mapping[TopicPartition, int | None]:
            consumer = await self._get_consumer()
            found = await consumer.offsets_for_times(dict.fromkeys(partitions, time_ms))
            return {place: None if at is None else at.offset for place, at in found.items()}

        return await bounded(self._address, self._away_s, attempt)

    async def starts(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first offset that is kept, for each."""

        async def attempt() -> Mapping[TopicPartition, int]:
            consumer = await self._get_consumer()
            found: Mapping[TopicPartition, int] = await consumer.beginning_offsets(partitions)
            return found

        return await bounded(self._address, self._away_s, attempt)

    async def close(self) -> None:
        """Give up the connection. Safe to call twice."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop(consumer)

    async def _get_consumer(self) -> Consumer:
        async with self._starting:
            if self._consumer is None:
                self._consumer = await start_or_stop(new_consumer(self._address, self._away_s))
            return self._consumer


async def start_or_stop(client: Any) -> Any:
    """Start a client of `aiokafka`; one that does not start is stopped."""
    try:
        await _start_shielded(client)
    except BaseException:
        await stop(client)
        raise
    return client


async def _start_shielded(client: Any) -> None:
    """Start it. When this is cancelled the start may finish first, within a bound: a client that is
    cancelled while it connects leaves its connection open."""
    starting = asyncio.ensure_future(client.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting], timeout=CLOSE_S_MAX)
        starting.cancel()
        raise


def settings_of(topic: Topic) -> dict[str, str]:
    """All that we rely on, whatever the brokers' defaults are."""
    settings = {
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
        "compression.type": "producer",
    }
    if topic.compacted:
        return settings | {
            "cleanup.policy": "compact",
            "segment.bytes": str(64 * RECORD_BYTES_MAX),
            "segment.ms": str(5 * MINUTE_MS),
            "min.cleanable.dirty.ratio": "0.2",
            "min.compaction.lag.ms": "0",
            "max.compaction.lag.ms": str(10 * MINUTE_MS),
            "delete.retention.ms": str(TOMBSTONE_RETENTION_MS),
        }
    return settings | {
        "cleanup.policy": "delete",
        "retention.ms": str(1000 * topic.initial_retention_s),
        "retention.bytes": "-1",
        "segment.bytes": str(256 * RECORD_BYTES_MAX),
        "segment.ms": str(min(DAY_MS, 1000 * topic.initial_retention_s)),
    }


async def _create(client: Any, topic: Topic) -> None:
    settings = settings_of(topic)
    # No assignments and a factor of -1: as many replicas as the brokers make by default.
    new = NewTopic(topic.name, topic.partitions, -1, {}, settings)
    answer = await client.create_topics([new])
    _, code, message = answer.topic_errors[0][:3]
    if code not in (0, _EXISTS):
        raise for_code(code)(f"{topic.name}: {message}")
    if code == _EXISTS:
        await _check(client, topic, settings)


async def _check(client: Any, topic: Topic, settings: Mapping[str, str]) -> None:
    """Raises `TopicMismatch`; sets how long records and tombstones are kept, if that differs."""
    found = await _known_partitions(client, topic.name)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
    answers = await client.describe_configs([resource])
    code, message, _, _, entries = answers[0].resources[0]
    if code:
        raise for_code(code)(f"{topic.name}: {message}")
    there = {entry[0]: entry[1] for entry in entries}
    compacted = "compact" in there["cleanup.policy"]
    if (found, compacted) != (topic.partitions, topic.compacted):
        raise TopicMismatch(
            f"{topic.name} exists with {found} partitions, compacted: {compacted}; "
            f"{topic.partitions} and {topic.compacted} were asked for"
        )
    owned = {name: settings[name] for name in _RETENTION if name in settings}
    if topic.retention_s is None:
        owned.pop("retention.ms", None)
    if any(there[name] != value for name, value in owned.items()):
        changed = ConfigResource(ConfigResourceType.TOPIC, topic.name, dict(settings))
        await client.alter_configs([changed])


async def _known_partitions(client: Any, topic: str) -> int:
    """Raises `UnknownTopicOrPartitionError` if the broker asked does not know it (yet)."""
    found = await _count_partitions(client, topic)
    if not found:
        raise UnknownTopicOrPartitionError(f"the brokers do not know {topic} yet")
    return found


async def _count_partitions(client: Any, topic: str) -> int:
    """0 if there is no such topic."""
    (found,) = await client.describe_topics([topic])
    if found["error_code"] == _ABSENT:
        return 0
    if found["error_code"]:
        raise for_code(found["error_code"])(topic)
    return len(found["partitions"])
