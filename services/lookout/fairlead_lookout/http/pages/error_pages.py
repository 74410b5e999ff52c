"""Error pages: what is wrong, and what to do about it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode, urlsplit

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from fairlead_common.domain.errors import FieldError, WorldError
from fairlead_common.domain.problems import Problem
from fairlead_common.service.access_settings import Issuer
from fairlead_common.web import problem_documents
from fairlead_lookout.http.pages.rendering import Templates

PAGE_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SIGN_IN_COMMAND: Final = "fairlead token link"
_PROBLEM_HEADERS: Final = ("www-authenticate", "retry-after", "allow")
"""Headers of a problem that a browser understands, for example to ask for a password."""
_TITLES: Final = {
    400: "Invalid address",
    401: "Sign in",
    403: "Access denied",
    404: "Not found",
    422: "Invalid address",
    503: "Temporarily unavailable",
}


def build_error_page(
    templates: Templates, issuers: Sequence[Issuer] = ()
) -> Callable[[Request, Problem | WorldError], Response]:
    """Makes the function that renders an error page."""

    def render(request: Request, error: Problem | WorldError) -> Response:
        status, title, text, command = 503, _TITLES[503], str(error), None
        headers = dict(PAGE_HEADERS)
        if isinstance(error, Problem):
            plain = problem_documents.build_response(request, error)
            status = plain.status_code
            title = _TITLES.get(status, "The request failed")
            detail = error.detail.removesuffix(problem_documents.CALLS_HINT)
            text = " ".join([detail, *map(_describe_field, error.field_errors)])
            headers |= {
                name: plain.headers[name] for name in _PROBLEM_HEADERS if name in plain.headers
            }
        if status == 401 and request.url.path == "/sign-in":
            text = text.partition(". ")[0] + ". This command prints a new link:"
            command = SIGN_IN_COMMAND
        elif status == 401 and not request.url.path.startswith("/sign-in/"):
            text = (
                "This browser is not signed in. Run this command on the machine where Fairlead"
                " runs; it prints a link that signs you in:"
            )
            command = SIGN_IN_COMMAND
        target = _find_target(request)
        body = templates.render(
            "message.html",
            title=title,
            text=text,
            command=command,
            home=status == 404,
            plain_path=request.url.path if status in (400, 422) and request.url.query else None,
            asks=status == 401,
            providers=[_link_provider(issuer, target) for issuer in issuers if issuer.client_id],
            target=target,
            section="",
            who="",
            signed_in=False,
        )
        return HTMLResponse(body, status_code=status, headers=headers)

    return render


def build_address(path: str, query: Mapping[str, str | None]) -> str:
    """A path with the parameters that have a value."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def _find_target(request: Request) -> str:
    """The page to return to after signing in."""
    if request.method != "GET" or request.url.path.startswith(("/sign-in", "/live/")):
        return "/"
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _link_provider(issuer: Issuer, target: str) -> dict[str, str]:
    """A link that signs in with a provider."""
    address = build_address("/sign-in/oidc", {"issuer": issuer.issuer, "next": target})
    return {"title": issuer.title or urlsplit(issuer.issuer).netloc, "address": address}


def _describe_field(error: FieldError) -> str:
    """The error of a field, with the name of a parameter of the address."""
    where, _, name = error.pointer.rpartition("/")
    return f"{name}: {error.detail}" if where == "/query" else error.detail
