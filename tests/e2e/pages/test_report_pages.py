"""The pages of preemptions, fairness and nodes in a real browser."""

import pytest
from playwright.async_api import Browser, expect

from tests.e2e.pages.browser import EVIL, address, browser_page
from tests.e2e.pages.reported_state import fill
from tests.e2e.pages.test_keyboard import check_themes
from tests.e2e.pages.test_scheduling_pages import check_width
from tests.integration.lookout.lookout_harness import running
from tests.integration.lookout.test_preemptions import preempted
from tests.unit.lookout.builders import job_id, submitted

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_preemptions_are_filtered_and_live(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await page.goto(address(harness, "/"))
        await page.get_by_role("link", name="Preemptions").click()
        await expect(page.get_by_text("No run has been preempted.")).to_be_visible()
        await harness.append_events(submitted("winner", "t"), queue="research", job_set="t")
        await harness.append_events(*preempted("a", job_id("winner", "t")))
        row = page.locator("tbody tr")
        await expect(row).to_contain_text("Fair share")
        await expect(row.get_by_role("link", name="winner")).to_be_visible()
        after = await harness.append_events(*preempted("b", None, EVIL), job_set=EVIL)
        await harness.read("/jobs", after)
        await expect(page.locator("tbody tr")).to_have_count(2)
        await page.reload()
        await check_width(page)
        await check_themes(page, axe_script)
        await page.get_by_label("Queue that lost").select_option("research")
        await page.get_by_role("button", name="Show").click()
        await expect(page.locator("main").get_by_text("No preemption matches.")).to_be_visible()
        await page.get_by_role("link", name="Last 24 hours").click()
        await expect(page.get_by_label("From (UTC)")).not_to_have_value("")
        await page.get_by_role("link", name="Show all preemptions").click()
        async with page.expect_download() as download:
            await page.get_by_role("link", name="CSV", exact=True).click()
        lines = (await (await download.value).path()).read_text().splitlines()
        assert len(lines) == 3


async def test_fairness_has_axes_and_a_legend(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await page.goto(address(harness, "/fairness"))
        await expect(page.get_by_text("The scheduler has not reported a share")).to_be_visible()
        await fill(harness)
        await page.goto(address(harness, "/fairness?period=1h"))
        row = page.locator("tr[data-queue=q]")
        await expect(row).to_contain_text("-30.0 %")
        await expect(row).to_contain_text("below")
        await expect(page.locator("tr[data-queue=research]")).to_contain_text("above")
        await expect(page.locator(".chart")).to_have_count(2)
        await check_width(page)
        await check_themes(page, axe_script)
        await page.get_by_label("Queue name contains").fill("rese")
        await page.get_by_role("button", name="Show").click()
        await expect(page.locator(".chart")).to_have_count(1)
        await page.get_by_role("link", name="Last 7 days").click()
        await expect(page.locator("a[aria-current=true]")).to_have_text("Last 7 days")
        await page.goto(address(harness, "/queues/q"))
        await expect(page.locator(".chart .x span")).to_have_count(3)


async def test_a_node_shows_its_jobs_and_its_capacity(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.goto(address(harness, "/clusters/e?q=n0"))
        await page.get_by_role("link", name="n0", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Node n0")
        await expect(page.locator("tbody tr")).to_contain_text("Running")
        await check_width(page)
        await check_themes(page, axe_script)
        await page.goto(address(harness, "/clusters/e/nodes/n5"))
        await expect(page.get_by_text("Cordoned in its cluster")).to_be_visible()
        await page.goto(address(harness, "/clusters/e/nodes/nothing"))
        await expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
