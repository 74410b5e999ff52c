"""Databases for folders whose conftest.py imports these fixtures.

- `fresh_database`: with the tables of submit and lookout. To copy them takes a fraction of the time
  of the migrations, and services then find nothing to migrate.
- `empty_database`: without them.
"""

from collections.abc import Iterator

import pytest

from fairlead_common import db
from fairlead_lookout.store.saved_view_store import migrate_saved_views
from fairlead_lookout.store.view_schema import migrate_schema
from fairlead_lookout.store.webhooks.webhook_schema import migrate_webhooks
from fairlead_submit.store import schema
from tests.conftest import Server, blocking, made_database

__all__ = ["empty_database", "fresh_database", "migrated_database"]


@pytest.fixture(scope="session")
def migrated_database(postgres_server: Server) -> Iterator[str]:
    """The name of a database with all tables, to which nobody connects."""
    for url in made_database(postgres_server):
        blocking(_migrate(url))
        yield url.rpartition("/")[2]


@pytest.fixture
def fresh_database(postgres_server: Server, migrated_database: str) -> Iterator[str]:
    """A database of this test alone whose tables are as the migrations make them."""
    yield from made_database(postgres_server, migrated_database)


@pytest.fixture
def empty_database(postgres_server: Server) -> Iterator[str]:
    """An empty database of this test alone."""
    yield from made_database(postgres_server)


async def _migrate(url: str) -> None:
    pool = await db.open_pool(url, size_max=1)
    try:
        await schema.migrate(pool)
        for migrate in (migrate_schema, migrate_webhooks, migrate_saved_views):
            await migrate(pool)
    finally:
        await pool.close()
