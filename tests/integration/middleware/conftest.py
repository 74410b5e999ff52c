"""The whole web app for the tests of the middleware."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.conftest import Server, made_database
from tests.integration.middleware.web_app import WebApp, serve_web_app


@pytest.fixture(scope="session")
def database(postgres_server: Server) -> Iterator[str]:
    """A database of these tests alone: a view belongs to one log, and theirs is in Postgres."""
    yield from made_database(postgres_server)


@pytest.fixture
async def app(database: str, valkey_url: str) -> AsyncIterator[WebApp]:
    """Both services, on a port."""
    async with serve_web_app(database, valkey_url) as running:
        yield running
