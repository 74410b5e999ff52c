"""The pages of webhooks in a browser: what they show, a test and a replay, and axe-core."""

from typing import Final

import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.pages.browser import address, browser_page
from tests.e2e.pages.test_accessibility import check
from tests.integration.webhooks.receiver import receiving
from tests.integration.webhooks.webhook_harness import WebhookHarness, delivering
from tests.unit.lookout.builders import submitted

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATHS: Final = ("/webhooks", "/webhooks/hook", "/webhooks/hook?state=FAILED", "/webhooks/nothing")


async def open_page(page: Page, harness: WebhookHarness, path: str) -> None:
    await page.goto(address(harness, path))


async def test_a_test_and_a_replay_are_sent_from_the_page(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        receiving() as receiver,
        delivering(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        await open_page(page, harness, "/webhooks")
        await expect(page.get_by_text("You manage no webhook yet.")).to_be_visible()
        await harness.create(receiver.url)
        await harness.append_events(submitted("a"))
        await harness.wait_for_state("DELIVERED", 1)
        await open_page(page, harness, "/webhooks")
        await page.get_by_role("link", name="hook", exact=True).click()
        await expect(page.get_by_role("row", name="submitted")).to_contain_text("Delivered")
        await page.get_by_role("button", name="Send a test").click()
        await expect(page.locator("#outcome")).to_contain_text("delivered")
        await page.get_by_role("button", name="Replay delivery").first.click()
        await expect(page.locator("#outcome")).to_contain_text("pending")
        assert len(await receiver.wait_for(3)) == 3


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
