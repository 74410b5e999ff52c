"""Routes of webhooks: they are created, listed, changed and deleted, and their secrets rotated."""

import base64
import logging
import secrets
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.service import clock
from fairlead_common.web import auth, openapi
from fairlead_common.web.requests import etags, request_body
from fairlead_lookout.domain.webhooks.webhook_requests import (
    OVERLAP_S,
    RotationRequest,
    WebhookConfiguration,
    WebhookRequest,
    check_webhook,
    preview_webhook,
)
from fairlead_lookout.domain.webhooks.webhook_types import SECRET_PREFIX, Webhook
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import after_position
from fairlead_lookout.http.lookups import queue_lookup
from fairlead_lookout.http.request_parameters import Cursor, Limit, WebhookName
from fairlead_lookout.http.responses.json_answers import document_responses, json_response
from fairlead_lookout.http.responses.webhook_responses import (
    WebhookResponse,
    WebhooksResponse,
    describe_webhook,
)
from fairlead_lookout.http.webhook_access import WebhookAccess, is_operator, webhook_not_found
from fairlead_lookout.store.queries import list_cursors
from fairlead_lookout.store.webhooks.webhook_store import TooManyWebhooks

SECRET_BYTES: Final = 32
SIGNED_KIND: Final = "webhook"
"""The kind whose deliveries are signed."""
IfMatch = Annotated[str | None, Header(max_length=400)]
DryRun = Annotated[
    bool, Query(alias="dryRun", description="Validate the request, and change nothing.")
]
_REQUIRED: Final[dict[type, tuple[str, ...]]] = {WebhookRequest: ("name",)}
_EXAMPLE: Final = {
    "name": "physics-results",
    "url": "https://hooks.example.org/fairlead",
    "filter": {"queue": "physics", "jobSet": "scan-*", "types": ["failed", "finished"]},
}
_LIST: Final = ("webhooks",)
_decode_webhook: Final = Decoder(WebhookRequest)
_decode_rotation: Final = Decoder(RotationRequest)
_audit: Final = logging.getLogger("fairlead.audit")


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Webhooks."""
    access = WebhookAccess(deps.visibility, deps.webhooks.store)
    _add_reads(router, deps, access)
    _add_creation(router, deps, access)
    _add_replacement(router, deps, access)
    _add_removal(router, deps, access)
    _add_rotation(router, deps, access)


def _add_reads(router: APIRouter, deps: Deps, access: WebhookAccess) -> None:
    @router.get(
        "/webhooks",
        summary="The webhooks that the caller manages, by name",
        dependencies=[after_position(deps)],
        responses=document_responses(WebhooksResponse, "Some of them.", 400),
    )
    async def list_webhooks(
        request: Request, limit: Limit = 100, cursor: Cursor = None
    ) -> Response:
        caller = await deps.visibility.find_caller(request)
        await access.require_any(caller)
        seen = list_cursors.decode(_LIST, cursor)
        found = await deps.webhooks.store.list_page(
            "" if seen is None else seen[1],
            limit + 1,
            await access.find_scope(caller),
            everything=is_operator(caller),
        )
        page, rest = found[:limit], found[limit:]
        pending = await deps.webhooks.deliveries.count_pending([each.number for each in page])
        now_ms = clock.now_ms()
        return json_response(
            WebhooksResponse(
                webhooks=[describe_webhook(each, pending[each.number], now_ms) for each in page],
                next=list_cursors.encode(_LIST, 0, page[-1].name) if rest else None,
            )
        )

    @router.get(
        "/webhooks/{webhook}",
        summary="A webhook",
        dependencies=[after_position(deps)],
        responses=document_responses(WebhookResponse, "The webhook.", 400, 404),
    )
    async def get_webhook(request: Request, name: WebhookName) -> Response:
        _, webhook = await access.find(request, name)
        return await _answer(deps, webhook)


def _add_creation(router: APIRouter, deps: Deps, access: WebhookAccess) -> None:
    @router.post(
        "/webhooks",
        summary="Create a webhook; for the kind `webhook` the answer has its secret, which is not"
        " shown again",
        status_code=201,
        responses={
            201: openapi.answer(WebhookResponse, "The webhook, with its secret if it has one."),
            **openapi.problems(400, 404, 409, 413, 415),
        },
        openapi_extra=_describe_body(WebhookRequest, _EXAMPLE),
    )
    async def create_webhook(request: Request, dry_run: DryRun = False) -> Response:
        caller = await deps.visibility.find_caller(request)
        await access.require_any(caller)
        given = await _read_webhook(deps, access, request, caller)
        secret = make_secret() if given.kind == SIGNED_KIND else ""
        if secret or given.headers or given.credentials:
            _require_key(deps)
        if dry_run:
            if await deps.webhooks.store.get(given.name) is not None:
                raise _exists(given.name)
            preview = preview_webhook(given, None, clock.now_ms(), caller.name)
            return await _answer(deps, preview)
        try:
            webhook = await deps.webhooks.store.create(given, secret, clock.now_ms(), caller.name)
        except TooManyWebhooks as refusal:
            raise Problem("conflict", str(refusal)) from None
        if webhook is None:
            raise _exists(given.name)
        _write_audit_line("created", caller.name, webhook)
        return await _answer(deps, webhook, secret=secret, status=201)


def _add_replacement(router: APIRouter, deps: Deps, access: WebhookAccess) -> None:
    @router.put(
        "/webhooks/{webhook}",
        summary="Replace the configuration of a webhook; without `headers` these stay, if the `url`"
        " names the same server",
        responses=document_responses(WebhookResponse, "The webhook.", 400, 404, 409, 412, 413, 415),
        openapi_extra=_describe_body(WebhookRequest, _EXAMPLE),
    )
    async def replace_webhook(
        request: Request, name: WebhookName, if_match: IfMatch = None, dry_run: DryRun = False
    ) -> Response:
        caller, known = await access.find(request, name)
        given = await _read_webhook(deps, access, request, caller, known)
        if given.headers or given.credentials:
            _require_key(deps)
        if dry_run:
            _check_version(known, if_match)
            return await _answer(deps, preview_webhook(given, known, clock.now_ms(), caller.name))

        def check(current: Webhook) -> None:
            _check_version(current, if_match)
            if _checked_fields(current) != _checked_fields(known):
                raise Problem("conflict", f"Webhook {name!r} was changed meanwhile. Try again.")

        store = deps.webhooks.store
        try:
            webhook = await store.replace(given, clock.now_ms(), caller.name, check)
        except TooManyWebhooks as refusal:
            raise Problem("conflict", str(refusal)) from None
        if webhook is None:
            raise webhook_not_found(name)
        _write_audit_line("changed", caller.name, webhook)
        return await _answer(deps, webhook)


def _add_removal(router: APIRouter, deps: Deps, access: WebhookAccess) -> None:
    @router.delete(
        "/webhooks/{webhook}",
        summary="Delete a webhook; pending deliveries are not sent",
        status_code=204,
        responses={204: {"description": "Deleted."}, **openapi.problems(404, 412)},
    )
    async def delete_webhook(
        request: Request, name: WebhookName, if_match: IfMatch = None
    ) -> Response:
        caller, webhook = await access.find(request, name)

        def check(current: Webhook) -> None:
            _check_version(current, if_match)

        if not await deps.webhooks.store.delete(name, check):
            raise webhook_not_found(name)
        _write_audit_line("deleted", caller.name, webhook)
        return Response(status_code=204)


def _add_rotation(router: APIRouter, deps: Deps, access: WebhookAccess) -> None:
    @router.post(
        "/webhooks/{webhook}/rotate",
        summary="Add a secret; deliveries are signed with the previous one too for a while",
        responses=document_responses(
            WebhookResponse, "The webhook, with its new secret.", 400, 404, 409, 413, 415
        ),
        openapi_extra=_describe_body(RotationRequest, {"overlapSeconds": OVERLAP_S}, needed=False),
    )
    async def rotate_webhook_secret(request: Request, name: WebhookName) -> Response:
        caller, known = await access.find(request, name)
        content = await request_body.read_body(request)
        given, found = _decode_rotation(content) if content else (RotationRequest(), [])
        if found:
            raise validation_problem(found)
        if known.kind != SIGNED_KIND:
            detail = f"Webhook {name!r} is of the kind {known.kind}, which has no secret."
            raise Problem("conflict", detail)
        _require_key(deps)
        overlap_s = OVERLAP_S if given.overlap_seconds is None else given.overlap_seconds
        secret = make_secret()
        webhook = await deps.webhooks.store.rotate(
            name, secret, overlap_s, clock.now_ms(), caller.name
        )
        if webhook is None:
            raise webhook_not_found(name)
        _write_audit_line("rotated the secret of", caller.name, webhook)
        return await _answer(deps, webhook, secret=secret)


def _checked_fields(webhook: Webhook) -> tuple[int, str | None, str]:
    """What a replacement was checked against, beside what cannot be changed."""
    return webhook.number, webhook.filter.queue, webhook.url


def make_secret() -> str:
    """A new signing secret, as Standard Webhooks writes it."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


async def _read_webhook(
    deps: Deps,
    access: WebhookAccess,
    request: Request,
    caller: auth.Caller,
    current: Webhook | None = None,
) -> WebhookConfiguration:
    """The requested webhook, which the caller is permitted to have. Raises a `Problem`.

    `current`: the webhook that is replaced.
    """
    given, known = _decode_webhook(await request_body.read_body(request))
    if current is not None:
        name = current.name
        if given.name is not None and given.name != name:
            known.append(FieldError("/name", f"differs from the name in the path, {name!r}"))
        given.name = name
    checked = check_webhook(given, known, deps.webhooks.permitted, current)
    if isinstance(checked, list):
        raise validation_problem(checked)
    queue = checked.filter.queue
    try:
        await access.require(caller, queue)
        exists = queue is None or await queue_lookup.is_created(deps, queue)
    except Problem as problem:
        if problem.slug != "not-found":
            raise
        exists = False
    if not exists:
        raise validation_problem([FieldError("/filter/queue", f"queue {queue!r} does not exist")])
    return checked


def _require_key(deps: Deps) -> None:
    if not deps.webhooks.store.can_encrypt:
        raise Problem(
            "conflict",
            "This installation has no key to encrypt the secrets of webhooks. Set `secretsKey`"
            " (FAIRLEAD_SECRETS_KEY) for lookout.",
        )


def _exists(name: str) -> Problem:
    return Problem("conflict", f"Webhook {name!r} exists already.")


def _check_version(webhook: Webhook, if_match: str | None) -> None:
    if if_match is not None and not etags.matches(if_match, _make_etag(webhook)):
        raise Problem(
            "precondition-failed",
            f"Webhook {webhook.name!r} has changed: its ETag is {_make_etag(webhook)}. Read it and"
            " send the change again.",
        )


def _make_etag(webhook: Webhook) -> str:
    return f'"{webhook.version}"'


async def _answer(deps: Deps, webhook: Webhook, *, secret: str = "", status: int = 200) -> Response:
    pending = await deps.webhooks.deliveries.count_pending([webhook.number])
    described = describe_webhook(webhook, pending[webhook.number], clock.now_ms())
    if secret:
        described = msgspec.structs.replace(described, secret=secret)
    headers = {"ETag": _make_etag(webhook)}
    if secret:
        headers["Cache-Control"] = "no-store"
    answer = json_response(described, headers)
    answer.status_code = status
    return answer


def _describe_body(kind: type, example: object, *, needed: bool = True) -> dict[str, Any]:
    """The `requestBody` of a route. `Any`: OpenAPI as FastAPI has it."""
    content = {"schema": openapi.schema(kind, _REQUIRED), "example": example}
    return {"requestBody": {"required": needed, "content": {openapi.JSON: content}}}


def _write_audit_line(did: str, by: str, webhook: Webhook) -> None:
    """A line of the audit; never a secret."""
    fields = {"by": by, "webhook": webhook.name, "queue": webhook.filter.queue or ""}
    _audit.info("%s %s webhook %s", by, did, webhook.name, extra={"fields": fields})
