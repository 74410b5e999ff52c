"""A real browser whose console may hold no error."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from tests.integration.lookout.lookout_harness import LookoutHarness

ARGUMENTS: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOADING: Final = "Failed to load resource"
PATIENCE_MS: Final = 60_000
"""Pages change within a second or so where nothing else is at work."""
EVIL: Final = "<img src=x onerror=document.title='owned'> & \"'</script>"
"""Text that does something where a page does not escape it."""
expect.set_options(timeout=PATIENCE_MS)


@asynccontextmanager
async def start_browser(chromium: str) -> AsyncIterator[Browser]:
    """A Chromium until the end of the block."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        await browser.close()


@asynccontextmanager
async def browser_page(
    browser: Browser, *, scripts: bool = True, expected: str = LOADING, zone: str = "UTC"
) -> AsyncIterator[Page]:
    """A page with its own cookies and cache, whose console may hold no error at the end.

    Without `scripts` it runs none. `expected`: in errors that the test causes. `zone`: the time
    zone of its user.
    """
    page = await browser.new_page(java_script_enabled=scripts, timezone_id=zone)
    page.set_default_timeout(PATIENCE_MS)
    said: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            said.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: said.append(str(error)))
    try:
        yield page
    finally:
        await page.close()
    unexpected = [text for text in said if not any(each in text for each in (LOADING, expected))]
    assert unexpected == [], unexpected


async def find_wide_tables(page: Page) -> list[str]:
    """The captions of tables that are wider than their sheet, so that a user has to scroll."""
    found: list[str] = await page.evaluate(
        """() => [...document.querySelectorAll(".sheet")]
        .filter((sheet) => sheet.scrollWidth > sheet.clientWidth)
        .map((sheet) => `${sheet.scrollWidth - sheet.clientWidth} px: ${
          sheet.querySelector("caption")?.textContent}`)"""
    )
    return found


def address(harness: LookoutHarness, path: str) -> str:
    """A page's address."""
    return f"{harness.client.base_url}{path}"
