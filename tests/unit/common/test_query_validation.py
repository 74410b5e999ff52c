"""What a query may hold: durations, tags, and every error of it in one answer."""

from collections.abc import AsyncIterator
from typing import Annotated

import httpx2
import pytest
from fastapi import APIRouter, Query

from fairlead_common.service.settings import Settings
from fairlead_common.web import openapi, server
from fairlead_common.web.requests import etags, query_validation
from fairlead_common.web.requests.query_validation import After, Wait


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30.0), ("500ms", 0.5), ("2", 2.0), ("1.5s", 1.5), ("5m", 60.0), (None, 7.0)],
)
def test_durations(text: str | None, seconds: float) -> None:
    assert query_validation.parse_wait_s(text, 7.0) == seconds


@pytest.mark.parametrize("text", ["", "-1s", "1h", "soon", "1e3", "99999999s", "٣s"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid duration"):
        query_validation.parse_wait_s(text, 7.0)


@pytest.mark.parametrize(
    ("header", "is_known", "matches"),
    [
        ('"7"', True, True),
        ('"6", "7"', True, True),
        ("*", True, True),
        ('W/"7"', True, False),  # a proxy has compressed the answer: still the same thing
        ('"6",W/"7"', True, False),
        ('"8"', False, False),
        ("7", False, False),
        ("", False, False),
        (None, False, False),
    ],
)
def test_a_tag_is_found_in_a_header(header: str | None, is_known: bool, matches: bool) -> None:
    assert etags.is_known(header, '"7"') is is_known
    assert etags.matches(header, '"7"') is matches


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    router = APIRouter(route_class=query_validation.StrictRoute)

    @router.get("/problems/things", openapi_extra={openapi.PREFIXES: ["label."]})
    async def things(
        kind: str,
        limit: Annotated[int, Query(ge=1)] = 1,
        after: After = None,
        wait: Wait = None,
    ) -> list[object]:
        return [kind, limit, after, wait]

    app = server.build_app("test", [router], {}, Settings())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def test_valid_parameters_are_accepted(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/problems/things?kind=a&limit=2&wait=2s&label.team=vision")
    assert answer.json() == ["a", 2, None, "2s"]


async def test_all_errors_of_a_query_are_listed_in_one_response(http: httpx2.AsyncClient) -> None:
    query = "limit=0&wait=soon&colour=red&after=x&after=y&label.=1&a~/b=1"
    answer = await http.get(f"/problems/things?{query}")
    assert answer.status_code == 422
    found = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert found == {
        "/query/limit": "Input should be greater than or equal to 1",
        "/query/wait": "'soon' is not a valid duration; write it like 30s or 500ms.",
        "/query/colour": "This parameter does not exist here; the parameters are after, kind,"
        " limit, wait, label.<name>.",
        "/query/after": "This parameter is given more than once.",
        "/query/label.": "Write label.<name>=<value>.",
        "/query/a~0~1b": found["/query/colour"],
        "/query/kind": "This parameter is missing.",
    }


async def test_the_number_of_labels_is_limited(http: httpx2.AsyncClient) -> None:
    query = "&".join(f"label.l{n}=x" for n in range(17))
    answer = await http.get(f"/problems/things?kind=a&{query}")
    (error,) = answer.json()["errors"]
    assert error == {"pointer": "/query/label.", "detail": "17 are given; at most 16 are allowed."}


async def test_a_path_with_an_extra_slash_is_not_found(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/problems/things/x/")
    assert answer.status_code == 404
    assert answer.json()["detail"].startswith("/problems/things/x/ does not exist.")
