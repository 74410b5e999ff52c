"""A Postgres that is too old is refused before anything is created in it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from asyncpg.types import ServerVersion

from fairlead_common.db import migrate
from fairlead_common.db.connection_pool import DatabaseUnsuitable


class OldServer:
    """A pool and its connection, which executes nothing."""

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator["OldServer"]:
        yield self

    def get_server_version(self) -> ServerVersion:
        return ServerVersion(14, 12, 0, "final", 0)

    async def execute(self, statement: str, *_: object) -> None:
        raise AssertionError(f"executed on a server that is too old: {statement}")


async def test_migrations_refuse_a_postgres_that_is_too_old() -> None:
    message = "Postgres 15 or newer is needed, and this server has version 14"
    with pytest.raises(DatabaseUnsuitable, match=message):
        await migrate(OldServer(), "fairlead_lookout", "fairlead_lookout", "store/sql/migrations")
