"""What the Helm chart installs runs jobs on a real Kubernetes API server."""

from collections.abc import Iterator

import httpx2
import pytest

from fairlead import Client, Job
from tests.integration.deploy.charted import Charted
from tests.kubernetes_control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def client(charted: Charted, admin_token: str) -> Iterator[Client]:
    with Client(charted.address, token=admin_token) as client:
        client.create_queue("default")
        yield client


def job(**annotations: str) -> Job:
    """A job for the nodes of KWOK, which do what its annotations say."""
    named = {f"fairlead.test/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return Job(image="x", command=("x",), annotations=named)


def test_jobs_run_as_pods_and_end_as_the_containers_do(
    charted: Charted, client: Client, control_plane: ControlPlane
) -> None:
    jobs = [job(run_for="1s"), job(run_for="1s", exit_code="3")]
    done = client.submit("default", "hello", jobs)
    assert client.wait("default", "hello", timeout_s=120).states == {"SUCCEEDED": 1, "FAILED": 1}
    pod = control_plane.request("GET", f"/api/v1/namespaces/default/pods/{done.jobs[0].id}-1")
    assert pod["metadata"]["labels"]["fairlead.dev/executor"] == "east"
    assert pod["status"]["phase"] == "Succeeded"


def test_a_running_job_can_be_cancelled(client: Client) -> None:
    (endless,) = client.submit("default", "endless", [job()]).jobs
    for event in client.events("default", "endless"):
        if event.type == "running":
            break
    client.cancel([endless.id])
    assert client.wait("default", "endless", timeout_s=120).states == {"CANCELLED": 1}


@pytest.mark.parametrize("service", ["submit", "lookout"])
def test_each_service_reports_its_readiness(charted: Charted, service: str) -> None:
    assert httpx2.get(f"{charted.address}/readyz/{service}").status_code == 200


def test_metrics_are_not_exposed(charted: Charted) -> None:
    assert not httpx2.get(f"{charted.address}/metrics").is_success
    lookout = charted.containers["lookout"].address
    assert httpx2.get(f"http://{lookout}:8080/metrics", headers={"Host": "localhost"}).is_success
