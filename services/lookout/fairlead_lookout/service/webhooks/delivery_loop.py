"""The loop that sends deliveries, for the share of the webhooks that this process holds.

Each webhook has a lane of its own with its own limit of concurrent requests, which is 1 while its
deliveries fail, so a receiver that does not answer delays nobody else. Results are written in
batches; what a crash leaves unwritten is sent again.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import asyncpg

from fairlead_common.db import lock_session
from fairlead_common.db.connection_pool import CONNECTION_ERRORS, STATEMENT_S_MAX
from fairlead_common.db.locks import LockClass
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk
from fairlead_lookout.domain.webhooks.delivery_bodies import TEST
from fairlead_lookout.domain.webhooks.retry_schedule import (
    Attempt,
    decide_next_step,
    explain_disabling,
)
from fairlead_lookout.domain.webhooks.webhook_types import Kind, Webhook
from fairlead_lookout.service import metrics
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store.fold.partition_locks import BALANCE_S, LockedWork, PartitionLocks
from fairlead_lookout.store.outages import Outages
from fairlead_lookout.store.webhooks.send_store import (
    DeliveryResult,
    DueDelivery,
    DueQuery,
    SendStore,
    WebhookHealth,
)

SHARDS: Final = 64
SENDING: Final = LockedWork(SHARDS, LockClass.WEBHOOK_SHARD, LockClass.WEBHOOK_SENDER)
POLL_S: Final = 0.25
IDLE_S: Final = 2.0
BATCH_S: Final = 0.01
"""Results of this time are written together."""
WEBHOOKS_S: Final = 1.0
"""How often webhooks are read again."""
HEALTH_S: Final = 10.0
"""How often the time of the last success is written."""
FETCHED: Final = 4
"""Deliveries in memory for each one that can be under way."""


class Sender(Protocol):
    """Sends one delivery once; never raises for what the receiver does."""

    async def send(
        self, webhook: Webhook, message_id: str, body: str, content_type: str
    ) -> Attempt:
        """The result."""
        ...


class _Lane:
    """The deliveries of one webhook that are in memory."""

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.queue: deque[DueDelivery] = deque()
        self.running: dict[int, asyncio.Task[None]] = {}
        self.unwritten: set[int] = set()
        """Sent deliveries whose results are not written yet."""
        self.failing_ms = webhook.failing_ms
        self.written_ms = webhook.succeeded_ms or 0
        self.succeeded_ms: int | None = None

    @property
    def limit(self) -> int:
        """How many requests can be under way."""
        return 1 if self.failing_ms is not None else self.webhook.concurrency

    @property
    def known(self) -> set[int]:
        """The deliveries that must not be fetched again."""
        return {row.id for row in self.queue} | self.running.keys() | self.unwritten


class DeliveryLoop:
    """Sends deliveries. `chance` returns a random number from 0 to 1, `draw` one that identifies
    this process."""

    def __init__(
        self,
        settings: Settings,
        senders: Mapping[Kind, Sender],
        chance: Callable[[], float],
        draw: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._senders = senders
        self._chance = chance
        self._draw = draw
        self._disk = Disk(settings.disk)
        self._outages = Outages("the delivery of webhooks", settings.away_s)
        self._woken = asyncio.Event()
        self._lanes: dict[int, _Lane] = {}
        self._results: list[DeliveryResult] = []
        self._changed: set[int] = set()
        self._disabled: dict[int, str] = {}
        self._is_outdated = False
        """Whether a webhook was changed since it was read."""
        self._failure: BaseException | None = None

    def wake(self) -> None:
        """There are new deliveries, or results."""
        self._woken.set()

    async def run(self) -> None:
        """For ever. Raises an outage that lasts longer than `away_s`."""
        await self._outages.run_sessions(self._session)

    async def _session(self) -> None:
        """Work as long as the connection, and with it the locks, exists."""
        connection = await lock_session.connect(
            self._settings.database_url,
            name="fairlead-lookout-deliveries",
            command_s_max=STATEMENT_S_MAX,
            settings={"enable_seqscan": "off", "plan_cache_mode": "force_custom_plan"},
        )
        locks = PartitionLocks(connection, self._draw, SENDING)
        try:
            await self._work(SendStore(connection), locks)
        finally:
            await self._stop()
            with contextlib.suppress(*CONNECTION_ERRORS, asyncpg.PostgresError):
                await connection.close(timeout=2.0)

    async def _work(self, store: SendStore, locks: PartitionLocks) -> None:
        balanced_s = read_s = -BALANCE_S
        webhooks: Mapping[int, Webhook] = {}
        while True:
            if self._failure is not None:
                raise self._failure
            await self._outages.wait_for_space(self._disk)
            now_s = clock.monotonic_s()
            if now_s - balanced_s >= BALANCE_S:
                balanced_s = now_s
                await locks.balance()
            if now_s - read_s >= WEBHOOKS_S or self._disabled or self._is_outdated:
                read_s = now_s
                self._is_outdated = False
                await self._write(store)
                webhooks = await store.read_webhooks()
            self._update_lanes(webhooks, locks.held)
            await self._write(store)
            await self._fetch(store)
            self._outages.report_progress()
            await self._wait(POLL_S if webhooks else IDLE_S)

    async def _wait(self, wait_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
                await asyncio.sleep(BATCH_S)
        self._woken.clear()

    def _update_lanes(self, webhooks: Mapping[int, Webhook], held: frozenset[int]) -> None:
        """One lane for each webhook of the shards that are held."""
        for number in list(self._lanes):
            lane = self._lanes[number]
            if number not in webhooks or number % SHARDS not in held:
                lane.queue.clear()
                if not lane.running and not lane.unwritten:
                    del self._lanes[number]
        for number, webhook in webhooks.items():
            if number % SHARDS not in held:
                continue
            lane = self._lanes.setdefault(number, _Lane(webhook))
            if webhook.version != lane.webhook.version:
                lane.failing_ms = webhook.failing_ms
                lane.queue.clear()
            lane.webhook = webhook

    async def _fetch(self, store: SendStore) -> None:
        """Fetch what is due for lanes that can send it, and start it."""
        any_order, in_order = [], []
        now_ms = clock.now_ms()
        for number, lane in self._lanes.items():
            wanted = lane.limit * FETCHED - len(lane.queue) - len(lane.running)
            if wanted <= 0:
                continue
            # Deliveries in memory are still pending in the table, and come first.
            due_ms = now_ms if lane.webhook.enabled else 0
            query = DueQuery(number, wanted + len(lane.known), due_ms)
            any_order.append(query)
            if lane.webhook.ordered and lane.webhook.enabled:
                in_order.append(query)
        for row in await store.fetch_due(any_order, in_order):
            lane = self._lanes[row.webhook]
            if row.version != lane.webhook.version:
                self._is_outdated = True
                self.wake()
            elif row.id not in lane.known:
                lane.queue.append(row)
        for lane in self._lanes.values():
            self._start(lane)

    def _start(self, lane: _Lane) -> None:
        while lane.queue and len(lane.running) < lane.limit:
            row = lane.queue.popleft()
            task = asyncio.create_task(self._send(lane, row))
            task.add_done_callback(self._note_failure)
            lane.running[row.id] = task

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        """An error in a task ends the loop."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self.wake()

    async def _send(self, lane: _Lane, row: DueDelivery) -> None:
        webhook = lane.webhook
        sender = self._senders[webhook.kind]
        attempt = await sender.send(webhook, row.message_id, row.body, row.content_type)
        now_ms = clock.now_ms()
        self._note(lane, row, attempt, now_ms)
        del lane.running[row.id]
        lane.unwritten.add(row.id)
        self._start(lane)
        self.wake()

    def _note(self, lane: _Lane, row: DueDelivery, attempt: Attempt, now_ms: int) -> None:
        """Decide what becomes of the delivery and of its webhook."""
        number, is_test = row.webhook, row.type == TEST
        metrics.DELIVERY_ATTEMPTS.labels("success" if attempt.succeeded else "failure").inc()
        metrics.DELIVERY_S.observe(attempt.duration_ms / 1000)
        attempts = row.attempts + 1
        step = decide_next_step(attempt, attempts, now_ms, self._chance(), is_test=is_test)
        self._results.append(
            DeliveryResult(
                id=row.id,
                day=row.day,
                state=step.state,
                attempts=attempts,
                due_ms=step.due_ms,
                attempted_ms=now_ms,
                duration_ms=attempt.duration_ms,
                status=attempt.status,
                error=attempt.error,
            )
        )
        if attempt.succeeded:
            lane.succeeded_ms = now_ms
            if lane.failing_ms is not None or now_ms - lane.written_ms > HEALTH_S * 1000:
                lane.failing_ms = None
                self._changed.add(number)
        elif not is_test:
            if lane.failing_ms is None:
                lane.failing_ms = now_ms
                self._changed.add(number)
            disable_s = self._settings.webhook_disable_s
            reason = explain_disabling(attempt, lane.failing_ms, now_ms, disable_s)
            if reason is not None and lane.webhook.enabled:
                self._disabled[number] = reason
                lane.queue.clear()

    async def _write(self, store: SendStore) -> None:
        """Write the results so far."""
        if not self._results:
            return
        results, changed, disabled = self._results, self._changed, self._disabled
        self._results, self._changed, self._disabled = [], set(), {}
        now_ms = clock.now_ms()
        health = []
        for number in changed & self._lanes.keys():
            lane = self._lanes[number]
            lane.written_ms = lane.succeeded_ms or lane.written_ms
            health.append(WebhookHealth(number, lane.failing_ms, lane.succeeded_ms))
        await store.write_results(results, health, disabled, now_ms)
        written = {result.id for result in results}
        for lane in self._lanes.values():
            lane.unwritten -= written

    async def _stop(self) -> None:
        """End everything that is under way; it is sent again later."""
        tasks = [task for lane in self._lanes.values() for task in lane.running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._lanes.clear()
        self._results, self._changed, self._disabled = [], set(), {}
