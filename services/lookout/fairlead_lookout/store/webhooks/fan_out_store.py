"""What the fan-out reads and writes: public events, positions, new deliveries, replays.

It uses the one connection that holds the lock of the fan-out. Deliveries and the positions up to
which they were made are written in one transaction.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

from fairlead_common.db import Connection
from fairlead_common.domain.records import line_chunks
from fairlead_lookout.domain.webhooks.webhook_types import Webhook, find_missed_from_ms
from fairlead_lookout.store.webhooks.delivery_store import (
    Place,
    Replay,
    decode_replay,
    encode_places,
)
from fairlead_lookout.store.webhooks.webhook_schema import (
    SCHEMA,
    WEBHOOKS,
    create_delivery_day,
)
from fairlead_lookout.store.webhooks.webhook_store import decode_webhook

CHUNKS_MAX: Final = 128
CHUNK_BYTES: Final = 256 * 1024
"""Chunks of one partition that are read at once, and their size, except for the last."""
COPIED_MAX: Final = 1_000
"""Rows of one COPY: the event loop waits while they are encoded."""
LAST_ITEM: Final = 2**31 - 1


class NewDelivery(NamedTuple):
    """A row of the table of deliveries; the fields are its columns."""

    day: date
    webhook: int
    message_id: str
    type: str
    queue: str
    job_set: str
    job_id: str | None
    chain: str | None
    event_ms: int
    created_ms: int
    state: str
    due_ms: int
    body: str
    content_type: str


class Chunk(NamedTuple):
    """Consecutive public events of one job set; `lines` None: nobody needs them."""

    partition: int
    last: Place
    queue: str
    lines: bytes | None


class ReplayStep(NamedTuple):
    """What a step of a replay has done."""

    replay: Replay
    places: Mapping[int, Place]
    is_done: bool
    made: int


class FanOutStore:
    """Uses the connection that holds the lock."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._days: set[date] = set()

    async def read_webhooks(self) -> list[Webhook]:
        """All webhooks."""
        rows = await self._connection.fetch(WEBHOOKS["all_webhooks"])
        return [decode_webhook(row) for row in rows]

    async def read_log(self) -> str | None:
        """The identity of the log of the view; None before the first fold."""
        log: str | None = await self._connection.fetchval(WEBHOOKS["read_log"])
        return log

    async def read_progress(self) -> dict[int, int]:
        """The positions that the view reads next: all events before them can be read."""
        rows = await self._connection.fetch(WEBHOOKS["read_progress"])
        return {row["partition"]: row["position"] for row in rows}

    async def read_positions(self) -> dict[int, Place]:
        """Up to which event deliveries were made."""
        rows = await self._connection.fetch(WEBHOOKS["read_positions"])
        return {row["partition"]: (row["position"], row["item"]) for row in rows}

    async def follow_log(self, log: str) -> None:
        """Continue at the end of the view if its log is another one, or if it was moved back.

        Partitions without a position had no events when the first webhook was created.
        """
        async with self._connection.transaction():
            known = await self._connection.fetchval(WEBHOOKS["read_source"])
            places = await self.read_positions()
            moved: dict[int, Place] = {}
            for partition, position in (await self.read_progress()).items():
                end = (position - 1, LAST_ITEM)
                if partition not in places:
                    moved[partition] = (-1, 0)
                elif known not in (None, log) or places[partition] > end:
                    moved[partition] = end
            await self._write_positions(moved)
            await self._connection.execute(WEBHOOKS["write_source"], log)

    async def read_chunks(
        self,
        places: Mapping[int, Place],
        ends: Mapping[int, int],
        queues: Sequence[str] | None,
        days: tuple[date, date] = (date.min, date.max),
    ) -> list[Chunk]:
        """The next chunks of these partitions, in order; with lines if their queue is one of
        `queues`."""
        numbers = list(places)
        rows = await self._connection.fetch(
            WEBHOOKS["next_chunks"],
            numbers,
            [places[number][0] for number in numbers],
            [places[number][1] for number in numbers],
            [ends[number] for number in numbers],
            CHUNKS_MAX,
            CHUNK_BYTES,
            queues,
            *days,
        )
        return [
            Chunk(
                row["partition"],
                (row["last_position"], row["last_item"]),
                row["queue"],
                None if row["lines"] is None else line_chunks.decompress(row["lines"]),
            )
            for row in rows
        ]

    async def write(
        self,
        deliveries: Sequence[NewDelivery],
        before: Mapping[int, Place],
        after: Mapping[int, Place],
        backlogs: Mapping[int, int],
    ) -> bool:
        """Write deliveries and positions; False, and nothing is written, if another process moved
        the positions. `backlogs`: webhooks without new rows since `before`, and the time.
        """
        async with self._connection.transaction():
            rows = await self._connection.fetch(WEBHOOKS["lock_positions"])
            if {row["partition"]: (row["position"], row["item"]) for row in rows} != before:
                return False
            for webhook, now_ms in backlogs.items():
                await self._connection.execute(
                    WEBHOOKS["insert_replay"],
                    *(webhook, "BACKLOG", encode_places(before), None, None, None, now_ms, ""),
                )
            await self._write_positions(
                {number: place for number, place in after.items() if place != before[number]}
            )
            await self._copy(deliveries)
        self._days.update(each.day for each in deliveries)
        return True

    async def read_replays(self) -> list[Replay]:
        """The replays that are not done."""
        rows = await self._connection.fetch(WEBHOOKS["running_replays"])
        return [decode_replay(row) for row in rows]

    async def count_pending(self, webhook: int, count_max: int) -> int:
        """How many deliveries of a webhook wait, up to a bound."""
        rows = await self._connection.fetch(WEBHOOKS["count_pending"], [webhook], count_max)
        pending: int = rows[0]["pending"]
        return pending

    async def write_replay(
        self, deliveries: Sequence[NewDelivery], step: ReplayStep, now_ms: int
    ) -> None:
        """Write the deliveries of a replay and its places."""
        async with self._connection.transaction():
            await self._connection.execute(
                WEBHOOKS["advance_replay"],
                step.replay.number,
                encode_places(step.places),
                "DONE" if step.is_done else "RUNNING",
                step.made,
                now_ms,
            )
            await self._copy(deliveries)
        self._days.update(each.day for each in deliveries)

    async def disable(self, webhook: int, reason: str, now_ms: int) -> None:
        """Disable a webhook."""
        await self._connection.execute(
            WEBHOOKS["disable_webhook"], webhook, reason, now_ms, find_missed_from_ms(now_ms)
        )

    async def _write_positions(self, places: Mapping[int, Place]) -> None:
        if places:
            await self._connection.execute(
                WEBHOOKS["write_positions"],
                list(places),
                [position for position, _ in places.values()],
                [item for _, item in places.values()],
            )

    async def _copy(self, deliveries: Sequence[NewDelivery]) -> None:
        for day in {each.day for each in deliveries} - self._days:
            await create_delivery_day(self._connection, day)
        for first in range(0, len(deliveries), COPIED_MAX):
            await self._connection.copy_records_to_table(
                "deliveries",
                schema_name=SCHEMA,
                columns=NewDelivery._fields,
                records=deliveries[first : first + COPIED_MAX],
            )
