"""Sign-in, secrets in logs and streams of a Fairlead that `fairlead up` started."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation

SECRET = "fl_ThisSecretMustNeverBeInALog"


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[StandaloneInstallation]:
    """A running Fairlead."""
    debug = {**PYTHON_ENGINE, "FAIRLEAD_LOG_LEVEL": "DEBUG"}
    with StandaloneInstallation(tmp_path, environment=debug) as running:
        running.start()
        yield running


@pytest.fixture
def http(standalone: StandaloneInstallation) -> Iterator[httpx2.Client]:
    """A client without credentials, which keeps cookies as a browser does."""
    with httpx2.Client(base_url=standalone.address, timeout=30) as client:
        yield client


def code(standalone: StandaloneInstallation) -> str:
    """That of the link that was printed."""
    found = re.search(r"/sign-in\?code=(\S+)", standalone.printed)
    assert found is not None
    return found[1]


def test_the_stream_of_a_browser_ends_with_the_server_and_no_log_holds_a_secret(
    standalone: StandaloneInstallation, http: httpx2.Client
) -> None:
    token, printed = standalone.token, code(standalone)
    mine = {"Authorization": f"Bearer {token}"}
    assert http.get("/api/v1/queues", headers=mine).status_code == 200
    for wrong in (
        {"Authorization": f"Bearer {SECRET}"},
        {"Authorization": f"Basic {SECRET}"},
        {"Cookie": f"fairlead_session_{http.base_url.port}={SECRET}"},
    ):
        assert http.get("/api/v1/queues", headers=wrong).status_code == 401
    assert http.get(f"/sign-in?code={SECRET}").status_code == 401
    assert http.get(f"/sign-in?code={printed}").status_code == 303
    session = http.cookies[f"fairlead_session_{http.base_url.port}"]
    wanted = {"name": "ci", "roles": ["viewer"]}
    made = httpx2.post(f"{standalone.address}/api/v1/tokens", json=wanted, headers=mine).json()[
        "token"
    ]
    assert http.get("/", headers={"Accept": "text/html"}).status_code == 200
    with http.stream("GET", "/live/jobsets") as stream:
        assert stream.status_code == 200
        pieces = stream.iter_raw()
        assert next(pieces)
        standalone.interrupt()
        list(pieces)  # to its end: a stream that broke off would raise
    logs = b"".join(file.read_bytes() for file in (standalone.data / "logs").iterdir())
    assert b"made a token of ci" in logs, "the audit is there"
    for secret in (token, SECRET, printed, session, made):
        assert secret.encode() not in logs
