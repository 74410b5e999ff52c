"""Errors of the HTTP API as RFC 9457 `application/problem+json`, with every fault found."""

import logging
from collections.abc import Callable
from typing import Final

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from fairlead_common.domain.errors import Fault, StorageFull, WorldError
from fairlead_common.domain.problems import TYPES, Problem
from fairlead_common.service.disk import RETRY_AFTER_S
from fairlead_common.web import openapi

_BY_STATUS: Final = {kind.status: slug for slug, kind in TYPES.items()}
FAULTS_MAX: Final = 100
_SAID: Final = {
    404: "There is nothing at {path}. All calls are in /openapi.json.",
    405: "{path} does not take {method}; the header Allow says what it takes.",
}
"""What the framework says in fewer words."""
_logger = logging.getLogger("fairlead.http")


def document(slug: str, detail: str) -> tuple[int, dict[str, object]]:
    """The status of a problem, and what its document says at least."""
    kind = TYPES[slug]
    return kind.status, {
        "type": f"/problems/{slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
    }


def response(request: Request, problem: Problem) -> Response:
    """The problem as a document: `instance` is the request's id, `errors` at most `FAULTS_MAX`."""
    status, body = document(problem.slug, problem.detail)
    body["instance"] = getattr(request.state, "request_id", "")
    if problem.faults:
        body["errors"] = problem.faults[:FAULTS_MAX]
        if len(problem.faults) > FAULTS_MAX:
            body["detail"] = f"{problem.detail} (the first {FAULTS_MAX} of {len(problem.faults)})"
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
"""What a route may raise: `answer` makes an answer of it."""


Excuse = Callable[[Request, Problem], Response]
"""How a problem is shown to somebody who looks at pages."""


def shown(request: Request, problem: Problem, excuse: Excuse | None) -> Response:
    """A page for somebody who looks at pages with a browser, which says that it takes HTML."""
    is_page = "text/html" in request.headers.get("accept", "")
    if excuse is not None and is_page and not request.url.path.startswith("/api/"):
        return excuse(request, problem)
    return response(request, problem)


def answer(
    request: Request,
    error: Problem | WorldError | ClientDisconnect,
    excuse: Excuse | None = None,
) -> Response:
    """What is answered to what a route raised."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)  # it went away while it sent: nobody reads this
    return shown(request, told(error), excuse)


def told(error: Problem | WorldError) -> Problem:
    """The problem itself, or that of a world that is not as it should be."""
    if isinstance(error, Problem):
        return error
    retry_after_s = RETRY_AFTER_S if isinstance(error, StorageFull) else 1
    return Problem("unavailable", str(error), retry_after_s=retry_after_s)


def sentence(message: str) -> str:
    """What a validator said, without how it said so."""
    return message.removeprefix("Value error, ")


def install(app: FastAPI, excuse: Excuse | None = None) -> None:
    """Make every error of the app a problem document, or a page where a browser asks for one."""

    async def on_expected(request: Request, error: Exception) -> Response:
        assert isinstance(error, EXPECTED)
        return answer(request, error, excuse)

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
        said = _SAID.get(error.status_code, "{error}")
        detail = said.format(error=error.detail, method=request.method, path=request.url.path[:200])
        return shown(request, Problem(slug, detail, headers=headers), excuse)

    async def on_parameters(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        faults = [
            Fault("/" + "/".join(str(part) for part in item["loc"]), sentence(item["msg"]))
            for item in error.errors()
        ]
        return shown(request, Problem("invalid", "A parameter is not valid.", faults), excuse)

    async def on_ours(request: Request, error: Exception) -> Response:
        # The framework raises the error again once this is sent, so the log has its traceback; the
        # server then closes the connection, and a client that reuses connections has to know.
        request_id = getattr(request.state, "request_id", "")
        _logger.error("failed: %r", error)
        problem = Problem("internal", "The server's log says more, by this id.")
        told = response(request, problem)
        told.headers["x-request-id"] = request_id
        told.headers["connection"] = "close"
        return told

    for kind in EXPECTED:
        app.add_exception_handler(kind, on_expected)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_parameters)
    app.add_exception_handler(Exception, on_ours)
