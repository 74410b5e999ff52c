"""Routes that are built late, and calls that go past the framework, answer as all others do."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from pydantic_core import core_schema

from fairlead_common.domain.errors import LogUnavailable
from fairlead_common.domain.problems import Problem
from fairlead_common.service.settings import Settings
from fairlead_common.web import routing, server
from tests.unit.common.callers import Only


def of_who_asks(request: Request) -> str:
    """Something that only the framework can find out."""
    return str(request.state.caller.name)


def routes() -> APIRouter:
    """One route per kind."""
    router = APIRouter(prefix="/api", route_class=routing.DeferredRoute)

    @router.post("/plain")
    async def plain(request: Request) -> Response:
        return Response(await request.body(), headers={"x-name": request.state.caller.name})

    @router.get("/problem")
    async def problem(request: Request) -> Response:
        raise Problem("conflict", f"{request.url.path} is taken.", retry_after_s=7)

    @router.get("/world")
    async def world(request: Request) -> Response:
        raise LogUnavailable("the log is unavailable")

    @router.get("/mistake")
    async def mistake(request: Request) -> Response:
        raise AssertionError("this cannot be")

    @router.get("/things/{number}")
    async def thing(request: Request, number: int) -> Response:
        return Response(str(number))

    @router.get("/limited")
    async def limited(request: Request, limit: Annotated[int, Query(le=10)] = 5) -> Response:
        return Response(str(limit))

    @router.get("/depends", dependencies=[Depends(of_who_asks)])
    async def depends(request: Request) -> Response:
        return Response("")

    @router.get("/object")
    async def an_object(request: Request) -> dict[str, int]:
        return {"number": 1}

    return router


def test_endpoints_with_request_and_response_are_dispatched_directly() -> None:
    assert set(routing.find_endpoints([routes()])) == {
        ("POST", "/api/plain"),
        ("GET", "/api/problem"),
        ("GET", "/api/world"),
        ("GET", "/api/mistake"),
    }


def test_the_first_of_two_equal_routes_counts() -> None:
    first, second = routes(), routes()
    found = routing.find_endpoints([first, second])
    assert found == routing.find_endpoints([first]) != routing.find_endpoints([second])


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an app with those routes."""
    app = server.build_app("test", [routes()], {}, Settings(), identify=Only())
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_a_direct_call_has_its_body_and_caller(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.post("/api/plain", content=b"abc", headers={"X-Request-Id": "abc-1"})
    assert (answer.status_code, answer.content) == (200, b"abc")
    assert answer.headers["x-name"] == "tester"
    assert answer.headers["x-request-id"] == "abc-1"
    assert "ratelimit" in answer.headers


async def test_problems_of_a_direct_call_are_returned(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/api/problem")
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "7")
    assert answer.json()["detail"] == "/api/problem is taken."
    assert answer.json()["instance"] == answer.headers["x-request-id"]


async def test_external_errors_of_a_direct_call_are_returned(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/api/world")
    assert (answer.status_code, answer.json()["detail"]) == (503, "the log is unavailable")


async def test_internal_errors_of_a_direct_call_reveal_only_an_id(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/api/mistake", headers={"X-Request-Id": "abc-1"})
    assert (answer.status_code, answer.json()["type"]) == (500, "/problems/internal")
    assert answer.json()["instance"] == "abc-1"
    assert "this cannot be" not in answer.text


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/api/things/7", (200, "7")),
        ("/api/limited?limit=9", (200, "9")),
        ("/api/depends", (200, "")),
        ("/api/object", (200, '{"number":1}')),
    ],
)
async def test_the_framework_routes_all_other_calls(
    http: httpx2.AsyncClient, path: str, want: tuple[int, str]
) -> None:
    answer = await http.get(path)
    assert (answer.status_code, answer.text) == want


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/plain", 405),
        ("POST", "/api/plain/more", 404),
        ("GET", "/api/limited?limit=11", 422),
    ],
)
async def test_an_unknown_path_is_refused_by_the_framework(
    http: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await http.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


class Traced:
    """A type of parameters that counts the validators that are built for it."""

    built = 0

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> core_schema.CoreSchema:
        cls.built += 1
        return core_schema.str_schema()


def traced_app(kind: type[Traced]) -> FastAPI:
    """An app with one route, whose parameter is of this type."""
    router = APIRouter(route_class=routing.DeferredRoute)

    @router.get("/problems/traced/{name}")
    async def read_traced(name: str, value: Annotated[kind, Query()]) -> str:  # type: ignore[valid-type]
        return f"{name} {value}"

    return server.build_app("test", [router], {}, Settings())


async def test_a_route_is_built_at_its_first_request() -> None:
    class Parameter(Traced):
        """Of this test alone."""

    app = traced_app(Parameter)
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/problems")).status_code == 200
        assert Parameter.built == 0
        answers = [await client.get("/problems/traced/a?value=b") for _ in range(2)]
        built = Parameter.built
        answers.append(await client.get("/problems/traced/a?value=b"))
    assert [answer.json() for answer in answers] == ["a b"] * 3
    assert Parameter.built == built > 0


def test_the_document_has_routes_that_nobody_requested() -> None:
    class Parameter(Traced):
        """Of this test alone."""

    operation = traced_app(Parameter).openapi()["paths"]["/problems/traced/{name}"]["get"]
    assert operation["operationId"] == "readTraced"
    assert [each["name"] for each in operation["parameters"]] == ["name", "value"]


def test_a_route_has_no_other_attributes() -> None:
    (route, *_) = routes().routes
    assert not hasattr(route, "unknown")
    assert not hasattr(route, "unknown")


def test_a_mistake_in_a_route_is_reported_at_each_use() -> None:
    def unserved(name: Annotated[str, Query()]) -> None:
        """It takes a part of its path for a parameter of the query."""

    route = routing.DeferredRoute("/things/{name}", unserved)
    for _ in range(2):
        with pytest.raises(AssertionError, match="Cannot use `Query` for path param 'name'"):
            _ = route.dependant
