"""Postgres: a pool, named statements from SQL files, numbered migrations."""

from fairlead_common.db.connection_pool import (
    Connection,
    Pool,
    check_database,
    open_pool,
    translate_errors,
)
from fairlead_common.db.migrations import is_migrated, migrate
from fairlead_common.db.statements import Statements, load, to_columns

__all__ = [
    "Connection",
    "Pool",
    "Statements",
    "check_database",
    "is_migrated",
    "load",
    "migrate",
    "open_pool",
    "to_columns",
    "translate_errors",
]
