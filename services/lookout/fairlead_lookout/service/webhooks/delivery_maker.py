"""Makes the deliveries of new public events and of replays, one step after the other.

A webhook with too many pending deliveries gets no more: a backlog remembers the positions, and
continues from them when few are left. A replay does the same for a time in the past.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

from fairlead_common.domain.timestamps import find_day
from fairlead_common.service import clock
from fairlead_lookout.domain.webhooks.webhook_types import Webhook
from fairlead_lookout.service import metrics
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.service.webhooks.delivery_rows import DeliveryEncoder
from fairlead_lookout.store.fold.time_slice import TimeSlice
from fairlead_lookout.store.webhooks.delivery_store import Place, Replay
from fairlead_lookout.store.webhooks.fan_out_store import (
    LAST_ITEM,
    Chunk,
    FanOutStore,
    NewDelivery,
    ReplayStep,
)

PARTITIONS_MAX: Final = 8
"""Partitions that are read at once."""
ROWS_MAX: Final = 10_000
"""Deliveries of one transaction; its last chunk can exceed this."""
ROWS_PER_CHECK: Final = 100


class _Read(NamedTuple):
    """Chunks that were read. `ended`: the places of partitions without further ones."""

    chunks: list[Chunk]
    before: dict[int, Place]
    ended: dict[int, Place]


class _Made(NamedTuple):
    """Deliveries that were made, and the places up to which that was done."""

    rows: list[NewDelivery]
    after: dict[int, Place]


class DeliveryMaker:
    """Makes deliveries on one connection, which holds the lock. `wake` is called when there are
    some.

    `is_deleted`: whether a queue was deleted; its webhooks are disabled, because another queue of
    that name must not have them.
    """

    def __init__(
        self,
        store: FanOutStore,
        settings: Settings,
        wake: Callable[[], None],
        is_deleted: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._settings = settings
        self._wake = wake
        self._is_deleted = is_deleted
        self._time_slice = TimeSlice()
        self._pending: dict[int, int] = {}
        """At least the number of pending deliveries of each webhook."""
        self._next_partition = 0

    async def work_once(self) -> bool | None:
        """One step: True if there can be more to do, None if no webhook is enabled."""
        # In this order, a webhook receives the events of jobs submitted after its creation.
        progress = await self._store.read_progress()
        webhooks = [each for each in await self._store.read_webhooks() if each.enabled]
        log = await self._store.read_log()
        if not webhooks or log is None:
            return None
        webhooks = await self._disable_without_queue(webhooks)
        await self._store.follow_log(log)
        encoder = DeliveryEncoder(log, self._settings.public_url)
        replays = await self._store.read_replays()
        with_backlog = {each.webhook for each in replays if each.kind == "BACKLOG"}
        live = [each for each in webhooks if each.number not in with_backlog]
        moved = await self._follow(encoder, live, progress)
        by_number = {each.number: each for each in webhooks}
        for replay in replays:
            webhook = by_number.get(replay.webhook)
            if webhook is not None:
                moved |= await self._continue_replay(encoder, webhook, replay)
        return moved

    async def _disable_without_queue(self, webhooks: Sequence[Webhook]) -> list[Webhook]:
        remaining = []
        for webhook in webhooks:
            queue = webhook.filter.queue
            if queue is not None and self._is_deleted(queue):
                reason = f"Queue {queue} was deleted."
                await self._store.disable(webhook.number, reason, clock.now_ms())
            else:
                remaining.append(webhook)
        return remaining

    async def _follow(
        self,
        encoder: DeliveryEncoder,
        webhooks: Sequence[Webhook],
        progress: Mapping[int, int],
    ) -> bool:
        """Make deliveries of new events, up to `progress`; whether there were any events."""
        places = await self._store.read_positions()
        now_ms = clock.now_ms()
        read = await self._read(places, progress, webhooks)
        made = await self._encode_rows(encoder, read, webhooks, now_ms)
        if made.after == places:
            return False
        backlogs = await self._find_backlogs(made.rows)
        rows = [row for row in made.rows if row.webhook not in backlogs]
        if not await self._store.write(rows, places, made.after, dict.fromkeys(backlogs, now_ms)):
            return True
        metrics.DELIVERIES_MADE.inc(len(rows))
        if rows:
            self._wake()
        return True

    async def _read(
        self,
        places: Mapping[int, Place],
        ends: Mapping[int, int],
        webhooks: Sequence[Webhook],
        days: tuple[date, date] = (date.min, date.max),
    ) -> _Read:
        """The next chunks of a few partitions that have some. `ends`: positions to read before."""
        due = [
            number
            for number, place in places.items()
            if number in ends and place < (ends[number] - 1, LAST_ITEM)
        ]
        due.sort(key=lambda number: (number < self._next_partition, number))
        due = due[:PARTITIONS_MAX]
        if not due:
            return _Read([], dict(places), {})
        self._next_partition = due[-1] + 1
        queues = _list_queues(webhooks)
        chunks = await self._store.read_chunks({n: places[n] for n in due}, ends, queues, days)
        found = {chunk.partition for chunk in chunks}
        ended = {n: (ends[n] - 1, LAST_ITEM) for n in due if n not in found}
        return _Read(chunks, dict(places), ended)

    async def _encode_rows(
        self,
        encoder: DeliveryEncoder,
        read: _Read,
        webhooks: Sequence[Webhook],
        now_ms: int,
        times_ms: tuple[int, int] | None = None,
    ) -> _Made:
        made = _Made([], {**read.before, **read.ended})
        for chunk in read.chunks:
            if len(made.rows) >= ROWS_MAX:
                break
            if chunk.lines is not None:
                place = made.after[chunk.partition]
                for row in encoder.encode_rows(chunk.lines, place, webhooks, now_ms, times_ms):
                    made.rows.append(row)
                    if len(made.rows) % ROWS_PER_CHECK == 0:
                        await self._time_slice.yield_if_over()
                await self._time_slice.yield_if_over()
            made.after[chunk.partition] = chunk.last
        return made

    async def _find_backlogs(self, rows: Sequence[NewDelivery]) -> Collection[int]:
        """The webhooks that would have too many pending deliveries with these rows."""
        made: dict[int, int] = {}
        for row in rows:
            made[row.webhook] = made.get(row.webhook, 0) + 1
        backlog_max = self._settings.webhook_pending_max
        found = set()
        for webhook, count in made.items():
            pending = self._pending.get(webhook, backlog_max) + count
            if pending > backlog_max:
                pending = await self._store.count_pending(webhook, backlog_max) + count
            if pending > backlog_max and pending > count:
                found.add(webhook)
            else:
                self._pending[webhook] = pending
        return found

    async def _continue_replay(
        self, encoder: DeliveryEncoder, webhook: Webhook, replay: Replay
    ) -> bool:
        """Make the next deliveries of a replay, if the webhook has few that are pending."""
        few = self._settings.webhook_pending_max // 2
        if await self._store.count_pending(webhook.number, few) >= few:
            return False
        until = replay.until or await self._store.read_positions()
        places = {number: replay.places.get(number, (-1, 0)) for number in until}
        ends = {number: place[0] + 1 for number, place in until.items()}
        now_ms = clock.now_ms()
        times_ms, days = None, (date.min, date.max)
        if replay.from_ms is not None and replay.to_ms is not None:
            times_ms = (replay.from_ms, replay.to_ms)
            days = (find_day(times_ms[0]), find_day(times_ms[1]) + timedelta(days=1))
        read = await self._read(places, ends, [webhook], days)
        made = await self._encode_rows(encoder, read, [webhook], now_ms, times_ms)
        is_done = all(made.after[number] >= place for number, place in until.items())
        step = ReplayStep(replay, made.after, is_done, len(made.rows))
        await self._store.write_replay(made.rows, step, now_ms)
        self._pending.pop(webhook.number, None)
        metrics.DELIVERIES_MADE.inc(len(made.rows))
        if made.rows:
            self._wake()
        return True


def _list_queues(webhooks: Sequence[Webhook]) -> list[str] | None:
    """The queues whose events are needed; None: all."""
    queues = [webhook.filter.queue for webhook in webhooks]
    named = [queue for queue in queues if queue is not None]
    return None if len(named) < len(queues) else sorted(set(named))
