"""The whole web app for the tests of the doors."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.doors.whole import Whole, whole


@pytest.fixture
async def app(database: str, valkey_url: str) -> AsyncIterator[Whole]:
    """Both services, on a port."""
    async with whole(database, valkey_url) as running:
        yield running
