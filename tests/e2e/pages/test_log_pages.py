"""Logs on the page of a job and on their own page, in a real browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, expect

from fairlead_common.domain.records import clusters
from tests.e2e.pages.browser import EVIL, address, browser_page
from tests.e2e.pages.log_server import LogServer, log_server
from tests.e2e.pages.test_keyboard import check_themes
from tests.e2e.pages.test_scheduling_pages import check_width
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import job_id, leased, submitted
from tests.unit.lookout.builders import running as started

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLOURED = (
    "building\n"
    f"\x1b[1;31mError:\x1b[0m {EVIL}\n"
    "\x1b[30;43mwarning\x1b[0m \x1b[38;5;46mok\x1b[0m \x1b[44mblue\x1b[0m \x1b[7minverse\x1b[0m\n"
    "\x1b]0;window-name\x0710 %\r100 %\n"
)


@asynccontextmanager
async def open_log(
    harness: LookoutHarness, browser: Browser, text: str | bytes
) -> AsyncIterator[tuple[Page, LogServer]]:
    """The page of a job that runs and has written this."""
    async with log_server("key") as executor, browser_page(browser) as page:
        executor.text = text
        beat = clusters.Heartbeat(executor="e", address=executor.address)
        await harness.append([clusters.heartbeat_record(beat)])
        after = await harness.append_events(submitted("a"), leased("a"), started("a"))
        await harness.read("/jobs", after)
        await page.goto(address(harness, f"/jobs/{job_id('a')}"))
        yield page, executor


async def test_a_log_has_colours_and_everything_else_is_escaped(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    async with (
        running(fresh_database, valkey_url) as harness,
        open_log(harness, browser, COLOURED) as (page, executor),
    ):
        log = page.locator("pre.log")
        await expect(log.locator(".fg-1.bold")).to_have_text("Error:")
        await expect(log.locator(".fg-10")).to_have_text("ok")
        await expect(log).to_contain_text(EVIL)
        await expect(log).not_to_contain_text("window-name")
        await expect(log).not_to_contain_text("10 %\n")
        assert await page.locator("main img").count() == 0
        await check_width(page)
        await check_themes(page, axe_script)
        await page.get_by_role("link", name="stderr").click()
        await page.wait_for_url("**stream=stderr**")
        await expect(log).to_contain_text("building")
        assert executor.parameters["stream"] == "stderr"


async def test_a_log_is_searched_and_downloaded(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    text = "".join(f"line {number} {'x' * 200}\n" for number in range(2_000)) + COLOURED
    async with (
        running(fresh_database, valkey_url) as harness,
        open_log(harness, browser, text) as (page, _),
    ):
        log = page.locator("pre.log")
        await expect(page.get_by_text("The end of the log, at most 500 lines.")).to_be_visible()
        await expect(log).not_to_contain_text("line 99 ")
        assert await log.evaluate("log => log.scrollTop > 0")  # it shows its end
        await page.get_by_label("Lines of the log that contain").fill("LINE 99")
        await page.get_by_role("button", name="Search").click()
        await expect(page.get_by_text("11 lines contain LINE 99.")).to_be_visible()
        await expect(log.locator("mark").first).to_have_text("line 99")
        assert "find=LINE+99" in page.url
        await check_width(page)
        await check_themes(page, axe_script)
        await page.get_by_role("link", name="Do not wrap lines").click()
        await expect(page.locator("pre.log.unwrapped")).to_be_visible()
        await check_width(page)
        await page.get_by_label("Lines of the log that contain").fill("nothing has this")
        await page.get_by_role("button", name="Search").click()
        await expect(page.get_by_text("0 lines contain nothing has this.")).to_be_visible()
        await page.get_by_role("link", name="Show the whole log").click()
        await expect(log).to_contain_text("building")
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download", exact=True).click()
        done = await download.value
        assert done.suggested_filename == f"{job_id('a')}-stdout.log"
        assert (await done.path()).read_bytes().decode() == text
        await page.get_by_role("link", name="Own page").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Log of a")
        await expect(log).to_contain_text("building")


async def test_a_search_says_what_it_has_searched_and_goes_on(
    fresh_database: str, valkey_url: str, browser: Browser, axe_script: str
) -> None:
    text = "".join(f"line {number:04} {'x' * 89}\n" for number in range(20_000))
    async with (
        running(fresh_database, valkey_url) as harness,
        open_log(harness, browser, text) as (page, executor),
    ):
        log = page.locator("pre.log")
        await page.get_by_label("Lines of the log that contain").fill("line")
        await page.get_by_role("button", name="Search").click()
        await expect(page.get_by_text("20,000 lines contain line; the last 500")).to_be_visible()
        await page.get_by_role("link", name="Search what is before").click()
        await expect(page.get_by_text("19,500 lines contain line; the last 500")).to_be_visible()
        await expect(page.get_by_text("1.9 MiB before the last 49 KiB of 1.9")).to_be_visible()
        await expect(log).to_contain_text("line 19499 ")
        await check_width(page)
        await check_themes(page, axe_script)
        await page.get_by_role("link", name="Search from the end").click()
        await expect(page.get_by_text("20,000 lines contain line; the last 500")).to_be_visible()
        executor.has_offsets, executor.part_bytes = False, 500_000
        await page.reload()
        await expect(page.get_by_text("Only the last 488 KiB of the log were")).to_be_visible()
        await expect(page.get_by_role("link", name="Search what is before")).to_have_count(0)


async def test_binary_logs_are_offered_as_a_file_and_long_lines_are_cut(
    fresh_database: str, valkey_url: str, browser: Browser
) -> None:
    binary = bytes(range(256)) * 8_000
    async with (
        running(fresh_database, valkey_url) as harness,
        open_log(harness, browser, binary) as (page, executor),
    ):
        await expect(page.get_by_text("This log is binary data.")).to_be_visible()
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download it").click()
        assert (await (await download.value).path()).read_bytes() == binary
        executor.text = "y" * 3_000_000 + "end"
        await expect(page.locator("pre.log")).to_contain_text("yend")
        assert len(await page.locator("pre.log").inner_text()) <= 512 * 1024
        assert executor.parameters["last_bytes"] == str(512 * 1024)
