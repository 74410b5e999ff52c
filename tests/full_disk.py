"""A database that says of some of its tables that its disk is full."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

_FUNCTION = """
CREATE OR REPLACE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
END $$
"""


@asynccontextmanager
async def full_disk(url: str, *tables: str, when: str = "true") -> AsyncIterator[None]:
    """Within the block no row for which this holds can be inserted into these tables."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_FUNCTION)
        for table in tables:
            await connection.execute(
                f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} FOR EACH ROW"
                f" WHEN ({when}) EXECUTE FUNCTION public.full_disk()"
            )
        try:
            yield
        finally:
            for table in tables:
                await connection.execute(f"DROP TRIGGER full_disk ON {table}")
    finally:
        await connection.close()
