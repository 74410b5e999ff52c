"""A pool of connections that waits for a database that is just starting, within a bound, and
connections without a pool."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import asyncpg

from fairlead_common.domain.errors import StorageFull, WorldError
from fairlead_common.service.startup_retries import until_available

Pool: TypeAlias = Any
"""An `asyncpg.Pool`; the library carries no types."""

Connection: TypeAlias = Any
"""An `asyncpg.Connection`, or one lent by a pool."""

CONNECT_S_MAX: Final = 900.0
"""How long a starting process waits for an unavailable database. It logs the wait; a restart would
not make it shorter."""
STATEMENT_S_MAX: Final = 60.0
ABANDON_S_MAX: Final = 2.0
"""How long an attempt to connect that is cancelled has to end."""
MAJOR_MIN: Final = 15
"""The oldest version of Postgres that has what our SQL needs (`NULLS NOT DISTINCT`)."""

PLANNING: Final = {
    "jit": "off",
    "plan_cache_mode": "force_custom_plan",
    "random_page_cost": "1.1",
}
"""A plan that was cached while a table was empty scans the whole table for ever; a new plan for
each statement costs 0.1 ms, and our statements carry whole batches. What they look for is in
memory or on an SSD: with the default of 4, meant for disks that turn, Postgres scans a table of
millions for thousands of rows of it."""

CONNECTION_ERRORS: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the error of a pooled connection whose server has died
)
"""The errors of an unavailable database: the call can be retried within a bound."""

REFUSAL_ERRORS: Final = (
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.PostgresSystemError,
)
"""The errors of a database that lacks disk, memory or connections, is a standby, or had an I/O
error: the statement was not executed, and can succeed later."""


DISK_FULL: Final = "The disk of Postgres is full, nothing was written: {}"


class DatabaseFull(StorageFull):
    """The database has no space left on its disk. Reads continue."""


class DatabaseUnavailable(WorldError):
    """The database could not be reached within the bound."""


class DatabaseUnsuitable(WorldError):
    """This database server, or a proxy in front of it, is not one with which Fairlead works."""


_logger = logging.getLogger("fairlead.db")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raises `DatabaseUnavailable` for errors of an unavailable database or one without resources,
    and `DatabaseFull` when its disk is full.
    """
    try:
        yield
    except asyncpg.DiskFullError as error:
        raise DatabaseFull(DISK_FULL.format(error)) from error
    except REFUSAL_ERRORS as error:
        raise DatabaseUnavailable(f"Postgres refused the statement: {error}") from error
    except CONNECTION_ERRORS as error:
        raise DatabaseUnavailable(f"Postgres is unavailable: {error}") from error


async def open_pool(
    url: str,
    *,
    size_max: int = 8,
    connect_s_max: float = CONNECT_S_MAX,
    name: str = "fairlead",
    query_s_max: float | None = None,
) -> Pool:
    """A pool of at most `size_max` connections. Raises `DatabaseUnavailable` past the bound.

    Users of a connection leave no setting, lock or cursor of the session behind, so it is not reset
    after each use, which saves a statement. Transactions are always rolled back. `query_s_max`: the
    database ends a statement after this (`asyncpg.QueryCanceledError`).
    """
    limit = {} if query_s_max is None else {"statement_timeout": f"{query_s_max * 1000:.0f}"}

    async def connect() -> Pool:
        return await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=size_max,
            command_timeout=STATEMENT_S_MAX,
            reset=_reset_nothing,
            server_settings={"application_name": name, **PLANNING, **limit},
        )

    try:
        return await until_available("Postgres", CONNECTION_ERRORS, connect_s_max, _logger)(connect)
    except CONNECTION_ERRORS as error:
        raise DatabaseUnavailable(
            f"Postgres did not answer within {connect_s_max:.0f} s: {error}"
        ) from error


async def open_connection(url: str, **options: Any) -> Connection:
    """A connection without a pool. `options` go to `asyncpg.connect`, which raises the errors.

    An attempt that is cancelled still ends in order: asyncpg, if it is cancelled while it connects,
    leaves a future whose error the event loop prints.
    """
    attempt = asyncio.create_task(asyncpg.connect(url, **options))
    try:
        return await asyncio.shield(attempt)
    except asyncio.CancelledError:
        await asyncio.wait((attempt,), timeout=ABANDON_S_MAX)
        if not attempt.done():
            attempt.cancel()
        elif not attempt.cancelled() and attempt.exception() is None:
            attempt.result().terminate()
        raise


def require_version(connection: Connection) -> None:
    """Raises `DatabaseUnsuitable` if Postgres is too old."""
    version = connection.get_server_version()
    if version.major < MAJOR_MIN:
        raise DatabaseUnsuitable(
            f"Postgres {MAJOR_MIN} or newer is needed, and this server has version {version.major}"
        )


async def check_database(pool: Pool) -> str | None:
    """The check for `/readyz`: why Postgres does not answer; None if it does."""
    try:
        await pool.fetchval("SELECT 1")
    except (*CONNECTION_ERRORS, *REFUSAL_ERRORS) as error:
        return f"Postgres is unavailable: {error}"
    return None


async def _reset_nothing(_: Connection) -> None:
    """Leave a connection that returns to the pool as it is."""
