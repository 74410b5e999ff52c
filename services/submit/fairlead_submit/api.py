"""The HTTP calls of submit, and signing a browser in."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request, Response

from fairlead_common import db
from fairlead_common.auth import Authenticator
from fairlead_common.classes import PriorityClass
from fairlead_common.permissions import Verb
from fairlead_common.queue_rights import QueueRights
from fairlead_submit import actions, asking, body, metrics, query, requests, schemas
from fairlead_submit.acting import Acting, Done
from fairlead_submit.cordons import Cordons
from fairlead_submit.executor_api import executor_routes
from fairlead_submit.fleet import Fleet
from fairlead_submit.intake import Intake, Submitted
from fairlead_submit.known import Known
from fairlead_submit.queue_api import queue_routes
from fairlead_submit.queue_secrets import Secrets
from fairlead_submit.queues import Queues
from fairlead_submit.resubmitting import Progress, Resubmitting, Started
from fairlead_submit.secret_api import secret_routes
from fairlead_submit.settings import SubmitSettings
from fairlead_submit.sign_in_api import sign_in_routes
from fairlead_submit.token_api import token_routes


class Classes(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to a question for all priority classes."""

    priority_classes: tuple[PriorityClass, ...]


class Parts(msgspec.Struct, frozen=True):
    """What the routes call."""

    settings: SubmitSettings
    intake: Intake
    acting: Acting
    resubmitting: Resubmitting
    queues: Queues
    known: Known
    cordons: Cordons
    fleet: Fleet
    rights: QueueRights
    pool: db.Pool
    identify: Authenticator
    secrets: Secrets


def routes(parts: Parts) -> list[APIRouter]:
    """All routes of submit. Those that are asked most come first: each router costs a look."""
    classes = frozenset(item.name for item in parts.settings.priority_classes)
    return [
        _job_routes(parts),
        queue_routes(parts.queues, parts.known, parts.rights, classes, parts.secrets),
        secret_routes(parts.queues, parts.secrets),
        executor_routes(parts.cordons, parts.fleet),
        token_routes(parts.settings, parts.pool, parts.identify),
        sign_in_routes(parts.settings, parts.pool, parts.identify),
    ]


def answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )


def _job_routes(parts: Parts) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["jobs"])
    intake, rights = parts.intake, parts.rights
    submissions = metrics.REQUESTS.labels("submit")

    @router.post(
        "/jobs",
        summary="Submit jobs: all of them, or none",
        responses={
            200: schemas.answer(Submitted, "Taken."),
            **schemas.problems(400, 409, 413, 415),
        },
        openapi_extra={
            **schemas.request_body(requests.Submission, lines=requests.Job),
            "parameters": [schemas.DRY_RUN, *schemas.LINES],
        },
    )
    async def submit_jobs(request: Request) -> Response:
        asked = asking.of(request)
        await asking.require_somewhere(rights, asked.caller, Verb.SUBMIT)
        submissions.inc()
        bytes_max = intake.limits.body_bytes_max
        if body.kind(request, (body.JSON, body.NDJSON)) == body.JSON:
            dry_run = query.of(request, "dryRun").flag("dryRun")
            content = await body.content(request, bytes_max)
            return answer(await intake.submit(content, asked, dry_run=dry_run))
        given = query.of(request, "dryRun", "queue", "jobSet")
        dry_run = given.flag("dryRun")
        queue, job_set = given.text("queue"), given.text("jobSet")
        pieces = body.pieces(request, bytes_max)
        return answer(await intake.submit_lines(pieces, queue, job_set, asked, dry_run=dry_run))

    @router.get(
        "/priority-classes",
        summary="The configured priority classes",
        responses={200: schemas.answer(Classes, "All of them."), **schemas.problems()},
    )
    async def priority_classes(request: Request) -> Response:
        query.of_read(request)
        return answer(Classes(parts.settings.priority_classes))

    for kind in actions.KINDS:
        _add_action(router, kind, parts)
    _add_resubmission(router, parts)
    return router


def _add_resubmission(router: APIRouter, parts: Parts) -> None:
    @router.post(
        "/jobs/resubmit",
        status_code=202,
        summary="Submit new jobs like those of an id or a filter",
        responses={
            202: schemas.answer(Started, "Written down; it is being done."),
            **schemas.problems(400, 404, 409, 413, 415),
        },
        openapi_extra=schemas.request_body(requests.Resubmission),
    )
    async def resubmit_jobs(request: Request) -> Response:
        asked = asking.of(request)
        await asking.require_somewhere(parts.rights, asked.caller, Verb.SUBMIT)
        query.of(request)
        content = await body.read(request)
        metrics.REQUESTS.labels("resubmit").inc()
        return answer(await parts.resubmitting.start(content, asked), 202)

    @router.get(
        "/actions/{action}",
        summary="How far an action is",
        responses={200: schemas.answer(Progress, "So far."), **schemas.problems(404)},
    )
    async def get_action(request: Request, action: Annotated[str, Path(max_length=64)]) -> Response:
        query.of_read(request)
        return answer(await parts.resubmitting.progress(action, asking.of(request)))


def _add_action(router: APIRouter, kind: actions.Kind, parts: Parts) -> None:
    """A route that asks something of jobs that exist."""

    async def endpoint(request: Request) -> Response:
        asked = asking.of(request)
        await asking.require_somewhere(parts.rights, asked.caller, kind.verb)
        dry_run = query.of(request, "dryRun").flag("dryRun")
        content = await body.read(request)
        metrics.REQUESTS.labels(kind.name).inc()
        return answer(await parts.acting.act(kind, content, asked, dry_run=dry_run))

    router.add_api_route(
        f"/jobs/{kind.name}",
        endpoint,
        methods=["POST"],
        name=f"{kind.name}_jobs",
        summary=kind.summary,
        responses={
            200: schemas.answer(Done, "Asked; `position` names the place."),
            **schemas.problems(400, 404, 413, 415),
        },
        openapi_extra={**schemas.request_body(kind.body), "parameters": [schemas.DRY_RUN]},
    )
