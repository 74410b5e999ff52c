"""The page about the installation in a real browser."""

import pytest
from playwright.async_api import Browser, expect

from fairlead_common.domain.records import clusters
from fairlead_common.service.health import VERSION
from tests.e2e.pages.browser import address, browser_page
from tests.e2e.pages.reported_state import fill
from tests.e2e.pages.test_keyboard import check_themes
from tests.e2e.pages.test_scheduling_pages import check_width
from tests.integration.lookout.lookout_harness import running

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_page_lists_parts_views_and_versions(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.goto(address(harness, "/"))
        await page.get_by_role("link", name="About").click()
        scheduler = page.locator("tr[data-part=Scheduler]")
        await expect(scheduler).to_contain_text("Stale")
        await expect(page.get_by_text("1 of 5 parts need attention")).to_be_visible()
        await check_width(page)
        await check_themes(page, axe_script)
        await page.set_viewport_size({"width": 390, "height": 844})
        await check_themes(page, axe_script)
        leader = clusters.LeaderHeartbeat(instance="one", version="0.0.1")
        await harness.append([clusters.leader_heartbeat_record(leader)])
        await expect(scheduler).to_contain_text("Ok")
        await expect(scheduler).to_contain_text("0.0.1")
        await expect(scheduler).to_contain_text("other than lookout")
        view = page.locator('tr[data-part="Lookout view"]')
        await expect(view).to_contain_text(VERSION)
        await expect(page.get_by_text("All parts are well")).to_be_visible()
        await expect(page.locator("tr[data-view=Jobs]")).to_contain_text("0")
