"""The HTTP calls for jobs: submit them, act on them, and submit them again."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request, Response

from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.priority_classes import PriorityClass
from fairlead_submit.domain import job_actions, request_types
from fairlead_submit.http import deps, openapi_schemas, query_parameters, request_body
from fairlead_submit.service import metrics
from fairlead_submit.service.action_service import Done
from fairlead_submit.service.resubmission_service import Progress, Started
from fairlead_submit.service.service import Service
from fairlead_submit.service.submission_service import Submitted


class Classes(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to a question for all priority classes."""

    priority_classes: tuple[PriorityClass, ...]


def job_routes(service: Service) -> APIRouter:
    """The routes under `/jobs`, `/actions` and `/priority-classes`."""
    router = APIRouter(prefix="/api/v1", tags=["jobs"])
    intake, rights = service.intake, service.rights
    submissions = metrics.REQUESTS.labels("submit")

    @router.post(
        "/jobs",
        summary="Submit jobs: all of them, or none",
        responses={
            200: openapi_schemas.answer(Submitted, "Taken."),
            **openapi_schemas.problems(400, 409, 413, 415),
        },
        openapi_extra={
            **openapi_schemas.request_body(request_types.Submission, lines=request_types.Job),
            "parameters": [openapi_schemas.DRY_RUN, *openapi_schemas.LINES],
        },
    )
    async def submit_jobs(request: Request) -> Response:
        context = deps.request_context(request)
        deps.require_confined_jobs(service.settings.tokens_for_others, context.caller)
        await deps.require_any_queue(rights, context.caller, Verb.SUBMIT)
        submissions.inc()
        bytes_max = intake.limits.body_bytes_max
        if (
            request_body.kind(request, (request_body.JSON, request_body.NDJSON))
            == request_body.JSON
        ):
            dry_run = query_parameters.of(request, "dryRun").flag("dryRun")
            content = await request_body.content(request, bytes_max)
            return _answer(await intake.submit(content, context, dry_run=dry_run))
        given = query_parameters.of(request, "dryRun", "queue", "jobSet")
        dry_run = given.flag("dryRun")
        queue, job_set = given.text("queue"), given.text("jobSet")
        pieces = request_body.pieces(request, bytes_max)
        return _answer(await intake.submit_lines(pieces, queue, job_set, context, dry_run=dry_run))

    @router.get(
        "/priority-classes",
        summary="The configured priority classes",
        responses={
            200: openapi_schemas.answer(Classes, "All of them."),
            **openapi_schemas.problems(),
        },
    )
    async def priority_classes(request: Request) -> Response:
        query_parameters.of_read(request)
        return _answer(Classes(service.settings.priority_classes))

    for kind in job_actions.KINDS:
        _add_action(router, kind, service)
    _add_resubmission(router, service)
    return router


def _add_resubmission(router: APIRouter, service: Service) -> None:
    @router.post(
        "/jobs/resubmit",
        status_code=202,
        summary="Submit new jobs like those of an id or a filter",
        responses={
            202: openapi_schemas.answer(Started, "Written down; it is being done."),
            **openapi_schemas.problems(400, 404, 409, 413, 415),
        },
        openapi_extra=openapi_schemas.request_body(request_types.Resubmission),
    )
    async def resubmit_jobs(request: Request) -> Response:
        context = deps.request_context(request)
        deps.require_confined_jobs(service.settings.tokens_for_others, context.caller)
        await deps.require_any_queue(service.rights, context.caller, Verb.SUBMIT)
        query_parameters.of(request)
        content = await request_body.read(request)
        metrics.REQUESTS.labels("resubmit").inc()
        return _answer(await service.resubmitting.start(content, context), 202)

    @router.get(
        "/actions/{action}",
        summary="How far an action is",
        responses={
            200: openapi_schemas.answer(Progress, "So far."),
            **openapi_schemas.problems(404),
        },
    )
    async def get_action(request: Request, action: Annotated[str, Path(max_length=64)]) -> Response:
        query_parameters.of_read(request)
        return _answer(await service.resubmitting.progress(action, deps.request_context(request)))


def _add_action(router: APIRouter, kind: job_actions.Kind, service: Service) -> None:
    """A route that asks something of jobs that exist."""

    async def endpoint(request: Request) -> Response:
        context = deps.request_context(request)
        await deps.require_any_queue(service.rights, context.caller, kind.verb)
        dry_run = query_parameters.of(request, "dryRun").flag("dryRun")
        content = await request_body.read(request)
        metrics.REQUESTS.labels(kind.name).inc()
        return _answer(await service.acting.act(kind, content, context, dry_run=dry_run))

    router.add_api_route(
        f"/jobs/{kind.name}",
        endpoint,
        methods=["POST"],
        name=f"{kind.name}_jobs",
        summary=kind.summary,
        responses={
            200: openapi_schemas.answer(Done, "Asked; `position` names the place."),
            **openapi_schemas.problems(400, 404, 413, 415),
        },
        openapi_extra={
            **openapi_schemas.request_body(kind.body),
            "parameters": [openapi_schemas.DRY_RUN],
        },
    )


def _answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )
