"""The HTTP calls for arrays: cancel tasks, and submit them again. Arrays are submitted as jobs."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from fairlead_common.domain.permissions import Verb
from fairlead_common.web.requests import request_body
from fairlead_common.web.routing import DeferredRoute
from fairlead_submit.domain import request_types
from fairlead_submit.http import deps, openapi_schemas, query_string
from fairlead_submit.http.jobs.json_responses import json_response
from fairlead_submit.service import metrics
from fairlead_submit.service.arrays.array_service import ArrayActionResult
from fairlead_submit.service.service import Service

_ArrayText = Annotated[str, Path(max_length=64, description="The id of an array.")]


def array_change_routes(service: Service) -> APIRouter:
    """The routes under `/arrays` that change something."""
    router = APIRouter(prefix="/api/v1", tags=["arrays"], route_class=DeferredRoute)
    arrays, permissions = service.arrays, service.permissions
    result = openapi_schemas.describe_response(
        ArrayActionResult, "Requested; `position` is its position in the log."
    )

    @router.post(
        "/arrays/{array}/cancel",
        summary="Cancel tasks of an array, by index",
        responses={200: result, **openapi_schemas.describe_problems(400, 404, 413, 415)},
        openapi_extra={
            **openapi_schemas.describe_body(request_types.ArrayCancellation),
            "parameters": [openapi_schemas.DRY_RUN],
        },
    )
    async def cancel_tasks(request: Request, array: _ArrayText) -> Response:
        context = deps.request_context(request)
        await deps.require_any_queue(permissions, context.caller, Verb.CANCEL)
        dry_run = query_string.read_query(request, "dryRun").flag("dryRun")
        content = await request_body.read_body(request)
        metrics.REQUESTS.labels("cancelTasks").inc()
        return json_response(await arrays.cancel(array, content, context, dry_run=dry_run))

    @router.post(
        "/arrays/{array}/resubmit",
        summary="Submit tasks of an array again, as a new array",
        responses={200: result, **openapi_schemas.describe_problems(400, 404, 409, 413, 415)},
        openapi_extra=openapi_schemas.describe_body(request_types.ArrayResubmission),
    )
    async def resubmit_tasks(request: Request, array: _ArrayText) -> Response:
        context = deps.request_context(request)
        deps.require_confined_jobs(service.settings.tokens_for_others, context.caller)
        await deps.require_any_queue(permissions, context.caller, Verb.SUBMIT)
        query_string.read_query(request)
        content = await request_body.read_body(request)
        metrics.REQUESTS.labels("resubmitTasks").inc()
        return json_response(await arrays.resubmit(array, content, context))

    return router
