"""The HTTP calls for secrets of queues. Values come in and never go out."""

import logging
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Path, Request, Response

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.web.requests import request_body
from fairlead_common.web.requests.query_validation import After, StrictRoute, Wait
from fairlead_submit.domain import name_rules, request_types
from fairlead_submit.domain.callers import require_verb
from fairlead_submit.http import deps, openapi_schemas, query_string
from fairlead_submit.store.configuration_store import QueueStore, queue_not_found
from fairlead_submit.store.secret_store import SecretStore, SecretView

_decoder: Final = Decoder(request_types.Secret)
_audit: Final = logging.getLogger("fairlead.audit")
_EXAMPLE: Final = {"values": {"token": "..."}}


class SecretList(msgspec.Struct, frozen=True):
    """The secrets of a queue."""

    secrets: list[SecretView]


def secret_routes(queues: QueueStore, secrets: SecretStore) -> APIRouter:
    """The routes of secrets, for callers who are permitted to submit to the queue."""
    router = APIRouter(
        prefix="/api/v1/queues/{queue}/secrets", tags=["secrets"], route_class=StrictRoute
    )

    async def permitted(request: Request, name: str) -> Queue:
        caller = deps.request_context(request).caller
        queue = await queues.get_visible(name, caller)
        if queue is None:
            raise queue_not_found(name)
        require_verb(caller, Verb.SUBMIT, queue)
        return queue

    @router.get(
        "",
        summary="The secrets of a queue, without their values",
        responses={
            200: openapi_schemas.describe_response(SecretList, "All of them."),
            **openapi_schemas.describe_problems(404),
        },
    )
    async def list_secrets(
        request: Request, queue: str, after: After = None, wait: Wait = None
    ) -> Response:
        query_string.check_position(after)
        found = await secrets.list((await permitted(request, queue)).name)
        return Response(msgspec.json.encode(SecretList(found)), media_type="application/json")

    @router.put(
        "/{name}",
        summary="Create a secret, or replace all its values",
        status_code=204,
        responses={
            204: {"description": "Stored."},
            **openapi_schemas.describe_problems(400, 404, 413, 415),
        },
        openapi_extra=openapi_schemas.describe_body(request_types.Secret, example=_EXAMPLE),
    )
    async def put_secret(
        request: Request, queue: str, name: Annotated[str, Path(max_length=253)]
    ) -> Response:
        the_queue = await permitted(request, queue)
        query_string.read_query(request)
        given, found = _decoder(await request_body.read_body(request))
        if detail := name_rules.check_printable(name):
            found.append(FieldError("/name", detail))
        if not given.values and not found:
            found.append(FieldError("/values", "is missing; at least one key is required"))
        for key in given.values or ():
            if not key or not key.isprintable() or len(key) > request_types.SECRET_KEY_LENGTH_MAX:
                found.append(
                    FieldError("/values", "has a key that is empty, too long or not printable")
                )
        if found:
            raise validation_problem(found)
        by = deps.request_context(request).caller.name
        await secrets.put(the_queue.name, name, given.values or {}, by)
        _write_audit_line("stored", by, the_queue.name, name)
        return Response(status_code=204)

    @router.delete(
        "/{name}",
        summary="Delete a secret",
        status_code=204,
        responses={204: {"description": "Deleted."}, **openapi_schemas.describe_problems(404)},
    )
    async def delete_secret(
        request: Request, queue: str, name: Annotated[str, Path(max_length=253)]
    ) -> Response:
        the_queue = await permitted(request, queue)
        query_string.read_query(request)
        await secrets.delete(the_queue.name, name)
        _write_audit_line(
            "removed", deps.request_context(request).caller.name, the_queue.name, name
        )
        return Response(status_code=204)

    return router


def _write_audit_line(did: str, by: str, queue: str, name: str) -> None:
    """A line of the audit; never a value."""
    fields = {"by": by, "queue": queue, "secret": name}
    _audit.info("%s %s secret %s of %s", by, did, name, queue, extra={"fields": fields})
