"""Errors as problem documents: every kind of refusal says what, why and where."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import APIRouter
from pydantic import BaseModel

from fairlead_common.domain.errors import AppendUnknown, FieldError, LogUnavailable, WorldError
from fairlead_common.domain.problems import TYPES, Problem
from fairlead_common.service.settings import Settings
from fairlead_common.web import server
from fairlead_common.web.problem_documents import FIELD_ERRORS_MAX
from tests.unit.common.callers import Only


class Wanted(BaseModel):
    """A body that FastAPI reads itself."""

    count: int


def routes() -> APIRouter:
    """One route per way to fail."""
    router = APIRouter()

    @router.get("/things/{number}")
    async def thing(number: int, limit: int = 10) -> dict[str, int]:
        return {"number": number, "limit": limit}

    @router.post("/wanted")
    async def wanted(body: Wanted) -> int:
        return body.count

    @router.get("/problem/{slug}")
    async def problem(slug: str) -> None:
        raise Problem(slug, "Because.", [FieldError("/jobs/0", "is odd")], retry_after_s=7)

    @router.get("/errors/{count}")
    async def errors(count: int) -> None:
        found = [FieldError(f"/jobs/{n}", "is odd") for n in range(count)]
        raise Problem("invalid", "Some jobs are odd.", found)

    @router.get("/world/{kind}")
    async def world(kind: str) -> None:
        known: dict[str, WorldError] = {
            "log": LogUnavailable("the log did not answer within 10 s"),
            "unknown": AppendUnknown("nobody knows"),
        }
        raise known[kind]

    @router.get("/mistake")
    async def mistake() -> None:
        raise AssertionError("this cannot be")

    return router


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an app with these routes."""
    app = server.build_app("test", [routes()], {}, Settings(), identify=Only())
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def document(answer: httpx2.Response, status: int, slug: str) -> dict[str, object]:
    """The body, after a look at what every problem document has."""
    body: dict[str, object] = answer.json()
    assert answer.status_code == status == body["status"]
    assert answer.headers["content-type"] == "application/problem+json"
    assert body["type"] == f"/problems/{slug}"
    assert body["instance"] == answer.headers["x-request-id"]
    assert body["title"]
    assert body["detail"]
    return body


async def test_an_unknown_path_is_404(http: httpx2.AsyncClient) -> None:
    document(await http.get("/nothing"), 404, "not-found")


async def test_an_unsupported_method_is_405(http: httpx2.AsyncClient) -> None:
    document(await http.delete("/things/1"), 405, "method-not-allowed")


async def test_parameters_that_are_not_valid_are_422_and_all_named(
    http: httpx2.AsyncClient,
) -> None:
    body = document(await http.get("/things/one?limit=many"), 422, "invalid")
    errors = body["errors"]
    assert isinstance(errors, list)
    assert {error["pointer"] for error in errors} == {"/path/number", "/query/limit"}
    assert all(error["detail"] for error in errors)


async def test_a_body_that_is_not_json_is_a_problem(http: httpx2.AsyncClient) -> None:
    answer = await http.post(
        "/wanted", content=b"{nonsense", headers={"content-type": "application/json"}
    )
    document(answer, 422, "invalid")


@pytest.mark.parametrize("slug", sorted(TYPES))
async def test_every_kind_of_problem_has_its_status_and_title(
    http: httpx2.AsyncClient, slug: str
) -> None:
    status, title = TYPES[slug].status, TYPES[slug].title
    answer = await http.get(f"/problem/{slug}")
    body = document(answer, status, slug)
    assert (body["title"], body["detail"]) == (title, "Because.")
    assert body["errors"] == [{"pointer": "/jobs/0", "detail": "is odd"}]
    assert answer.headers["retry-after"] == "7"


async def test_a_long_list_of_errors_is_truncated_and_counted(http: httpx2.AsyncClient) -> None:
    body = document(await http.get(f"/errors/{FIELD_ERRORS_MAX + 1}"), 422, "invalid")
    assert isinstance(body["errors"], list)
    assert len(body["errors"]) == FIELD_ERRORS_MAX
    assert (
        body["detail"]
        == f"Some jobs are odd. (the first {FIELD_ERRORS_MAX} of {FIELD_ERRORS_MAX + 1})"
    )


async def test_a_list_of_errors_within_the_limit_is_complete(http: httpx2.AsyncClient) -> None:
    body = document(await http.get(f"/errors/{FIELD_ERRORS_MAX}"), 422, "invalid")
    assert body["detail"] == "Some jobs are odd."


@pytest.mark.parametrize("kind", ["log", "unknown"])
async def test_an_external_failure_can_be_retried(http: httpx2.AsyncClient, kind: str) -> None:
    answer = await http.get(f"/world/{kind}")
    document(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_an_internal_error_reveals_no_details(
    http: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await http.get("/mistake", headers={"X-Request-Id": "abc-1"})
    body = document(answer, 500, "internal")
    assert body["instance"] == "abc-1"
    assert "this cannot be" not in answer.text
    assert "this cannot be" in caplog.text
