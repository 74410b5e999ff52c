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


async def test_the_proxy_of_a_kubeconfig_is_used(world: FakeWorld) -> None:
    content = json.loads(world.server.kubeconfig.read_text())
    cluster = content["clusters"][0]["cluster"]
    cluster["proxy-url"], cluster["server"] = cluster["server"], "http://cluster.invalid"
    world.server.kubeconfig.write_text(json.dumps(content))
    await check_access(KubernetesSettings(kubeconfig=str(world.server.kubeconfig)))
    assert world.server.requests["GET", "nodes"]


async def test_the_proxy_of_the_environment_is_used_except_for_the_names_of_no_proxy(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads(world.server.kubeconfig.read_text())
    monkeypatch.setenv("http_proxy", content["clusters"][0]["cluster"]["server"])
    monkeypatch.setenv("no_proxy", "away.invalid")
    for name, answers in (("cluster.invalid", True), ("away.invalid", False)):
        content["clusters"][0]["cluster"]["server"] = f"http://{name}"
        world.server.kubeconfig.write_text(json.dumps(content))
        if answers:
            await check_access(KubernetesSettings(kubeconfig=str(world.server.kubeconfig)))
        else:
            assert f"http://{name} cannot be read" in await refusal(world.server.kubeconfig)
