"""Tables of days and weeks: created when rows for them come, dropped when they expire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from typing import Final

from fairlead_common.db import Connection, Pool, load
from fairlead_common.db.locks import LockClass

_SQL: Final = load("fairlead_lookout.store", "sql/dated_tables.sql")


async def lock_tables(connection: Connection, lock: LockClass) -> None:
    """Have no other process create or drop tables of this lock until the end of the transaction."""
    await connection.execute(_SQL["lock_tables"], lock)


async def create_day(connection: Connection, lock: LockClass, table: str, day: date) -> None:
    """Create the table of a day, if it does not exist, in the caller's transaction.

    `table`: the partitioned table with its schema.
    """
    await lock_tables(connection, lock)
    await connection.execute(
        f"CREATE TABLE IF NOT EXISTS {table}_{day:%Y%m%d} PARTITION OF {table}"
        f" FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
    )


async def list_days(pool: Pool, table: str) -> list[date]:
    """The days that a partitioned table, given with its schema, has tables of."""
    names = [row["name"] for row in await pool.fetch(_SQL["day_tables"], table)]
    return [datetime.strptime(name[-8:], "%Y%m%d").date() for name in names]  # noqa: DTZ007


@asynccontextmanager
async def drop_tables(pool: Pool, lock: LockClass, *tables: str) -> AsyncIterator[Connection]:
    """Drop tables after what the caller does in the same transaction.

    Raises `asyncpg.LockNotAvailableError` behind a long read of them.
    """
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL lock_timeout = '2s'")
        await lock_tables(connection, lock)
        yield connection
        await connection.execute(f"DROP TABLE IF EXISTS {', '.join(tables)}")
