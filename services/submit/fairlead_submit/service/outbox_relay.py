"""Relays the outbox to the log: its rows become records of `fairlead.config`.

One process does so at a time, elected by an advisory lock of Postgres. A row is deleted after its
append, so each is appended at least once. Folds use the highest version, so repetitions and another
order do no harm.
"""

import asyncio
import contextlib
import logging
from typing import Final

from fairlead_common import db
from fairlead_common.db import lock_session
from fairlead_common.db.connection_pool import CONNECTION_ERRORS, REFUSAL_ERRORS, STATEMENT_S_MAX
from fairlead_common.db.locks import SUBMIT_RELAY
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.records import events
from fairlead_common.log.protocol import EventLog, Producer, Record
from fairlead_common.log.topics import CONFIG
from fairlead_submit.service import metrics
from fairlead_submit.store import outbox, resubmission_store, token_store

ROWS_MAX: Final = events.EVENTS_MAX
POLL_S: Final = 0.5
CLEANUP_S: Final = 600.0
DELETED_RETENTION_S: Final = 86_400.0
ACTIONS_RETENTION_S: Final = 30 * 86_400.0
PRODUCER: Final = "submit-config"
_logger = logging.getLogger("fairlead.submit.relay")


class Relay:
    """The loop that relays the outbox."""

    def __init__(self, url: str, log: EventLog) -> None:
        self._url = url
        self._log = log
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Relay now: this process wrote to the outbox. Rows of others are found within `POLL_S`."""
        self._woken.set()

    async def run(self) -> None:
        """Relay until cancelled; waits while another process relays or a server is unavailable."""
        while True:
            try:
                await self._session()
            except (*CONNECTION_ERRORS, *REFUSAL_ERRORS, WorldError) as error:
                _logger.warning("the outbox relay is waiting: %s", error)
            await asyncio.sleep(POLL_S)

    async def _session(self) -> None:
        """Wait for the lock and relay, as long as the connection lasts."""
        connection = await lock_session.connect(
            self._url, name="fairlead-submit-relay", command_s_max=STATEMENT_S_MAX
        )
        try:
            while not await lock_session.try_lock(connection, SUBMIT_RELAY):
                metrics.OUTBOX.set(0)
                await asyncio.sleep(POLL_S)
            await self._lead(connection)
        finally:
            # Not released to a pool: the lock ends with the connection.
            connection.terminate()

    async def _lead(self, connection: db.Connection) -> None:
        """Relay as long as this connection lasts, and with it the lock."""
        producer = await self._log.producer(PRODUCER)
        loop = asyncio.get_running_loop()
        cleanup_s = loop.time()
        try:
            while True:
                if loop.time() >= cleanup_s:
                    await delete_expired(connection)
                    cleanup_s = loop.time() + CLEANUP_S
                while await relay_batch(connection, producer):
                    pass
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._woken.wait()
                self._woken.clear()
        finally:
            await producer.close()


async def relay_batch(connection: db.Connection, producer: Producer) -> bool:
    """Relay one batch, and return whether there are perhaps more. Raises as `Producer.append`."""
    rows = await outbox.read_outbox(connection, ROWS_MAX)
    metrics.OUTBOX.set(len(rows))
    if not rows:
        return False
    await producer.append([Record(CONFIG, row.key, row.value) for row in rows])
    await outbox.delete_from_outbox(connection, rows)
    metrics.OUTBOX.set(0)
    return len(rows) == ROWS_MAX


async def delete_expired(connection: db.Connection) -> None:
    """Delete what has expired: tokens, actions, and the rows of queues that were deleted."""
    await token_store.delete_expired(connection)
    await resubmission_store.delete_expired_actions(connection, ACTIONS_RETENTION_S)
    await outbox.delete_expired_queues(connection, DELETED_RETENTION_S)
