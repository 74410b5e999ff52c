"""`world`: an empty log, and a folder for executors."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.executor.world import World


@pytest.fixture
async def world(fresh_database: str, tmp_path: Path) -> AsyncIterator[World]:
    """A world of its own for each test."""
    async with World.open(fresh_database, tmp_path) as opened:
        yield opened
