"""Every type of problem has a page, where its `type` says it is and in the documentation."""

import ast
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from fairlead_common.domain.problems import TYPES
from fairlead_common.service.settings import Settings
from fairlead_common.web import server
from tests.architecture.sources import sources
from tools import problem_docs as tool

BY_STATUS_ALONE = {"method-not-allowed"}
"""Raised by the framework, which knows statuses."""


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an app with no routes of its own."""
    app = server.build_app("test", [], {}, Settings())
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def raised() -> Iterator[str]:
    """The slugs that our code names when it refuses something."""
    for source in sources("libs", "services"):
        for node in ast.walk(source.tree):
            match node:
                case ast.Call(
                    func=ast.Name(id="Problem")
                    | ast.Attribute(attr="Problem" | "refuse" | "problem"),
                    args=[ast.Constant(value=str(slug)), *_],
                ):
                    yield slug
                case _:
                    continue


def test_every_problem_type_that_is_raised_has_a_page() -> None:
    assert set(raised()) | BY_STATUS_ALONE == set(TYPES)


def test_a_status_belongs_to_one_type() -> None:
    assert len({kind.status for kind in TYPES.values()}) == len(TYPES)


def test_the_documentation_has_the_pages_as_they_are() -> None:
    written = {file.name: file.read_text() for file in tool.FOLDER.glob("*")}
    assert written == tool.pages(), "run: python tools/problem_docs.py"


@pytest.mark.parametrize("slug", sorted(TYPES))
async def test_a_problem_page_has_meaning_and_remedy(http: httpx2.AsyncClient, slug: str) -> None:
    page = await http.get(f"/problems/{slug}", headers={"Accept": "text/html"})
    text = await http.get(f"/problems/{slug}")
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for answer in (page, text):
        assert answer.status_code == 200
        assert "What it means" in answer.text
        assert "What to do" in answer.text
        assert str(TYPES[slug].status) in answer.text


async def test_the_list_of_problems_links_to_all_pages(http: httpx2.AsyncClient) -> None:
    page = (await http.get("/problems", headers={"Accept": "text/html"})).text
    assert all(f'href="/problems/{slug}"' in page for slug in TYPES)


async def test_an_unknown_problem_type_is_not_found(http: httpx2.AsyncClient) -> None:
    for name in ("nonsense", "<script>", "x" * 90):
        answer = await http.get(f"/problems/{name}", headers={"Accept": "text/html"})
        assert answer.status_code == 404
        assert "<script>" not in answer.text or "json" in answer.headers["content-type"]
