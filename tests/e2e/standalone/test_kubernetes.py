"""`fairlead up --kubeconfig`: jobs on a real API server beside jobs of this machine."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import Client
from fairlead.cli.output import yaml_text
from fairlead.errors import Invalid
from fairlead_standalone.processes.child_process import ServerFailed
from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation
from tests.e2e.commands import run_fairlead
from tests.kubernetes_control_plane import ControlPlane, write_kubeconfig

pytestmark = pytest.mark.kubernetes

MANIFESTS = Path(__file__).parents[3] / "examples" / "manifests"
NODE_LOST_S = 1


@pytest.fixture(scope="module")
def standalone(
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[StandaloneInstallation]:
    """A running Fairlead with two Kubernetes clusters."""
    options = (
        *("--kubeconfig", str(control_plane.kubeconfig)),
        *("--kubeconfig", f"second={second_control_plane.kubeconfig}"),
    )
    settings = {"nodeLostS": NODE_LOST_S, "defaultImage": "busybox"}
    environment = {**PYTHON_ENGINE, "FAIRLEAD_KUBERNETES": json.dumps(settings)}
    folder = tmp_path_factory.mktemp("up")
    with StandaloneInstallation(folder, *options, environment=environment) as running:
        running.start()
        yield running


def call(standalone: StandaloneInstallation, path: str, body: object = None) -> dict[str, Any]:
    """The answer of the HTTP API. `Any`: JSON."""
    request = urllib.request.Request(
        f"{standalone.address}/api/v1{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {standalone.token}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def read_log(standalone: StandaloneInstallation, job: str, start: str) -> str:
    """The lines of the log of a job since then."""
    with Client(standalone.address, token=standalone.token) as client:
        return b"".join(client.logs(job, since=start)).decode()


def wait_until_ended(standalone: StandaloneInstallation, job: str, position: str) -> dict[str, Any]:
    """The job with its runs once it has ended. `Any`: JSON."""
    ended = ("SUCCEEDED", "FAILED", "CANCELLED", "REJECTED")
    found: dict[str, Any] = {}

    def has_ended() -> bool:
        nonlocal found
        found = call(standalone, f"/jobs/{job}?after={position}")
        return found["state"] in ended

    standalone.wait_for(has_ended)
    return found


def nodes_of(standalone: StandaloneInstallation, cluster: str) -> dict[str, bool]:
    """The nodes of a cluster; whether they are cordoned in Kubernetes."""
    found = call(standalone, f"/clusters/{cluster}/nodes")
    return {node["node"]: node.get("unschedulable", False) for node in found["nodes"]}


def pods_of(control_plane: ControlPlane, job: str) -> list[dict[str, Any]]:
    """The pods of the job's runs. `Any`: JSON."""
    path = f"/api/v1/pods?labelSelector=fairlead.dev/job={job}"
    found: list[dict[str, Any]] = control_plane.request("GET", path)["items"]
    return found


def convert_example(standalone: StandaloneInstallation, path: Path) -> dict[str, Any]:
    """What a manifest becomes, in the pool of the cluster; members that complete it end soon.

    `Any`: JSON.
    """
    documents = yaml_text.read_documents(path.read_bytes())
    made = call(standalone, "/manifests/convert", {"manifests": documents, "queue": "default"})
    ends_soon = {"fairlead.test/run-for": "50ms"}
    for job in made["jobs"]:
        job |= {"pool": "kubernetes", "annotations": ends_soon}
    for group in made["groups"]:
        completing = group.get("completion", {}).get("roles")
        for role in group["roles"]:
            role["template"]["pool"] = "kubernetes"
            if completing is None or role["name"] in completing:
                role["template"]["annotations"] = ends_soon
    return made


def test_the_examples_of_manifests_run_to_success_as_pods(
    standalone: StandaloneInstallation,
) -> None:
    groups: dict[str, str] = {}
    for path in sorted(MANIFESTS.iterdir()):
        made = convert_example(standalone, path)
        place = {"queue": "default", "jobSet": path.stem}
        if made["groups"]:
            body = {**place, "groups": made["groups"]}
            groups[path.stem] = call(standalone, "/groups", body)["groups"][0]["id"]
            continue
        submitted = call(standalone, "/jobs", {**place, "jobs": made["jobs"]})
        for job in submitted["jobs"]:
            found = wait_until_ended(standalone, job["id"], submitted["position"])
            assert found["state"] == "SUCCEEDED", (path.name, found)
    assert len(groups) >= 7

    def find_unfinished() -> dict[str, str]:
        listed = call(standalone, "/groups?queue=default")["groups"]
        states = {group["id"]: group["state"] for group in listed}
        found = {name: states.get(group, "") for name, group in groups.items()}
        return {name: state for name, state in found.items() if state != "SUCCEEDED"}

    standalone.wait_for(lambda: not find_unfinished())


def test_a_job_runs_on_the_cluster_and_another_one_on_this_machine(
    standalone: StandaloneInstallation, control_plane: ControlPlane
) -> None:
    annotations = {"fairlead.test/run-for": "2s"}
    jobs = [
        {
            "clientId": "pod",
            "pool": "kubernetes",
            "image": "busybox",
            "command": ["true"],
            "annotations": annotations,
        },
        {"clientId": "process", "command": ["true"]},
    ]
    submitted = call(standalone, "/jobs", {"queue": "default", "jobSet": "both", "jobs": jobs})
    pod, process = (
        wait_until_ended(standalone, job["id"], submitted["position"]) for job in submitted["jobs"]
    )
    assert (pod["state"], process["state"]) == ("SUCCEEDED", "SUCCEEDED"), standalone.report
    runs = [(job["runs"][0]["cluster"], job["runs"][0]["node"]) for job in (pod, process)]
    assert runs[0][0] == "kubernetes"
    assert runs[0][1] in ("n0", "n1", "n2")
    assert runs[1][0] == "local"
    (found,) = pods_of(control_plane, pod["id"])
    assert found["spec"]["nodeName"] == runs[0][1]
    assert found["status"]["phase"] == "Succeeded"
    # Its node dates all lines from the beginning of 2026.
    logs = {
        start: read_log(standalone, pod["id"], start) for start in ("1s", "2025-06-01T00:00:00Z")
    }
    assert list(logs.values()) == ["", "first\nsecond\nthird\n"]
    # Processes write files, in which lines have no times.
    with pytest.raises(Invalid, match="does not know when the lines of a log were written"):
        read_log(standalone, process["id"], "1s")


def test_a_service_exists_on_the_cluster_and_is_refused_on_this_machine(
    standalone: StandaloneInstallation, control_plane: ControlPlane
) -> None:
    services = [{"name": "web", "spec": {"ports": [{"port": 80}]}}]
    common = {"command": ["true"], "image": "busybox", "services": services}
    jobs = [{**common, "pool": "kubernetes"}, common]
    submitted = call(standalone, "/jobs", {"queue": "default", "jobSet": "web", "jobs": jobs})
    on_cluster, here = (job["id"] for job in submitted["jobs"])
    selector = f"labelSelector=fairlead.dev/job={on_cluster}"

    def list_services() -> list[str]:
        found = control_plane.request("GET", f"/api/v1/services?{selector}")["items"]
        return [item["metadata"]["name"] for item in found]

    standalone.wait_for(lambda: list_services() == [f"web-{on_cluster}-1"])
    failed = wait_until_ended(standalone, here, submitted["position"])
    assert failed["state"] == "FAILED"
    assert "choose a pool of a Kubernetes cluster" in json.dumps(failed["runs"])


@pytest.fixture
def pool_of_two_clusters(
    control_plane: ControlPlane, second_control_plane: ControlPlane
) -> Iterator[str]:
    """A pool with the node `left` of the first cluster, and `right`, cordoned, of the second."""
    pool = "both"
    nodes = {"left": control_plane, "right": second_control_plane}
    for name, plane in nodes.items():
        plane.add_nodes(name, labels={"fairlead.dev/pool": pool})
    cordon(second_control_plane, "right", True)
    yield pool
    for name, plane in nodes.items():
        with contextlib.suppress(urllib.error.HTTPError):
            plane.request("DELETE", f"/api/v1/nodes/{name}")


def cordon(plane: ControlPlane, node: str, is_cordoned: bool) -> None:
    """What `kubectl cordon` and `uncordon` do."""
    body = {"spec": {"unschedulable": is_cordoned}}
    plane.request("PATCH", f"/api/v1/nodes/{node}", body, "application/merge-patch+json")


def test_a_gang_over_two_clusters_starts_together_and_its_members_end_with_their_nodes(
    standalone: StandaloneInstallation,
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    pool_of_two_clusters: str,
) -> None:
    member = {
        **{"pool": pool_of_two_clusters, "image": "busybox", "command": ["sleep", "3600"]},
        **{"cpu": "5", "memory": "1Gi", "gang": {"name": "wide", "size": 2}},
        "retry": {"limit": 0},
    }
    body = {"queue": "default", "jobSet": "wide", "jobs": [member, member]}
    standalone.wait_for(lambda: nodes_of(standalone, "second") == {"right": True})
    standalone.wait_for(lambda: nodes_of(standalone, "kubernetes").get("left") is False)
    submitted = call(standalone, "/jobs", body)
    ids, position = [job["id"] for job in submitted["jobs"]], submitted["position"]

    def read_members() -> list[dict[str, Any]]:
        return [call(standalone, f"/jobs/{job}?after={position}") for job in ids]

    def reasons() -> set[str]:
        return {job.get("why", {}).get("code", "") for job in read_members()}

    # One node is not enough for both, so none starts.
    standalone.wait_for(lambda: reasons() == {"gang-does-not-fit"})
    assert not any(pods_of(control_plane, job) for job in ids)

    cordon(second_control_plane, "right", False)
    standalone.wait_for(lambda: {job["state"] for job in read_members()} == {"RUNNING"})
    members = {job["runs"][0]["node"]: job for job in read_members()}
    clusters = {node: job["runs"][0]["cluster"] for node, job in members.items()}
    assert clusters == {"left": "kubernetes", "right": "second"}
    assert len({job["runs"][0]["leased"] for job in members.values()}) == 1, "one append"

    second_control_plane.request("DELETE", "/api/v1/nodes/right")
    lost = wait_until_ended(standalone, members["right"]["id"], position)
    assert (lost["state"], lost["runs"][0]["category"]) == ("FAILED", "node-lost")
    # Members that run end by themselves: what one of them meets does not end the others.
    left = members["left"]["id"]
    assert call(standalone, f"/jobs/{left}")["state"] == "RUNNING"
    cancel = call(standalone, "/jobs/cancel", {"ids": [left]})
    assert wait_until_ended(standalone, left, cancel["position"])["state"] == "CANCELLED"
    assert [len(job["runs"]) for job in read_members()] == [1, 1]


def test_run_chooses_the_cluster_by_its_pool(
    standalone: StandaloneInstallation, control_plane: ControlPlane
) -> None:
    assert "run --pool kubernetes --image busybox -- echo hello" in standalone.printed
    options = ("--detach", "--pool", "kubernetes", "--image", "busybox")
    done = run_fairlead(standalone, "run", *options, "--", "true")
    assert (done.returncode, done.stderr) == (0, "")
    job = done.stdout.strip()
    standalone.wait_for(lambda: bool(pods_of(control_plane, job)))
    (pod,) = pods_of(control_plane, job)
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "busybox"
    assert "workingDir" not in container, "the current folder means nothing in a pod"


def test_pods_continue_after_ctrl_c_and_are_taken_over(
    standalone: StandaloneInstallation, control_plane: ControlPlane
) -> None:
    jobs = [{"pool": "kubernetes", "image": "busybox", "command": ["sleep", "3600"]}]
    submitted = call(standalone, "/jobs", {"queue": "default", "jobSet": "long", "jobs": jobs})
    job, position = submitted["jobs"][0]["id"], submitted["position"]

    def state() -> str:
        found: str = call(standalone, f"/jobs/{job}?after={position}")["state"]
        return found

    standalone.wait_for(lambda: state() == "RUNNING")
    assert standalone.interrupt() == 0
    (pod,) = pods_of(control_plane, job)
    assert pod["status"]["phase"] == "Running"
    assert "deletionTimestamp" not in pod["metadata"]
    standalone.start()
    cancel = call(standalone, "/jobs/cancel", {"ids": [job]})
    assert wait_until_ended(standalone, job, cancel["position"])["state"] == "CANCELLED"
    (run,) = call(standalone, f"/jobs/{job}")["runs"]
    assert run["state"] == "STOPPED", "the second start stops the run of the first one"
    (pod,) = pods_of(control_plane, job)
    assert "deletionTimestamp" in pod["metadata"]


def test_expired_credentials_are_named_before_anything_is_started(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "expired.yaml"
    certificate = control_plane.certificate.read_bytes()
    write_kubeconfig(kubeconfig, control_plane.url, certificate, "expired")
    with (
        StandaloneInstallation(tmp_path, "--kubeconfig", str(kubeconfig)) as refused,
        pytest.raises(ServerFailed),
    ):
        refused.start()
    assert f"--kubeconfig {kubeconfig}: the cluster at {control_plane.url}" in refused.printed
    assert "renew the credentials" in refused.printed
    assert "Traceback" not in refused.printed
    assert not (tmp_path / "data" / "logs" / "web.log").exists()
