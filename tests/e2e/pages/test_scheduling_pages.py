"""The pages of queues, clusters and pools, and the picture of a job's runs, in a real browser."""

from typing import Final

import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.pages.browser import address, browser_page, find_wide_tables
from tests.e2e.pages.reported_state import NODES, fill
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import failed_run, job_id, leased, requeued, submitted
from tests.unit.lookout.builders import running as started

pytestmark = pytest.mark.asyncio(loop_scope="session")

PHONE: Final = {"width": 390, "height": 844}


async def check_width(page: Page) -> None:
    """Nothing is wider than the window of a phone, and no table than its sheet."""
    before = page.viewport_size
    assert before is not None
    await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    width = await page.evaluate("document.documentElement.scrollWidth")
    tables = await find_wide_tables(page)
    await page.set_viewport_size(before)
    assert width <= PHONE["width"]
    assert tables == []


async def check_cells(page: Page) -> None:
    """A cell is easy to see and to point at, also on a phone."""
    before = page.viewport_size
    assert before is not None
    for size in (PHONE, before):
        await page.set_viewport_size(size)  # type: ignore[arg-type]
        box = await page.locator(".map .cells .cell").first.bounding_box()
        assert box is not None
        assert 16 <= box["width"] <= 32
        assert abs(box["width"] - box["height"]) < 1


async def test_from_the_queues_over_a_pool_to_its_rounds(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        await fill(harness)
        await page.goto(address(harness, "/"))
        await page.get_by_role("link", name="Queues", exact=True).click()
        row = page.locator("tr[data-queue=q]")
        await expect(row).to_contain_text("20.0 %")
        await expect(row).to_contain_text("queue limit")
        await check_width(page)
        share = page.get_by_role("columnheader", name="Share", exact=True)
        await expect(share).to_have_attribute("aria-sort", "descending")
        await expect(page.locator("tbody tr").first).to_contain_text("research")
        await page.get_by_role("link", name="Waiting").click()
        await page.wait_for_url("**/queues?sort=-waiting")
        await expect(page.locator("tbody tr").first).to_contain_text("queue limit")
        waiting = page.get_by_role("columnheader", name="Waiting")
        await expect(waiting).to_have_attribute("aria-sort", "descending")
        async with page.expect_download() as download:
            await page.get_by_role("link", name="CSV", exact=True).click()
        lines = (await (await download.value).path()).read_text().splitlines()
        assert [line.partition(",")[0] for line in lines] == ["queue", "q", "research"]
        await row.get_by_role("link", name="default").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Pool default")
        await expect(page.locator(".rounds rect")).to_have_count(8)
        await expect(page.get_by_text("failed")).to_be_visible()
        await expect(page.get_by_text("It is at its limit.")).to_be_visible()
        await check_width(page)
        await page.get_by_role("link", name="Pools").first.click()
        await expect(page.locator("tr[data-pool]")).to_have_count(2)
        await expect(page.locator("tr[data-pool=gpu]")).to_contain_text("No round yet.")
        await check_width(page)


async def test_from_the_clusters_to_a_node_and_its_jobs(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        await fill(harness)
        await page.goto(address(harness, "/clusters"))
        await expect(page.locator("tr[data-cluster=e]")).to_contain_text("960")
        await check_width(page)
        await page.get_by_role("link", name="e", exact=True).click()
        await expect(page.locator(".map .cells .cell")).to_have_count(NODES)
        await expect(page.locator(".map .cells .closed")).to_have_count(1)
        await check_cells(page)
        await check_width(page)
        await page.get_by_label("Node name contains").fill("n0")
        await page.get_by_role("button", name="Show").click()
        await expect(page.locator("tr[data-node]")).to_have_count(1)
        await page.get_by_role("link", name=job_id("a")).click()
        await expect(page.locator("[data-state]")).to_have_text("Running")
        await page.go_back()
        await page.locator("tr[data-node]").get_by_role("link", name="1", exact=True).click()
        await expect(page.locator("[data-jobs]")).to_have_text("1")
        await page.goto(address(harness, "/clusters/e?q=nothing"))
        await page.get_by_role("link", name=f"Show all {NODES} nodes").click()
        await page.get_by_role("link", name="memory").click()
        label = f"Use of memory on {NODES} nodes; the table below has the numbers"
        await expect(page.locator(".map .cells")).to_have_attribute("aria-label", label)
        await page.goto(address(harness, "/clusters/nowhere"))
        await expect(page.get_by_role("heading", level=1)).to_have_text("Not found")


async def test_the_clusters_page_is_live(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        await page.goto(address(harness, "/clusters"))
        await expect(page.get_by_text("No executor has reported yet.")).to_be_visible()
        await fill(harness)
        await expect(page.locator("tr[data-cluster=e]")).to_contain_text("simulated")


async def test_a_job_page_draws_its_runs(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser) as page,
    ):
        first = [submitted("a"), leased("a"), started("a"), failed_run("a"), requeued("a")]
        again = [leased("a", run=2), started("a", run=2)]
        await harness.read("/jobsets/q/s", await harness.append_events(*first, *again))
        await page.goto(address(harness, f"/jobs/{job_id('a')}"))
        await expect(page.locator(".timeline svg")).to_have_count(2)
        await check_width(page)
