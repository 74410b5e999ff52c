"""One browser for all tests of this folder, which share an event loop; each has own pages."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.conftest import tool_output
from tests.e2e.pages.browser import start_browser


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """A started Chromium."""
    async with start_browser(chromium) as started:
        yield started


@pytest.fixture(scope="session")
def axe_script() -> str:
    """The text of axe-core; skips with the reason where it cannot be had."""
    return Path(tool_output("axe.py")).read_text(encoding="utf-8")
