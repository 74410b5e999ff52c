"""Keys, the list of keys and the command palette, in a real browser."""

import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.pages.browser import EVIL, address, browser_page
from tests.e2e.pages.reported_state import fill
from tests.e2e.pages.test_accessibility import find_violations
from tests.e2e.pages.test_scheduling_pages import check_width
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import job_id, submitted

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def check_themes(page: Page, axe_script: str) -> None:
    """No violation of axe's rules in either theme."""
    await page.evaluate(axe_script)
    for scheme in ("light", "dark"):
        await page.emulate_media(
            color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce"
        )
        assert await find_violations(page) == []


async def test_keys_move_filter_and_open_pages(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.goto(address(harness, "/jobs"))
        await expect(page.locator("tbody tr")).to_have_count(2)
        links = page.locator("tbody tr td.title a")
        await page.keyboard.press("j")
        await expect(links.nth(0)).to_be_focused()
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await expect(links.nth(1)).to_be_focused()
        await page.keyboard.press("k")
        await expect(links.nth(0)).to_be_focused()
        await page.keyboard.press("/")
        await expect(page.get_by_label("Part of a client id")).to_be_focused()
        await page.keyboard.type("gq?j")  # a field takes the keys as text
        await expect(page.get_by_label("Part of a client id")).to_have_value("gq?j")
        await page.get_by_role("heading", name="Jobs").click()
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        await check_width(page)
        await check_themes(page, axe_script)
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()
        await page.keyboard.press("g")
        await page.keyboard.press("q")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Queues")


async def test_single_keys_can_be_turned_off(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await page.goto(address(harness, "/queues"))
        await page.get_by_role("button", name="Keyboard").click()
        await page.get_by_label("Use keys without Ctrl").uncheck()
        await page.get_by_role("button", name="Close").click()
        await page.reload()
        await page.keyboard.press("?")
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("dialog", name="Find")).to_be_visible()
        await expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()


async def test_the_palette_finds_pages_queues_job_sets_and_jobs(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await harness.read(
            "/jobs", await harness.append_events(submitted("x", "nightly"), job_set=EVIL)
        )
        await page.goto(address(harness, "/pools"))
        await page.keyboard.press("Control+k")
        palette = page.get_by_role("dialog", name="Find")
        await expect(palette.get_by_role("link")).to_have_count(11)
        await page.keyboard.type("img")
        await expect(palette.get_by_role("link")).to_have_count(1)
        await expect(palette.get_by_role("link")).to_contain_text(EVIL)
        await check_width(page)
        await check_themes(page, axe_script)
        await palette.get_by_role("searchbox").fill(job_id("a"))
        await page.keyboard.press("Enter")
        await expect(page.locator("[data-state]")).to_have_text("Running")
        await page.keyboard.press("Control+k")
        await palette.get_by_role("searchbox").fill("q")
        await expect(palette.get_by_role("link", name="Queue q")).to_be_visible()
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowDown")
        await expect(palette.get_by_role("link", name="Queue q")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Queue q")


async def test_jobs_are_found_without_scripts(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser, scripts=False) as page,
    ):
        await fill(harness)
        await page.goto(address(harness, "/"))
        await page.get_by_role("link", name="Find").click()
        await page.get_by_label("Name or id").fill(job_id("b"))
        await page.get_by_role("button", name="Find").click()
        await page.locator("main").get_by_role("link", name="Job", exact=False).click()
        await expect(page.locator("[data-state]")).to_have_text("Queued")
