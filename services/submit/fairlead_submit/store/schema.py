"""The schema `fairlead_submit`: its statements, and bringing it up to date."""

from typing import Final

from fairlead_common import db

SCHEMA: Final = "fairlead_submit"
SQL: Final = db.load("fairlead_submit.store", "statements.sql")


async def migrate(pool: db.Pool) -> list[str]:
    """Make the tables, or bring them up to date; returns the migrations that ran now."""
    return await db.migrate(pool, SCHEMA, "fairlead_submit.store")
