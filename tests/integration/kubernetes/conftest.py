"""`world`: an executor's cluster on a real API server, in a namespace of its own."""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairlead_common.domain.ids import RunId
from tests.kubernetes_control_plane import ControlPlane
from tests.kubernetes_fixtures import control_plane
from tests.unit.executor.kubernetes.world import World

__all__ = ["control_plane"]


class RealWorld(World):
    """A world on a control plane. `admin`: a request that may do everything."""

    def __init__(self, plane: ControlPlane) -> None:
        self.namespace = f"test-{secrets.token_hex(4)}"
        super().__init__(plane.kubeconfig, self.namespace)
        self.plane = plane
        self.path = f"/api/v1/namespaces/{self.namespace}"
        plane.request(
            "POST",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
        )

    def run(self, name: str = "a", node: str = "n0", **fields: Any) -> RunId:
        """Create a run in the namespace. `Any`: fields of its lease."""
        return self.create(name, node, **{"namespace": self.namespace, **fields})

    def pods(self) -> list[dict[str, Any]]:
        """All pods of the namespace. `Any`: JSON."""
        found: list[dict[str, Any]] = self.plane.request("GET", f"{self.path}/pods")["items"]
        return found

    async def clear(self) -> None:
        """Remove everything that is left."""
        for pod in self.pods():
            path = f"{self.path}/pods/{pod['metadata']['name']}"
            body = {"metadata": {"finalizers": None}}
            self.plane.request("PATCH", path, body, "application/merge-patch+json")
            if "deletionTimestamp" not in pod["metadata"]:
                self.plane.request("DELETE", path, {"gracePeriodSeconds": 0})


@pytest.fixture
async def world(control_plane: ControlPlane) -> AsyncIterator[RealWorld]:
    """A world that is not opened yet."""
    each = RealWorld(control_plane)
    yield each
    await each.close()
    await each.clear()
