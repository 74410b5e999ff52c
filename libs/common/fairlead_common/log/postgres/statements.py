"""The SQL of the event log in Postgres."""

from typing import Final

from fairlead_common.db.statements import load

PACKAGE: Final = "fairlead_common.log.postgres"
SCHEMA: Final = "fairlead_log"
MIGRATIONS: Final = "sql/migrations"

SQL: Final = load(PACKAGE, "sql/statements.sql")
