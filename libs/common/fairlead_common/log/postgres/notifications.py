"""Tells readers, here and in other processes, that something was committed.

NOTIFY serialises commits, so it is never part of an append: one task collects the topics of appends
and notifies readers afterwards, on its own connection. Readers also poll, so a lost notification
delays them only.
"""

import asyncio
import contextlib
from collections import defaultdict
from typing import Final

import asyncpg

from fairlead_common.db.connection_pool import CONNECTION_ERRORS, Connection, open_connection
from fairlead_common.log.postgres.connection import SETTINGS
from fairlead_common.log.postgres.statements import SQL

CHANNEL: Final = "fairlead_log"
NOTIFY_S_MIN: Final = 0.005
"""The shortest time between two notifications."""
PAUSE_S: Final = 0.3
CONNECT_S_MAX: Final = 5.0
PROBE_S: Final = 5.0
"""A connection on which nothing was sent for this long is tested with a query."""
PAYLOAD_BYTES_MAX: Final = 7_900
EVERYTHING: Final = "*"


class Notifier:
    """Notifies readers of topics, in this process and in others."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._notified: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._pending: set[str] = set()
        self._work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def next_notification(self, topic: str) -> asyncio.Event:
        """An event that the next notification of the topic sets.

        Get it before a read, and wait for it if nothing was read: then no notification is missed.
        """
        self._run()
        return self._notified[topic]

    def notify(self, topics: set[str]) -> None:
        """Wake the readers of this process at once, and readers of other processes soon."""
        self._run()
        self._pending |= topics
        self._work.set()
        self._wake(topics)

    async def close(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _run(self) -> None:
        """Start the task at the first use; an assertion that failed in it is raised at the next
        use."""
        if self._task is None:
            self._task = asyncio.create_task(self._serve(), name="fairlead-log-notifier")
        elif self._task.done() and not self._task.cancelled():
            self._task.result()

    def _wake(self, topics: set[str]) -> None:
        for topic in topics & self._notified.keys():
            self._notified.pop(topic).set()

    async def _serve(self) -> None:
        while True:
            try:
                await self._connected()
            except (*CONNECTION_ERRORS, asyncpg.PostgresError):
                # Readers continue to poll, and report an unavailable database.
                await asyncio.sleep(PAUSE_S)

    async def _connected(self) -> None:
        """Listen and notify until the connection breaks."""
        connection = await open_connection(
            self._url, timeout=CONNECT_S_MAX, server_settings=dict(SETTINGS)
        )
        try:
            connection.add_termination_listener(lambda _: self._work.set())
            await connection.add_listener(CHANNEL, self._listen)
            self._wake(set(self._notified))
            while not connection.is_closed():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_S):
                        await self._work.wait()
                if not self._work.is_set():
                    # A server that has disappeared would not close the connection.
                    await connection.execute("SELECT 1", timeout=CONNECT_S_MAX)
                self._work.clear()
                await self._send(connection)
                await asyncio.sleep(NOTIFY_S_MIN)
        finally:
            connection.terminate()

    async def _send(self, connection: Connection) -> None:
        if not self._pending:
            return
        payload = " ".join(self._pending)
        if len(payload.encode()) > PAYLOAD_BYTES_MAX:
            payload = EVERYTHING
        self._pending.clear()
        await connection.execute(SQL["notify"], payload, timeout=CONNECT_S_MAX)

    def _listen(self, _connection: Connection, _pid: int, _channel: str, payload: str) -> None:
        self._wake(set(self._notified) if payload == EVERYTHING else set(payload.split(" ")))
