"""Short ways to say what the tests do with a log."""

from collections.abc import Mapping
from typing import NoReturn

from fairlead_common.log.protocol import Entry, EventLog, Producer, Reader, Record, Topic, caught_up
from tests.contract.log.beds import a_topic


async def made(log: EventLog, *, partitions: int = 1, compacted: bool = False) -> Topic:
    """A new topic that is there."""
    topic = a_topic(partitions=partitions, compacted=compacted)
    await log.create(topic)
    return topic


def record(
    topic: Topic, key: str, value: str | bytes | None, partition: int | None = None
) -> Record:
    """A record with a short value."""
    return Record(topic.name, key, value.encode() if isinstance(value, str) else value, partition)


def texts(entries: list[Entry]) -> list[str]:
    """The values, as they were written."""
    return ["null" if entry.value is None else entry.value.decode() for entry in entries]


async def reader_of(log: EventLog, topic: Topic) -> Reader:
    """A reader of the whole topic from its start."""
    return await log.reader(topic.name, await log.start_positions(topic.name))


async def read_to(reader: Reader, end: Mapping[int, int], **limits: int) -> list[Entry]:
    """Everything that the reader finds before it has passed `end`."""
    entries: list[Entry] = []
    positions: Mapping[int, int] = {}
    while not positions or not caught_up(positions, end):
        batch = await reader.read(wait_s=0.2, **limits)
        entries += batch.entries
        positions = batch.positions
    return entries


async def read_on(reader: Reader) -> NoReturn:
    """Read until an error ends it."""
    while True:
        await reader.read(wait_s=0.1)


async def append_on(producer: Producer, record: Record) -> NoReturn:
    """Append the record again and again until an error ends it."""
    while True:
        await producer.append([record])


async def everything(log: EventLog, topic: Topic) -> list[Entry]:
    """All entries of the topic now."""
    reader = await reader_of(log, topic)
    entries = await read_to(reader, await log.end_positions(topic.name))
    await reader.close()
    return entries
