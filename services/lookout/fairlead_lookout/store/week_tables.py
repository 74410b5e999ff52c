"""The tables of weeks: the jobs of a week, chunks of their submissions, and their older runs.

The fold creates them. They are dropped when the week has expired in all partitions of the log, see
`fold/week_expiry.py`.
"""

from collections.abc import Iterable
from typing import Final

from fairlead_common.db import Connection, Pool
from fairlead_common.db.locks import LockClass
from fairlead_lookout.store.dated_tables import drop_tables, lock_tables
from fairlead_lookout.store.view_schema import FOLD, SCHEMA

_TABLES: Final = ("jobs", "submissions", "older_runs")


async def create_weeks(connection: Connection, weeks: Iterable[int]) -> None:
    """Create the tables of these weeks that do not exist, in the caller's transaction."""
    for week in weeks:
        await lock_tables(connection, LockClass.LOOKOUT_TABLES)
        await connection.execute(FOLD["create_week"], week)


async def drop_expired_weeks(pool: Pool) -> list[int]:
    """Drop the tables of weeks that have expired in all partitions; returns these weeks."""
    weeks = [row["week"] for row in await pool.fetch(FOLD["week_tables"])]
    for week in weeks:
        tables = [f"{SCHEMA}.{name}_{week}" for name in _TABLES]
        async with drop_tables(pool, LockClass.LOOKOUT_TABLES, *tables):
            pass
    return weeks
