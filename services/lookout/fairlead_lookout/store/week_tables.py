"""The tables of weeks: the jobs of a week, their submissions and their runs.

The fold creates them. They are dropped when the week has expired in all partitions of the log, see
`fold/week_expiry.py`.
"""

from collections.abc import Iterable
from typing import Final

from fairlead_common.db import Connection, Pool
from fairlead_common.db.locks import LockClass
from fairlead_lookout.store.view_schema import FOLD, SCHEMA

_TABLES: Final = ("jobs", "job_specs", "runs")


async def create_weeks(connection: Connection, weeks: Iterable[int]) -> None:
    """Create the tables of these weeks that do not exist, in the caller's transaction."""
    for week in weeks:
        await connection.execute(FOLD["lock_days"], LockClass.LOOKOUT_DAYS)
        await connection.execute(FOLD["create_week"], week)


async def drop_expired_weeks(pool: Pool) -> list[int]:
    """Drop the tables of weeks that have expired in all partitions; returns these weeks."""
    dropped = []
    for row in await pool.fetch(FOLD["week_tables"]):
        tables = ", ".join(f"{SCHEMA}.{name}_{row['week']}" for name in _TABLES)
        async with pool.acquire() as connection, connection.transaction():
            # Behind a long read of the tables this fails and is tried again in the next hour.
            await connection.execute("SET LOCAL lock_timeout = '2s'")
            await connection.execute(FOLD["lock_days"], LockClass.LOOKOUT_DAYS)
            await connection.execute(f"DROP TABLE IF EXISTS {tables}")
        dropped.append(row["week"])
    return dropped
