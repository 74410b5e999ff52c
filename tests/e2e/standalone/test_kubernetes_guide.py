"""A reader follows docs/kubernetes.md: its commands, files and settings, on a real API server.

Nodes of KWOK run no programs, so the tests end each pod, by the annotation of `kwok.yaml`.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
import pytest

from fairlead import Client
from fairlead_executor.backends.kubernetes.device_watches import CLASSES, SLICES
from fairlead_executor.backends.kubernetes.domain.pod_manifest import FINALIZER
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation
from tests.conftest import ROOT
from tests.e2e.guide.guides import Block, blocks
from tests.integration.executor.executor_harness import ExecutorHarness
from tests.kubernetes_control_plane import OUTPUT, ControlPlane
from tests.unit.executor.kubernetes.world import class_object, slice_object

pytestmark = pytest.mark.kubernetes

COMMAND_S_MAX: Final = 120
PATHS: Final = {
    "pods": "/api/v1/pods",
    "ingresses": "/apis/networking.k8s.io/v1/ingresses",
    "resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
}
DEVICE_CLASS: Final = "gpu.example.com"
NODE: Final = "two-devices"
SETTINGS: Final = "settings"
TYPED: Final = {"up", "run", "permissions", "executor", "list", "classes", "devices", "objects"}
"""The names of the blocks whose commands these tests type, besides `remove`."""


def page() -> list[Block]:
    return blocks("kubernetes.md")


def text_of(name: str) -> str:
    """The text of the block with this name."""
    (found,) = (block.text for block in page() if block.name == name)
    return found


def read_settings() -> dict[str, str]:
    """The variables that the page sets; if it sets one several times, with the fields of all."""
    found: dict[str, dict[str, Any]] = {}  # `Any`: JSON
    for block in page():
        if block.name == SETTINGS:
            for word in shlex.split(block.text):
                name, _, value = word.partition("=")
                found.setdefault(name, {}).update(json.loads(value))
    return {name: json.dumps(value) for name, value in found.items()}


class Reader:
    """Somebody with kubectl, a kubeconfig and a running Fairlead. `plane`: the cluster."""

    def __init__(
        self, home: Path, plane: ControlPlane, tools: Path, standalone: StandaloneInstallation
    ) -> None:
        self.home = home
        self.plane = plane
        self.standalone = standalone
        programs = (str(tools), str(Path(sys.executable).parent), os.environ["PATH"])
        self.environment = {
            "HOME": str(home),
            "PATH": ":".join(programs),
            "FAIRLEAD_DATA": str(standalone.data),
        }
        self._foreign = set(self.find("pods"))

    def start(self, text: str, **more: str) -> "subprocess.Popen[str]":
        """Type commands in another terminal; `more`: variables."""
        return subprocess.Popen(
            ["bash", "-e", "-u", "-o", "pipefail", "-c", text],
            cwd=self.home,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def type(self, text: str) -> str:
        """What these commands print."""
        with self.start(text) as process:
            printed, errors = process.communicate(timeout=COMMAND_S_MAX)
        assert process.returncode == 0, (text, printed, errors)
        return printed

    def find(self, resource: str, selector: str = "") -> dict[str, dict[str, Any]]:
        """All objects of a resource with these labels, by their names. `Any`: JSON."""
        listed = self.plane.request("GET", f"{PATHS[resource]}?labelSelector={quote(selector)}")
        return {item["metadata"]["name"]: item for item in listed["items"]}

    def running(self, queue: str) -> set[str]:
        """The running pods of a queue, without those that ran before this Fairlead."""
        found = self.find("pods", f"fairlead.dev/queue={queue}")
        running = {name for name, pod in found.items() if pod["status"]["phase"] == "Running"}
        return running - self._foreign

    def end(self, pod: str) -> None:
        """Have the program of a pod end."""
        self.type(f"kubectl annotate pod {pod} fairlead.test/run-for=1ms")

    def cancel(self, queue: str) -> None:
        """Cancel what is left of a queue; return when its pods have ended."""
        self.type(f"fairlead cancel --queue {queue} --yes")
        self.standalone.wait_for(lambda: not self.running(queue))


@pytest.fixture(scope="module")
def reader(
    control_plane: ControlPlane, kubernetes_tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reader]:
    """The reader, with the files of the page, and with a node that has two devices."""
    home = tmp_path_factory.mktemp("reader")
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(control_plane.kubeconfig.read_text())
    (home / "deploy").symlink_to(ROOT / "deploy")
    for block in page():
        if block.language == "yaml" and block.name:
            (home / block.name).write_text(block.text)
    control_plane.add_nodes(NODE)
    control_plane.request("POST", CLASSES, class_object(DEVICE_CLASS))
    control_plane.request("POST", SLICES, slice_object(NODE, 2))
    _, up, *options = shlex.split(text_of("up"))
    assert up == "up"
    environment = {**PYTHON_ENGINE, "HOME": str(home), **read_settings()}
    with (
        control_plane.controllers("resourceclaim-controller"),
        StandaloneInstallation(home, *options, environment=environment) as standalone,
    ):
        standalone.start()
        found = Reader(home, control_plane, kubernetes_tools, standalone)
        found.type("fairlead queue create research")
        yield found
    for path, name in ((SLICES, NODE), (CLASSES, DEVICE_CLASS), ("/api/v1/nodes", NODE)):
        control_plane.request("DELETE", f"{path}/{name}")


def test_every_command_of_the_page_is_typed_by_a_test() -> None:
    commands = [block for block in page() if block.language == "sh"]
    assert {block.name for block in commands} == {*TYPED, "remove", SETTINGS}


def test_settings_of_the_page_are_valid() -> None:
    own = msgspec.json.decode(read_settings()["FAIRLEAD_KUBERNETES"], type=KubernetesSettings)
    assert own.device_resources == {DEVICE_CLASS: DEVICE_CLASS}
    assert len(own.pending_rules) == 3


def test_a_command_runs_on_the_cluster_and_its_output_is_printed(reader: Reader) -> None:
    with reader.start(text_of("run")) as process:
        reader.standalone.wait_for(lambda: bool(reader.running("default")))
        assert process.stdout is not None
        printed = [process.stdout.readline().strip() for _ in OUTPUT]
        # The command ends with the log, which KWOK follows for ever.
        process.terminate()
    assert printed == list(OUTPUT)
    reader.cancel("default")


def test_the_manifest_permits_what_the_page_says(reader: Reader) -> None:
    assert reader.type(text_of("permissions")).splitlines()[-1] == "yes"


def test_jobs_get_the_devices_of_their_template_and_wait_while_there_are_none(
    reader: Reader,
) -> None:
    reader.type(text_of("devices"))
    listed = {name.rpartition("/")[2] for name in reader.type(text_of("classes")).split()}
    assert {DEVICE_CLASS, "one-gpu"} <= listed
    standalone = reader.standalone
    with Client(standalone.address, token=standalone.token) as client:

        def why(client_id: str) -> str:
            jobs = client.iter_jobs(q=client_id)
            (job,) = (each for each in jobs if each.client_id == client_id)
            reason = client.job(job.id).why
            return "" if reason is None else reason.sentence

        standalone.wait_for(lambda: len(reader.running("research")) == 2)
        standalone.wait_for(lambda: DEVICE_CLASS in why("third"))
    first, second = sorted(reader.running("research"))
    before = allocated(reader)
    assert set(before) == {first, second}
    assert len({*before.values()}) == 2

    reader.end(first)
    standalone.wait_for(lambda: len(reader.running("research") - {first}) == 2)
    (third,) = reader.running("research") - {first, second}
    after = allocated(reader)
    assert after[third] == before[first]
    assert after[second] == before[second]
    printed = reader.type(text_of("list").replace("JOB", third.rpartition("-")[0]))
    assert printed.count(third) == 2
    assert printed.count(second) == 1
    reader.cancel("research")


def allocated(reader: Reader) -> dict[str, str]:
    """The device that kube-scheduler gave to each pod for the claim made from the template."""
    found = {}
    for claim in reader.find("resourceclaims").values():
        reserved = claim.get("status", {}).get("reservedFor", [])
        for pod in reserved:
            (owner,) = claim["metadata"]["ownerReferences"]
            assert owner["name"] == pod["name"]
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            found[pod["name"]] = result["device"]
    return found


def test_services_and_ingresses_of_a_job_are_listed(reader: Reader) -> None:
    reader.type("fairlead submit board.yaml")
    reader.standalone.wait_for(lambda: bool(reader.running("research")))
    (pod,) = reader.running("research")
    job = pod.rpartition("-")[0]
    reader.standalone.wait_for(lambda: bool(reader.find("ingresses", f"fairlead.dev/job={job}")))
    listed = reader.type(text_of("objects").replace("JOB", job))
    assert f"service/board-{pod}" in listed
    assert f"ingress.networking.k8s.io/board-{pod}" in listed
    assert "board.example.com" in listed
    reader.cancel("research")


async def test_an_executor_starts_by_itself(
    reader: Reader, fresh_database: str, tmp_path: Path
) -> None:
    given = {
        "kafka://kafka:9092": fresh_database,
        "/etc/fairlead/east.yaml": "east.yaml",
        "python -m": "exec python -m",  # so that it is this process that is killed
    }
    text = text_of("executor")
    for written, meant in given.items():
        assert written in text
        text = text.replace(written, meant)
    (reader.home / "east.yaml").write_text(reader.plane.kubeconfig.read_text())
    async with ExecutorHarness.open(fresh_database, tmp_path) as harness:
        with reader.start(text, FAIRLEAD_HTTP_PORT=str(free_port())) as process:
            try:
                await harness.until(lambda: harness.heartbeat is not None)
            finally:
                process.kill()
        assert harness.heartbeat is not None
        assert harness.heartbeat.executor == "east"


def test_pods_that_are_left_are_removed(reader: Reader) -> None:
    selector = "fairlead.dev/executor=east"
    name, _, value = selector.partition("=")
    for pod in ("left-1", "left-2"):
        metadata = {"name": pod, "labels": {name: value}, "finalizers": [FINALIZER]}
        spec = {"containers": [{"name": "main", "image": "x"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        reader.plane.request("POST", "/api/v1/namespaces/default/pods", body)
    assert set(reader.find("pods", selector)) == {"left-1", "left-2"}
    reader.type(text_of("remove"))
    reader.standalone.wait_for(lambda: not reader.find("pods", selector))
