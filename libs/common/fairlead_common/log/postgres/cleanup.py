"""Drops records that the log in Postgres no longer retains, in short transactions.

Folds are correct at every moment. A record of a compacted topic is removed only if a newer one of
its key is readable. A tombstone is removed only `TOMBSTONE_RETENTION_MS` after the older records of
its key: a reader that has read one of those records had this time to reach the tombstone, and gets
`PositionExpired` if it did not. In other topics the oldest records are removed; readers at lower
positions get `PositionExpired`.
"""

from typing import Final

from fairlead_common.db.connection_pool import Connection
from fairlead_common.db.locks import LOG_CLEANUP
from fairlead_common.log.postgres.connection import Link
from fairlead_common.log.postgres.statements import SQL
from fairlead_common.log.protocol import TOMBSTONE_RETENTION_MS

_LOCK: Final = (LOG_CLEANUP.classid, LOG_CLEANUP.objid)
TURN_S_MAX: Final = 600.0
SESSION: Final = {"enable_hashjoin": "on", "enable_nestloop": "off", "work_mem": "32MB"}
"""Keys are compared by hash, whatever the planner assumes about the number of records."""
EXAMINED_MAX: Final = 5_000
"""Batches whose age one statement examines."""
COMPACTED_MAX: Final = 200
"""Batches whose keys one statement compares with all older ones."""
REMOVED_MAX: Final = 200
"""Batches that one statement removes, because each can have a MiB."""
TOMBSTONES_REMOVED_MAX: Final = 5_000
"""Batches whose tombstones one statement removes. Most of them have no value left."""


async def maintain(link: Link, now_ms: int) -> int:
    """Drop what is due and return the number of records; at once if another process is doing it.

    Only one process does it, by a lock that ends with the session: close the link afterwards.
    """
    return await link.query(lambda connection: _Turn(connection, now_ms).run(), TURN_S_MAX)


class _Turn:
    """One cleanup. It can be interrupted anywhere and repeated."""

    def __init__(self, connection: Connection, now_ms: int) -> None:
        self._connection = connection
        self._now_ms = now_ms

    async def run(self) -> int:
        if not await self._connection.fetchval(SQL["lock_cleanup"], *_LOCK):
            return 0
        removed = 0
        for row in await self._connection.fetch(SQL["parts"]):
            if not row["compacted"]:
                removed += await self._expire(row["part"], row["first"], row["retention_s"])
                continue
            removed += await self._compact(row["part"], row["cleaned"])
            if row["tombstones_ms"] <= self._now_ms - TOMBSTONE_RETENTION_MS:
                removed += await self._bury(row["part"], row["tombstones"])
        return removed

    async def _expire(self, part: int, first: int, retention_s: int) -> int:
        """Marked before anything is removed, so that readers get `PositionExpired`."""
        before_ms = self._now_ms - 1000 * retention_s
        while True:
            oldest = await self._connection.fetchrow(
                SQL["first_young"], part, before_ms, EXAMINED_MAX, first
            )
            if oldest["first"] is None or oldest["first"] == first:
                break
            seen, first = oldest["seen"], oldest["first"]
            await self._connection.execute(SQL["set_first"], part, first)
            if seen < EXAMINED_MAX:
                break
        return await self._repeat(SQL["remove_expired"], part)

    async def _compact(self, part: int, cleaned: int) -> int:
        removed = 0
        while True:
            row = await self._connection.fetchrow(SQL["compact"], part, cleaned, COMPACTED_MAX)
            if row["cleaned"] is None:
                return removed
            cleaned = row["cleaned"]
            removed += int(row["removed"])
            await self._connection.execute(SQL["set_cleaned"], part, cleaned)
            if row["seen"] < COMPACTED_MAX:
                return removed

    async def _bury(self, part: int, tombstones: int) -> int:
        """Remove the tombstones that the last cleanup noted, and note the present ones.

        Marked before anything is removed, so that readers get `PositionExpired`.
        """
        await self._connection.execute(SQL["set_buried"], part)
        removed = await self._repeat(
            SQL["remove_tombstones"], part, tombstones, batches_max=TOMBSTONES_REMOVED_MAX
        )
        await self._connection.execute(SQL["set_tombstones"], part, self._now_ms)
        return removed

    async def _repeat(self, statement: str, *arguments: int, batches_max: int = REMOVED_MAX) -> int:
        """Repeat a statement until it finds nothing more; returns the number of removed records."""
        removed = 0
        while True:
            row = await self._connection.fetchrow(statement, *arguments, batches_max)
            if not row["batches"]:
                return removed
            removed += int(row["records"])
