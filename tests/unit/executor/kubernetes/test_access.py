"""What is said of a kubeconfig that cannot be used; the tests of rights are on a real server."""

import json
from pathlib import Path

import pytest

from fairlead_common.domain.errors import WorldError
from fairlead_executor.backends.kubernetes.access import check_access
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from tests.unit.executor.kubernetes.conftest import FakeWorld


async def refusal(kubeconfig: Path) -> str:
    with pytest.raises(WorldError) as refused:
        await check_access(KubernetesSettings(kubeconfig=str(kubeconfig)))
    return str(refused.value)


async def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    file = tmp_path / "away.yaml"
    content = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    file.write_text(json.dumps(content))
    text = await refusal(file)
    assert text.startswith("the cluster at http://127.0.0.1:1 cannot be read")
    assert text.endswith("check the address of the kubeconfig and the network")


async def test_a_file_without_credentials_is_named(tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text("{}")
    assert f"the kubeconfig {file} gives no credentials" in await refusal(file)


async def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    file = tmp_path / "missing.yaml"
    assert f"the kubeconfig {file} does not exist; set `kubeconfig`" in await refusal(file)


async def test_credentials_that_have_expired_are_named_with_what_to_do(world: FakeWorld) -> None:
    world.server.token = "another"
    text = await refusal(world.server.kubeconfig)
    assert text.endswith("try them with: kubectl auth whoami")


async def test_devices_are_asked_for_only_if_a_setting_counts_them(
    world: FakeWorld,
) -> None:
    settings = KubernetesSettings(kubeconfig=str(world.server.kubeconfig))
    await check_access(settings)
    assert not world.server.requests["GET", "resourceslices"]
    await check_access(
        KubernetesSettings(
            kubeconfig=str(world.server.kubeconfig), device_resources={"gpu": "example.com/gpu"}
        )
    )
    assert world.server.requests["GET", "resourceslices"]
