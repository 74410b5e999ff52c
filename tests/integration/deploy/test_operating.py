"""The commands of docs/operating.md work on a real API server and a real release."""

import base64
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fairlead_executor.backends.kubernetes.access import check_access
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from tests.conftest import ROOT
from tests.e2e.guide.guides import Block, blocks
from tests.integration.deploy import charts
from tests.integration.deploy.charted import Charted, apply_gateway_api
from tests.kubernetes_control_plane import ADMIN_TOKEN, ControlPlane

pytestmark = pytest.mark.kubernetes


MAIN_SECRET: Final = ["create", "secret", "generic", "fairlead"]
WEST: Final = "west"
"""The context of the cluster that the page adds."""


def commands(first: str) -> list[list[str]]:
    """The commands of the page that begin with this word."""
    lines = "\n".join(block.text for block in typed()).replace("\\\n", " ").splitlines()
    return [words for words in map(shlex.split, lines) if words[:1] == [first]]


def typed() -> list[Block]:
    """The commands of the page that can be typed here, block by block."""
    return [block for block in blocks("operating.md") if is_command(block)]


def is_command(block: Block) -> bool:
    return block.language == "sh" and block.name != "skip"


def run(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def new_cluster(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A cluster that has nothing but the Gateway API."""
    with ControlPlane(tmp_path_factory.mktemp("new"), beside=control_plane) as plane:
        apply_gateway_api(plane)
        yield plane


def write_contexts(path: Path, planes: dict[str, ControlPlane]) -> None:
    """Write a kubeconfig with a context for each cluster; the first one is the current one."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}  # `Any`: JSON
    merged["current-context"] = next(iter(planes))
    for name, plane in planes.items():
        own = json.loads(plane.kubeconfig.read_text())
        context = {"cluster": name, "user": name}
        merged.setdefault("contexts", []).append({"name": name, "context": context})
        for several in ("clusters", "users"):
            merged.setdefault(several, []).append({**own[several][0], "name": name})
    path.write_text(json.dumps(merged))


def follow_page(folder: Path, environment: dict[str, str]) -> None:
    """Save the files of the page and type its commands, except those of `fairlead`, in order.

    YAML without the name of a file is added to `values.yaml`.
    """
    values = folder / "values.yaml"
    for block in blocks("operating.md"):
        if block.language == "yaml" and block.name:
            (folder / block.name).write_text(block.text)
        elif block.language == "yaml":
            merged = {**yaml.safe_load(values.read_text()), **yaml.safe_load(block.text)}
            values.write_text(yaml.safe_dump(merged))
        elif is_command(block) and not block.text.startswith("fairlead "):
            run(["bash", "-e", "-u", "-o", "pipefail", "-c", block.text], folder, environment)


async def test_a_reader_installs_adds_a_cluster_upgrades_and_renews_credentials(
    new_cluster: ControlPlane, control_plane: ControlPlane, kubernetes_tools: Path, tmp_path: Path
) -> None:
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    write_contexts(tmp_path / "config", {"east": new_cluster, WEST: control_plane})
    environment = {
        "KUBECONFIG": str(tmp_path / "config"),
        "PATH": f"{kubernetes_tools}:{charts.helm().parent}:{os.environ['PATH']}",
    }
    follow_page(tmp_path, environment)

    path = f"/apis/apps/v1/namespaces/{charts.NAMESPACE}/deployments"
    deployments = {
        item["metadata"]["name"]: item for item in new_cluster.request("GET", path)["items"]
    }
    assert {"fairlead-submit", "fairlead-executor-east", "fairlead-executor-west"} <= set(
        deployments
    )
    for name, deployment in deployments.items():
        annotations = deployment["spec"]["template"]["metadata"]["annotations"]
        assert "kubectl.kubernetes.io/restartedAt" in annotations, name
    (mounted,) = (
        volume["secret"]["secretName"]
        for volume in deployments["fairlead-executor-west"]["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume
    )
    secret = new_cluster.request("GET", f"/api/v1/namespaces/{charts.NAMESPACE}/secrets/{mounted}")
    kubeconfig = tmp_path / "mounted"
    kubeconfig.write_bytes(base64.b64decode(secret["data"]["kubeconfig"]))
    assert ADMIN_TOKEN not in kubeconfig.read_text()
    assert await check_access(KubernetesSettings(kubeconfig=str(kubeconfig))) == []

    installed = {item["metadata"]["name"] for item in control_plane.request("GET", path)["items"]}
    assert "fairlead-west-executor-west" in installed
    assert "fairlead-west-submit" not in installed


def test_only_what_needs_a_container_engine_or_a_broken_installation_is_not_typed() -> None:
    skipped = [block for block in blocks("operating.md") if block.name == "skip"]
    assert [block.text.split()[0] for block in skipped] == ["for", "fairlead"]
    assert "docker build" in skipped[0].text
    assert "fairlead repair" in skipped[1].text


def test_the_secret_has_what_the_chart_reads() -> None:
    (secret,) = (words for words in commands("kubectl") if words[3:7] == MAIN_SECRET)
    written = {re.match(r"--from-literal=(\w+)=", word) for word in secret}
    read = {
        item["valueFrom"]["secretKeyRef"]["key"]
        for deployment in charts.of_kind(charts.render(), "Deployment").values()
        for item in charts.container(deployment)["env"]
        if "valueFrom" in item and not item["valueFrom"]["secretKeyRef"].get("optional")
    }
    assert {found[1] for found in written if found} == read


def test_commands_of_operators_work_on_the_release(
    charted: Charted, admin_token: str, tmp_path: Path
) -> None:
    environment = {"FAIRLEAD_SERVER": charted.address, "FAIRLEAD_TOKEN": admin_token}
    program = str(Path(sys.executable).with_name("fairlead"))
    found = commands("fairlead")
    assert ["fairlead", "cluster", "cordon", "east"] in found
    for _, *words in found:
        run([program, *words], tmp_path, environment)


def test_every_metric_to_watch_exists() -> None:
    text = (ROOT / "docs" / "operating.md").read_text()
    sources = [*ROOT.glob("services/*/fairlead_*/**/*.py"), *ROOT.glob("libs/**/*.py")]
    code = "\n".join(path.read_text() for path in sources)
    named = set(re.findall(r"^\| `(fairlead_\w+)`", text, re.MULTILINE))
    assert len(named) > 8
    assert {name for name in named if f'"{name}"' not in code} == set()
