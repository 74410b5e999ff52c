"""`harness`: an empty log, and a folder for executors."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.executor.executor_harness import ExecutorHarness


@pytest.fixture
async def harness(fresh_database: str, tmp_path: Path) -> AsyncIterator[ExecutorHarness]:
    """A new harness for each test."""
    async with ExecutorHarness.open(fresh_database, tmp_path) as opened:
        yield opened
