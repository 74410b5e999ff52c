"""The proxy of these tests changes nothing except by its settings."""

import json
from pathlib import Path

import aiohttp
import pytest

from tests.faulty_proxy import FaultyProxy
from tests.kubernetes_control_plane import ADMIN_TOKEN, ControlPlane

pytestmark = pytest.mark.kubernetes

LARGE_BYTES = 200 * 1024
"""The API server compresses answers of 128 KiB and more for clients that accept it."""


async def test_a_large_answer_is_forwarded_as_it_is(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """As the list of many pods when an executor starts."""
    path = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "large"}, "data": {"text": "x" * LARGE_BYTES}}
    control_plane.request("POST", path, body)
    try:
        async with FaultyProxy(control_plane, tmp_path / "proxy.yaml", 1) as proxy:
            server = json.loads(proxy.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
            headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{server}{path}/large", headers=headers) as answer,
            ):
                found = await answer.json()
    finally:
        control_plane.request("DELETE", f"{path}/large")
    assert found["data"]["text"] == "x" * LARGE_BYTES
