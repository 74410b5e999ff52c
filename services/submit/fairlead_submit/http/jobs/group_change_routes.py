"""The HTTP calls for groups: submit, change, restart and cancel them."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response

from fairlead_common.domain.permissions import Verb
from fairlead_common.web.requests import request_body
from fairlead_common.web.routing import DeferredRoute
from fairlead_submit.domain.groups import group_types
from fairlead_submit.http import deps, openapi_schemas, query_string
from fairlead_submit.http.jobs.json_responses import json_response
from fairlead_submit.service import metrics
from fairlead_submit.service.group_action_service import GroupActionResult
from fairlead_submit.service.group_service import GroupSubmissionResponse
from fairlead_submit.service.service import Service

_GroupText = Annotated[str, Path(max_length=64, description="The id of a group.")]
_REASON: Final = {
    "name": "reason",
    "in": "query",
    "description": "Why, for the events of the group and its members.",
    "schema": {"type": "string"},
}


def group_change_routes(service: Service) -> APIRouter:
    """The routes under `/groups` that change something."""
    router = APIRouter(prefix="/api/v1", tags=["groups"], route_class=DeferredRoute)
    groups, permissions = service.groups, service.permissions

    @router.post(
        "/groups",
        summary="Submit groups: all of them, or none",
        responses={
            200: openapi_schemas.describe_response(
                GroupSubmissionResponse, "All groups are accepted."
            ),
            **openapi_schemas.describe_problems(400, 409, 413, 415),
        },
        openapi_extra={
            **openapi_schemas.describe_body(group_types.GroupSubmission),
            "parameters": [openapi_schemas.DRY_RUN],
        },
    )
    async def submit_groups(request: Request) -> Response:
        context = deps.request_context(request)
        deps.require_confined_jobs(service.settings.tokens_for_others, context.caller)
        await deps.require_any_queue(permissions, context.caller, Verb.SUBMIT)
        metrics.REQUESTS.labels("submitGroups").inc()
        dry_run = query_string.read_query(request, "dryRun").flag("dryRun")
        content = await request_body.read_body(request, service.submissions.limits.body_bytes_max)
        return json_response(await groups.submit(content, context, dry_run=dry_run))

    _add_actions(router, service)
    return router


def _add_actions(router: APIRouter, service: Service) -> None:
    """Routes for actions on existing groups."""
    actions, permissions = service.group_actions, service.permissions
    result = openapi_schemas.describe_response(
        GroupActionResult, "Requested; `position` is its position in the log."
    )

    @router.delete(
        "/groups/{group}",
        summary="Cancel a group: all its members",
        responses={200: result, **openapi_schemas.describe_problems(400, 404)},
        openapi_extra={"parameters": [_REASON]},
    )
    async def cancel_group(request: Request, group: _GroupText) -> Response:
        context = deps.request_context(request)
        await deps.require_any_queue(permissions, context.caller, Verb.CANCEL)
        reason = query_string.read_query(request, "reason").text("reason") or ""
        metrics.REQUESTS.labels("cancelGroup").inc()
        return json_response(await actions.cancel(group, reason[:1_000], context))

    @router.post(
        "/groups/{group}/restart",
        summary="Restart a group: stop all its members and start them again",
        responses={200: result, **openapi_schemas.describe_problems(400, 404, 409, 413, 415)},
        openapi_extra=openapi_schemas.describe_body(group_types.GroupAction),
    )
    async def restart_group(request: Request, group: _GroupText) -> Response:
        context = deps.request_context(request)
        await deps.require_any_queue(permissions, context.caller, Verb.PREEMPT)
        query_string.read_query(request)
        content = await request_body.read_body(request)
        metrics.REQUESTS.labels("restartGroup").inc()
        return json_response(await actions.restart(group, content, context))

    @router.patch(
        "/groups/{group}",
        summary="Change a group: numbers of members, priority, growth, or templates of roles",
        responses={200: result, **openapi_schemas.describe_problems(400, 404, 409, 413, 415)},
        openapi_extra=openapi_schemas.describe_body(group_types.GroupChange),
    )
    async def change_group(request: Request, group: _GroupText) -> Response:
        context = deps.request_context(request)
        deps.require_confined_jobs(service.settings.tokens_for_others, context.caller)
        await deps.require_any_queue(permissions, context.caller, Verb.SUBMIT)
        query_string.read_query(request)
        content = await request_body.read_body(request)
        metrics.REQUESTS.labels("changeGroup").inc()
        return json_response(await actions.change(group, content, context))
