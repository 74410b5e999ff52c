"""Database sessions that hold advisory locks, and that end when their holder stops responding.

A session lock ends with its session, at once when the holder's process dies. A holder whose host
vanished or that is frozen keeps its connection: so Postgres is set to end a session whose client
sends nothing for `SILENCE_S`, and a process that waits for a lock ends a holder that stopped in the
middle of a statement. The holder confirms its session at least every `RENEW_S` and gives up by
itself, measured by its own monotonic clock, before Postgres may have ended it (decision 0024).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, NoReturn, TypeVar

import asyncpg

from fairlead_common.db.connection_pool import (
    CONNECT_S_MAX,
    CONNECTION_ERRORS,
    MAJOR_MIN,
    Connection,
    DatabaseUnavailable,
    DatabaseUnsuitable,
    open_connection,
)
from fairlead_common.db.locks import NUMBER, PAIR, Lock, LockClass
from fairlead_common.db.statements import load
from fairlead_common.domain.errors import WorldError
from fairlead_common.service import clock

T = TypeVar("T")

SILENCE_S: Final = 10.0
"""Postgres ends a session whose client sends nothing for this long."""
RENEW_S: Final = 2.0
"""How often a holder confirms its session."""
ANSWER_S_MAX: Final = 5.0
"""An answer that takes longer ends the session from this side. With RENEW_S below SILENCE_S."""
POLL_S: Final = 0.5
SQL: Final = load("fairlead_common", "db/locks.sql")


class LockLost(WorldError):
    """The session that held the lock has ended, so another process can hold it now."""


def session_timeouts(silence_s: float = SILENCE_S) -> dict[str, str]:
    """The settings of a session by which Postgres ends it when its client stops responding.

    The first two cover a client that sends nothing; the others a peer that cannot be reached, also
    in the middle of a statement or of an answer.
    """
    milliseconds = str(round(1000 * silence_s))
    return {
        "idle_session_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
        "tcp_user_timeout": milliseconds,
        "tcp_keepalives_idle": str(max(1, round(silence_s / 2))),
        "tcp_keepalives_interval": str(max(1, round(silence_s / 6))),
        "tcp_keepalives_count": "3",
    }


async def connect(
    url: str,
    *,
    name: str,
    settings: Mapping[str, str] | None = None,
    silence_s: float = SILENCE_S,
    command_s_max: float = ANSWER_S_MAX,
) -> Connection:
    """A connection that is able to hold locks. Raises `DatabaseUnsuitable`, or what is in
    `CONNECTION_ERRORS`."""
    given = {
        "application_name": name,
        "jit": "off",
        **(settings or {}),
        **session_timeouts(silence_s),
    }
    try:
        connection = await open_connection(
            url, timeout=ANSWER_S_MAX, command_timeout=command_s_max, server_settings=given
        )
    except asyncpg.UndefinedObjectError as error:
        raise DatabaseUnsuitable(f"Postgres {MAJOR_MIN} or newer is needed: {error}") from error
    except asyncpg.ProtocolViolationError as error:
        raise DatabaseUnsuitable(
            "the database URL must be the address of Postgres itself, not of a connection pooler:"
            f" {error}"
        ) from error
    try:
        row = await connection.fetchrow(SQL["suitability"])
        if row["idle_session_timeout"] in ("0", None) or row["pid"] != connection.get_server_pid():
            raise DatabaseUnsuitable(
                "there is a connection pooler between this process and Postgres: locks belong to"
                " database sessions, which a pooler shares and keeps open. Set the database URL"
                " to Postgres itself"
            )
    except BaseException:
        connection.terminate()
        raise
    return connection


async def take_if_free(connection: Connection, lock: Lock) -> bool:
    """Take the lock if no session holds it."""
    taken: bool = await _call(connection, lock, number="try_number", pair="try_pair")
    return taken


async def release(connection: Connection, lock: Lock) -> None:
    """Release a lock that this session holds."""
    await _call(connection, lock, number="release_number", pair="release_pair")


async def confirm(connection: Connection) -> None:
    """Show Postgres that the client of this session responds."""
    await connection.fetchval(SQL["confirm"])


async def _call(connection: Connection, lock: Lock, *, number: str, pair: str) -> Any:
    """The answer of the statement for the lock's form. `Any`: as asyncpg has it."""
    if lock.objsubid == NUMBER:
        return await connection.fetchval(SQL[number], lock.number)
    return await connection.fetchval(SQL[pair], lock.classid, lock.objid)


async def try_lock(connection: Connection, lock: Lock, silence_s: float = SILENCE_S) -> bool:
    """Take the lock if it is free; a holder that has stopped in mid-statement is ended."""
    taken = await take_if_free(connection, lock)
    if not taken:
        silence = timedelta(seconds=silence_s)
        await connection.fetch(
            SQL["end_silent_holders"], lock.classid, lock.objid, lock.objsubid, silence
        )
    return taken


async def end_silent_holders(connection: Connection, lock_class: LockClass) -> None:
    """End the holders of any lock of this class that have stopped in mid-statement."""
    silence = timedelta(seconds=SILENCE_S)
    await connection.fetch(SQL["end_silent_holders"], lock_class, None, PAIR, silence)


class LockSession:
    """The session in which this process holds a lock; used by `holding`."""

    def __init__(self, connection: Connection, silence_s: float) -> None:
        self._connection = connection
        self._silence_s = silence_s
        self._turn = asyncio.Lock()
        self._confirmed_s = -silence_s

    async def try_lock(self, lock: Lock) -> bool:
        """Take the lock if it is free. Raises `LockLost`."""
        return await self._ask(lambda: try_lock(self._connection, lock, self._silence_s))

    async def end_silent_transactions(self, application: str) -> None:
        """End open transactions of a frozen predecessor, so that they lock no rows."""
        silence = timedelta(seconds=self._silence_s / 2)
        await self._ask(
            lambda: self._connection.fetch(SQL["end_silent_transactions"], application, silence)
        )

    async def confirm(self) -> None:
        """Return if the session was confirmed less than `RENEW_S` ago, or exists now. Raises
        `LockLost`.

        Call this right before each action that only the holder is permitted.
        """
        if clock.monotonic_s() - self._confirmed_s >= RENEW_S:
            await self._ask(lambda: confirm(self._connection))

    async def renew(self) -> NoReturn:
        """Confirm the session at intervals until cancelled. Raises `LockLost`."""
        while True:
            await self.confirm()
            await asyncio.sleep(RENEW_S / 2)

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        async with self._turn:
            # The session is certain to have lived when the question was sent, not when it was
            # answered: a process may be stopped in between.
            asked_s = clock.monotonic_s()
            try:
                answer = await call()
            except (*CONNECTION_ERRORS, asyncpg.PostgresError) as error:
                reason = str(error) or type(error).__name__
                raise LockLost(f"the session that held the lock has ended: {reason}") from error
            self._confirmed_s = asked_s
            return answer


@asynccontextmanager
async def holding(
    url: str,
    lock: Lock,
    *,
    name: str,
    silence_s: float = SILENCE_S,
    poll_s: float = POLL_S,
    waiting: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[LockSession]:
    """Wait until this process holds the lock, calling `waiting` at each try; it is free afterwards.

    The holder runs `renew` beside its work. Raises `DatabaseUnavailable` when the database cannot
    be reached for `CONNECT_S_MAX`, and `DatabaseUnsuitable`.
    """
    reached_s = clock.monotonic_s()
    while True:
        try:
            connection = await connect(url, name=name, silence_s=silence_s)
        except CONNECTION_ERRORS as error:
            if clock.monotonic_s() - reached_s > CONNECT_S_MAX:
                raise DatabaseUnavailable(f"Postgres is unavailable: {error}") from error
            await asyncio.sleep(poll_s)
            continue
        reached_s = clock.monotonic_s()
        try:
            session = LockSession(connection, silence_s)
            if await _wait_for(session, lock, poll_s, waiting):
                yield session
                return
        finally:
            # Without a message, which the server would perhaps not answer: closing the socket is
            # enough.
            connection.terminate()


async def _wait_for(
    session: LockSession,
    lock: Lock,
    poll_s: float,
    waiting: Callable[[], Awaitable[None]] | None,
) -> bool:
    """Whether the lock was taken; not if the session ended before."""
    try:
        while not await session.try_lock(lock):
            if waiting is not None:
                await waiting()
            await asyncio.sleep(poll_s)
    except LockLost:
        return False
    return True
