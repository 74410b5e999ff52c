"""What only the log in Kafka has: topics as brokers keep them, and transactions left open."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from typing import NoReturn

import pytest
from aiokafka import TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from fairlead_common.domain.errors import LogUnavailable, PositionExpired
from fairlead_common.log.compacted_view import read_newest
from fairlead_common.log.kafka import kafka_clients
from fairlead_common.log.kafka.event_log import KafkaLog, KafkaReader
from fairlead_common.log.opening import open_log
from fairlead_common.log.protocol import Topic
from fairlead_standalone.servers.addresses import free_port
from tests.conftest import Server
from tests.contract.log.beds import KafkaBed, a_name, a_topic
from tests.contract.log.helpers import everything, made, reader_of, record, texts

pytestmark = pytest.mark.kafka


@pytest.fixture
async def log(kafka_broker: Server) -> AsyncIterator[KafkaLog]:
    log = await KafkaLog.open(kafka_broker.url(), timeout_s=30)
    yield log
    await log.close()


async def settings_there(log: KafkaLog, topic: str) -> dict[str, str]:
    async with kafka_clients.open_admin_client(log.address, log.timeout_s) as admin:
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return {entry[0]: entry[1] for entry in answer.resources[0][4]}


async def change_settings(log: KafkaLog, topic: str, settings: dict[str, str]) -> None:
    async with kafka_clients.open_admin_client(log.address, log.timeout_s) as admin:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, settings)])


@pytest.mark.parametrize("compacted", [False, True])
async def test_a_topic_is_created_with_explicit_settings(log: KafkaLog, compacted: bool) -> None:
    topic = a_topic(compacted=compacted)
    await log.create(topic)
    wanted = kafka_clients.topic_settings(topic)
    there = await settings_there(log, topic.name)
    assert {name: there[name] for name in wanted} == wanted


async def test_the_owner_of_a_topic_changes_its_retention(log: KafkaLog) -> None:
    topic = await made(log)
    await log.create(Topic(topic.name, retention_s=77))
    await log.create(topic)  # by a service that does not own the topic
    there = await settings_there(log, topic.name)
    assert there["retention.ms"] == "77000"
    assert there["message.timestamp.type"] == "LogAppendTime"


async def test_missing_brokers_are_reported() -> None:
    port = free_port()
    with pytest.raises(LogUnavailable, match=f"{port}"):
        await KafkaLog.open(f"kafka://127.0.0.1:{port}", timeout_s=0.3)


async def test_unresponsive_brokers_are_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(LogUnavailable, match=f"{port}"):
            await KafkaLog.open(f"kafka://127.0.0.1:{port}", timeout_s=0.3)


async def test_any_of_several_brokers_can_be_the_bootstrap_server(kafka_broker: Server) -> None:
    there = kafka_broker.url().removeprefix("kafka://")
    log = await open_log(f"kafka://127.0.0.1:{free_port()},{there}")
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    assert texts(await everything(log, topic)) == ["1"]
    await log.close()


async def test_a_new_producer_aborts_the_open_transaction_of_its_predecessor(log: KafkaLog) -> None:
    topic = await made(log)
    name = a_name()
    dead = await kafka_clients.start_client(
        kafka_clients.new_producer(log.address, name, log.timeout_s)
    )
    await dead.begin_transaction()
    await dead.send_and_wait(topic.name, key=b"k", value=b"left open", partition=0)
    reader = await reader_of(log, topic)
    assert (await reader.read(wait_s=0)).entries == []
    producer = await log.producer(name)
    await producer.append([record(topic, "k", "new")])
    assert texts(await everything(log, topic)) == ["new"]
    batch = await reader.read(wait_s=30)
    assert texts(batch.entries) == ["new"]
    assert batch.positions == await log.end_positions(topic.name)
    await kafka_clients.stop_client(dead)


class SilentConsumer:
    """Is at the start, and never gets anything."""

    def assign(self, places: list[TopicPartition]) -> None:
        """Nothing comes of it."""

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Nothing comes of it."""

    async def position(self, place: TopicPartition) -> int:
        return 0

    async def getmany(self, *, timeout_ms: int) -> dict[TopicPartition, list[object]]:
        await asyncio.sleep(timeout_ms / 1000)
        return {}

    async def stop(self) -> None:
        """Nothing is held."""


async def test_a_stuck_consumer_is_replaced(
    kafka_broker: Server,
) -> None:
    log = await KafkaLog.open(kafka_broker.url(), timeout_s=30)
    topic = await made(log)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1")])
    log.timeout_s = 5
    reader = KafkaReader(log, topic.name, {0: 0}, SilentConsumer())
    with pytest.raises(LogUnavailable, match="has more records"):
        await reader.read(wait_s=0)
    assert texts((await reader.read(wait_s=30)).entries) == ["1"]
    await reader.close()
    await log.close()


async def test_an_append_after_an_open_transaction_returns_within_its_bound(
    kafka_broker: Server,
) -> None:
    log = await KafkaLog.open(kafka_broker.url(), timeout_s=2)
    topic = await made(log)
    producer = await log.producer(a_name())
    async with KafkaBed(kafka_broker).open_append([record(topic, "a", "1")]):
        # The brokers end the open transaction after 10 s or more.
        async with asyncio.timeout(kafka_clients.TRANSACTION_S_MAX - 2):
            await producer.append([record(topic, "a", "2")])
        assert await log.end_positions(topic.name) == {0: 0}
    assert texts(await everything(log, topic)) == ["1", "2"]
    await log.close()


async def test_folding_stays_right_while_the_broker_compacts(log: KafkaLog) -> None:
    topic = await made(log, compacted=True)
    await change_settings(
        log,
        topic.name,
        kafka_clients.topic_settings(topic)
        | {
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "100",
            "delete.retention.ms": "0",
        },
    )
    producer = await log.producer(a_name())
    appends = 0
    while appends < 20 or len(await everything(log, topic)) > appends:
        # Each append may begin a new segment; the broker compacts those before it.
        await producer.append([record(topic, f"{n}", f"{appends}") for n in range(5)])
        await producer.append([record(topic, "gone", None), record(topic, "4", None)])
        appends += 1
        values, positions = await read_newest(log, topic.name)
        assert values == {f"{n}": f"{appends - 1}".encode() for n in range(4)}
        assert positions == await log.end_positions(topic.name)


async def test_a_resumed_reader_before_removed_tombstones_gets_position_expired(
    log: KafkaLog,
) -> None:
    log.tombstone_retention_ms = 1_000
    topic = await made(log, compacted=True)
    producer = await log.producer(a_name())
    await producer.append([record(topic, "a", "1"), record(topic, "b", "1")])
    positions = await log.end_positions(topic.name)
    await producer.append([record(topic, "a", None)])
    with pytest.raises(PositionExpired) as gone:
        await _resume_on(log, topic.name, positions)
    assert gone.value.first == (await log.start_positions(topic.name))[0]
    at_end = await log.reader(topic.name, await log.end_positions(topic.name))
    assert (await at_end.read(wait_s=0.1)).entries == []


async def test_settings_of_an_older_topic_are_updated(
    log: KafkaLog,
) -> None:
    topic = await made(log, compacted=True)
    old = kafka_clients.topic_settings(topic) | {"delete.retention.ms": "86400000"}
    await change_settings(log, topic.name, old)
    await log.create(topic)
    there = await settings_there(log, topic.name)
    assert there["delete.retention.ms"] == str(kafka_clients.TOMBSTONE_RETENTION_MS)


async def test_a_cancelled_reader_leaves_no_consumer_open(
    log: KafkaLog, kafka_broker: Server
) -> None:
    """Cancelled ever later while it opens, then while it closes. An open consumer is a warning."""
    topic = await made(log, compacted=True)
    was_opened = False
    patience = 0
    while not was_opened:
        mine = await KafkaLog.open(kafka_broker.url(), timeout_s=30)
        opening = asyncio.create_task(mine.reader(topic.name, {0: 0}))
        for _ in range(patience):
            await asyncio.sleep(0)
        was_opened = opening.done()
        opening.cancel()
        await asyncio.wait([opening])
        if was_opened:
            closing = asyncio.create_task(opening.result().close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing])
        await mine.close()
        patience += 20
    gc.collect()


async def _resume_on(log: KafkaLog, topic: str, positions: dict[int, int]) -> NoReturn:
    """Resume readers at these positions until an error ends it."""
    while True:
        reader = await log.reader(topic, positions)
        try:
            await reader.read(wait_s=0.1)
        finally:
            await reader.close()
