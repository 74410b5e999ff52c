"""Every page at the width of a phone, and with scripts turned off."""

from typing import Final

import pytest
from playwright.async_api import Browser, Page, expect

from fairlead_common.domain.ids import GroupId, JobId, array_id
from fairlead_common.domain.records import clusters, events
from fairlead_lookout.http.pages.navigation import PAGES
from tests.e2e.pages.browser import address, browser_page, find_wide_tables
from tests.e2e.pages.log_server import log_server
from tests.e2e.pages.reported_state import fill
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import job_id, submitted

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG_NAME: Final = "averylongnameofajobset" * 10
"""No browser breaks it by itself."""
PHONE: Final = {"width": 390, "height": 844}
TEXTS: Final = {
    "/": LONG_NAME,
    "/jobsets/q/s": "Groups",
    f"/jobsets/q/{LONG_NAME}": LONG_NAME,
    "/jobs": "11 jobs",  # 7 of them wait in an array
    "/jobs?groupBy=queue,state": "Jobs",
    f"/jobs/{job_id('a')}": "Running",
    f"/jobs/{job_id('b')}": "Queued",
    f"/jobs/{job_id('long', LONG_NAME)}": LONG_NAME,
    f"/jobs/{job_id('a')}/log": "first line",
    "/queues": "research",
    "/queues/q": "It is at its limit.",
    "/clusters": "simulated",
    "/clusters/e": "n119",
    "/clusters/e/nodes/n0": "n0",
    "/pools": "gpu",
    "/pools/default": "It is at its limit.",
    f"/groups/{job_id('fit')}": "trainer-0",
    f"/arrays/{array_id(job_id('scan'))}": "7 tasks are not released",
    f"/arrays/{array_id(job_id('scan'))}?state=QUEUED": "not released",
    "/preemptions": "Preemptions",
    "/fairness": "Fairness",
    "/saved-views": "No view is saved yet.",
    "/tokens": "fairlead token create",
    "/webhooks": "fairlead webhook create",
    "/about": "Executor e",
    "/find?q=s": "Job set",
}
"""What each page shows, whether scripts run or not."""


async def open_everything(harness: LookoutHarness, executor: str) -> None:
    """An installation in which every page has something to show."""
    await fill(harness)
    beat = clusters.Heartbeat(executor="e", backend="simulated", address=executor)
    await harness.append([clusters.heartbeat_record(beat)])
    long = await harness.append_events(submitted("long", LONG_NAME), job_set=LONG_NAME)
    await harness.read("/jobs", long)
    terms = events.Group(roles=(events.GroupRole("trainer", 1, 1),))
    group = GroupId(job_id("fit"))
    after = await harness.append_events(
        events.GroupSubmitted(group=group, terms=terms, digest="d", client_id="fit"),
        submitted("fit/trainer-0", group=events.GroupMember(group, "trainer", 0)),
    )
    await harness.read(f"/groups/{group}", after)
    array = array_id(job_id("scan"))
    template = submitted("scan", job_id=JobId(array))
    after = await harness.append_events(
        events.ArraySubmitted(array=array, template=template, count=7, indexes="0-6"),
    )
    await harness.read(f"/arrays/{array}", after)


async def find_links_outside(page: Page) -> list[str]:
    """The links of header and footer that are not within the window's width."""
    found: list[str] = await page.evaluate(
        """() => [...document.querySelectorAll("header.top a, footer a, footer button")]
        .filter((link) => !link.hidden)
        .filter((link) => {
          const box = link.getBoundingClientRect();
          return box.width === 0 || box.left < 0 || box.right > innerWidth || box.height < 24;
        })
        .map((link) => link.textContent.trim())"""
    )
    return found


async def test_every_page_fits_a_phone(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        log_server("key") as executor,
        browser_page(browser) as page,
    ):
        executor.text = "first line\n" + "x" * 2_000
        await open_everything(harness, executor.address)
        await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        wrong: dict[str, object] = {}
        for path in TEXTS:
            await page.goto(address(harness, path))
            width = await page.evaluate("document.documentElement.scrollWidth")
            outside = await find_links_outside(page)
            tables = await find_wide_tables(page)
            if width > PHONE["width"] or outside or tables:
                wrong[path] = width, outside, tables
        assert wrong == {}
        await page.goto(address(harness, "/queues/q"))
        await expect(page.get_by_text("It is at its limit.")).to_be_visible()


async def test_tables_with_long_names_fit_a_window(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    """One long name must not push the columns of all other rows out of sight."""
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        after = await harness.append_events(submitted("long", LONG_NAME), job_set=LONG_NAME)
        await harness.read("/jobs", after)
        wrong: dict[str, object] = {}
        for path in ("/", "/jobs", "/jobs?groupBy=jobSet", f"/jobsets/q/{LONG_NAME}"):
            await page.goto(address(harness, path))
            await expect(page.locator("main")).to_contain_text(LONG_NAME)
            if tables := await find_wide_tables(page):
                wrong[path] = tables
        assert wrong == {}


async def test_every_page_is_reached_on_a_phone(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        await page.goto(address(harness, "/about"))
        for entry in PAGES:
            link = page.locator(f'[data-key="{entry.key}"]')
            if entry.section == "find":
                await link.click()
                await expect(page.get_by_role("dialog", name="Find")).to_be_visible()
                continue
            await link.click()
            await page.wait_for_url(address(harness, entry.address))
            await expect(page.locator("[aria-current=page]")).to_have_text(entry.title)


async def test_every_page_is_read_without_scripts(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        log_server("key") as executor,
        browser_page(browser, scripts=False) as page,
    ):
        executor.text = "first line\n"
        await open_everything(harness, executor.address)
        wrong: dict[str, str] = {}
        for path, text in TEXTS.items():
            await page.goto(address(harness, path))
            page_text = await page.locator("body").inner_text()
            if text not in page_text or "\u2026" in await page.locator("main").inner_text():
                wrong[path] = page_text
            needs_scripts = page.locator(".scripted:visible, form[hidden]:visible")
            assert await needs_scripts.all_inner_texts() == [], path
        assert wrong == {}
        await page.goto(address(harness, f"/jobs/{job_id('a')}"))
        await page.get_by_role("link", name="Show the log").click()
        await expect(page.get_by_text("first line")).to_be_visible()
