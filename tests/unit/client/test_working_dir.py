"""Which folder `run` and `submit` let jobs start in."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from fairlead import cli
from fairlead.calls import job_location
from fairlead_executor.backends.process import machine
from tests.unit.client.fake_server import FILE, Server, accept


def clusters(server: Server, backend: str, labels: Mapping[str, str]) -> None:
    """One cluster of one node in the pool `default`, and one of Kubernetes in a pool of its own."""
    server.routes["GET /api/v1/clusters"] = lambda _: {
        "clusters": [
            {"executor": "local", "backend": backend, "pools": {"default": 1}},
            {"executor": "east", "backend": "kubernetes", "pools": {"east": 3}},
        ]
    }
    server.routes["GET /api/v1/clusters/local/nodes"] = lambda _: {
        "nodes": [{"node": "n", "labels": labels}]
    }


HERE = {job_location.HOST_USER: job_location.host_user()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sent(server: Server) -> dict[str, object]:
    """What was submitted."""
    (posted,) = [each for each in server.asked if each.path == "/api/v1/jobs"]
    body = posted.json()
    assert isinstance(body, dict)
    return body


def submit(server: Server, folder: Path, text: str, *options: str) -> dict[str, object]:
    server.routes["POST /api/v1/jobs"] = accept
    (folder / "jobs.yaml").write_text(text)
    assert cli.invoke(["submit", str(folder / "jobs.yaml"), *options]) == 0
    return sent(server)


def test_client_and_executor_compute_the_same_host_user() -> None:
    node = machine.this_machine("local", "default", {}, {})
    assert job_location.are_here([node.labels])
    assert machine.HOST_USER == job_location.HOST_USER


def test_jobs_start_in_the_current_folder_where_they_run_here(server: Server, folder: Path) -> None:
    clusters(server, "process", HERE)
    assert submit(server, folder, FILE)["defaults"] == {"cpu": 1, "workingDir": str(folder)}


def test_a_relative_working_dir_is_resolved_in_the_current_folder(
    server: Server, folder: Path
) -> None:
    clusters(server, "process", HERE)
    text = FILE + "  - {clientId: three, command: [ls], workingDir: data}\n"
    jobs = submit(server, folder, text)["jobs"]
    assert json.dumps(jobs).count(str(folder / "data")) == 1


def test_jobs_of_which_one_runs_on_kubernetes_get_no_folder(server: Server, folder: Path) -> None:
    clusters(server, "process", HERE)
    text = FILE + "  - {clientId: three, command: [ls], pool: east}\n"
    assert submit(server, folder, text)["defaults"] == {"cpu": 1}


def test_run_on_the_pool_of_a_cluster_uses_images_and_no_folder(
    server: Server, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters(server, "process", HERE)
    server.routes["POST /api/v1/jobs"] = accept
    words = ["run", "--detach", "--pool", "east", "--image", "python:3.12", "--", "true"]
    assert cli.invoke(words) == 0
    assert "image is not used" not in capsys.readouterr().err
    text = json.dumps(sent(server))
    assert '"pool": "east"' in text
    assert "workingDir" not in text


def test_scratch_leaves_the_folder_to_the_run(server: Server, folder: Path) -> None:
    clusters(server, "process", HERE)
    assert submit(server, folder, FILE, "--scratch")["defaults"] == {"cpu": 1}


@pytest.mark.parametrize(
    ("backend", "labels"),
    [
        ("process", {job_location.HOST_USER: "another"}),
        ("process", {}),
        ("simulated", HERE),
        ("kubernetes", HERE),
    ],
)
def test_jobs_that_run_elsewhere_get_no_folder(
    server: Server, folder: Path, backend: str, labels: Mapping[str, str]
) -> None:
    clusters(server, backend, labels)
    assert submit(server, folder, FILE)["defaults"] == {"cpu": 1}


def test_pod_specs_keep_their_own_folder(server: Server, folder: Path) -> None:
    clusters(server, "process", HERE)
    text = "{queue: q, jobSet: s, defaults: {podSpec: {containers: []}}, jobs: [{clientId: a}]}"
    assert submit(server, folder, text)["defaults"] == {"podSpec": {"containers": []}}


def test_a_relative_folder_is_refused_where_jobs_run_elsewhere(
    server: Server, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters(server, "kubernetes", {})
    assert cli.invoke(["run", "--working-dir", "data", "--", "true"]) == 2
    assert "absolute path" in capsys.readouterr().err


@pytest.mark.parametrize(("backend", "warned"), [("process", True), ("kubernetes", False)])
def test_an_image_that_no_backend_uses_is_reported(
    server: Server, capsys: pytest.CaptureFixture[str], backend: str, warned: bool
) -> None:
    clusters(server, backend, {})
    server.routes["POST /api/v1/jobs"] = accept
    assert cli.invoke(["run", "--detach", "--image", "python:3.12", "--", "true"]) == 0
    assert ("image is not used" in capsys.readouterr().err) is warned
