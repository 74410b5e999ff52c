"""The document of the API: reviewed when it changes, and what the server does is in it."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import pytest

from fairlead_common.web import openapi
from tests.integration.middleware.web_app import WebApp
from tools.openapi import DOCUMENT

JSON = "application/json"
SHORT = ("--phases", "examples,fuzzing", "-n", "2", "--max-time", "40")
LONG = ("-n", "12")
"""In all phases: also values at the edges of what the document permits, and calls in sequences."""
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,unsupported_method,"
    "allow_header_conformance,ignored_auth"
)
LEFT_OUT = {
    "/api/v1/tokens/{token_id}": "it would revoke the token with which it asks",
    "/sign-out": "the same",
    "/api/v1/events": "it goes on without end when told to follow",
}

NO_VIEW = {
    "/api/v1/actions/{action}": "it is read where it is written",
    "/api/v1/priority-classes": "they are settings",
    "/api/v1/saved-views": "they are not a part of the view of the log",
    "/api/v1/quarantine": "nobody who calls has written what it holds",
}


async def test_the_committed_openapi_document_is_current(app: WebApp) -> None:
    made = openapi.text(app.app.openapi())
    assert made == DOCUMENT.read_bytes(), "review the change, then run: python tools/openapi.py"


async def test_the_server_serves_the_committed_openapi_document(app: WebApp) -> None:
    answer = await app.client.get("/openapi.json")
    assert answer.json() == msgspec.json.decode(DOCUMENT.read_bytes())


async def test_every_call_documents_its_effect_and_problems(app: WebApp) -> None:
    document = app.app.openapi()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            place = f"{method} {path}"
            assert operation.get("summary"), place
            failures = {status for status in operation["responses"] if status >= "400"}
            assert {"400", "429", "503"} <= failures, place
            if operation.get("security") != []:
                assert {"401", "403"} <= failures, place
            if "{" in path and path.startswith("/api/"):
                assert failures & {"404", "403"}, place
            if "requestBody" in operation:
                assert {"413", "415", "422"} <= failures, place
                kinds = operation["requestBody"]["content"].values()
                assert all("example" in kind for kind in kinds), place


async def test_operations_have_good_names_and_described_parameters(app: WebApp) -> None:
    ids = []
    for path, operations in app.app.openapi()["paths"].items():
        for method, operation in operations.items():
            place = f"{method} {path}"
            ids.append(operation["operationId"])
            assert ids[-1].isalpha(), place
            for parameter in operation.get("parameters", ()):
                assert parameter.get("description"), (place, parameter["name"])
            for status, response in operation["responses"].items():
                for kind, content in response.get("content", {}).items():
                    assert content["schema"], (place, status, kind)
    assert len(set(ids)) == len(ids)


async def test_every_read_of_a_view_accepts_a_position(app: WebApp) -> None:
    for path, operations in app.app.openapi()["paths"].items():
        if path.startswith("/api/") and path not in NO_VIEW and "get" in operations:
            taken = {parameter["name"] for parameter in operations["get"]["parameters"]}
            assert {"after", "wait"} <= taken, path


async def test_calls_with_etags_document_them(app: WebApp) -> None:
    for path, operations in app.app.openapi()["paths"].items():
        for method, operation in operations.items():
            given = {parameter["name"] for parameter in operation.get("parameters", ())}
            for status, header in (("304", "if-none-match"), ("412", "if-match")):
                assert (status in operation["responses"]) is (header in given), (method, path)


async def test_the_server_accepts_the_examples(app: WebApp) -> None:
    await app.client.post("/api/v1/queues", json={"name": "physics"})
    document = app.app.openapi()
    for path, operations in document["paths"].items():
        body = operations.get("post", {}).get("requestBody")
        if body is None or "{" in path or JSON not in body["content"]:
            continue
        example = body["content"][JSON]["example"]
        answer = await app.client.post(path, json=example)
        assert answer.status_code in (200, 201, 202, 404, 409), (path, answer.text)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.nightly, pytest.mark.timeout(3_600)]),
    ],
)
async def test_generated_requests_get_only_documented_responses(
    app: WebApp, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Schemathesis over a real socket."""
    task = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{app.client.base_url}/openapi.json"),
        *("-H", f"Authorization: Bearer {app.token}", "--checks", CHECKS, "--seed", "1"),
        *("--request-timeout", "30", *options),
        *(part for path in LEFT_OUT for part in ("--exclude-path", path)),
        *("--no-color", "--generation-database", "none", "--continue-on-failure"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(part for part in sys.path if part),
            "SCHEMATHESIS_HOOKS": "tests.integration.middleware.schemathesis_hooks",
        },
    )
    output, _ = await task.communicate()
    assert task.returncode == 0, output.decode()
