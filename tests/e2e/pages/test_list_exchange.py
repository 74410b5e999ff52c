"""Filters, orders and parts of lists are exchanged without a new page: history, focus, updates."""

import re
from typing import Final

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.e2e.pages.browser import address, browser_page
from tests.e2e.pages.reported_state import fill as report
from tests.e2e.pages.test_accessibility import EVERY_VIEW, WINDOWS, find_violations
from tests.e2e.pages.test_jobs_page import OTHERS, fill, rows
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import submitted, succeeded

pytestmark = pytest.mark.asyncio(loop_scope="session")

SAID: Final = "#exchange [data-text]"
"""What the page says about its list."""


async def wait_until(page: Page, condition: str) -> None:
    """Wait in the page: `wait_for_function` needs `eval`, which the policy of pages forbids."""
    await page.evaluate(
        f"""() => new Promise((resolve) => {{
          const look = () => ({condition} ? resolve() : requestAnimationFrame(look));
          look();
        }})"""
    )


async def mark(page: Page) -> None:
    """Mark the document, whose scripts are all there."""
    await wait_until(page, "window.htmx !== undefined")
    await page.evaluate("window.isMarked = true")


async def open_list(harness: LookoutHarness, page: Page, path: str) -> None:
    """Open a page and mark it."""
    await page.goto(address(harness, path))
    await mark(page)


async def is_marked(page: Page) -> bool:
    """Whether the page is still the document that was marked."""
    found: bool = await page.evaluate("window.isMarked === true")
    return found


async def expect_jobs(page: Page, count: int, url: str) -> None:
    """The list has `count` jobs in all, and its address is in the address bar."""
    await expect(page.locator("[data-jobs]")).to_have_text(str(count))
    await expect(page).to_have_url(url)


async def test_what_depends_on_the_address_is_exchanged_with_the_list(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=q&label.team=x")
        await page.locator("a.chip", has_text="team").click()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))
        await expect(page.locator(SAID)).to_have_text("4 jobs match. Jobs, newest first: 4 rows.")
        await expect(page.locator("a.chip")).to_have_count(0)
        csv = page.get_by_role("link", name="CSV")
        await expect(csv).to_have_attribute("href", "/api/v1/jobs/export.csv?queue=q")
        await expect(page.locator("#actions")).to_have_attribute("data-filter", '{"queue":"q"}')
        await expect(page.get_by_label("Select a", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Save view…").click()
        await page.get_by_label("Name", exact=True).fill("of q")
        await page.get_by_role("button", name="Save", exact=True).click()
        view = page.get_by_role("list", name="Saved views").get_by_role("link", name="of q")
        await expect(view).to_have_attribute("href", "/jobs?queue=q")
        await page.get_by_label("Group by").fill("state")
        await page.keyboard.press("Enter")
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q&groupBy=state"))
        await rows(page).filter(has_text="Failed").get_by_role("link", name="Jobs").click()
        await expect_jobs(page, 1, address(harness, "/jobs?queue=q&state=FAILED"))
        await view.click()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))
        assert await is_marked(page)


async def test_back_and_forward_show_the_list_of_the_address(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        everything, mine = (address(harness, path) for path in ("/jobs", "/jobs?queue=q"))
        await page.goto(address(harness, "/queues"))
        await open_list(harness, page, "/jobs")
        await page.get_by_label("Queue", exact=True).select_option("q")
        await page.get_by_role("button", name="Show").click()
        await expect_jobs(page, 4, mine)
        await page.get_by_label("State", exact=True).select_option("FAILED")
        await page.get_by_role("button", name="Show").click()
        await expect_jobs(page, 1, address(harness, "/jobs?queue=q&state=FAILED"))
        await page.go_back()
        await expect_jobs(page, 4, mine)
        await expect(page.get_by_label("State", exact=True)).to_have_value("")
        await page.go_back()
        await expect_jobs(page, 4 + OTHERS, everything)
        await expect(page.get_by_label("Queue", exact=True)).to_have_value("")
        await page.go_forward()
        await expect_jobs(page, 4, mine)
        assert await is_marked(page)

        await page.reload()
        await expect_jobs(page, 4, mine)
        await mark(page)
        await page.go_back()
        await expect_jobs(page, 4 + OTHERS, everything)
        await page.go_forward()
        await expect_jobs(page, 4, mine)
        assert await is_marked(page)

        await rows(page).first.locator("td.title a").click()
        await expect(page.locator("[data-state]")).to_be_visible()
        await page.go_back()
        await expect_jobs(page, 4, mine)
        await page.go_back()
        await expect_jobs(page, 4 + OTHERS, everything)
        await page.go_back()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
        await page.go_forward()
        await expect_jobs(page, 4 + OTHERS, everything)
        await expect(page.locator("header.top")).to_be_visible()


async def test_the_window_is_where_it_was_after_back_and_at_the_list_after_a_link(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=research")
        older = page.get_by_role("link", name="Older")
        await older.scroll_into_view_if_needed()
        before = await page.evaluate("scrollY")
        assert before > 0
        await older.press("Enter")
        await expect(rows(page)).to_have_count(OTHERS - 50)
        await expect(page.locator("#live")).to_be_focused()
        await expect(page.locator("[data-jobs]")).to_be_in_viewport()
        await page.keyboard.press("j")
        await expect(rows(page).first.locator("td.title a")).to_be_focused()
        await page.go_back()
        await expect(rows(page)).to_have_count(50)
        await wait_until(page, f"scrollY === {before}")
        await page.reload()
        await mark(page)
        await wait_until(page, f"scrollY === {before}")
        await page.go_forward()
        await expect(rows(page)).to_have_count(OTHERS - 50)
        await expect(page.locator("[data-jobs]")).to_be_in_viewport()
        assert await is_marked(page)


async def test_the_focus_stays_where_the_keyboard_was(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await report(harness)
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=q")
        name = page.get_by_label("Part of a client id")
        await name.fill("nothing-has-this")
        await page.keyboard.press("Enter")
        await expect(page.locator(SAID)).to_have_text("0 jobs match. No job matches.")
        await expect(name).to_be_focused()
        await expect(name).to_have_value("nothing-has-this")
        await page.get_by_role("link", name="Show all jobs").press("Enter")
        await expect(page.locator("#live")).to_be_focused()
        await page.locator("details.more > summary").press("Enter")
        node = page.get_by_label("Node", exact=True)
        await node.fill("n1")
        await page.keyboard.press("Enter")
        await expect(page.locator("a.chip")).to_have_count(1)
        await expect(node).to_be_focused()
        await page.get_by_label("State", exact=True).select_option("RUNNING")
        await page.get_by_role("button", name="Show").first.press("Enter")
        await expect(page.locator(SAID)).to_have_text("1 job matches. Jobs, newest first: 1 row.")
        await expect(page.get_by_role("button", name="Show").first).to_be_focused()
        await expect(node).to_be_visible()
        await open_list(harness, page, "/jobs?node=n1&class=default&label.team=y")
        chips = page.locator("a.chip")
        await chips.nth(1).press("Enter")
        await expect(chips).to_have_count(2)
        await expect(chips.nth(1)).to_be_focused()
        await chips.nth(1).press("Enter")
        await expect(chips).to_have_count(1)
        await expect(chips).to_be_focused()
        await chips.press("Enter")
        await expect(page.locator("#live")).to_be_focused()
        await open_list(harness, page, "/queues")
        column = page.locator("th a").nth(1)
        await column.press("Enter")
        await expect(page.locator("th[aria-sort] a")).to_be_focused()
        assert await is_marked(page)


async def test_updates_continue_with_the_new_list(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        async with page.expect_response("**/live/jobs"):
            await open_list(harness, page, "/jobs")
        async with (
            page.expect_event("requestfailed", lambda each: each.url.endswith("/live/jobs")),
            page.expect_response("**/live/jobs?queue=q&state=QUEUED"),
        ):
            await page.get_by_label("Queue", exact=True).select_option("q")
            await page.get_by_label("State", exact=True).select_option("QUEUED")
            await page.get_by_role("button", name="Show").click()
        await expect(rows(page)).to_have_count(1)
        await harness.append_events(submitted("new"), *succeeded("a"))
        await expect(rows(page)).to_have_count(1)
        await expect(rows(page)).to_contain_text("new")
        await page.get_by_label("Select new", exact=True).check()
        await expect(page.get_by_text("1 job selected")).to_be_visible()
        await expect(page.get_by_role("button", name="Cancel…")).to_be_enabled()

        await page.locator("h1").click()
        await page.keyboard.press("p")
        await expect(page.locator("#live-mark")).to_have_text("Paused")
        await page.get_by_label("State", exact=True).select_option("")
        async with page.expect_response("**/live/jobs?queue=q"):
            await page.get_by_role("button", name="Show").click()
        await expect(rows(page)).to_have_count(5)
        await expect(page.locator("#live-mark")).to_have_text("Paused")
        await harness.read("/jobs", await harness.append_events(submitted("later")))
        await page.locator("h1").click()
        await page.keyboard.press("p")
        await expect(rows(page)).to_have_count(6)
        assert await is_marked(page)


async def test_a_stream_that_has_not_begun_ends_with_its_list(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async def hold(route: Route) -> None:
        pass

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await page.route(address(harness, "/live/jobs?queue=q&node=n1"), hold)
        await open_list(harness, page, "/jobs?queue=q&node=n1")
        stream = address(harness, "/live/jobs?queue=q&node=n1")
        async with page.expect_event("requestfailed", lambda each: each.url == stream):
            await page.locator("a.chip").click()
        await harness.append_events(submitted("new"))
        await expect(rows(page)).to_have_count(5)
        await expect(page.locator("#live-mark")).to_have_text("Live")
        await page.keyboard.press("p")
        await expect(page.locator("#live-mark")).to_have_text("Paused")
        await harness.read("/jobs", await harness.append_events(submitted("later")))
        await page.keyboard.press("p")
        await expect(rows(page)).to_have_count(6)


async def test_a_new_list_whose_stream_does_not_begin_is_not_live(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async def hold(route: Route) -> None:
        pass

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        async with page.expect_response("**/live/jobs?queue=q&node=n1"):
            await open_list(harness, page, "/jobs?queue=q&node=n1")
        await expect(page.locator("#live-mark")).to_have_text("Live")
        live = address(harness, "/live/jobs?queue=q")
        await page.route(live, hold)
        await page.locator("a.chip").click()
        await expect(page.locator("#live-mark")).to_have_text("Connecting")
        await expect(page.locator(".lost")).to_be_hidden()


async def test_a_stream_of_the_new_list_that_cannot_begin_is_tried_again(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async def refuse(route: Route) -> None:
        await route.fulfill(status=429, json={"detail": "Try again."})

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        async with page.expect_response("**/live/jobs?queue=q&node=n1"):
            await open_list(harness, page, "/jobs?queue=q&node=n1")
        live = address(harness, "/live/jobs?queue=q")
        await page.route(live, refuse)
        await page.locator("a.chip").click()
        await expect_jobs(page, 4, address(harness, "/jobs?queue=q"))
        await expect(page.locator("#live-mark")).to_have_text("Reconnecting")
        await page.unroute(live, refuse)
        await expect(page.locator("#live-mark")).to_have_text("Live")
        await harness.append_events(submitted("new"))
        await expect(rows(page)).to_have_count(5)
        assert await is_marked(page)


async def test_a_second_click_and_history_cancel_the_first_request(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    held: list[Route] = []

    async def hold(route: Route) -> None:
        held.append(route)

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=q&node=n1&class=default")
        first = address(harness, "/jobs?queue=q&class=default")
        await page.route(first, hold)
        async with page.expect_event("requestfailed", lambda each: each.url == first):
            await page.locator("a.chip", has_text="n1").click()
            await expect(page.get_by_text("Loading…")).to_be_visible()
            await page.locator("a.chip", has_text="default").click()
        await expect_jobs(page, 2, address(harness, "/jobs?queue=q&node=n1"))
        await expect(page.get_by_text("Loading…")).to_be_hidden()
        await page.go_back()
        await expect(page.locator("a.chip")).to_have_count(2)
        await page.locator("a.chip", has_text="n1").click()
        await expect(page.get_by_text("Loading…")).to_be_visible()
        await page.go_forward()
        await expect_jobs(page, 2, address(harness, "/jobs?queue=q&node=n1"))
        await expect(page.get_by_text("Loading…")).to_be_hidden()
        assert await is_marked(page)
        await page.go_back()
        await expect(page.locator("a.chip")).to_have_count(2)
        await page.locator("a.chip", has_text="n1").click()
        await expect(page.get_by_text("Loading…")).to_be_visible()
        await rows(page).first.locator("td.title a").click()
        await expect(page.locator("[data-state]")).to_be_visible()
        assert len(held) == 3


@pytest.mark.parametrize(
    ("path", "link", "path_after"),
    [
        ("/queues", "Queue", "/queues?sort=queue"),
        ("/clusters/e", "memory", "/clusters/e?resource=memory"),
        ("/pools/default", "Share", "/pools/default?sort=share"),
        ("/fairness?pool=default", "Last 7 days", "/fairness?pool=default&period=7d"),
        ("/preemptions", "Last 24 hours", "/preemptions?from="),
    ],
)
async def test_other_lists_are_exchanged_as_well(
    fresh_database: str, valkey_url: str, browser: Browser, path: str, link: str, path_after: str
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await report(harness)
        await open_list(harness, page, path)
        await page.locator("main").get_by_role("link", name=link, exact=True).first.click()
        after = re.compile(re.escape(address(harness, path_after)))
        await expect(page).to_have_url(after)
        assert await is_marked(page)


async def test_nodes_are_cordoned_after_their_list_was_exchanged(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await report(harness)
        await open_list(harness, page, "/clusters/e")
        await page.get_by_label("Node name contains").fill("n11")
        await page.keyboard.press("Enter")
        await expect(rows(page)).to_have_count(11)
        await page.get_by_role("button", name="Cordon n117").click()
        await expect(page.get_by_role("heading", name="Cordon n117?")).to_be_visible()
        await page.go_back()
        await expect(page.get_by_role("dialog")).to_be_hidden()
        await expect(page.get_by_label("Node name contains")).to_have_value("")
        assert await is_marked(page)


async def test_an_exchanged_page_violates_no_rule(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async def refuse(route: Route) -> None:
        await route.fulfill(status=503)

    async with running(fresh_database, valkey_url) as harness, browser_page(browser) as page:
        await fill(harness)
        await open_list(harness, page, "/jobs?queue=q&node=n1&label.team=y")
        await page.evaluate(axe_script)
        await page.locator("a.chip", has_text="team").click()
        await expect(rows(page)).to_have_count(2)
        await page.route(address(harness, "/jobs?queue=q"), refuse)
        for fails in (False, True):
            if fails:
                await page.locator("a.chip").click()
                await expect(page.get_by_text("Try again.")).to_be_visible()
            for window, theme in EVERY_VIEW:
                width, height = WINDOWS[window]
                await page.set_viewport_size({"width": width, "height": height})
                await page.emulate_media(
                    color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce"
                )
                assert await find_violations(page) == [], (window, theme, fails)
                assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await is_marked(page)
