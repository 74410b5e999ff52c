"""The worker of webhooks: it makes deliveries, sends them, and drops old ones."""

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Final

import asyncpg

from fairlead_common.db import Pool
from fairlead_common.db.connection_pool import CONNECTION_ERRORS, REFUSAL_ERRORS
from fairlead_common.domain.secret_values import Keyring
from fairlead_common.domain.timestamps import find_day
from fairlead_common.service import clock
from fairlead_lookout.domain.webhooks.airflow_calls import ANSWER_BYTES_MAX
from fairlead_lookout.domain.webhooks.target_addresses import parse_networks
from fairlead_lookout.domain.webhooks.webhook_types import Kind
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.service.webhooks.airflow_sender import AirflowSender
from fairlead_lookout.service.webhooks.delivery_loop import DeliveryLoop, Sender
from fairlead_lookout.service.webhooks.email_sender import EmailSender, read_server
from fairlead_lookout.service.webhooks.fan_out import FanOut
from fairlead_lookout.service.webhooks.http_client import HttpClient
from fairlead_lookout.service.webhooks.request_sender import RequestSender
from fairlead_lookout.store.webhooks.delivery_store import DeliveryStore

RETENTION_S: Final = 3_600.0
_logger: Final = logging.getLogger("fairlead.lookout.webhooks")


class WebhookWorker:
    """Run `tasks()`, then `close()`. `is_deleted`: whether a queue was deleted."""

    def __init__(self, settings: Settings, pool: Pool, is_deleted: Callable[[str], bool]) -> None:
        self._settings = settings
        self._deliveries = DeliveryStore(pool)
        timeout_s, ca_file = settings.webhook_timeout_s, settings.webhook_ca_file
        networks = parse_networks(settings.webhook_networks)
        self._http = HttpClient(networks, timeout_s=timeout_s, ca_file=ca_file)
        self._airflow_http = HttpClient(
            networks, timeout_s=timeout_s, ca_file=ca_file, bytes_max=ANSWER_BYTES_MAX
        )
        keyring = Keyring(settings.secrets_key)
        requests = RequestSender(keyring, self._http)
        senders: Mapping[Kind, Sender] = {
            "webhook": requests,
            "slack": requests,
            "email": EmailSender(read_server(settings), timeout_s=timeout_s, ca_file=ca_file),
            "airflow": AirflowSender(keyring, self._airflow_http),
        }
        self._loop = DeliveryLoop(settings, senders, random.random, _draw_number)
        self._fan_out = FanOut(settings, self._loop.wake, is_deleted)

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """The tasks to run. None of them ends by itself."""
        return [self._fan_out.run(), self._loop.run(), self._drop_old_days()]

    async def close(self) -> None:
        """Close the connections to receivers."""
        await self._http.close()
        await self._airflow_http.close()

    async def _drop_old_days(self) -> None:
        """Drop old deliveries every hour. After an error it tries again in an hour."""
        while True:
            now_ms = clock.now_ms()
            first_day = find_day(now_ms) - timedelta(days=self._settings.webhook_days)
            try:
                for day in await self._deliveries.drop_old_days(first_day, now_ms):
                    _logger.info("dropped the deliveries of %s", day)
            except (*CONNECTION_ERRORS, *REFUSAL_ERRORS, asyncpg.LockNotAvailableError) as error:
                _logger.warning("old deliveries stay; next attempt in an hour: %s", error)
            await asyncio.sleep(RETENTION_S)


def _draw_number() -> int:
    """A random key that identifies this process among the senders."""
    return secrets.randbelow(2**31)
