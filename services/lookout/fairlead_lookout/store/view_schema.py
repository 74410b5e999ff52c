"""The Postgres schema of lookout: its migrations and its named statements, one file each."""

from typing import Final

from fairlead_common.db import Pool, load, migrate

SCHEMA: Final = "fairlead_lookout"
_PACKAGE: Final = "fairlead_lookout.store"

COVERAGE: Final = load(_PACKAGE, "sql/coverage.sql")
"""Which part of the log the view has, and repairs."""
FAIRNESS: Final = load(_PACKAGE, "sql/fairness.sql")
"""Shares and resource usage over time."""
FOLD: Final = load(_PACKAGE, "sql/fold.sql")
"""What the fold reads and writes."""
READ: Final = load(_PACKAGE, "sql/read.sql")
"""What the API and the pages read."""


async def migrate_schema(pool: Pool) -> None:
    """Bring the schema up to date."""
    await migrate(pool, SCHEMA, _PACKAGE, "sql/migrations")
