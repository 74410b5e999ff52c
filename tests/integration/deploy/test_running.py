"""What the compose file starts does what it should, behind a real gateway and on real servers."""

import json
from collections.abc import Iterator
from typing import Final

import httpx2
import pytest

from fairlead import Client, Job
from fairlead_common.service.access_settings import RequestLimits
from tests.conftest import ROOT
from tests.integration.deploy.composed import Composed
from tests.kafka_broker import BrokerUnavailable

pytestmark = pytest.mark.kafka

HOST: Final = {"Host": "127.0.0.1:8080"}
WRONG: Final = {"Authorization": "Bearer fl_wrong"}
FAILURES: Final = RequestLimits().failures_burst * 2


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    """A whole Fairlead with two submits."""
    try:
        made = Composed(tmp_path_factory.mktemp("composed"))
        with made:
            yield made
    except BrokerUnavailable as error:
        pytest.skip(f"no Kafka broker: {error}")


@pytest.fixture(scope="module")
def token(composed: Composed) -> str:
    """The first token and queue, made as the head of docker-compose.yml says."""
    words = ("python", "-m", "fairlead_submit.make_token", "me", "admin")
    made = composed.exec("submit-1", *words)
    with Client(composed.address, token=made) as client:
        client.create_queue("default")
    return made


@pytest.fixture
def client(composed: Composed, token: str) -> Iterator[Client]:
    with Client(composed.address, token=token) as client:
        yield client


def test_a_job_runs_and_its_output_and_events_come_through_the_gateway(client: Client) -> None:
    done = client.submit("default", "hello", [Job(command=("echo", "hello"))])
    assert client.wait("default", "hello", timeout_s=120).states == {"SUCCEEDED": 1}
    assert b"".join(client.logs(done.jobs[0].id)) == b"hello\n"
    kinds = [event.type for event in client.events("default", "hello", until_finished=True)]
    assert kinds[0] == "submitted"


def test_the_document_describes_the_whole_api(composed: Composed) -> None:
    answer = httpx2.get(f"{composed.address}/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == json.loads((ROOT / "docs" / "openapi.json").read_bytes())


@pytest.mark.parametrize(
    ("service", "check"), [("submit", "submit-database"), ("lookout", "lookout view")]
)
def test_each_service_reports_its_readiness(composed: Composed, service: str, check: str) -> None:
    answer = httpx2.get(f"{composed.address}/readyz/{service}")
    assert answer.status_code == 200
    assert answer.json()["checks"][check] == "ok"


def test_a_failed_sign_in_is_a_page_too(composed: Composed) -> None:
    browser = {"Accept": "text/html"}
    answer = httpx2.get(f"{composed.address}/sign-in/callback?state=x", headers=browser)
    assert answer.status_code == 401
    assert "started in another browser" in answer.text
    assert answer.text.startswith("<!doctype html>")


def test_client_addresses_come_from_the_gateway(composed: Composed) -> None:
    """Wrong tokens are limited by address, so that they show which one a service sees."""
    assert 429 in wrong_tokens(composed.address, "127.0.0.2", FAILURES)
    assert wrong_tokens(composed.address, "127.0.0.3", 1) == {401}


def test_only_the_gateway_can_set_the_client_address(composed: Composed) -> None:
    lookout = f"http://{composed.containers['lookout'].address}:8080"
    assert 429 in wrong_tokens(lookout, "127.0.0.4", FAILURES)


def test_requests_succeed_while_one_of_two_submits_is_down(
    composed: Composed, client: Client
) -> None:
    jobs = [Job(command=("true",))]
    for name in ("submit-1", "submit-2"):
        for number in range(4):
            client.submit("default", f"both-{name}-{number}", jobs)
        composed.running[name].stop()
        for number in range(4):
            client.submit("default", f"without-{name}-{number}", jobs)
        composed.running[name].start()


def wrong_tokens(base: str, source: str, count: int) -> set[int]:
    """The statuses of so many requests with wrong tokens, that claim to be of anybody."""
    with httpx2.Client(transport=httpx2.HTTPTransport(local_address=source)) as http:
        return {
            http.get(
                f"{base}/api/v1/jobs",
                headers={**HOST, **WRONG, "X-Forwarded-For": f"10.0.{at // 250}.{at % 250}"},
            ).status_code
            for at in range(count)
        }
