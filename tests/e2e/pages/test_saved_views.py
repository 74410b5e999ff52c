"""Saved views in a real browser: saved on the page of jobs, opened and deleted."""

from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, expect

from fairlead_common.domain.records import events
from tests.e2e.pages.browser import EVIL, address, browser_page
from tests.e2e.pages.reported_state import fill
from tests.e2e.pages.test_keyboard import check_themes
from tests.e2e.pages.test_scheduling_pages import check_width
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import job_id, leased, submitted

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_view_is_saved_opened_and_deleted(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        failed = events.JobFailed(
            job_id=job_id("b"), category=events.FailureCategory.OOM, reason="it was killed"
        )
        after = await harness.append_events(submitted("a"), submitted("b"), leased("b"), failed)
        await harness.read("/jobs", after)
        await page.goto(address(harness, "/jobs?queue=q&state=FAILED&q=&label.x=&category=oom"))
        await expect(page.locator("[data-jobs]")).to_have_text("1")
        await page.get_by_role("button", name="Save view…").click()
        await page.get_by_label("Name", exact=True).fill(EVIL)
        await check_width(page)
        await check_themes(page, axe_script)
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_text(f"View {EVIL} was saved.")).to_be_visible()
        await page.goto(address(harness, "/jobs"))
        await expect(page.locator("[data-jobs]")).to_have_text("2")
        await page.get_by_role("list", name="Saved views").get_by_role("link", name=EVIL).click()
        await expect(page.locator("[data-jobs]")).to_have_text("1")
        assert page.url.endswith("/jobs?queue=q&state=FAILED&category=oom")
        await page.get_by_role("button", name="Save view…").click()
        await page.get_by_label("Name", exact=True).fill(EVIL)
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_role("dialog")).to_contain_text("exists already")
        await page.get_by_role("button", name="Back").click()
        await page.get_by_role("link", name="Saved views").click()
        row = page.locator("tbody tr")
        await expect(row).to_contain_text("/jobs?queue=q&state=FAILED&category=oom")
        assert await page.locator("main img").count() == 0
        await check_width(page)
        await check_themes(page, axe_script)
        await row.get_by_role("button", name="Rename").click()
        await page.get_by_label("New name").fill("failed")
        await page.get_by_role("dialog").get_by_role("button", name="Rename").click()
        await expect(page.get_by_text(f"View {EVIL} is now failed.")).to_be_visible()
        await page.reload()
        await expect(row.get_by_role("link")).to_have_text("failed")
        await row.get_by_role("button", name="Delete failed").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(row).to_have_count(0)
        await page.reload()
        await expect(page.get_by_text("No view is saved yet.")).to_be_visible()


async def test_a_view_of_the_last_hours_counts_from_when_it_is_opened(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await harness.read("/jobs", await harness.append_events(submitted("a")))
        await page.goto(address(harness, "/jobs"))
        await page.get_by_role("link", name="Last 24 hours", exact=True).click()
        await expect(page.locator("a.chip")).to_contain_text("Submitted after")
        saved_at = page.url
        await page.get_by_role("button", name="Save view…").click()
        await expect(page.locator("select[name=within]")).to_have_value("24h")
        await page.get_by_label("Name", exact=True).fill("last day")
        await page.get_by_role("button", name="Save", exact=True).click()
        view = page.get_by_role("list", name="Saved views").get_by_role("link", name="last day")
        await expect(view).to_have_attribute("href", "/jobs/filter?submittedWithin=24h")
        await view.click()
        await expect(page.locator("[data-jobs]")).to_have_text("1")
        assert parse_after(page.url) >= parse_after(saved_at)
        await page.goto(address(harness, "/jobs/filter?submittedWithin=soon"))
        await expect(page.get_by_text("'soon' is not a number of hours")).to_be_visible()


async def test_each_page_with_filters_has_its_own_views(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        for path, name in (
            ("/?q=s&queue=q", "sets"),
            ("/clusters/e?resource=memory&q=n11&sort=-use", "nodes"),
            ("/preemptions?queue=q", "preempted"),
            ("/fairness?period=7d&sort=lost", "week"),
            ("/queues?sort=-waiting", "waiting"),
        ):
            await page.goto(address(harness, path + ("&offset=0" if "fair" in path else "")))
            views = page.get_by_role("list", name="Saved views")
            await expect(views.locator("li:not(.scripted) a:not([download])")).to_have_count(0)
            await page.get_by_role("button", name="Save view…").click()
            await page.get_by_label("Name", exact=True).fill(name)
            await page.get_by_role("button", name="Save", exact=True).click()
            await expect(page.get_by_text(f"View {name} was saved.")).to_be_visible()
            await page.goto(address(harness, path.partition("?")[0]))
            await page.get_by_role("link", name=name, exact=True).click()
            await page.wait_for_url(address(harness, path))
        await page.goto(address(harness, "/preemptions"))
        await page.get_by_role("link", name="Last 7 days").click()
        await page.get_by_role("button", name="Save view…").click()
        await check_width(page)
        await check_themes(page, axe_script)
        await expect(page.locator("select[name=within]")).to_have_value("168h")
        await page.get_by_label("Name", exact=True).fill("last week")
        await page.get_by_role("button", name="Save", exact=True).click()
        view = page.get_by_role("list", name="Saved views").get_by_role("link", name="last week")
        await expect(view).to_have_attribute("href", "/preemptions/filter?fromWithin=168h")
        await view.click()
        await page.wait_for_url("**/preemptions?from=20*")
        await page.goto(address(harness, "/saved-views"))
        await expect(page.locator("tbody tr")).to_have_count(6)
        await expect(page.locator("tbody tr", has_text="nodes")).to_contain_text("Nodes")
        await check_width(page)


def parse_after(url: str) -> datetime:
    (after,) = parse_qs(urlsplit(url).query)["submittedAfter"]
    return datetime.fromisoformat(after)
