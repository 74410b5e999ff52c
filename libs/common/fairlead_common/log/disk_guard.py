"""A log on a disk of this machine: appends are refused before the disk is full."""

from collections.abc import Sequence

from fairlead_common.log.protocol import (
    Appended,
    EventLog,
    Positions,
    Producer,
    Reader,
    Record,
    Topic,
)
from fairlead_common.service.disk import Disk, Space


class DiskGuardedLog:
    """An `EventLog` that passes everything on to another one, but appends to a full disk."""

    def __init__(self, log: EventLog, disk: Disk) -> None:
        self.log = log
        self._disk = disk

    async def identity(self) -> str:
        """See `EventLog`."""
        return await self.log.identity()

    async def create(self, topic: Topic) -> None:
        """See `EventLog`."""
        await self.log.create(topic)

    async def producer(self, name: str) -> Producer:
        """See `EventLog`."""
        return DiskGuardedProducer(await self.log.producer(name), self._disk)

    async def reader(self, topic: str, positions: Positions) -> Reader:
        """See `EventLog`."""
        return await self.log.reader(topic, positions)

    async def start_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return await self.log.start_positions(topic)

    async def end_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return await self.log.end_positions(topic)

    async def close(self) -> None:
        """See `EventLog`."""
        await self.log.close()


class DiskGuardedProducer:
    """A `Producer`; `append` raises `LogFull` while the disk is full."""

    def __init__(self, producer: Producer, disk: Disk) -> None:
        self.name = producer.name
        self._producer = producer
        self._disk = disk

    async def append(self, records: Sequence[Record]) -> Appended:
        """See `Producer`."""
        self._disk.check(Space.FULL)
        return await self._producer.append(records)

    async def close(self) -> None:
        """See `Producer`."""
        await self._producer.close()
