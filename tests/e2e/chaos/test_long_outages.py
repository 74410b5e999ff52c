"""The database or the broker is away for a while: everything waits, and goes on by itself."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from fairlead import Client
from fairlead_common.service import clock
from fairlead_standalone.service.testing import StandaloneInstallation
from tests.conftest import Server
from tests.e2e.chaos.test_full_disk import job
from tests.e2e.chaos.test_kills import check_views, has_lines, lines

JOBS = 300
AWAY = [10, pytest.param(600, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])]
PROBES = {"FAIRLEAD_PROBE_S": "0.5"}
"""Six seconds without an answer, and the supervisor would kill: less than a server is away."""
RESTARTS_MAX = 1
"""A leader that lost its lock starts anew; nothing else ends."""


def outlast(
    standalone: StandaloneInstallation, folder: Path, away_s: float, kill: Callable[[], None]
) -> None:
    """Kill a server while jobs run, and have it back after so long; then all jobs succeed once."""
    with (
        Client(standalone.address, token=standalone.token) as client,
        httpx2.Client(base_url=standalone.address, timeout=60) as http,
    ):
        client.submit("default", "set", [job(folder, number) for number in range(JOBS)])
        standalone.wait_for(lambda: has_lines(folder, JOBS // 6))
        kill()
        end_s = clock.monotonic_s() + away_s
        headers = {"Authorization": f"Bearer {standalone.token}"}
        while clock.monotonic_s() < end_s:
            # a job that the view does not know yet, so that the log is needed for it
            body = {"queue": "default", "jobSet": "other", "jobs": [{"command": ["true"]}]}
            answer = http.post("/api/v1/jobs", json=body, headers=headers)
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["retry-after"]) >= 1
            assert http.get("/healthz").status_code == 200


def check(standalone: StandaloneInstallation, folder: Path, log_url: str, web: int) -> None:
    """Everything went on, and no process was started again and again."""
    with Client(standalone.address, token=standalone.token) as client:
        standalone.wait_ready()
        assert client.wait("default", "set").states == {"SUCCEEDED": JOBS}
    ran = Counter(lines(folder))
    assert len(ran) == JOBS
    assert set(ran.values()) == {1}
    check_views(standalone, log_url)
    assert standalone.child("web").pid == web, standalone.printed
    for name in ("web", "scheduler", "executor"):
        assert standalone.printed.count(f"{name} ended") <= RESTARTS_MAX, standalone.printed


@pytest.mark.parametrize("away_s", AWAY)
def test_services_wait_for_an_unavailable_database(
    tmp_path: Path, postgres_server: Server, fresh_database: str, away_s: float
) -> None:
    with StandaloneInstallation(
        tmp_path, "--postgres", fresh_database, environment=PROBES
    ) as standalone:
        standalone.start()
        web = standalone.child("web").pid
        outlast(standalone, tmp_path, away_s, postgres_server.kill)
        postgres_server.restart()
        check(standalone, tmp_path, fresh_database, web)


@pytest.mark.kafka
@pytest.mark.parametrize("away_s", AWAY)
def test_services_wait_for_an_unavailable_broker(
    tmp_path: Path, fresh_kafka_broker: Server, away_s: float
) -> None:
    with StandaloneInstallation(
        tmp_path, "--kafka", fresh_kafka_broker.url(), environment=PROBES
    ) as standalone:
        standalone.start()
        web = standalone.child("web").pid
        outlast(standalone, tmp_path, away_s, fresh_kafka_broker.kill)
        fresh_kafka_broker.restart()
        check(standalone, tmp_path, fresh_kafka_broker.url(), web)
