"""A log that passes every call on to another one: the base of logs that add something to it."""

from fairlead_common.log.protocol import EventLog, Positions, Producer, Reader, Topic


class ForwardingLog:
    """An `EventLog` with the topics, readers and producers of `inner`."""

    def __init__(self, inner: EventLog) -> None:
        self.inner = inner

    async def identity(self) -> str:
        """See `EventLog`."""
        return await self.inner.identity()

    async def create(self, topic: Topic) -> None:
        """See `EventLog`."""
        await self.inner.create(topic)

    async def producer(self, name: str) -> Producer:
        """See `EventLog`."""
        return await self.inner.producer(name)

    async def reader(self, topic: str, positions: Positions) -> Reader:
        """See `EventLog`."""
        return await self.inner.reader(topic, positions)

    async def start_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return await self.inner.start_positions(topic)

    async def end_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return await self.inner.end_positions(topic)

    async def close(self) -> None:
        """See `EventLog`."""
        await self.inner.close()
