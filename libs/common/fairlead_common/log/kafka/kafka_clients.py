"""Clients of `aiokafka` with deadlines: its own waits end only when the brokers are back.

Also the settings of topics, which are created here.
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
"""How long the brokers retain a tombstone after the older records of its key were deleted. Readers
assume half of it, so that their clocks can differ from the brokers'."""

_EXISTS: Final = 36
_ABSENT: Final = 3

_RETENTION: Final = ("retention.ms", "delete.retention.ms", "max.compaction.lag.ms")
"""Settings of a topic that are brought up to date when they differ."""


BROKER_ERRORS: Final = (KafkaError, IllegalOperation, OSError)
"""What calls raise while the brokers are unavailable, or refuse a request."""


async def retry_until_deadline(
    address: KafkaAddress, timeout_s: float, attempt: Callable[[], Awaitable[T]]
) -> T:
    """Call `attempt`, which can be repeated safely, until it succeeds; its result.

    Raises `LogUnavailable` after `timeout_s`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
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


async def stop_client(client: Any) -> None:
    """Stop a producer or consumer of `aiokafka`, within a bound, whatever state it is in.

    A producer that cannot flush waits for ever. Then its sender task is cancelled first, and its
    connections are closed last; `aiokafka` has no public way to do either.
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


def new_producer(address: KafkaAddress, name: str, timeout_s: float) -> Producer:
    """A transactional producer, not started."""
    return AIOKafkaProducer(
        **address.options(),
        client_id=f"fairlead-{name}",
        transactional_id=f"fairlead.{name}",
        transaction_timeout_ms=TRANSACTION_S_MAX * 1000,
        max_batch_size=MESSAGE_BYTES_MAX,
        max_request_size=MESSAGE_BYTES_MAX,
        request_timeout_ms=round(timeout_s * 1000),
        retry_backoff_ms=RETRY_MS,
    )


def new_consumer(address: KafkaAddress, timeout_s: float) -> Consumer:
    """A consumer of committed records, not started and without a consumer group."""
    return AIOKafkaConsumer(
        **address.options(),
        client_id="fairlead",
        group_id=None,
        isolation_level="read_committed",
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_bytes=READ_BYTES_MAX,
        max_partition_fetch_bytes=READ_BYTES_MAX // 2,
        request_timeout_ms=round(timeout_s * 1000),
        retry_backoff_ms=RETRY_MS,
    )


@asynccontextmanager
async def open_admin_client(address: KafkaAddress, timeout_s: float) -> AsyncIterator[Any]:
    """A started `AIOKafkaAdminClient`, closed afterwards."""
    client = AIOKafkaAdminClient(
        **address.options(),
        client_id="fairlead",
        request_timeout_ms=round(timeout_s * 1000),
        retry_backoff_ms=RETRY_MS,
    )
    try:
        await _start_shielded(client)
        yield client
    finally:
        await client.close()


class BrokerQueries:
    """Queries of a log to its brokers about topics, offsets and the id of the Kafka cluster."""

    def __init__(self, address: KafkaAddress, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._consumer: Consumer = None
        self._starting = asyncio.Lock()
        self._partitions: dict[str, int] = {}
        self.compacted: set[str] = set()
        """The compacted topics that this process has created or checked."""

    async def cluster_id(self) -> str:
        """The id of the Kafka cluster, which never changes."""

        async def attempt() -> str:
            async with open_admin_client(self._address, self._timeout_s) as client:
                return str((await client.describe_cluster())["cluster_id"])

        return await retry_until_deadline(self._address, self._timeout_s, attempt)

    async def create(self, topic: Topic) -> None:
        """Create the topic, or check the one that exists. Raises `TopicMismatch`.

        The controller answers before all brokers know the topic: we wait for them.
        """

        async def attempt() -> int:
            async with open_admin_client(self._address, self._timeout_s) as client:
                await _create(client, topic)
                return await _known_partitions(client, topic.name)

        self._partitions[topic.name] = await retry_until_deadline(
            self._address, self._timeout_s, attempt
        )
        if topic.compacted:
            self.compacted.add(topic.name)

    async def partitions(self, topic: str) -> int:
        """The number of partitions. Raises `TopicMismatch` if the topic does not exist."""
        known = self._partitions.get(topic)
        if known is not None:
            return known

        async def attempt() -> int:
            async with open_admin_client(self._address, self._timeout_s) as client:
                return await _count_partitions(client, topic)

        found = await retry_until_deadline(self._address, self._timeout_s, attempt)
        if not found:
            raise TopicMismatch(f"the topic {topic!r} does not exist")
        self._partitions[topic] = found
        return found

    async def end_offsets(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The offset after the last committed record of each partition."""

        async def attempt() -> Mapping[TopicPartition, int]:
            consumer = await self._get_consumer()
            found: Mapping[TopicPartition, int] = await consumer.end_offsets(partitions)
            return found

        return await retry_until_deadline(self._address, self._timeout_s, attempt)

    async def offsets_since(
        self, partitions: list[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, int | None]:
        """The offset of the first record of each partition since that time; None without one."""

        async def attempt() -> Mapping[TopicPartition, int | None]:
            consumer = await self._get_consumer()
            found = await consumer.offsets_for_times(dict.fromkeys(partitions, time_ms))
            return {place: None if at is None else at.offset for place, at in found.items()}

        return await retry_until_deadline(self._address, self._timeout_s, attempt)

    async def start_offsets(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first retained offset of each partition."""

        async def attempt() -> Mapping[TopicPartition, int]:
            consumer = await self._get_consumer()
            found: Mapping[TopicPartition, int] = await consumer.beginning_offsets(partitions)
            return found

        return await retry_until_deadline(self._address, self._timeout_s, attempt)

    async def close(self) -> None:
        """Close the connection. Can be called twice."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop_client(consumer)

    async def _get_consumer(self) -> Consumer:
        async with self._starting:
            if self._consumer is None:
                self._consumer = await start_client(new_consumer(self._address, self._timeout_s))
            return self._consumer


async def start_client(client: Any) -> Any:
    """Start a client of `aiokafka`, and stop it if its start fails."""
    try:
        await _start_shielded(client)
    except BaseException:
        await stop_client(client)
        raise
    return client


async def _start_shielded(client: Any) -> None:
    """Start it. If this is cancelled, the start is given `CLOSE_S_MAX` to finish: a client that is
    cancelled while it connects leaves its connection open."""
    starting = asyncio.ensure_future(client.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting], timeout=CLOSE_S_MAX)
        starting.cancel()
        raise


def topic_settings(topic: Topic) -> dict[str, str]:
    """The settings of the topic that we rely on, independent of the brokers' defaults."""
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
    settings = topic_settings(topic)
    # No assignments and a factor of -1: as many replicas as the brokers make by default.
    new = NewTopic(topic.name, topic.partitions, -1, {}, settings)
    answer = await client.create_topics([new])
    _, code, message = answer.topic_errors[0][:3]
    if code not in (0, _EXISTS):
        raise for_code(code)(f"{topic.name}: {message}")
    if code == _EXISTS:
        await _check(client, topic, settings)


async def _check(client: Any, topic: Topic, settings: Mapping[str, str]) -> None:
    """Update the retention settings of the topic where they differ. Raises `TopicMismatch`."""
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
            f"the topic {topic.name} has {found} partitions, compacted: {compacted}; "
            f"expected are {topic.partitions} partitions, compacted: {topic.compacted}"
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
