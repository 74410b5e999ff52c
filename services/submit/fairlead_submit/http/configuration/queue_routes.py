"""The HTTP calls for queues."""

import asyncio
import base64
from collections.abc import Callable, Collection
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response
from msgspec import UNSET, UnsetType

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import require_role
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records.events import RetryPolicy
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.domain.requests.validation import escape_pointer
from fairlead_common.service import clock
from fairlead_common.web.requests import etags, query_validation, request_body
from fairlead_common.web.requests.query_validation import After, StrictRoute, Wait
from fairlead_submit.domain import name_rules, request_types
from fairlead_submit.domain.callers import is_visible
from fairlead_submit.domain.jobs.job_terms import check_labels, make_retry_policy
from fairlead_submit.domain.pods import pod_spec
from fairlead_submit.http import deps, openapi_schemas, query_string
from fairlead_submit.service import metrics
from fairlead_submit.service.service import Service
from fairlead_submit.store.configuration_store import (
    etag_mismatch,
    make_etag,
    queue_not_found,
)

LABEL_BYTES_MAX: Final = 5_000
COUNT_MAX: Final = 10_000
POLL_S: Final = 0.5
_LIST: Final = b"queues/"
_decoder: Final = Decoder(request_types.Queue)
_cordon_decoder: Final = Decoder(request_types.Cordon)


class QueueView(msgspec.Struct, frozen=True, rename="camel"):
    """A queue as the API returns it; reads with `after` set to `position` include this version.

    `pending`, in the response to a change: the change is stored, but the log does not have it yet,
    so jobs that are submitted now can be scheduled without it. It follows when the log is
    available. Absent otherwise: the change is in effect for everything submitted from now on.
    """

    name: str
    version: int
    position: str
    weight: float
    cordoned: bool
    reason: str
    limits: dict[str, dict[str, float | str]]
    permissions: tuple[configuration.Permission, ...]
    labels: dict[str, str]
    retry_policy: RetryPolicy | None
    order: str
    pending: bool | UnsetType = UNSET


class QueuePage(msgspec.Struct, frozen=True):
    """Some queues, by name; `next`: the cursor of the following page, if there is one.

    `count`: of all queues, `10000+` beyond that, if it was requested.
    """

    queues: list[QueueView]
    next: str | None
    count: str | UnsetType = UNSET


_QUEUE_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: openapi_schemas.describe_response(QueueView, "The queue.")
}


def queue_routes(service: Service) -> APIRouter:
    """The routes that create, return and change queues."""
    router = APIRouter(prefix="/api/v1", tags=["queues"], route_class=StrictRoute)
    _add_read_routes(router, service)
    _add_creation(router, service)
    _add_replacement(router, service)
    _add_removal(router, service)
    _add_cordon_routes(router, service)
    return router


def _add_read_routes(router: APIRouter, service: Service) -> None:
    queues, permissions = service.queues, service.permissions

    @router.get(
        "/queues",
        summary="The queues, by name",
        responses={
            200: openapi_schemas.describe_response(QueuePage, "Some of them."),
            **openapi_schemas.describe_problems(400),
        },
    )
    async def list_queues(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
        cursor: Annotated[str, Query(max_length=400)] = "",
        include: Literal["count"] | None = None,
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        query_string.check_position(after)
        scope = await permissions.find_scope(deps.request_context(request).caller)
        page = await queues.list_page(_read_cursor(cursor), limit + 1, scope)
        more = len(page) > limit
        following = _make_cursor(page[limit - 1].name) if more else None
        count = (
            UNSET if include is None else _format_count(await queues.count(COUNT_MAX + 1, scope))
        )
        answer = QueuePage([_make_view(queue) for queue in page[:limit]], following, count)
        return Response(msgspec.json.encode(answer), media_type="application/json")

    @router.get(
        "/queues/{name}",
        summary="One queue; with `If-None-Match` and `wait`, respond when it has changed",
        responses={
            **_QUEUE_RESPONSE,
            304: {"description": "Not changed."},
            **openapi_schemas.describe_problems(404),
        },
    )
    async def get_queue(
        request: Request,
        name: str,
        after: After = None,
        wait: Wait = None,
        if_none_match: Annotated[str, Header(max_length=400)] = "",
    ) -> Response:
        query_string.check_position(after)
        caller = deps.request_context(request).caller
        deadline_s = clock.monotonic_s() + query_validation.parse_wait_s(wait)
        while True:
            queue = await queues.get(name)
            if queue is None or not is_visible(queue, caller):
                raise queue_not_found(name)
            if not etags.is_known(if_none_match, make_etag(queue)):
                return _queue_response(queue)
            left_s = deadline_s - clock.monotonic_s()
            if left_s <= 0:
                return Response(status_code=304, headers={"ETag": make_etag(queue)})
            await asyncio.sleep(min(POLL_S, left_s))


def _add_creation(router: APIRouter, service: Service) -> None:
    queues = service.queues
    classes = {item.name for item in service.settings.priority_classes}

    @router.post(
        "/queues",
        summary="Create a queue",
        status_code=201,
        responses={
            200: openapi_schemas.describe_response(
                QueueView, "The queue that would be created: a dry run."
            ),
            201: openapi_schemas.describe_response(QueueView, "Created."),
            **openapi_schemas.describe_problems(400, 409, 413, 415),
        },
        openapi_extra=openapi_schemas.describe_body(request_types.Queue)
        | {"parameters": [openapi_schemas.DRY_RUN]},
    )
    async def create_queue(request: Request) -> Response:
        caller = deps.request_context(request).caller
        require_role(caller, "operator")
        dry_run = query_string.read_query(request, "dryRun").flag("dryRun")
        given, found = _decoder(await request_body.read_body(request))
        queue = check_queue(given, found, classes, caller.name)
        metrics.REQUESTS.labels("create-queue").inc()
        made = await queues.create(queue, dry_run=dry_run)
        if made is None:
            raise Problem("conflict", f"Queue {queue.name!r} already exists.")
        if dry_run:
            return _queue_response(made)
        return _queue_response(made, 201, is_relayed=await service.wait_until_relayed(made))


def _add_replacement(router: APIRouter, service: Service) -> None:
    queues = service.queues
    classes = {item.name for item in service.settings.priority_classes}

    @router.put(
        "/queues/{name}",
        summary="Replace a queue; `If-Match` with its ETag guards against other changes",
        responses={**_QUEUE_RESPONSE, **openapi_schemas.describe_problems(400, 404, 412, 413, 415)},
        openapi_extra=openapi_schemas.describe_body(request_types.Queue)
        | {"parameters": [openapi_schemas.DRY_RUN, openapi_schemas.IF_MATCH]},
    )
    async def replace_queue(request: Request, name: str) -> Response:
        caller = deps.request_context(request).caller
        require_role(caller, "operator")
        dry_run = query_string.read_query(request, "dryRun").flag("dryRun")
        given, found = _decoder(await request_body.read_body(request))
        if given.name is None:
            given.name = name
        elif given.name != name:
            found.append(
                FieldError(
                    "/name",
                    f"is not {validation.quote(name)}; the name of a queue cannot be changed",
                )
            )
        queue = check_queue(given, found, classes, caller.name)
        changed = await queues.change(
            name,
            lambda old: msgspec.structs.replace(queue, version=old.version),
            request.headers.get("if-match"),
            dry_run=dry_run,
        )
        return _queue_response(
            changed, is_relayed=dry_run or await service.wait_until_relayed(changed)
        )


def _add_removal(router: APIRouter, service: Service) -> None:
    queues = service.queues

    @router.delete(
        "/queues/{name}",
        summary="Delete a queue that has no live jobs",
        responses={
            200: openapi_schemas.describe_response(QueueView, "The queue that was deleted."),
            **openapi_schemas.describe_problems(404, 409, 412),
        },
        openapi_extra={"parameters": [openapi_schemas.IF_MATCH]},
    )
    async def delete_queue(request: Request, name: str) -> Response:
        caller = deps.request_context(request).caller
        require_role(caller, "operator")
        query_string.read_query(request)
        queue = await queues.get(name)
        if queue is None:
            raise queue_not_found(name)
        if_match = request.headers.get("if-match")
        if if_match is not None and not etags.matches(if_match, make_etag(queue)):
            raise etag_mismatch(queue, if_match)
        # Wait for the view, so that jobs submitted a moment ago count.
        live = (
            await service.job_views.count_live_jobs(name)
            if await service.job_views.wait_until_current()
            else None
        )
        if live is None:
            raise Problem(
                "unavailable",
                "The view of lookout lags or is unavailable, so it is unknown whether the queue has"
                " live jobs. Try again.",
                retry_after_s=5,
            )
        if live:
            raise Problem(
                "conflict",
                f"Queue {name!r} has {live} jobs that have not ended. Cancel or await them.",
            )
        deleted = await queues.change(
            name,
            lambda old: msgspec.structs.replace(old, deleted=True, by=caller.name),
            if_match,
        )
        is_relayed = await service.wait_until_relayed(deleted)
        await service.secrets.delete_all(name)
        return _queue_response(deleted, is_relayed=is_relayed)


def _add_cordon_routes(router: APIRouter, service: Service) -> None:
    queues = service.queues

    def cordoning(cordoned: bool) -> Callable[..., Any]:
        async def endpoint(request: Request, name: str) -> Response:
            caller = deps.request_context(request).caller
            require_role(caller, "operator", queue=name)
            query_string.read_query(request)
            content = await request_body.read_body(request)
            given, found = _cordon_decoder(content) if content else (request_types.Cordon(), [])
            if found:
                raise validation_problem(found)
            changed = await queues.change(
                name,
                lambda old: msgspec.structs.replace(
                    old, cordoned=cordoned, reason=given.reason or "", by=caller.name
                ),
                request.headers.get("if-match"),
            )
            return _queue_response(changed, is_relayed=await service.wait_until_relayed(changed))

        return endpoint

    for word, cordoned, summary in (
        ("cordon", True, "Cordon a queue, so that no new runs of it start"),
        ("uncordon", False, "Uncordon a queue"),
    ):
        router.add_api_route(
            f"/queues/{{name}}/{word}",
            cordoning(cordoned),
            methods=["POST"],
            name=f"{word}_queue",
            summary=summary,
            responses={
                **_QUEUE_RESPONSE,
                **openapi_schemas.describe_problems(400, 404, 412, 413, 415),
            },
            openapi_extra=openapi_schemas.describe_body(request_types.Cordon, required=False)
            | {"parameters": [openapi_schemas.IF_MATCH]},
        )


def check_queue(
    given: request_types.Queue, known: list[FieldError], classes: Collection[str], by: str
) -> configuration.Queue:
    """The requested queue. Raises a 422 `Problem` with every error."""
    found: list[FieldError] = []
    if given.name is None:
        found.append(FieldError("/name", "is missing"))
    elif detail := name_rules.check_name(given.name):
        found.append(FieldError("/name", detail))
    if given.labels:
        check_labels(given.labels, "/labels", LABEL_BYTES_MAX, found)
    for class_name, amounts in (given.limits or {}).items():
        class_place = f"/limits/{escape_pointer(class_name)}"
        if class_name not in classes:
            there_are = ", ".join(sorted(classes))
            detail = f"is not a priority class; the priority classes are: {there_are}"
            found.append(FieldError(class_place, detail))
        for resource, amount in amounts.items():
            place = f"{class_place}/{escape_pointer(resource)}"
            _check_limit(resource, amount, place, found)
    for index, permission in enumerate(given.permissions or ()):
        for field in ("subjects", "verbs"):
            if not getattr(permission, field):
                found.append(FieldError(f"/permissions/{index}/{field}", "is missing or empty"))
    found = [*known, *validation.without_implied(found, known)]
    if found:
        raise validation_problem(found)
    return configuration.Queue(
        name=given.name or "",
        weight=1.0 if given.weight is None else given.weight,
        cordoned=bool(given.cordoned),
        reason=given.reason or "",
        limits={name: dict(amounts) for name, amounts in (given.limits or {}).items()},
        permissions=tuple(
            configuration.Permission(tuple(item.subjects or ()), tuple(item.verbs or ()))
            for item in given.permissions or ()
        ),
        labels=given.labels or {},
        retry_policy=make_retry_policy(given.retry_policy),
        order=configuration.FIFO if given.order is None else given.order.value,
        by=by,
    )


def _check_limit(
    resource: str, amount: request_types.Amount, place: str, found: list[FieldError]
) -> None:
    """Check a limit: a number is a fraction of the pool, a text is a quantity."""
    if isinstance(amount, str):
        parsed = pod_spec.parse_amount(resource, amount)
        if isinstance(parsed, str):
            found.append(FieldError(place, parsed))
    elif not 0 <= amount <= 1:
        found.append(
            FieldError(
                place,
                f"is {validation.quote(amount)}; use a fraction from 0 to 1, or an amount as text",
            )
        )


def _make_view(queue: configuration.Queue, *, is_relayed: bool = True) -> QueueView:
    return QueueView(
        name=queue.name,
        version=queue.version,
        position=configuration.position(queue),
        weight=queue.weight,
        cordoned=queue.cordoned,
        reason=queue.reason,
        limits=queue.limits,
        permissions=queue.permissions,
        labels=queue.labels,
        retry_policy=queue.retry_policy,
        order=queue.order,
        pending=UNSET if is_relayed else True,
    )


def _queue_response(
    queue: configuration.Queue, status: int = 200, *, is_relayed: bool = True
) -> Response:
    return Response(
        msgspec.json.encode(_make_view(queue, is_relayed=is_relayed)),
        status,
        headers={"ETag": make_etag(queue)},
        media_type="application/json",
    )


def _format_count(count: int) -> str:
    """The count as other lists return it."""
    return str(count) if count <= COUNT_MAX else f"{COUNT_MAX}+"


def _make_cursor(name: str) -> str:
    return base64.urlsafe_b64encode(_LIST + name.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> str:
    """The name after which a page begins. Raises a 400 `Problem` for an unknown cursor."""
    if not cursor:
        return ""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        if text.startswith(_LIST) and not name_rules.check_name(
            name := text.removeprefix(_LIST).decode()
        ):
            return name
    except ValueError:
        pass
    found = [FieldError("/query/cursor", "is not a cursor of this list")]
    raise Problem(
        "malformed", "Unknown cursor. Request the list again without `cursor`.", found
    ) from None
