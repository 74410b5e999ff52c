"""One browser for all tests of a module, which share an event loop for it; each has own pages."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from tests.e2e.pages.browser import start_browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """A started Chromium."""
    async with start_browser(chromium) as started:
        yield started
