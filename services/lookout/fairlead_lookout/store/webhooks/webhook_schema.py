"""The Postgres schema of webhooks: its migrations and statements.

It is not a part of the view of lookout: a view can be built again from the log, webhooks cannot.
"""

from datetime import date
from typing import Final

from fairlead_common.db import Connection, Pool, load, migrate
from fairlead_common.db.locks import LockClass
from fairlead_lookout.store.dated_tables import create_day

SCHEMA: Final = "fairlead_webhooks"
DELIVERIES: Final = f"{SCHEMA}.deliveries"
_PACKAGE: Final = "fairlead_lookout.store"

WEBHOOKS: Final = load(_PACKAGE, "sql/webhooks.sql")


async def migrate_webhooks(pool: Pool) -> None:
    """Bring the schema up to date."""
    await migrate(pool, SCHEMA, _PACKAGE, "sql/webhook_migrations")


async def create_delivery_day(connection: Connection, day: date) -> None:
    """Create the table for the deliveries of a day, if it does not exist. Within a transaction."""
    await create_day(connection, LockClass.WEBHOOK_TABLES, DELIVERIES, day)
