"""The pages of webhooks in a browser: what they show, a test and a replay, and axe-core."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.pages.browser import address, browser_page
from tests.e2e.pages.test_accessibility import check
from tests.e2e.pages.test_keyboard import check_themes
from tests.e2e.pages.test_scheduling_pages import check_width
from tests.integration.webhooks.receiver import Receiver, receiving
from tests.integration.webhooks.webhook_harness import WebhookHarness, delivering
from tests.unit.lookout.builders import leased, submitted

pytestmark = pytest.mark.asyncio(loop_scope="session")
PATHS: Final = ("/webhooks", "/webhooks/hook", "/webhooks/hook?state=FAILED", "/webhooks/nothing")


class Setting(NamedTuple):
    """A receiver of deliveries, the lookout that sends them, and a page of a browser."""

    receiver: Receiver
    harness: WebhookHarness
    page: Page

    async def open(self, path: str) -> None:
        """Open a page of lookout."""
        await self.page.goto(address(self.harness, path))


@asynccontextmanager
async def watching(
    database: str, valkey_url: str, browser: Browser, **settings: Any
) -> AsyncIterator[Setting]:
    """A lookout with these `settings`, a receiver and a page, which shows nothing yet."""
    async with (
        receiving() as receiver,
        delivering(database, valkey_url, **settings) as harness,
        browser_page(browser) as page,
    ):
        yield Setting(receiver, harness, page)


async def test_a_test_and_a_replay_are_sent_from_the_page(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with watching(fresh_database, valkey_url, browser) as setting:
        receiver, harness, page = setting
        await setting.open("/webhooks")
        await expect(page.get_by_text("You manage no webhook yet.")).to_be_visible()
        await expect(page.locator(".empty").get_by_role("button", name="Copy")).to_be_visible()
        await harness.create(receiver.url)
        await harness.append_events(submitted("a"))
        await harness.wait_for_state("DELIVERED", 1)
        await setting.open("/webhooks")
        await page.get_by_role("link", name="hook", exact=True).click()
        await expect(page.get_by_role("row", name="submitted")).to_contain_text("Delivered")
        await page.get_by_role("button", name="Send a test").click()
        await expect(page.locator("#outcome")).to_contain_text("delivered")
        await page.get_by_role("button", name="Replay delivery").first.click()
        await expect(page.locator("#outcome")).to_contain_text("pending")
        assert len(await receiver.wait_for(3)) == 3


async def test_a_webhook_is_disabled_enabled_rotated_and_deleted_on_its_page(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with watching(fresh_database, valkey_url, browser) as setting:
        receiver, harness, page = setting
        made = await harness.create(receiver.url, headers={"X-Team": "physics"}, ordered=True)
        await setting.open("/webhooks/hook")
        await page.get_by_role("button", name="Disable").click()
        await expect(page.locator("#live")).to_contain_text("are not delivered")
        await check_width(page)
        await check_themes(page, axe_script)
        await harness.read("/jobs", await harness.append_events(submitted("a")))
        await page.get_by_role("button", name="Enable").click()
        await expect(page.get_by_text("Not delivered:")).to_be_visible()
        await check_width(page)
        await check_themes(page, axe_script)
        changed = await harness.read("/webhooks/hook")
        stays = ("kind", "url", "filter", "format", "ordered", "concurrency", "headers", "enabled")
        assert {name: changed[name] for name in stays} == {name: made[name] for name in stays}
        await page.get_by_role("button", name="Deliver what it missed").click()
        await expect(page.locator("#outcome")).to_contain_text("has started")
        await receiver.wait_for(1)
        await expect(page.get_by_text("Not delivered:")).to_be_hidden()

        await page.get_by_role("button", name="Rotate secret").click()
        await page.get_by_label("The present secret stays valid for").select_option("an hour")
        await check_themes(page, axe_script)
        await page.get_by_role("button", name="Rotate", exact=True).click()
        secret = page.get_by_label("Secret", exact=True)
        await expect(secret).to_contain_text("whsec_")
        text = await secret.text_content() or ""
        await check_width(page)
        await check_themes(page, axe_script)
        assert (await harness.post("/webhooks/hook/test")).is_success
        assert receiver.received[-1].verify(text)["type"] == "test"
        assert len((await harness.read("/webhooks/hook"))["secrets"]) == 2
        assert text not in page.url
        await setting.open("/webhooks")
        await page.go_back()
        await expect(page.get_by_role("button", name="Rotate secret")).to_be_visible()
        assert text not in await page.content()

        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("button", name="Back").click()
        assert (await harness.read("/webhooks/hook"))["enabled"]
        await page.get_by_role("button", name="Delete").click()
        await check_themes(page, axe_script)
        await page.locator("#delete-webhook").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("You manage no webhook yet.")).to_be_visible()
        assert (await harness.get("/webhooks/hook")).status_code == 404

        # A page of what was deleted says so, and still shows its last state.
        await harness.create(receiver.url, "other")
        await setting.open("/webhooks/other")
        await expect(page.locator("#live-mark")).to_have_text("Live")
        assert (await harness.client.delete("/api/v1/webhooks/other")).is_success
        await expect(page.locator("#live-mark")).to_have_text("Gone")
        await expect(page.locator("#live")).to_contain_text("No deliveries.")


async def test_a_webhook_is_created_and_its_deliveries_are_live(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with watching(fresh_database, valkey_url, browser) as setting:
        receiver, harness, page = setting
        await harness.read("/jobs", await harness.append_events(submitted("before")))
        await setting.open("/webhooks")
        await page.get_by_label("Name", exact=True).fill("results")
        await page.get_by_label("URL").fill("http://10.0.0.1/private")
        await page.get_by_label("Queue", exact=True).fill("q")
        await page.get_by_label("submitted", exact=True).check()
        await page.get_by_role("button", name="Create").click()
        await expect(page.locator("#webhook-result")).to_contain_text("url")
        await check_width(page)
        await check_themes(page, axe_script)
        await page.get_by_label("URL").fill(receiver.url)
        await page.get_by_role("button", name="Create").click()
        secret = page.get_by_label("Secret", exact=True)
        await expect(secret).to_contain_text("whsec_")
        await check_width(page)
        await page.get_by_role("link", name="Open the webhook").click()
        await expect(page.get_by_text("No deliveries.")).to_be_visible()
        await page.evaluate("window.notReloaded = true")
        await harness.append_events(submitted("a"), leased("a"))
        row = page.locator("#live tbody tr")
        await expect(row).to_have_count(1)
        await expect(row).to_contain_text("Delivered")
        receiver.answer_status(500)
        await page.get_by_role("button", name="Send a test").click()
        await expect(row).to_have_count(2)
        await harness.append_events(submitted("b"))
        failed = row.first
        await expect(failed).to_contain_text("Next attempt")
        await expect(failed.get_by_role("button", name="Replay delivery")).to_be_visible()
        await check_width(page)
        assert await page.evaluate("window.notReloaded")
        found = await harness.read("/webhooks/results")
        assert found["filter"] == {"queue": "q", "types": ["submitted"]}
        assert "secret" not in found


async def test_each_kind_is_created_with_its_own_fields(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    smtp = {"smtp_host": "127.0.0.1", "smtp_from": "fairlead@example.org", "smtp_port": 9}
    async with watching(fresh_database, valkey_url, browser, **smtp) as setting:
        receiver, harness, page = setting
        fields: dict[str, dict[str, str]] = {
            "slack": {"URL": receiver.url, "Text": "{jobSet}: {counts}"},
            "email": {"Recipients": "a@b.org, c@d.org", "Subject": "{summary}"},
            "airflow": {"URL": receiver.url, "DAG": "report", "User": "u", "Password": "p"},
        }
        for kind, values in fields.items():
            await setting.open("/webhooks")
            await page.get_by_label("Kind").select_option(kind)
            await page.get_by_label("Name", exact=True).fill(kind)
            await page.get_by_label("Queue", exact=True).fill("q")
            for label, value in values.items():
                await page.get_by_label(label, exact=True).fill(value)
            await check_width(page)
            await check_themes(page, axe_script)
            await page.get_by_role("button", name="Create").click()
            await expect(page.get_by_text("The webhook is created")).to_be_visible()
            await expect(page.get_by_label("Secret", exact=True)).to_be_hidden()
            await page.get_by_role("link", name="Open the webhook").click()
            await expect(page.get_by_role("heading", name=kind, exact=True)).to_be_visible()
            await check_width(page)
        await setting.open("/webhooks")
        await check_width(page)
        await check_themes(page, axe_script)
        slack = await harness.read("/webhooks/slack")
        assert slack["template"] == {"text": "{jobSet}: {counts}"}
        assert slack["filter"]["types"] == ["failed", "rejected", "finished"]
        assert (await harness.read("/webhooks/email"))["recipients"] == ["a@b.org", "c@d.org"]
        airflow = await harness.read("/webhooks/airflow")
        assert (airflow["airflow"]["dag"], airflow["credentials"]) == ("report", ["password"])


async def test_pages_of_webhooks_have_no_axe_violations(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        await harness.create(receiver.url)
        receiver.answer_status(500)
        await harness.append_events(submitted("a"), submitted("b"))
        await receiver.wait_for(1)
        await harness.post("/webhooks/hook/test")
        assert await check(browser, harness, axe_script, PATHS) == {}
