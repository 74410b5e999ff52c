"""Errors of the HTTP API as RFC 9457 `application/problem+json`, with every field error."""

import logging
from collections.abc import Callable
from typing import Final

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from fairlead_common.domain.errors import FieldError, StorageFull, WorldError
from fairlead_common.domain.problems import TYPES, Problem
from fairlead_common.domain.requests.validation import escape_pointer
from fairlead_common.service.disk import RETRY_AFTER_S
from fairlead_common.web import openapi

_BY_STATUS: Final = {kind.status: slug for slug, kind in TYPES.items()}
FIELD_ERRORS_MAX: Final = 100
CALLS_HINT: Final = " /openapi.json lists all calls."
"""The end of the detail of a path that does not exist: for programs, not on pages."""
_DETAILS: Final = {
    404: f"{{path}} does not exist.{CALLS_HINT}",
    405: "{path} does not support {method}; the header Allow lists the methods that it supports.",
}
"""Details for two errors of the framework."""
_logger = logging.getLogger("fairlead.http")


def build_document(slug: str, detail: str) -> tuple[int, dict[str, object]]:
    """The status of a problem, and the fields that its document always has."""
    kind = TYPES[slug]
    return kind.status, {
        "type": f"/problems/{slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
    }


def build_response(request: Request, problem: Problem) -> Response:
    """The problem as a document: `instance` is the request's id, `errors` are limited."""
    status, body = build_document(problem.slug, problem.detail)
    body["instance"] = getattr(request.state, "request_id", "")
    if problem.field_errors:
        body["errors"] = problem.field_errors[:FIELD_ERRORS_MAX]
        if len(problem.field_errors) > FIELD_ERRORS_MAX:
            body["detail"] = (
                f"{problem.detail} (the first {FIELD_ERRORS_MAX} of {len(problem.field_errors)})"
            )
    headers = dict(problem.headers)
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(problem.retry_after_s)
    if status == 401:
        headers.setdefault("WWW-Authenticate", "Bearer")
    return Response(
        msgspec.json.encode(body),
        status_code=status,
        headers=headers,
        media_type="application/problem+json",
    )


EXPECTED: Final = (Problem, WorldError, ClientDisconnect)
"""The errors that routes raise; `respond_to_error` responds to them."""


ErrorPage = Callable[[Request, Problem], Response]
"""Renders a problem as a page."""


def respond(request: Request, problem: Problem, error_page: ErrorPage | None) -> Response:
    """The error page if the request is a browser's for a page, else the problem document."""
    is_page = "text/html" in request.headers.get("accept", "")
    if error_page is not None and is_page and not request.url.path.startswith("/api/"):
        return error_page(request, problem)
    return build_response(request, problem)


def respond_to_error(
    request: Request,
    error: Problem | WorldError | ClientDisconnect,
    error_page: ErrorPage | None = None,
) -> Response:
    """The response to an error of a route."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)  # the client has disconnected
    return respond(request, to_problem(error), error_page)


def to_problem(error: Problem | WorldError) -> Problem:
    """The problem itself, or the one for an unavailable dependency."""
    if isinstance(error, Problem):
        return error
    retry_after_s = RETRY_AFTER_S if isinstance(error, StorageFull) else 1
    return Problem("unavailable", str(error), retry_after_s=retry_after_s)


def field_errors(error: RequestValidationError) -> list[FieldError]:
    """The errors that FastAPI found in the parameters."""
    return [
        FieldError(
            "".join(f"/{escape_pointer(str(part))}" for part in each["loc"]),
            "This parameter is missing."
            if each["type"] == "missing"
            else each["msg"].removeprefix("Value error, "),
        )
        for each in error.errors()
    ]


def install(app: FastAPI, error_page: ErrorPage | None = None) -> None:
    """Make every error of the app a problem document, or an error page for browsers."""

    async def on_expected(request: Request, error: Exception) -> Response:
        assert isinstance(error, EXPECTED)
        return respond_to_error(request, error, error_page)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        slug = _BY_STATUS.get(error.status_code)
        if slug is None:
            return Response(status_code=error.status_code)
        headers = dict(error.headers or {})
        if error.status_code == 405 and (
            methods := openapi.methods_at(app.openapi(), request.url.path)
        ):
            headers["Allow"] = ", ".join(methods)  # of all services, not of one route alone
        text = _DETAILS.get(error.status_code, "{error}")
        detail = text.format(error=error.detail, method=request.method, path=request.url.path[:200])
        return respond(request, Problem(slug, detail, headers=headers), error_page)

    async def on_parameters(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        problem = Problem("invalid", "A parameter is not valid.", field_errors(error))
        return respond(request, problem, error_page)

    async def on_ours(request: Request, error: Exception) -> Response:
        # The framework raises the error again once this is sent, so the log has its traceback; the
        # server then closes the connection, and a client that reuses connections has to know.
        request_id = getattr(request.state, "request_id", "")
        _logger.error("failed: %r", error)
        problem = Problem("internal", "The server's log has the details under this id.")
        problem_response = build_response(request, problem)
        problem_response.headers["x-request-id"] = request_id
        problem_response.headers["connection"] = "close"
        return problem_response

    for kind in EXPECTED:
        app.add_exception_handler(kind, on_expected)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_parameters)
    app.add_exception_handler(Exception, on_ours)
