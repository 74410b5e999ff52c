"""The commands of docs/operating.md work on a real API server and a real release."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.e2e.guide.guides import Block, blocks
from tests.integration.deploy import charts
from tests.integration.deploy.charted import Charted
from tests.kubernetes_control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes


def commands(first: str) -> list[list[str]]:
    """The commands of the page that begin with this word."""
    texts = [block.text for block in blocks("operating.md") if is_command(block)]
    lines = "\n".join(texts).replace("\\\n", " ").splitlines()
    return [words for words in map(shlex.split, lines) if words[:1] == [first]]


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


def test_helm_installs_and_upgrades(api_server: ControlPlane, tmp_path: Path) -> None:
    for block in blocks("operating.md"):
        if block.language == "yaml" and block.name:
            (tmp_path / block.name).write_text(block.text)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    environment = {"KUBECONFIG": str(api_server.kubeconfig)}
    found = commands("helm")
    assert len(found) == 3
    for _, *words in found:
        assert "STATUS: deployed" in run([str(charts.helm()), *words], tmp_path, environment)
    path = f"/apis/apps/v1/namespaces/{charts.NAMESPACE}/deployments"
    names = {item["metadata"]["name"] for item in api_server.request("GET", path)["items"]}
    assert {"fairlead-submit", "fairlead-executor-east"} <= names
    assert "fairlead-west-executor-west" in names
    assert "fairlead-west-submit" not in names
    # `kubectl rollout restart` after a change of the Secret: it takes the same selector.
    restart = next(block.text for block in blocks("operating.md") if "rollout" in block.text)
    selected = f"{path}?labelSelector={restart.split()[-1]}"
    restarted = {item["metadata"]["name"] for item in api_server.request("GET", selected)["items"]}
    assert restarted == {name for name in names if not name.startswith("fairlead-west")}


def test_the_secret_has_what_the_chart_reads() -> None:
    (secret,) = (words for words in commands("kubectl") if "secret" in words)
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
