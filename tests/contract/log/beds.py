"""What the contract suite needs of each log besides the protocol: to break it and to age it."""

import itertools
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import asyncpg
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from fairlead_common.log.kafka import kafka_clients
from fairlead_common.log.kafka.event_log import KafkaLog
from fairlead_common.log.memory_log import MemoryCore, MemoryLog
from fairlead_common.log.postgres.event_log import PostgresLog
from fairlead_common.log.postgres.record_batches import pack
from fairlead_common.log.postgres.statements import SQL
from fairlead_common.log.protocol import (
    TOMBSTONE_RETENTION_MS,
    EventLog,
    Record,
    Topic,
    partition_of,
)
from fairlead_common.service import clock
from tests.conftest import Server

FOREIGN = """
WITH place AS (
    UPDATE fairlead_log.parts SET next = next + 1 WHERE part = $1
    RETURNING next
)
INSERT INTO fairlead_log.batches (part, first, next, time_ms, live, deletions, keys, stored_values)
SELECT $1, next - 1, next, 0, ($3::bytea IS NOT NULL)::int, ($3 IS NULL)::int,
       ARRAY[$2::text], ARRAY[$3]
FROM place
"""
FAR_FUTURE_MS = 10 * 365 * 86_400_000


class Bed(Protocol):
    """One log that lives for the session; each test makes topics of its own in it."""

    name: str

    async def open(self, timeout_s: float = 30.0) -> EventLog:
        """A connection to the log, as another process would have it."""
        ...

    def open_append(self, records: Sequence[Record]) -> AbstractAsyncContextManager[None]:
        """An append that is under way inside the `async with` and committed at its end."""
        ...

    async def expire(self, topic: str) -> None:
        """Drop everything that the topic (one not compacted) has."""
        ...

    async def compact(self, topic: str) -> None:
        """Drop what a compacted topic may drop, if the log can be told to."""
        ...

    async def bury(self, topic: str) -> None:
        """Compact, and then remove the tombstones as if they had been kept for long enough."""
        ...

    async def write_foreign(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Append to partition 0 as another program would; skip what the log cannot hold."""
        ...

    def check_ours(self) -> None:
        """Skip the test if the server belongs to somebody else, who would not like it killed."""
        ...

    def kill(self) -> None:
        """End the log's server as a crash does."""
        ...

    def restart(self) -> None:
        """Start it again."""
        ...


_numbers = itertools.count()
_session = secrets.token_hex(4)


def a_topic(*, partitions: int = 1, compacted: bool = False) -> Topic:
    """A topic that no other test uses."""
    return Topic(f"t{_session}-{next(_numbers)}", partitions, compacted)


def a_name() -> str:
    """A producer's name that no other test uses."""
    return f"p{_session}-{next(_numbers)}"


class MemoryBed:
    """The log in memory: it cannot crash, only be away."""

    name = "memory"

    def __init__(self) -> None:
        self.core = MemoryCore()

    async def open(self, timeout_s: float = 30.0) -> EventLog:
        return MemoryLog(clock.now_ms, self.core)

    @asynccontextmanager
    async def open_append(self, records: Sequence[Record]) -> AsyncIterator[None]:
        log = await self.open()
        producer = await log.producer(a_name())
        yield
        await producer.append(records)
        await log.close()

    async def expire(self, topic: str) -> None:
        self.core.maintain(clock.now_ms() + FAR_FUTURE_MS)

    async def compact(self, topic: str) -> None:
        self.core.maintain(clock.now_ms())

    async def bury(self, topic: str) -> None:
        now_ms = clock.now_ms()
        self.core.maintain(now_ms)
        self.core.maintain(now_ms + TOMBSTONE_RETENTION_MS)

    async def write_foreign(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        text = "" if key is None else key.decode(errors="surrogateescape")
        self.core.write_foreign(topic, 0, text, value, clock.now_ms())

    def check_ours(self) -> None:
        """It always is."""

    def kill(self) -> None:
        self.core.away = True

    def restart(self) -> None:
        self.core.away = False


class PostgresBed:
    """The log in a real Postgres."""

    name = "postgres"

    def __init__(self, server: Server, url: str) -> None:
        self.url = url
        self._server = server

    async def open(self, timeout_s: float = 30.0) -> PostgresLog:
        return await PostgresLog.open(self.url, timeout_s=timeout_s)

    @asynccontextmanager
    async def open_append(self, records: Sequence[Record]) -> AsyncIterator[None]:
        log = await self.open()
        name = a_name()
        await log.producer(name)
        parts: dict[int, list[Record]] = {}
        for record in records:
            places = (await log.place(record.topic)).parts
            parts.setdefault(places[partition_of(record.key, len(places))], []).append(record)
        connection = await asyncpg.connect(self.url)
        async with connection.transaction():
            await connection.fetch(SQL["append"], name, 1, pack(parts))
            yield
        await connection.close()
        await log.close()

    async def expire(self, topic: str) -> None:
        await self._maintain(clock.now_ms() + FAR_FUTURE_MS)

    async def compact(self, topic: str) -> None:
        await self._maintain(clock.now_ms())

    async def bury(self, topic: str) -> None:
        now_ms = clock.now_ms()
        await self._maintain(now_ms)
        await self._maintain(now_ms + TOMBSTONE_RETENTION_MS)

    async def write_foreign(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        try:
            text = None if key is None else key.decode()
        except UnicodeDecodeError:
            text = None
        if text is None:
            pytest.skip("the keys of its table are texts")
        log = await self.open()
        part = (await log.place(topic)).parts[0]
        await log.close()
        connection = await asyncpg.connect(self.url)
        await connection.execute(FOREIGN, part, text, value)
        await connection.close()

    def check_ours(self) -> None:
        assert self._server.pid

    def kill(self) -> None:
        self._server.kill()

    def restart(self) -> None:
        self._server.restart()

    async def _maintain(self, now_ms: int) -> None:
        log = await self.open()
        await log.maintain(now_ms)
        await log.close()


class KafkaBed:
    """The log in a real broker."""

    name = "kafka"

    def __init__(self, server: Server) -> None:
        self._server = server

    async def open(self, timeout_s: float = 30.0) -> KafkaLog:
        return await KafkaLog.open(self._server.url(), timeout_s=timeout_s)

    @asynccontextmanager
    async def open_append(self, records: Sequence[Record]) -> AsyncIterator[None]:
        log = await self.open()
        producer = await kafka_clients.start_client(
            kafka_clients.new_producer(log.address, a_name(), log.timeout_s)
        )
        async with producer.transaction():
            for record in records:
                partitions = await log.queries.partitions(record.topic)
                await producer.send_and_wait(
                    record.topic,
                    key=record.key.encode(),
                    value=record.value,
                    partition=partition_of(record.key, partitions),
                )
            yield
        await kafka_clients.stop_client(producer)
        await log.close()

    async def expire(self, topic: str) -> None:
        log = await self.open()
        ends = await log.end_positions(topic)
        async with kafka_clients.open_admin_client(log.address, log.timeout_s) as admin:
            await admin.delete_records(
                {TopicPartition(topic, n): RecordsToDelete(end) for n, end in ends.items()}
            )
        await log.close()

    async def compact(self, topic: str) -> None:
        """The brokers compact when they like to."""

    async def bury(self, topic: str) -> None:
        pytest.skip("the brokers remove tombstones when they like to")

    async def write_foreign(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        log = await self.open()
        producer = await kafka_clients.start_client(
            kafka_clients.new_producer(log.address, a_name(), log.timeout_s)
        )
        async with producer.transaction():
            await producer.send_and_wait(topic, key=key, value=value, partition=0)
        await kafka_clients.stop_client(producer)
        await log.close()

    def check_ours(self) -> None:
        assert self._server.pid

    def kill(self) -> None:
        self._server.kill()

    def restart(self) -> None:
        self._server.restart()
