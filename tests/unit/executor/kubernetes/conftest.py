"""`world`: an executor's Kubernetes cluster on an API server in memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fake_api_server import FakeApiServer
from tests.unit.executor.kubernetes.world import World


class FakeWorld(World):
    """A world whose server does as it is told."""

    def __init__(self, server: FakeApiServer) -> None:
        super().__init__(server.kubeconfig)
        self.server = server


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[FakeWorld]:
    """A server with three nodes, and a cluster that is not opened yet."""
    async with FakeApiServer(tmp_path / "kubeconfig.yaml") as server:
        each = FakeWorld(server)
        yield each
        await each.close()
