"""The HTTP calls for jobs: submit them, act on them, and submit them again."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request, Response

from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_common.web.requests import request_body
from fairlead_common.web.routing import DeferredRoute
from fairlead_submit.domain import request_types
from fairlead_submit.domain.jobs import job_actions
from fairlead_submit.domain.jobs.resubmission import ResubmissionDryRun, ResubmissionResponse
from fairlead_submit.http import deps, openapi_schemas, query_string
from fairlead_submit.http.jobs.json_responses import json_response
from fairlead_submit.service import metrics
from fairlead_submit.service.action_service import ActionResult
from fairlead_submit.service.resubmission_service import Progress
from fairlead_submit.service.service import Service
from fairlead_submit.service.submission_service import SubmissionResponse


class PriorityClasses(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to a question for all priority classes."""

    priority_classes: tuple[PriorityClass, ...]


def job_routes(service: Service) -> APIRouter:
    """The routes under `/jobs`, `/actions` and `/priority-classes`."""
    router = APIRouter(prefix="/api/v1", tags=["jobs"], route_class=DeferredRoute)
    submissions, permissions = service.submissions, service.permissions
    requests = metrics.REQUESTS.labels("submit")

    @router.post(
        "/jobs",
        summary="Submit jobs: all of them, or none",
        responses={
            200: openapi_schemas.describe_response(SubmissionResponse, "All jobs are accepted."),
            **openapi_schemas.describe_problems(400, 409, 413, 415),
        },
        openapi_extra={
            **openapi_schemas.describe_body(request_types.Submission, lines=request_types.Job),
            "parameters": [openapi_schemas.DRY_RUN, *openapi_schemas.LINES],
        },
    )
    async def submit_jobs(request: Request) -> Response:
        context = deps.request_context(request)
        deps.require_confined_jobs(service.settings.tokens_for_others, context.caller)
        await deps.require_any_queue(permissions, context.caller, Verb.SUBMIT)
        requests.inc()
        bytes_max = submissions.limits.body_bytes_max
        if (
            request_body.check_content_type(request, (request_body.JSON, request_body.NDJSON))
            == request_body.JSON
        ):
            dry_run = query_string.read_query(request, "dryRun").flag("dryRun")
            content = await request_body.read_content(request, bytes_max)
            return json_response(await submissions.submit(content, context, dry_run=dry_run))
        given = query_string.read_query(request, "dryRun", "queue", "jobSet")
        dry_run = given.flag("dryRun")
        queue, job_set = given.text("queue"), given.text("jobSet")
        pieces = request_body.stream_content(request, bytes_max)
        return json_response(
            await submissions.submit_lines(pieces, queue, job_set, context, dry_run=dry_run)
        )

    @router.get(
        "/priority-classes",
        summary="The configured priority classes",
        responses={
            200: openapi_schemas.describe_response(PriorityClasses, "All of them."),
            **openapi_schemas.describe_problems(),
        },
    )
    async def priority_classes(request: Request) -> Response:
        query_string.check_read_query(request)
        return json_response(PriorityClasses(service.settings.priority_classes))

    for kind in job_actions.ACTION_KINDS:
        _add_action(router, kind, service)
    _add_resubmission(router, service)
    return router


def _add_resubmission(router: APIRouter, service: Service) -> None:
    @router.post(
        "/jobs/resubmit",
        status_code=202,
        summary="Submit jobs again, chosen by id or filter",
        responses={
            200: openapi_schemas.describe_response(ResubmissionDryRun, "Of a dry run."),
            202: openapi_schemas.describe_response(
                ResubmissionResponse, "Accepted; the server continues it after the response."
            ),
            **openapi_schemas.describe_problems(400, 404, 409, 413, 415),
        },
        openapi_extra={
            **openapi_schemas.describe_body(request_types.Resubmission),
            "parameters": [openapi_schemas.DRY_RUN],
        },
    )
    async def resubmit_jobs(request: Request) -> Response:
        context = deps.request_context(request)
        deps.require_confined_jobs(service.settings.tokens_for_others, context.caller)
        await deps.require_any_queue(service.permissions, context.caller, Verb.SUBMIT)
        dry_run = query_string.read_query(request, "dryRun").flag("dryRun")
        content = await request_body.read_body(request)
        metrics.REQUESTS.labels("resubmit").inc()
        started = await service.resubmissions.start(content, context, dry_run=dry_run)
        return json_response(started, 200 if dry_run else 202)

    @router.get(
        "/actions/{action}",
        summary="The progress of an action",
        responses={
            200: openapi_schemas.describe_response(Progress, "So far."),
            **openapi_schemas.describe_problems(404),
        },
    )
    async def get_action(request: Request, action: Annotated[str, Path(max_length=64)]) -> Response:
        query_string.check_read_query(request)
        return json_response(
            await service.resubmissions.progress(action, deps.request_context(request))
        )


def _add_action(router: APIRouter, kind: job_actions.ActionKind, service: Service) -> None:
    """A route for an action on existing jobs."""

    async def endpoint(request: Request) -> Response:
        context = deps.request_context(request)
        await deps.require_any_queue(service.permissions, context.caller, kind.verb)
        dry_run = query_string.read_query(request, "dryRun").flag("dryRun")
        content = await request_body.read_body(request)
        metrics.REQUESTS.labels(kind.name).inc()
        return json_response(await service.actions.act(kind, content, context, dry_run=dry_run))

    router.add_api_route(
        f"/jobs/{kind.name}",
        endpoint,
        methods=["POST"],
        name=f"{kind.name}_jobs",
        summary=kind.summary,
        responses={
            200: openapi_schemas.describe_response(
                ActionResult, "Requested; `position` is its position in the log."
            ),
            **openapi_schemas.describe_problems(400, 404, 413, 415),
        },
        openapi_extra={
            **openapi_schemas.describe_body(kind.body),
            "parameters": [openapi_schemas.DRY_RUN],
        },
    )
