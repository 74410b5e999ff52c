"""Events that a webhook missed while it was disabled, and those at the moment it is created."""

import asyncio
from typing import Any, Final

import asyncpg

from fairlead_common.db import open_pool
from fairlead_common.domain.timestamps import find_day
from fairlead_common.service import clock
from fairlead_lookout.domain.webhooks.webhook_types import Webhook
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.service.webhooks.delivery_maker import DeliveryMaker
from fairlead_lookout.store.webhooks.delivery_store import MISSED_RETAINED_MS, DeliveryStore
from fairlead_lookout.store.webhooks.fan_out_store import FanOutStore
from tests.integration.webhooks.receiver import Received, receiving
from tests.integration.webhooks.webhook_harness import WebhookHarness, delivering
from tests.unit.lookout.builders import job_id, submitted

NOBODY: Final = "http://127.0.0.1:9/"


async def set_enabled(harness: WebhookHarness, url: str, *, enabled: bool) -> Any:
    """The webhook after it was enabled or disabled."""
    body = {"url": url, "filter": {"queue": "q"}, "enabled": enabled}
    answer = await harness.client.put("/api/v1/webhooks/hook", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def submit(harness: WebhookHarness, name: str) -> None:
    """Submit a job, and wait until lookout shows it."""
    await harness.read("/jobs", await harness.append_events(submitted(name)))


def has_job(received: list[Received], name: str) -> bool:
    """Whether the event of this job was received."""
    return job_id(name) in {each.message["data"]["jobId"] for each in received}


async def test_what_a_disabled_webhook_missed_is_offered_until_it_is_replayed(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        made = await harness.create(receiver.url)
        assert made["missed"] is None
        disabled = await set_enabled(harness, receiver.url, enabled=False)
        assert disabled["missed"]["to"] is None
        await submit(harness, "missed")
        enabled = await set_enabled(harness, receiver.url, enabled=True)
        missed = enabled["missed"]
        assert missed["from"] == disabled["missed"]["from"]
        await submit(harness, "later")
        received = await receiver.wait_for(1)
        assert has_job(received, "later")
        assert not has_job(received, "missed")
        part = missed | {"from": disabled["changed"]}
        assert (await harness.post("/webhooks/hook/replay", only="all", **part)).is_success
        assert (await harness.read("/webhooks/hook"))["missed"] == missed
        await receiver.wait_until(lambda received: has_job(received, "missed"))
        async with asyncio.timeout(60):
            while (await harness.read("/webhooks/hook/replays"))["replays"][0]["state"] != "DONE":  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert (await harness.post("/webhooks/hook/replay", only="all", **missed)).is_success
        assert (await harness.read("/webhooks/hook"))["missed"] is None


async def test_a_replay_that_is_requested_while_disabled_has_what_was_missed(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        await harness.create(receiver.url)
        await submit(harness, "before")
        await receiver.wait_for(1)
        since = (await set_enabled(harness, receiver.url, enabled=False))["missed"]["from"]
        await submit(harness, "missed")
        assert (
            await harness.post("/webhooks/hook/replay", only="all", **{"from": since})
        ).is_success
        await set_enabled(harness, receiver.url, enabled=True)
        await receiver.wait_until(lambda received: has_job(received, "missed"))


async def test_an_offer_of_missed_events_ends(fresh_database: str, valkey_url: str) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        await harness.create(NOBODY)
        beginnings = set()
        for enabled in (False, True, False, True):
            webhook = await set_enabled(harness, NOBODY, enabled=enabled)
            beginnings.add(webhook["missed"]["from"])
        assert len(beginnings) == 1, "what was missed before is still missed"
        pool = await open_pool(fresh_database)
        store, now_ms = DeliveryStore(pool), clock.now_ms()
        await store.drop_old_days(find_day(0), now_ms)
        assert (await harness.read("/webhooks/hook"))["missed"] == webhook["missed"]
        await store.drop_old_days(find_day(0), now_ms + MISSED_RETAINED_MS)
        assert (await harness.read("/webhooks/hook"))["missed"] is None
        await pool.close()


class _InterruptedStore(FanOutStore):
    """A store whose user creates a webhook and a job just after the webhooks were read."""

    harness: WebhookHarness

    async def read_webhooks(self) -> list[Webhook]:
        found = await super().read_webhooks()
        if len(found) == 1:
            await self.harness.create(NOBODY, "new")
            await submit(self.harness, "a")
        return found


async def test_a_new_webhook_receives_what_happens_after_it_was_created(
    fresh_database: str, valkey_url: str
) -> None:
    settings = Settings(database_url=fresh_database)
    async with delivering(fresh_database, valkey_url, webhook_delivery=False) as harness:
        await harness.create(NOBODY, "old")
        await submit(harness, "before")
        connection = await asyncpg.connect(fresh_database)
        store = _InterruptedStore(connection)
        store.harness = harness
        maker = DeliveryMaker(store, settings, lambda: None, lambda _: False)
        while await maker.work_once():
            pass
        await connection.close()
        made = await harness.list_deliveries("new")
        assert job_id("a") in {each["jobId"] for each in made}
