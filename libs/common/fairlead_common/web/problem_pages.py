"""The pages of problem types: Markdown for the documentation, HTML for the link in `type`."""

import html
import re
from typing import Final

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse

from fairlead_common.domain.problems import TYPES, Problem, ProblemType
from fairlead_common.web.routing import DeferredRoute

_CODE: Final = re.compile(r"`([^`]+)`")
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"></head>
<body><main>
{body}
</main></body></html>
"""


def markdown(slug: str) -> str:
    """The page of one type."""
    kind = TYPES[slug]
    lines = [f"# {kind.title}", f"`/problems/{slug}`, status {kind.status}"]
    lines += ["## What it means", *kind.means, "## What to do", *kind.do]
    return "\n\n".join(lines) + "\n"


def contents() -> str:
    """The list of all types."""
    rows = [f"| [{slug}]({slug}.md) | {kind.status} | {kind.title} |" for slug, kind in _ordered()]
    head = [
        "# Problems",
        "",
        "Every error of the API is a problem document (RFC 9457), whose `type` is one of these.",
        "`tools/problem_docs.py` makes these pages from `fairlead_common/domain/problems.py`; a"
        " running server shows them at the same addresses.",
        "",
        "| type | status | title |",
        "| --- | --- | --- |",
    ]
    return "\n".join([*head, *rows]) + "\n"


def routes() -> APIRouter:
    """`/problems` and `/problems/{slug}`, open to everybody: HTML for browsers, else text."""
    router = APIRouter(tags=["problems"], route_class=DeferredRoute)

    @router.get(
        "/problems",
        summary="All problem types",
        response_class=PlainTextResponse,
        responses={200: _PAGE_RESPONSE},
    )
    async def list_problems(request: Request) -> Response:
        if not _wants_html(request):
            return PlainTextResponse(
                "".join(f"{slug}: {kind.title}\n" for slug, kind in _ordered())
            )
        rows = (
            f'<li><a href="/problems/{slug}">{slug}</a> ({kind.status}): {html.escape(kind.title)}'
            for slug, kind in _ordered()
        )
        return _page("Problems", "<h1>Problems</h1><ul>" + "".join(rows) + "</ul>")

    @router.get(
        "/problems/{slug}",
        summary="What a problem type means, and what to do about it",
        response_class=PlainTextResponse,
        responses={200: _PAGE_RESPONSE, 404: {"description": "This problem type does not exist."}},
    )
    async def get_problem(request: Request, slug: str = Path(max_length=100)) -> Response:
        if slug not in TYPES:
            raise Problem("not-found", f"There is no problem type {slug[:100]!r}.")
        if not _wants_html(request):
            return PlainTextResponse(markdown(slug))
        return _page(TYPES[slug].title, _html(slug))

    return router


_PAGE_RESPONSE: Final = {
    "description": "HTML for browsers, else Markdown as text.",
    "content": {
        "text/plain": {"schema": {"type": "string"}},
        "text/html": {"schema": {"type": "string"}},
    },
}


def _ordered() -> list[tuple[str, ProblemType]]:
    return sorted(TYPES.items(), key=lambda item: (item[1].status, item[0]))


def _wants_html(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _html(slug: str) -> str:
    kind = TYPES[slug]
    parts = [
        f"<h1>{_line(kind.title)}</h1>",
        f"<p><code>/problems/{slug}</code>, status {kind.status}</p>",
        "<h2>What it means</h2>",
        *(f"<p>{_line(text)}</p>" for text in kind.means),
        "<h2>What to do</h2>",
        *(f"<p>{_line(text)}</p>" for text in kind.do),
        '<p><a href="/problems">All problem types</a></p>',
    ]
    return "\n".join(parts)


def _line(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(text))


def _page(title: str, body: str) -> Response:
    return HTMLResponse(_PAGE.format(title=html.escape(title), body=body))
