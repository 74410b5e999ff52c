"""What is not exchanged as a list within its page: errors, other versions, other pages."""

import re

import pytest
from playwright.async_api import Browser, Route, expect

from fairlead_common.db import open_pool
from fairlead_common.log.memory_log import MemoryCore
from fairlead_submit.store import schema
from tests.e2e.pages.browser import address, browser_page
from tests.e2e.pages.test_jobs_page import fill
from tests.e2e.pages.test_list_exchange import expect_jobs, is_marked, open_list
from tests.integration.lookout.lookout_harness import running

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_list_that_cannot_be_loaded_leaves_the_one_before(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    statuses = iter((503, 429, 0))

    async def refuse(route: Route) -> None:
        status = next(statuses)
        await (route.fulfill(status=status) if status else route.abort())

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=q&node=n1")
        before = page.url
        await page.route(address(harness, "/jobs?queue=q"), refuse)
        for reason in ("status 503. Try again.", "status 429. Try again.", "cannot be reached."):
            await page.locator("a.chip").click()
            await expect(page.get_by_text(reason)).to_be_visible()
            await expect(page.locator("#main")).to_have_attribute("aria-busy", "false")
            await expect_jobs(page, 2, before)
        whole = page.get_by_role("link", name="Open it as a new page")
        await expect(whole).to_have_attribute("href", address(harness, "/jobs?queue=q"))
        await page.get_by_role("button", name="Close").click()
        await expect(whole).to_be_hidden()
        await page.unroute(address(harness, "/jobs?queue=q"), refuse)
        await page.locator("a.chip").click()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))
        assert await is_marked(page)


async def test_going_back_to_a_list_that_cannot_be_exchanged_loads_its_page(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async def refuse(route: Route) -> None:
        if route.request.is_navigation_request():
            await route.continue_()
        else:
            await route.abort()

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=q&node=n1")
        await page.locator("a.chip").click()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))
        await page.route(address(harness, "/jobs?queue=q&node=n1"), refuse)
        await page.go_back()
        await expect_jobs(page, 2, address(harness, "/jobs?queue=q&node=n1"))
        assert not await is_marked(page)


async def test_a_filter_after_the_end_of_the_session_leads_to_the_page_to_sign_in(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    core = MemoryCore()
    async with browser_page(browser, expected="htmx:") as page:
        async with running(fresh_database, valkey_url, core) as harness:
            await fill(harness)
            await open_list(harness, page, "/jobs?queue=q&node=n1")
            port = harness.client.base_url.port
        pool = await open_pool(fresh_database)
        await schema.migrate(pool)
        await pool.close()
        async with running(fresh_database, valkey_url, core, http_port=port, anonymous=False):
            await page.locator("a.chip").click()
            await expect(page.get_by_label("API token")).to_be_visible()
            await expect(page).to_have_url(re.compile(r"/jobs\?queue=q$"))


async def test_a_filter_that_is_refused_has_its_error_page(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=q")
        await page.get_by_label("Group by").fill("colour")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("'colour' is not a group")).to_be_visible()
        await page.go_back()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))


@pytest.mark.parametrize("part", ["/static/fairlead.css?v=", "/static/htmx.js?v="])
async def test_a_list_of_another_version_is_a_new_page(
    fresh_database: str, valkey_url: str, browser: Browser, part: str
) -> None:
    """The server was upgraded while the page was open: its scripts do not know the new list."""

    async def upgrade(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=(await answer.text()).replace(part, part + "1"))

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=q&node=n1")
        await page.route(address(harness, "/jobs?queue=q"), upgrade)
        await page.locator("a.chip").click()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))
        assert not await is_marked(page)


async def test_a_click_before_the_scripts_are_there_opens_the_page(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async def refuse(route: Route) -> None:
        await route.abort()

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.route("**/htmx.js*", refuse)
        await page.goto(address(harness, "/jobs?queue=q&node=n1"))
        await page.locator("a.chip").click()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))
        await page.go_back()
        await expect_jobs(page, 2, address(harness, "/jobs?queue=q&node=n1"))


async def test_links_that_are_no_list_are_left_to_the_browser(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=q&node=n1")
        async with page.expect_download():
            await page.get_by_role("link", name="CSV").click()
        async with page.context.expect_page() as opened:
            await page.locator("a.chip").click(modifiers=["Control"])
        other = await opened.value
        await expect(other).to_have_url(address(harness, "/jobs?queue=q"))
        await other.close()
        await page.locator("a.chip").click()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))
        await page.keyboard.press("Home")
        await page.locator("a.skip").press("Enter")
        await expect(page).to_have_url(address(harness, "/jobs?queue=q#main"))
        await page.go_back()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))
        await page.go_back()
        await expect_jobs(page, 2, address(harness, "/jobs?queue=q&node=n1"))
        assert await is_marked(page)
