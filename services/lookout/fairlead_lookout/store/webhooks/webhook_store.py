"""Webhooks in Postgres: rows with versions. Secrets and header values are stored encrypted."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import asyncpg
import msgspec

from fairlead_common import db
from fairlead_common.db import Connection, Pool
from fairlead_common.db.locks import LockClass
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.secret_values import Keyring
from fairlead_lookout.domain.webhooks.webhook_requests import WebhookConfiguration
from fairlead_lookout.domain.webhooks.webhook_types import (
    EventFilter,
    KindOptions,
    Secret,
    Webhook,
    find_missed_from_ms,
    make_seal_name,
    rotate_secrets,
)
from fairlead_lookout.store.webhooks.webhook_schema import WEBHOOKS

WEBHOOKS_MAX: Final = 1_000
"""Webhooks of one installation."""
QUEUE_WEBHOOKS_MAX: Final = 50
"""Webhooks of one queue, so that its users leave some to others."""
_encode: Final = msgspec.json.Encoder().encode
_decode_filter: Final = msgspec.json.Decoder(EventFilter).decode
_decode_options: Final = msgspec.json.Decoder(KindOptions).decode
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode
_decode_secrets: Final = msgspec.json.Decoder(tuple[Secret, ...]).decode


class TooManyWebhooks(Exception):
    """There are `WEBHOOKS_MAX` webhooks already, or `QUEUE_WEBHOOKS_MAX` of one queue."""


class WebhookStore:
    """Reads and changes webhooks; `keyring` encrypts. Raises `DatabaseUnavailable`."""

    def __init__(self, pool: Pool, keyring: Keyring) -> None:
        self._pool = pool
        self._keyring = keyring

    @property
    def can_encrypt(self) -> bool:
        """Whether the installation has a key for secrets."""
        return bool(self._keyring)

    async def get(self, name: str) -> Webhook | None:
        """The webhook of this name."""
        with db.translate_errors():
            row = await self._pool.fetchrow(WEBHOOKS["webhook"], name)
        return None if row is None else decode_webhook(row)

    async def list_page(
        self, after: str, limit: int, scope: QueueScope, *, everything: bool
    ) -> list[Webhook]:
        """At most `limit` webhooks whose names come after this one: of the queues in scope, or
        `everything`."""
        only, but = scope.arguments()
        with db.translate_errors():
            rows = await self._pool.fetch(
                WEBHOOKS["list_webhooks"], after, limit, only, but, everything
            )
        return [decode_webhook(row) for row in rows]

    async def create(
        self, given: WebhookConfiguration, secret: str, now_ms: int, by: str
    ) -> Webhook | None:
        """Create it; None if the name exists. `secret`: "" for kinds that do not sign. Raises
        `TooManyWebhooks`."""
        sealed = self._seal(given.name, secret) if secret else ""
        secrets = rotate_secrets((), sealed, now_ms, 0) if sealed else ()
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await _require_space(connection, given)
                await connection.execute(WEBHOOKS["start_positions"])
                row = await connection.fetchrow(
                    WEBHOOKS["insert_webhook"],
                    *self._encode_columns(given, {}, {}),
                    _encode_text(secrets),
                    now_ms,
                    by,
                    given.kind,
                )
        return None if row is None else decode_webhook(row)

    async def replace(
        self,
        given: WebhookConfiguration,
        now_ms: int,
        by: str,
        check: Callable[[Webhook], None],
    ) -> Webhook | None:
        """Replace its configuration; None if it does not exist. `check` can raise. Raises
        `TooManyWebhooks` for another queue that has its number of webhooks."""
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(WEBHOOKS["lock_webhook"], given.name)
                if row is None:
                    return None
                known = decode_webhook(row)
                check(known)
                if given.filter.queue != known.filter.queue:
                    await _require_space(connection, given)
                if given.enabled:
                    await connection.execute(WEBHOOKS["start_positions"])
                if known.ordered and not given.ordered:
                    await connection.execute(WEBHOOKS["release_chains"], known.number)
                if _has_other_target(given, known) or not known.enabled:
                    await connection.execute(WEBHOOKS["make_due"], known.number, now_ms)
                row = await connection.fetchrow(
                    WEBHOOKS["update_webhook"],
                    *self._encode_columns(given, known.headers, known.credentials),
                    now_ms,
                    by,
                    find_missed_from_ms(now_ms),
                )
        return decode_webhook(row)

    async def rotate(
        self, name: str, secret: str, overlap_s: int, now_ms: int, by: str
    ) -> Webhook | None:
        """Add a secret; the previous one stays valid for a while. None if it does not exist."""
        sealed = self._seal(name, secret)
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(WEBHOOKS["lock_webhook"], name)
                if row is None:
                    return None
                secrets = rotate_secrets(decode_webhook(row).secrets, sealed, now_ms, overlap_s)
                row = await connection.fetchrow(
                    WEBHOOKS["update_secrets"], name, _encode_text(secrets), now_ms, by
                )
        return decode_webhook(row)

    async def delete(self, name: str, check: Callable[[Webhook], None]) -> bool:
        """Delete it; False if it does not exist. `check` can raise.

        Its deliveries are not sent any more, and are dropped with their days.
        """
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(WEBHOOKS["lock_webhook"], name)
                if row is None:
                    return False
                check(decode_webhook(row))
                await connection.execute(WEBHOOKS["delete_webhook"], row["number"])
        return True

    def _seal(self, name: str, value: str) -> str:
        return self._keyring.seal(make_seal_name(name), value)

    def _seal_all(self, name: str, values: Mapping[str, str]) -> dict[str, str]:
        return {field: self._seal(name, text) for field, text in values.items()}

    def _encode_columns(
        self, given: WebhookConfiguration, headers: dict[str, str], credentials: dict[str, str]
    ) -> tuple[Any, ...]:
        """The columns from `name` to `enabled`. `headers`, `credentials`: encrypted, if they do not
        change."""
        if given.headers is not None:
            headers = self._seal_all(given.name, given.headers)
        if given.credentials is not None:
            credentials = self._seal_all(given.name, given.credentials)
        return (
            given.name,
            given.url,
            given.filter.queue,
            _encode_text(given.filter),
            given.format,
            given.ordered,
            given.concurrency,
            _encode_text(headers),
            _encode_text(given.options),
            _encode_text(credentials),
            given.enabled,
        )


async def _require_space(connection: Connection, given: WebhookConfiguration) -> None:
    """Raises `TooManyWebhooks` if its queue, or the installation, has the permitted number of
    webhooks. Until the end of the transaction no other one adds a webhook."""
    queue = given.filter.queue
    await connection.execute(WEBHOOKS["lock_limits"], LockClass.WEBHOOK_LIMITS)
    row = await connection.fetchrow(WEBHOOKS["count_webhooks"], given.name, queue)
    assert row is not None, "count returns a row"
    if row["of_queue"] >= QUEUE_WEBHOOKS_MAX:
        raise TooManyWebhooks(
            f"Queue {queue!r} has {QUEUE_WEBHOOKS_MAX} webhooks already; delete one first."
        )
    if row["everything"] >= WEBHOOKS_MAX:
        raise TooManyWebhooks(f"There are {WEBHOOKS_MAX} webhooks already; delete one first.")


def _has_other_target(given: WebhookConfiguration, known: Webhook) -> bool:
    """Whether what failed can succeed with the new configuration."""
    changed = given.url != known.url or given.options != known.options
    return changed or given.credentials is not None


def decode_webhook(row: asyncpg.Record) -> Webhook:
    """The webhook of a row."""
    return Webhook(
        number=row["number"],
        name=row["name"],
        version=row["version"],
        url=row["url"],
        filter=_decode_filter(row["filter"]),
        format=row["format"],
        ordered=row["ordered"],
        concurrency=row["concurrency"],
        headers=_decode_headers(row["headers"]),
        secrets=_decode_secrets(row["secrets"]),
        kind=row["kind"],
        options=_decode_options(row["options"]),
        credentials=_decode_headers(row["credentials"]),
        enabled=row["enabled"],
        disabled=row["disabled"],
        failing_ms=row["failing_ms"],
        succeeded_ms=row["succeeded_ms"],
        missed_from_ms=row["missed_from_ms"],
        missed_to_ms=row["missed_to_ms"],
        changed_ms=row["changed_ms"],
        by=row["by"],
    )


def _encode_text(value: object) -> str:
    return _encode(value).decode()
