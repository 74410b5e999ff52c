"""The cleanup of the log in Postgres."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from fairlead_common.log.postgres.cleanup import maintain
from fairlead_common.log.postgres.connection import Link


class LostConnection:
    """It is lost while a statement waits for its answer: later ones fail. `Any`: of asyncpg."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    async def fetchval(self, *_: object) -> Any:
        return True

    async def fetch(self, *_: object) -> Any:
        self.waits.set()
        await asyncio.Event().wait()

    async def execute(self, *_: object) -> Any:
        raise ConnectionResetError


class LinkOf:
    """A link with this connection. `Any`: of asyncpg."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def query(self, call: Callable[[Any], Awaitable[int]], _: float) -> int:
        return await call(self._connection)


async def test_a_cancelled_cleanup_stays_cancelled_although_its_connection_is_lost() -> None:
    connection = LostConnection()
    task = asyncio.create_task(maintain(cast(Link, LinkOf(connection)), 0))
    await connection.waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
