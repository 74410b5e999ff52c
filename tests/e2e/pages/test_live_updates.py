"""Live pages: the mark that says so, a pause, and rows that stay under the pointer."""

import asyncio
from typing import Final

import pytest
from playwright.async_api import Browser, Locator, Page, Route, expect

from fairlead_common.db import open_pool
from fairlead_common.domain.records import configuration
from fairlead_common.log.memory_log import MemoryCore
from fairlead_submit.store import schema
from tests.e2e.pages.browser import address, browser_page
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import job_id, leased, submitted
from tests.unit.lookout.builders import running as started

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROMISE_OF_A_MESSAGE: Final = """void (window.message = new Promise((resolve) => {
  addEventListener("htmx:sse:before:message", (event) => resolve(event.defaultPrevented));
}))"""
"""Whether the next message is not shown."""


PLACES_IN_HEADER: Final = """[...document.querySelectorAll("header.top *")]
  .filter((each) => !each.closest("#live-mark > *"))
  .map((each) => { const box = each.getBoundingClientRect(); return [box.x, box.y, box.width]; })
"""


async def submit(harness: LookoutHarness, *names: str) -> None:
    await harness.read("/jobs", await harness.append_events(*map(submitted, names)))


def mark(page: Page) -> Locator:
    return page.locator("#live-mark")


async def open_live_page(harness: LookoutHarness, page: Page) -> int:
    """Open the live page of one job, and wait for its mark. Returns the port of the server."""
    await submit(harness, "a")
    await page.goto(address(harness, "/jobs"))
    await expect(mark(page)).to_have_text("Live")
    port = harness.client.base_url.port
    assert port is not None
    return port


async def test_the_mark_says_when_the_server_is_away_and_back(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    core = MemoryCore()
    async with browser_page(browser, expected="htmx:") as page:
        async with running(fresh_database, valkey_url, core) as harness:
            await page.goto(address(harness, "/tokens"))
            await expect(mark(page)).to_be_hidden()
            port = await open_live_page(harness, page)
        await expect(mark(page)).to_have_text("Reconnecting")
        await expect(page.get_by_text("The numbers can be out of date.")).to_be_visible()
        async with running(fresh_database, valkey_url, core, http_port=port) as harness:
            await submit(harness, "b")
            await expect(mark(page)).to_have_text("Live")
            await expect(page.locator("tbody tr")).to_have_count(2)
            await expect(page.get_by_text("The numbers can be out of date.")).to_be_hidden()


async def test_updates_are_paused_and_continued(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await submit(harness, "a")
        await page.goto(address(harness, "/jobs"))
        await mark(page).click()
        await expect(mark(page)).to_have_text("Paused")
        await page.evaluate(PROMISE_OF_A_MESSAGE)
        await submit(harness, "b")
        assert await page.evaluate("window.message")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.keyboard.press("p")
        await expect(mark(page)).to_have_text("Live")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await submit(harness, "c")
        await expect(page.locator("tbody tr")).to_have_count(3)


async def test_a_row_stays_under_the_pointer_while_others_come(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await submit(harness, "a", "b")
        await page.goto(address(harness, "/jobs"))
        row = page.locator("tbody tr", has_text="a").last
        await row.hover()
        before = await row.bounding_box()
        await submit(harness, *(f"new-{number}" for number in range(10)))
        await expect(page.locator("tbody tr")).to_have_count(12)
        after = await row.bounding_box()
        assert before is not None
        assert after is not None
        assert abs(after["y"] - before["y"]) < 2


async def test_a_focused_job_set_stays_focused_when_another_appears(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await submit(harness, "a")
        await page.goto(address(harness, "/"))
        await page.keyboard.press("j")
        await expect(page.get_by_role("link", name="s", exact=True)).to_be_focused()
        after = await harness.append_events(submitted("b", "newer"), job_set="newer")
        await harness.read("/jobs", after)
        await expect(page.locator("tbody tr").first).to_contain_text("newer")
        await expect(page.get_by_role("link", name="s", exact=True)).to_be_focused()


async def test_what_was_opened_stays_open(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await submit(harness, "a")
        await page.goto(address(harness, f"/jobs/{job_id('a')}"))
        await page.get_by_text("Events (1)").click()
        await expect(page.get_by_role("cell", name="Submitted")).to_be_visible()
        await harness.append_events(leased("a"), started("a"))
        await expect(page.get_by_text("Events (3)")).to_be_visible()
        await expect(page.get_by_role("cell", name="Leased on node n0")).to_be_visible()


async def test_a_page_whose_session_has_ended_says_so(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    core = MemoryCore()
    async with browser_page(browser, expected="htmx:") as page:
        async with running(fresh_database, valkey_url, core) as harness:
            port = await open_live_page(harness, page)
        pool = await open_pool(fresh_database)
        await schema.migrate(pool)
        await pool.close()
        async with running(fresh_database, valkey_url, core, http_port=port, anonymous=False):
            await expect(mark(page)).to_have_text("Signed out")
            await page.get_by_role("link", name="Sign in again").click()
            await expect(page.get_by_label("API token")).to_be_visible()


async def test_a_page_says_that_what_it_shows_was_deleted(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    """A queue disappears with its configuration; a page of it is open."""
    async with (
        running(fresh_database, valkey_url) as harness,
        browser_page(browser, expected="htmx:") as page,
    ):
        queue = configuration.Queue(name="gone")
        await harness.append([configuration.record(queue)])
        await page.goto(address(harness, "/queues/gone"))
        await expect(mark(page)).to_have_text("Live")
        deleted = configuration.Queue(name="gone", version=2, deleted=True)
        await harness.append([configuration.record(deleted)])
        await expect(mark(page)).to_have_text("Gone")
        await expect(page.get_by_text("What this page shows was deleted")).to_be_visible()
        await expect(page.get_by_role("heading", name="Queue gone")).to_be_visible()
        await expect(page.get_by_text("reconnecting")).to_be_hidden()


@pytest.mark.parametrize(
    ("part", "status"), [("**/live/**", 429), ("**/live/**", 503), ("**/htmx.js*", 503)]
)
async def test_a_page_whose_stream_cannot_begin_says_so_and_tries_again(
    fresh_database: str, valkey_url: str, browser: Browser, part: str, status: int
) -> None:
    """For example as the server is restarted, or the user has too many open pages."""
    is_available = asyncio.Event()

    async def refuse(route: Route) -> None:
        if is_available.is_set():
            await route.continue_()
        else:
            await route.fulfill(status=status, json={"detail": "Try again."})

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await page.route(part, refuse)
        await submit(harness, "a")
        await page.goto(address(harness, "/jobs"))
        await expect(mark(page)).to_have_text("Reconnecting")
        await expect(page.get_by_text("The numbers can be out of date.")).to_be_visible()
        is_available.set()
        await expect(mark(page)).to_have_text("Live")
        await submit(harness, "b")
        await expect(page.locator("tbody tr")).to_have_count(2)


@pytest.mark.parametrize("part", ["**/live/jobs", "**/htmx.js*"])
async def test_a_page_says_live_only_when_its_stream_is_open(
    fresh_database: str, valkey_url: str, browser: Browser, part: str
) -> None:
    may_begin = asyncio.Event()

    async def wait(route: Route) -> None:
        await may_begin.wait()
        await route.continue_()

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await submit(harness, "a")
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.route(part, wait)
        async with page.expect_request(part):
            await page.goto(address(harness, "/jobs"), wait_until="commit")
        await expect(page.get_by_role("button", name="Connecting", exact=True)).to_be_visible()
        await expect(page.locator(".lost")).to_be_hidden()
        places = await page.evaluate(PLACES_IN_HEADER)
        may_begin.set()
        await expect(page.get_by_role("button", name="Live", exact=True)).to_be_visible()
        assert await page.evaluate(PLACES_IN_HEADER) == places
        await mark(page).click()
        await expect(page.get_by_role("button", name="Paused", exact=True)).to_be_visible()
        assert await page.evaluate(PLACES_IN_HEADER) == places


async def test_a_log_that_was_read_does_not_say_that_the_stream_is_open(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    """A page of a job has both."""
    may_begin = asyncio.Event()

    async def wait(route: Route) -> None:
        await may_begin.wait()
        await route.continue_()

    path = f"/jobs/{job_id('a')}"
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        after = await harness.append_events(submitted("a"), leased("a"), started("a"))
        await harness.read("/jobs", after)
        await page.route(f"**/live{path}", wait)
        async with page.expect_response(f"**/live{path}/log*"):
            await page.goto(address(harness, path))
        async with page.expect_response(f"**/live{path}/log*"):
            await expect(mark(page)).to_have_text("Connecting")
        await expect(mark(page)).to_have_text("Connecting")
        may_begin.set()
        await expect(mark(page)).to_have_text("Live")


async def test_a_page_that_hears_nothing_connects_again(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    """A server that hangs ends no connection; here the page's clock goes forward instead."""
    held: list[Route] = []

    async def hold(route: Route) -> None:
        held.append(route)

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await page.clock.install()
        await open_live_page(harness, page)
        await submit(harness, "b")
        await expect(page.locator("tbody tr")).to_have_count(2)  # so the stream has begun
        await page.route("**/live/**", hold)
        await page.clock.fast_forward(60_000)
        await expect(mark(page)).to_have_text("Reconnecting")
        async with page.expect_response("**/live/jobs"):
            await page.unroute("**/live/**", hold)
            for route in held:
                await route.continue_()
        await expect(mark(page)).to_have_text("Live")
