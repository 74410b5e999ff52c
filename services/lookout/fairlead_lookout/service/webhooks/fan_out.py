"""The loop that makes deliveries from public events. One process does it at a time.

It reads the events that the fold has committed, in the order of each partition of the log, and
writes deliveries in the transaction that moves its positions: after a crash it continues there.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import asyncpg

from fairlead_common.db import lock_session
from fairlead_common.db.connection_pool import CONNECTION_ERRORS, STATEMENT_S_MAX
from fairlead_common.db.locks import WEBHOOK_FAN_OUT
from fairlead_common.service.disk import Disk
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.service.webhooks.delivery_maker import DeliveryMaker
from fairlead_lookout.store.outages import Outages
from fairlead_lookout.store.webhooks.fan_out_store import FanOutStore

POLL_S: Final = 0.25
IDLE_S: Final = 1.0


class FanOut:
    """Makes deliveries while this process holds the lock. `wake`, `is_deleted`: see
    `DeliveryMaker`."""

    def __init__(
        self, settings: Settings, wake: Callable[[], None], is_deleted: Callable[[str], bool]
    ) -> None:
        self._settings = settings
        self._wake = wake
        self._is_deleted = is_deleted
        self._disk = Disk(settings.disk)
        self._outages = Outages("the fan-out of webhooks", settings.away_s)

    async def run(self) -> None:
        """For ever. Raises an outage that lasts longer than `away_s`."""
        await self._outages.run_sessions(self._session)

    async def _session(self) -> None:
        """Work as long as the connection, and with it the lock, exists."""
        connection = await lock_session.connect(
            self._settings.database_url,
            name="fairlead-lookout-webhooks",
            command_s_max=STATEMENT_S_MAX,
            settings={"enable_seqscan": "off"},
        )
        try:
            while not await lock_session.try_lock(connection, WEBHOOK_FAN_OUT):
                self._outages.report_progress()
                await asyncio.sleep(IDLE_S)
            maker = DeliveryMaker(
                FanOutStore(connection), self._settings, self._wake, self._is_deleted
            )
            while True:
                await self._outages.wait_for_space(self._disk)
                moved = await maker.work_once()
                self._outages.report_progress()
                if moved is None:
                    await asyncio.sleep(IDLE_S)
                elif not moved:
                    await asyncio.sleep(POLL_S)
        finally:
            with contextlib.suppress(*CONNECTION_ERRORS, asyncpg.PostgresError):
                await connection.close(timeout=2.0)
