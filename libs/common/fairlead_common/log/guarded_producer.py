"""A producer that confirms before each append that it is permitted to append."""

from collections.abc import Awaitable, Callable, Sequence

from fairlead_common.log.protocol import Appended, Producer, Record


class GuardedProducer:
    """A `Producer`. `confirm` returns, or raises why this process must not append any more."""

    def __init__(self, producer: Producer, confirm: Callable[[], Awaitable[None]]) -> None:
        self.name = producer.name
        self._producer = producer
        self._confirm = confirm

    async def append(self, records: Sequence[Record]) -> Appended:
        """See `Producer`. Nothing was written if `confirm` raises."""
        await self._confirm()
        return await self._producer.append(records)

    async def close(self) -> None:
        """See `Producer`."""
        await self._producer.close()
