"""Which partitions this process folds: one advisory lock each, shared evenly among processes.

Locks belong to the connection that also writes the view: if it breaks, both are gone together.
A process takes its share and gives back what is above it; whoever dies leaves its locks free.
"""

from typing import Final

from fairlead_common.db import Connection
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_lookout.store import SQL

BALANCE_S: Final = 2.0
SEEN_S_MAX: Final = 10.0
_LOCK_SPACE: Final = 0x0FA2


def share(folders: int, rank: int) -> int:
    """How many partitions the process of this rank (from 0) folds; they add up to all."""
    each, rest = divmod(JOB_PARTITIONS, max(folders, 1))
    return each + (rank < rest)


class Partitions:
    """The locks held on one connection."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.held: frozenset[int] = frozenset()
        self._connection = connection
        self._name = name

    async def balance(self) -> bool:
        """Take or give back partitions; True when something changed."""
        await self._connection.execute(SQL["join_folders"], self._name)
        row = await self._connection.fetchrow(SQL["count_folders"], self._name, SEEN_S_MAX)
        fair = share(row["folders"], row["rank"])
        if len(self.held) > fair:
            await self.release(sorted(self.held)[fair:])
            return True
        if len(self.held) < fair:
            return await self._take(fair - len(self.held))
        return False

    async def _take(self, count: int) -> bool:
        taken: set[int] = set()
        for partition in range(JOB_PARTITIONS):
            if partition not in self.held and len(taken) < count:
                rows = await self._connection.fetch(SQL["try_lock"], _LOCK_SPACE, [partition])
                taken.update(row["partition"] for row in rows)
        self.held |= taken
        return bool(taken)

    async def release(self, partitions: list[int]) -> None:
        """Let others have these."""
        await self._connection.fetch(SQL["unlock"], _LOCK_SPACE, partitions)
        self.held -= frozenset(partitions)
