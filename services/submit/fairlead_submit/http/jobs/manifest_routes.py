"""The HTTP calls for manifests of Kubernetes: submit them as jobs, or only convert them."""

from fastapi import APIRouter, Request, Response

from fairlead_common.domain.permissions import Verb
from fairlead_common.web.requests import request_body
from fairlead_common.web.routing import DeferredRoute
from fairlead_submit.domain import request_types
from fairlead_submit.domain.manifests.conversion import Conversion
from fairlead_submit.http import deps, openapi_schemas, query_string
from fairlead_submit.http.jobs.json_responses import json_response
from fairlead_submit.service import metrics
from fairlead_submit.service.manifest_service import ManifestResponse
from fairlead_submit.service.service import Service


def manifest_routes(service: Service) -> APIRouter:
    """The routes under `/manifests`."""
    router = APIRouter(prefix="/api/v1", tags=["jobs"], route_class=DeferredRoute)
    bytes_max = service.submissions.limits.body_bytes_max

    @router.post(
        "/manifests",
        summary="Submit manifests of Kubernetes as jobs: all of them, or none",
        responses={
            200: openapi_schemas.describe_response(ManifestResponse, "All jobs are accepted."),
            **openapi_schemas.describe_problems(400, 409, 413, 415),
        },
        openapi_extra={
            **openapi_schemas.describe_body(request_types.Manifests),
            "parameters": [openapi_schemas.DRY_RUN],
        },
    )
    async def submit_manifests(request: Request) -> Response:
        context = deps.request_context(request)
        deps.require_confined_jobs(service.settings.tokens_for_others, context.caller)
        await deps.require_any_queue(service.permissions, context.caller, Verb.SUBMIT)
        dry_run = query_string.read_query(request, "dryRun").flag("dryRun")
        content = await request_body.read_body(request, bytes_max)
        metrics.REQUESTS.labels("manifests").inc()
        return json_response(await service.manifests.submit(content, context, dry_run=dry_run))

    @router.post(
        "/manifests/convert",
        summary="Convert manifests of Kubernetes to jobs, and create nothing",
        responses={
            200: openapi_schemas.describe_response(Conversion, "What they become."),
            **openapi_schemas.describe_problems(400, 413, 415),
        },
        openapi_extra=openapi_schemas.describe_body(request_types.Manifests),
    )
    async def convert_manifests(request: Request) -> Response:
        context = deps.request_context(request)
        await deps.require_any_queue(service.permissions, context.caller, Verb.SUBMIT)
        query_string.read_query(request)
        content = await request_body.read_body(request, bytes_max)
        metrics.REQUESTS.labels("convert").inc()
        return json_response(await service.manifests.convert(content))

    return router
