"""Which partitions this process works on: one advisory lock each, divided evenly among processes.

Partitions are partitions of the log for the fold, and shares of all webhooks for their senders.
Locks belong to the connection that also writes: if it breaks, both are lost together. A process
takes its share and releases what exceeds it; the locks of a process that ends are free. A process
that does not answer loses its session, and so its locks, after `SILENCE_S`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from fairlead_common.db import Connection
from fairlead_common.db.lock_session import end_silent_holders
from fairlead_common.db.locks import LockClass
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_lookout.store.view_schema import FOLD

BALANCE_S: Final = 2.0


class LockedWork(NamedTuple):
    """Work that processes share: its partitions, the class of their locks, and the class of the
    locks that count the processes."""

    partitions: int
    partition_class: LockClass
    process_class: LockClass


FOLDING: Final = LockedWork(JOB_PARTITIONS, LockClass.LOOKOUT_PARTITION, LockClass.LOOKOUT_FOLDER)


def fair_share(folders: int, rank: int, partitions: int = JOB_PARTITIONS) -> int:
    """How many partitions the process of this rank (from 0) has. The shares add up to all."""
    each, rest = divmod(partitions, max(folders, 1))
    return each + (rank < rest)


class PartitionLocks:
    """The locks held on one connection. `draw` returns a random number that identifies this
    process."""

    def __init__(
        self, connection: Connection, draw: Callable[[], int], work: LockedWork = FOLDING
    ) -> None:
        self.held: frozenset[int] = frozenset()
        self._connection = connection
        self._draw = draw
        self._work = work
        self._number: int | None = None

    async def balance(self) -> bool:
        """Take or release partitions; True when something changed."""
        while self._number is None:
            number = self._draw()
            if await self._connection.fetchval(
                FOLD["join_folders"], self._work.process_class, number
            ):
                self._number = number
        row = await self._connection.fetchrow(
            FOLD["count_folders"], self._work.process_class, self._number
        )
        fair = fair_share(row["folders"], row["rank"], self._work.partitions)
        if len(self.held) > fair:
            await self._release(sorted(self.held)[fair:])
            return True
        if len(self.held) < fair:
            return await self._take(fair)
        return False

    async def _take(self, fair: int) -> bool:
        """Try every partition that is not held, at most as many at once as are missing."""
        before = self.held
        untried = [number for number in range(self._work.partitions) if number not in before]
        while untried and len(self.held) < fair:
            some = untried[: fair - len(self.held)]
            del untried[: len(some)]
            rows = await self._connection.fetch(FOLD["try_lock"], self._work.partition_class, some)
            self.held |= {row["partition"] for row in rows}
        if len(self.held) < fair:
            await end_silent_holders(self._connection, self._work.partition_class)
        return self.held != before

    async def _release(self, partitions: list[int]) -> None:
        await self._connection.fetch(FOLD["unlock"], self._work.partition_class, partitions)
        self.held -= frozenset(partitions)
