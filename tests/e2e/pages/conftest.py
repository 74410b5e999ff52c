"""One browser for all tests of a module, which share an event loop for it; each has own pages."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.conftest import ROOT
from tests.e2e.pages.browser import start_browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """A started Chromium."""
    async with start_browser(chromium) as started:
        yield started


@pytest.fixture(scope="session")
def axe_script() -> str:
    """The text of axe-core; skips with the reason where it cannot be had."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "axe.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return Path(done.stdout.strip()).read_text(encoding="utf-8")
