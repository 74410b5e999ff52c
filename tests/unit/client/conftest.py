"""A server for commands to talk to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.client import fake_server
from tests.unit.client.fake_server import Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    with fake_server.serve({}) as running:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("FAIRLEAD_SERVER", running.url)
        monkeypatch.setenv("FAIRLEAD_TOKEN", "fl_t")
        yield running
