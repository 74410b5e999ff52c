"""Each request of the table is answered as it says, by a whole system, and nothing is done."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2
import msgspec
import pytest

from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation
from tests.e2e import bad_arrays, bad_groups, bad_input, bad_manifests
from tests.e2e.bad_input import Case

QUEUE: Final = "bad-input"
ANSWER_S_MAX: Final = 60.0
API: Final = "/api/v1"
DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "openapi.json"
CASES: Final[dict[str, Case]] = {
    **bad_input.CASES,
    **{f"manifests: {name}": case for name, case in bad_manifests.CASES.items()},
    **{f"groups: {name}": case for name, case in bad_groups.CASES.items()},
    **{f"arrays: {name}": case for name, case in bad_arrays.CASES.items()},
}


class Running(NamedTuple):
    """A whole system with a queue and a job that waits in it."""

    standalone: StandaloneInstallation
    client: httpx2.Client
    job: str


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with StandaloneInstallation(
        tmp_path_factory.mktemp("bad"), environment=PYTHON_ENGINE
    ) as standalone:
        standalone.start()
        headers = {"Authorization": f"Bearer {standalone.token}"}
        with httpx2.Client(
            base_url=f"{standalone.address}/api/v1", headers=headers, timeout=ANSWER_S_MAX
        ) as client:
            assert client.post("/queues", json={"name": QUEUE}).status_code == 201
            held = {"queue": QUEUE, "jobSet": "there", "jobs": [{**bad_input.RUN, "hold": True}]}
            answer = client.post("/jobs", json=held)
            assert answer.status_code == 200, answer.text
            job = answer.json()["jobs"][0]["id"]
            seen = client.get(
                f"/jobs/{job}", params={"after": answer.json()["position"], "wait": "60s"}
            )
            assert seen.status_code == 200, seen.text
            yield Running(standalone, client, job)


def filled(text: bytes, running: Running) -> bytes:
    return text.replace(b"{queue}", QUEUE.encode()).replace(b"{job}", running.job.encode())


def ask(case: Case, running: Running) -> httpx2.Response:
    content = case.body if isinstance(case.body, bytes) else None
    if content is None and case.body is not None:
        content = msgspec.json.encode(case.body)
    headers = dict(case.headers)
    if content is not None:
        headers.setdefault("Content-Type", bad_input.JSON)
        if "Content-Encoding" not in headers:
            content = filled(content, running)
    path = filled(case.path.encode(), running).decode()
    return running.client.request(case.method, path, content=content, headers=headers)


def test_the_table_has_the_expected_number_of_cases() -> None:
    assert len(CASES) >= 80


def test_the_table_has_a_wrong_request_for_every_call() -> None:
    document = msgspec.json.decode(DOCUMENT.read_bytes())
    calls = {
        (method.upper(), path.removeprefix(API))
        for path, item in document["paths"].items()
        for method in item
        if path.startswith(API)
    }
    wrong = [(case.method, case.path) for case in CASES.values() if case.status >= 400]
    missing = {
        (method, path)
        for method, path in calls
        if not any(method == other and is_of(path, asked) for other, asked in wrong)
    }
    assert not missing


def is_of(path: str, asked: str) -> bool:
    """Whether this request goes to that path of the document."""
    return re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", path), asked.partition("?")[0]) is not None


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_wrong_request_is_answered_as_the_table_says(running: Running, case: Case) -> None:
    answer = ask(case, running)
    assert answer.status_code == case.status, answer.text[:2_000]
    if case.status < 400:
        return
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"]
    problem = answer.json()
    assert problem["status"] == case.status
    assert problem["instance"] == answer.headers["x-request-id"]
    assert problem["type"].startswith("/problems/")
    assert problem["title"]
    assert len(problem["detail"]) < 2_000
    if case.pointer:
        assert case.pointer in [error["pointer"] for error in problem["errors"]], problem
    assert all(error["detail"] for error in problem.get("errors", []))
    assert len(answer.content) < 200_000


def test_no_invalid_request_had_an_effect(running: Running) -> None:
    for case in CASES.values():
        if case.status in (400, 422) and case.method != "GET":
            ask(case, running)
    listed: Any = running.client.get("/jobs", params={"queue": QUEUE}).json()  # JSON
    assert [job["id"] for job in listed["jobs"]] == [running.job]
    assert listed["jobs"][0]["state"] == "QUEUED"
    names = {queue["name"] for queue in running.client.get("/queues").json()["queues"]}
    assert names == {QUEUE, "default"}
