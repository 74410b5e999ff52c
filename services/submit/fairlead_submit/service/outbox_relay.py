"""Relays the outbox to the log: its rows become records of `fairlead.config`.

One process does so at a time, elected by an advisory lock of Postgres. A row is deleted after its
append, so each is appended at least once. Folds use the highest version, so repetitions and another
order do no harm.

The response to a change waits until its row is relayed, by whichever process: jobs that are
submitted after the response come after the change in the log (decision 0118).
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
from fairlead_common.domain.records import configuration, events
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_common.log.protocol import EventLog, Producer, Record
from fairlead_common.log.topics import CONFIG
from fairlead_submit.service import metrics
from fairlead_submit.store import outbox, resubmission_store, token_store

ROWS_MAX: Final = events.EVENTS_MAX
POLL_S: Final = 0.5
RELAY_WAIT_S_MAX: Final = 2.0
"""How long a response waits until its change is relayed."""
RELAY_POLL_S_MIN: Final = 0.005
RELAY_POLL_S_MAX: Final = 0.1
"""The outbox is queried at intervals that double between these two, for a response that waits."""
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
        # Rows whose notification was lost are found within `POLL_S`.
        await connection.add_listener(outbox.CHANNEL, lambda *_: self._woken.set())
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


async def wait_until_relayed(
    pool: db.Pool, item: Queue | Cordon, wait_s_max: float = RELAY_WAIT_S_MAX
) -> bool:
    """Wait until the log has the committed changes of this queue or cordon; whether it has them.

    False after `wait_s_max`, or if the database cannot be queried: they are relayed later.
    """
    pause_s = RELAY_POLL_S_MIN
    try:
        async with asyncio.timeout(wait_s_max):
            number = await outbox.read_newest_number(pool, item)
            while number is not None and await outbox.has_rows(pool, item, number):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RELAY_POLL_S_MAX)
    except (TimeoutError, *CONNECTION_ERRORS, *REFUSAL_ERRORS) as error:
        reason = str(error) or f"it took longer than {wait_s_max:g} s"
        _logger.warning("%s is not in the log yet: %s", configuration.key(item), reason)
        return False
    return True


async def delete_expired(connection: db.Connection) -> None:
    """Delete what has expired: tokens, actions, and the rows of queues that were deleted."""
    await token_store.delete_expired(connection)
    await resubmission_store.delete_expired_actions(connection, ACTIONS_RETENTION_S)
    await outbox.delete_expired_queues(connection, DELETED_RETENTION_S)
