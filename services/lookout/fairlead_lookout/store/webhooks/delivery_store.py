"""Deliveries of a webhook as the API lists them, tests, and replays."""

from collections.abc import Mapping
from datetime import date
from typing import Final

import asyncpg
import msgspec

from fairlead_common import db
from fairlead_common.db import Pool
from fairlead_common.db.locks import LockClass
from fairlead_common.domain.timestamps import find_day
from fairlead_lookout.store.dated_tables import drop_tables, list_days
from fairlead_lookout.store.webhooks.webhook_schema import (
    DELIVERIES,
    WEBHOOKS,
    create_delivery_day,
)

PENDING_COUNT_MAX: Final = 10_000
FAILED_MAX: Final = 100_000
"""Failed deliveries that one request makes pending again."""
REPLAYS_MAX: Final = 20
REPLAYS_RETAINED_MS: Final = 30 * 86_400_000
MISSED_RETAINED_MS: Final = 7 * 86_400_000
"""How long a replay of what a webhook missed is offered after it was enabled again."""

Place = tuple[int, int]
"""(position, item) of a public event in its partition."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery as it is stored."""

    id: int
    message_id: str
    type: str
    queue: str | None
    job_set: str | None
    job_id: str | None
    event_ms: int
    created_ms: int
    state: str
    attempts: int
    due_ms: int
    attempted_ms: int | None
    duration_ms: int | None
    status: int | None
    error: str | None
    body: str


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """Deliveries that are made from earlier events. `kind`: `REPLAY` or `BACKLOG`; `made`: how many
    there are so far; `until`: where it ends, None for a backlog."""

    number: int
    webhook: int
    kind: str
    state: str
    places: dict[int, Place]
    until: dict[int, Place] | None
    from_ms: int | None
    to_ms: int | None
    made: int
    created_ms: int
    changed_ms: int
    by: str


_decode_places: Final = msgspec.json.Decoder(dict[int, Place]).decode


def encode_places(places: Mapping[int, Place]) -> str:
    """Places as they are stored."""
    return msgspec.json.encode(dict(places)).decode()


def decode_replay(row: asyncpg.Record) -> Replay:
    """The replay of a row."""
    until = row["until"]
    return Replay(
        number=row["number"],
        webhook=row["webhook"],
        kind=row["kind"],
        state=row["state"],
        places=_decode_places(row["places"]),
        until=None if until is None else _decode_places(until),
        from_ms=row["from_ms"],
        to_ms=row["to_ms"],
        made=row["made"],
        created_ms=row["created_ms"],
        changed_ms=row["changed_ms"],
        by=row["by"],
    )


class DeliveryStore:
    """Reads and replays deliveries. Raises `DatabaseUnavailable`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_page(
        self, webhook: int, before: int, state: str | None, limit: int
    ) -> list[Delivery]:
        """Deliveries with smaller ids than `before`, the newest first."""
        with db.translate_errors():
            rows = await self._pool.fetch(
                WEBHOOKS["list_deliveries"], webhook, before, state, limit
            )
        return [_decode_delivery(row) for row in rows]

    async def get(self, webhook: int, delivery: int) -> Delivery | None:
        """One delivery."""
        with db.translate_errors():
            row = await self._pool.fetchrow(WEBHOOKS["delivery"], webhook, delivery)
        return None if row is None else _decode_delivery(row)

    async def count_pending(self, webhooks: list[int]) -> dict[int, int]:
        """How many deliveries of each webhook wait, up to `PENDING_COUNT_MAX`."""
        with db.translate_errors():
            rows = await self._pool.fetch(WEBHOOKS["count_pending"], webhooks, PENDING_COUNT_MAX)
        return {row["number"]: row["pending"] for row in rows}

    async def add_test(
        self, webhook: int, message_id: str, body: bytes, content_type: str, now_ms: int
    ) -> int:
        """Add a test delivery; returns its id."""
        day = find_day(now_ms)
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await create_delivery_day(connection, day)
                number: int = await connection.fetchval(
                    WEBHOOKS["insert_test"],
                    day,
                    webhook,
                    message_id,
                    "test",
                    now_ms,
                    body.decode(),
                    content_type,
                )
        return number

    async def replay(self, webhook: int, delivery: int, now_ms: int) -> Delivery | None:
        """Send a delivery again, or now if it waits for another attempt; None if it does not exist
        or is being sent."""
        with db.translate_errors():
            row = await self._pool.fetchrow(WEBHOOKS["replay_delivery"], webhook, delivery, now_ms)
        return None if row is None else _decode_delivery(row)

    async def replay_failed(self, webhook: int, from_ms: int, to_ms: int, now_ms: int) -> int:
        """Send failed deliveries of events of this time again, and those that wait for another
        attempt now; returns how many."""
        with db.translate_errors():
            status = await self._pool.execute(
                WEBHOOKS["replay_failed"], webhook, from_ms, to_ms, now_ms, FAILED_MAX
            )
        return int(status.removeprefix("UPDATE "))

    async def add_replay(
        self, webhook: int, from_ms: int, to_ms: int, now_ms: int, by: str
    ) -> Replay | None:
        """Make deliveries of all events of this time again, up to now; None if an earlier replay is
        not done. What the webhook missed within this time does not count as missed then."""
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                # Without enabled webhooks the positions have not moved.
                await connection.execute(WEBHOOKS["start_positions"])
                rows = await connection.fetch(WEBHOOKS["lock_positions"])
                until = {row["partition"]: (row["position"], row["item"]) for row in rows}
                row = await connection.fetchrow(
                    WEBHOOKS["insert_replay"],
                    webhook,
                    "REPLAY",
                    encode_places(dict.fromkeys(until, (-1, 0))),
                    encode_places(until),
                    from_ms,
                    to_ms,
                    now_ms,
                    by,
                )
                if row is not None:
                    await connection.execute(WEBHOOKS["forget_replayed"], webhook, from_ms, to_ms)
        return None if row is None else decode_replay(row)

    async def list_replays(self, webhook: int) -> list[Replay]:
        """The last replays, the newest first."""
        with db.translate_errors():
            rows = await self._pool.fetch(WEBHOOKS["list_replays"], webhook, REPLAYS_MAX)
        return [decode_replay(row) for row in rows]

    async def drop_old_days(self, first_day: date, now_ms: int) -> list[date]:
        """Drop the deliveries of all days before `first_day`; returns these days."""
        old = [day for day in await list_days(self._pool, DELIVERIES) if day < first_day]
        for day in old:
            table = f"{DELIVERIES}_{day:%Y%m%d}"
            async with drop_tables(self._pool, LockClass.WEBHOOK_TABLES, table):
                pass
        await self._pool.execute(WEBHOOKS["delete_old_replays"], now_ms - REPLAYS_RETAINED_MS)
        await self._pool.execute(WEBHOOKS["forget_old_missed"], now_ms - MISSED_RETAINED_MS)
        return old


def _decode_delivery(row: asyncpg.Record) -> Delivery:
    return Delivery(**{name: row[name] for name in Delivery.__struct_fields__})
