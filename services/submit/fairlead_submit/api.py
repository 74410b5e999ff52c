"""The HTTP calls of submit: api.md section 3, and signing a browser in."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from fairlead_common import auth, db
from fairlead_common.auth import Authenticator, Caller
from fairlead_common.classes import PriorityClass
from fairlead_common.errors import Fault
from fairlead_common.problems import Problem
from fairlead_submit import access, body, faults, metrics, requests, schemas
from fairlead_submit.intake import Asked, Done, Intake, Submitted
from fairlead_submit.known import Known
from fairlead_submit.queue_api import queue_routes
from fairlead_submit.queues import Queues
from fairlead_submit.settings import SubmitSettings

_DRY_RUN: Final = {
    "name": "dryRun",
    "in": "query",
    "description": "Say what is wrong, and take nothing.",
    "schema": {"type": "boolean", "default": False},
}
CODE_LENGTH_MAX: Final = 200
DAY_S: Final = 86_400


class Classes(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to a question for all priority classes."""

    priority_classes: tuple[PriorityClass, ...]


def guarded(authenticate: Authenticator) -> type[APIRoute]:
    """Routes that know their caller (`request.state.caller`) before anything else happens."""

    class Guarded(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
            handle = super().get_route_handler()

            async def with_caller(request: Request) -> Response:
                request.state.caller = await authenticate(request)
                return await handle(request)

            return with_caller

    return Guarded


def routes(
    settings: SubmitSettings,
    intake: Intake,
    queues: Queues,
    known: Known,
    authenticate: Authenticator,
    pool: db.Pool,
) -> APIRouter:
    """All routes of submit."""
    router = APIRouter()
    router.include_router(_job_routes(settings, intake, guarded(authenticate)))
    router.include_router(queue_routes(queues, known, guarded(authenticate)))
    router.include_router(_sign_in_routes(settings, pool))
    return router


def caller_of(request: Request) -> Caller:
    """Who asks; the route class has found out."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller


def answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )


def _job_routes(settings: SubmitSettings, intake: Intake, route_class: type[APIRoute]) -> APIRouter:
    router = APIRouter(prefix="/api/v1", route_class=route_class, tags=["jobs"])

    @router.post(
        "/jobs",
        summary="Submit jobs: all of them, or none",
        responses={
            200: schemas.answer(Submitted, "Taken."),
            **schemas.problems(400, 409, 413, 415),
        },
        openapi_extra={**schemas.request_body(requests.Submission), "parameters": [_DRY_RUN]},
    )
    async def submit(request: Request) -> Response:
        asked = _asked(request)
        dry_run = _is_dry_run(request)
        auth.require(asked.caller, "operator", "submitter")
        content = await body.read(request, intake.limits.body_bytes_max)
        metrics.REQUESTS.labels("submit").inc()
        return answer(await intake.submit(content, asked, dry_run=dry_run))

    @router.get(
        "/priority-classes",
        summary="The configured priority classes",
        responses={200: schemas.answer(Classes, "All of them."), **schemas.problems()},
    )
    async def priority_classes() -> Response:
        return answer(Classes(settings.priority_classes))

    _add_action(router, "cancel", "Cancel jobs", requests.Action, intake.cancel)
    _add_action(router, "preempt", "Stop the runs of jobs", requests.Action, intake.preempt)
    _add_action(
        router,
        "reprioritize",
        "Change the place of jobs within their queue",
        requests.Reprioritization,
        intake.reprioritize,
    )
    _add_action(router, "release", "Lift the hold on jobs", requests.Release, intake.release)
    return router


def _add_action(
    router: APIRouter,
    name: str,
    summary: str,
    kind: type,
    act: Callable[[bytes, Asked], Awaitable[Done]],
) -> None:
    """A route that asks something of jobs that exist."""

    async def endpoint(request: Request) -> Response:
        asked = _asked(request)
        auth.require(asked.caller, "operator", "submitter")
        content = await body.read(request)
        metrics.REQUESTS.labels(name).inc()
        return answer(await act(content, asked))

    extra: dict[str, Any] = schemas.request_body(kind)
    router.add_api_route(
        f"/jobs/{name}",
        endpoint,
        methods=["POST"],
        name=name,
        summary=summary,
        responses={
            200: schemas.answer(Done, "Asked; `position` names the place."),
            **schemas.problems(400, 404, 413, 415),
        },
        openapi_extra=extra,
    )


def _is_dry_run(request: Request) -> bool:
    """Read by hand: FastAPI's way costs a single job a tenth of its time."""
    text = request.query_params.get("dryRun", "false")
    if text not in ("true", "false"):
        fault = Fault("/query/dryRun", f"is {faults.shown(text)}; true or false is expected")
        raise Problem("invalid", "A parameter is not valid.", [fault])
    return text == "true"


def _asked(request: Request) -> Asked:
    return Asked(
        caller_of(request),
        getattr(request.state, "request_id", ""),
        request.headers.get("traceparent", "")[:100],
    )


def _sign_in_routes(settings: SubmitSettings, pool: db.Pool) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    session_s = settings.sign_in_days * DAY_S

    @router.get("/sign-in")
    async def sign_in(request: Request, code: str = "") -> Response:
        signed_in = None
        if 0 < len(code) <= CODE_LENGTH_MAX:
            signed_in = await access.sign_in(pool, code, session_s)
        if signed_in is None:
            raise Problem(
                "unauthenticated",
                "This link was used already, or is too old. `fairlead token link` makes another.",
            )
        response = Response(status_code=303, headers={"Location": "/", "Cache-Control": "no-store"})
        response.set_cookie(
            auth.COOKIE,
            signed_in.token,
            max_age=session_s,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    return router
