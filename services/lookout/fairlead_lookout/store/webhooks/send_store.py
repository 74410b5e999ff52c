"""What the senders read and write: deliveries that are due, results, the health of webhooks."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from fairlead_common.db import Connection, to_columns
from fairlead_lookout.domain.webhooks.webhook_types import Webhook, find_missed_from_ms
from fairlead_lookout.store.webhooks.webhook_schema import WEBHOOKS
from fairlead_lookout.store.webhooks.webhook_store import decode_webhook


class DueDelivery(NamedTuple):
    """A delivery that is due; the fields are its columns, and the version of its webhook."""

    id: int
    day: date
    webhook: int
    message_id: str
    type: str
    chain: str | None
    created_ms: int
    attempts: int
    body: str
    content_type: str
    version: int


class DeliveryResult(NamedTuple):
    """The result of an attempt, as it is written."""

    id: int
    day: date
    state: str
    attempts: int
    due_ms: int
    attempted_ms: int
    duration_ms: int
    status: int | None
    error: str | None


class DueQuery(NamedTuple):
    """How many deliveries of a webhook are wanted, and up to which time they are due."""

    webhook: int
    wanted: int
    due_ms: int


class WebhookHealth(NamedTuple):
    """When the deliveries of a webhook began to fail, if they do, and when one last succeeded."""

    webhook: int
    failing_ms: int | None
    succeeded_ms: int | None


class SendStore:
    """Uses the connection that holds the locks of the webhooks that this process sends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_webhooks(self) -> dict[int, Webhook]:
        """All webhooks by number."""
        rows = await self._connection.fetch(WEBHOOKS["all_webhooks"])
        return {row["number"]: decode_webhook(row) for row in rows}

    async def fetch_due(
        self, any_order: Sequence[DueQuery], in_order: Sequence[DueQuery]
    ) -> list[DueDelivery]:
        """Deliveries that are due. `in_order`: only the first one of each chain."""
        found = []
        for name, queries in (("fetch_due", any_order), ("fetch_due_in_order", in_order)):
            if queries:
                rows = await self._connection.fetch(WEBHOOKS[name], *to_columns(queries))
                found += [DueDelivery(*row.values()) for row in rows]
        return found

    async def write_results(
        self,
        results: Sequence[DeliveryResult],
        health: Sequence[WebhookHealth],
        disabled: Mapping[int, str],
        now_ms: int,
    ) -> None:
        """Write the results of deliveries and the state of webhooks, in one transaction."""
        async with self._connection.transaction():
            if results:
                await self._connection.execute(WEBHOOKS["write_results"], *to_columns(results))
            if health:
                await self._connection.execute(WEBHOOKS["write_health"], *to_columns(health))
            for webhook, reason in disabled.items():
                await self._connection.execute(
                    WEBHOOKS["disable_webhook"],
                    *(webhook, reason, now_ms, find_missed_from_ms(now_ms)),
                )
