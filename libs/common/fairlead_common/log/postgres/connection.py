"""One connection to Postgres that is opened when needed, and again, within a bound, when lost.

It also decides which errors mean that the database is unavailable, and which that it refused.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

import asyncpg

from fairlead_common.db.connection_pool import CONNECTION_ERRORS, Connection, open_connection
from fairlead_common.domain.errors import LogUnavailable

T = TypeVar("T")

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 0.5
CLOSE_S_MAX: Final = 2.0

SETTINGS: Final[Mapping[str, str]] = {
    "application_name": "fairlead-log",
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # Every statement has an index, which the planner would not choose without statistics.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}

_REFUSED_CLASSES: Final = frozenset({"25", "40", "53", "54", "55", "57", "58"})
"""Read-only, deadlock, disk or memory full, limits, locks, cancelled by the operator, I/O."""

_HOPELESS: Final = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.exceptions.ClientConfigurationError,
)
"""Errors that a retry does not resolve."""


def is_away(error: Exception, connection: Connection | None) -> bool:
    """Whether the connection was lost (or never made), rather than the statement refused."""
    if isinstance(error, asyncpg.InterfaceError):
        return connection is None or bool(connection.is_closed())
    return isinstance(error, (*CONNECTION_ERRORS, asyncpg.TooManyConnectionsError))


def is_refusal(error: asyncpg.PostgresError) -> bool:
    """Whether the server could not execute the statement now: an error of the environment."""
    return str(error.sqlstate)[:2] in _REFUSED_CLASSES


def _stay_cancelled() -> None:
    """Raise `CancelledError` if this task was cancelled and an error replaced it: on a connection
    that is lost, what a call does in the end (as a rollback) fails."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class AnswerLost(Exception):
    """The connection was lost after a statement was sent on it."""


class Link:
    """A connection that one task at a time uses; others wait."""

    def __init__(
        self, url: str, timeout_s: float, settings: Mapping[str, str] | None = None
    ) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._settings = {**SETTINGS, **(settings or {})}
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def query(
        self, call: Callable[[Connection], Awaitable[T]], within_s: float | None = None
    ) -> T:
        """The result of a call, which is repeated if the connection breaks.

        Raises `LogUnavailable` past the bound (`timeout_s` if None), which begins when the calls
        before this one have ended, if they did not end within `timeout_s`, or when the server
        refuses.
        """
        async with self._wait_for_turn():
            deadline = asyncio.get_running_loop().time() + (within_s or self._timeout_s)
            while True:
                connection = await self._connect(deadline)
                try:
                    async with asyncio.timeout_at(deadline):
                        return await call(connection)
                except (*CONNECTION_ERRORS, asyncpg.PostgresError) as error:
                    if is_away(error, connection):
                        self.drop()
                        _stay_cancelled()
                    elif isinstance(error, asyncpg.PostgresError) and is_refusal(error):
                        raise LogUnavailable(f"Postgres refused: {error}") from error
                    else:
                        raise
                    self._give_up_after(deadline, error)

    async def query_once(self, call: Callable[[Connection], Awaitable[T]], answer_s: float) -> T:
        """The result of a call that is made at most once.

        Raises `LogUnavailable` if it was not made, `AnswerLost` if its outcome is unknown, or the
        `asyncpg.PostgresError` with which the server refused it.
        """
        async with self._wait_for_turn():
            connection = await self._connect(asyncio.get_running_loop().time() + self._timeout_s)
            try:
                async with asyncio.timeout(answer_s):
                    return await call(connection)
            except (*CONNECTION_ERRORS, asyncpg.PostgresError) as error:
                if not is_away(error, connection):
                    raise
                self.drop()
                _stay_cancelled()
                raise AnswerLost(str(error) or f"no answer within {answer_s:g} s") from error

    def drop(self) -> None:
        """Drop the connection without a message, which the server would perhaps not answer."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def close(self) -> None:
        """Close the connection; it is not opened again."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=CLOSE_S_MAX)
            except (*CONNECTION_ERRORS, asyncpg.PostgresError):
                connection.terminate()

    @contextlib.asynccontextmanager
    async def _wait_for_turn(self) -> AsyncIterator[None]:
        """Wait for the calls before this one."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._turn.acquire()
        except TimeoutError:
            raise LogUnavailable("Postgres did not answer in time what was asked before") from None
        try:
            yield
        finally:
            self._turn.release()

    async def _connect(self, deadline: float) -> Connection:
        pause = PAUSE_S_MIN
        while self._connection is None or self._connection.is_closed():
            if self._closed:
                raise LogUnavailable("this log, or this reader or producer of it, was closed")
            self._connection = None
            try:
                async with asyncio.timeout_at(deadline):
                    self._connection = await open_connection(
                        self._url, server_settings=self._settings
                    )
            except _HOPELESS as error:
                raise LogUnavailable(f"Postgres refused the connection: {error}") from error
            except (*CONNECTION_ERRORS, asyncpg.TooManyConnectionsError) as error:
                self._give_up_after(deadline - pause, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_S_MAX)
        return self._connection

    def _give_up_after(self, deadline: float, error: Exception) -> None:
        if asyncio.get_running_loop().time() >= deadline:
            reason = str(error) or type(error).__name__
            raise LogUnavailable(f"Postgres did not answer in time: {reason}") from error
