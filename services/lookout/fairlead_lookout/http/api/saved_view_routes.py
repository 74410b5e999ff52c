"""Routes of saved views: they are listed, saved, renamed and deleted.

A personal view is visible to its owner only. Operators save and change the views of all users.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response

from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.domain.requests.validation import without_implied
from fairlead_common.service import clock
from fairlead_common.web import openapi
from fairlead_common.web.auth import Caller
from fairlead_common.web.requests import request_body
from fairlead_lookout.domain.saved_views import (
    PERSONAL_MAX,
    SHARED_MAX,
    RenameRequest,
    SavedViewRequest,
    check_name,
    check_request,
)
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.lookups import saved_view_lookup
from fairlead_lookout.http.responses.json_answers import document_responses, json_response
from fairlead_lookout.http.responses.saved_view_responses import (
    SavedViewResponse,
    SavedViewsResponse,
    describe_saved_view,
)
from fairlead_lookout.http.webhook_access import is_operator
from fairlead_lookout.store.saved_view_store import TooManySavedViews

BODY_BYTES_MAX: Final = 16 * 1024
NUMBER_MAX: Final = 2**63 - 1
_EXAMPLE: Final = {"name": "failed tonight", "address": "/jobs?queue=physics&state=FAILED"}
_decode: Final = Decoder(SavedViewRequest)
_decode_name: Final = Decoder(RenameRequest)
ViewNumber = Annotated[int, Path(alias="view", ge=1, le=NUMBER_MAX, description="Its `id`.")]


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Saved views."""

    @router.get(
        "/saved-views",
        summary="The saved views of the caller and of all users",
        responses=document_responses(SavedViewsResponse, "All of them, by name."),
    )
    async def list_saved_views(request: Request) -> Response:
        caller = await deps.visibility.find_caller(request)
        return json_response(
            SavedViewsResponse(views=await saved_view_lookup.read_saved_views(deps, caller))
        )

    @router.post(
        "/saved-views",
        summary="Save a page with its filters under a name",
        status_code=201,
        responses={
            201: openapi.answer(SavedViewResponse, "The saved view."),
            **openapi.problems(400, 403, 409, 413, 415),
        },
        openapi_extra=_describe_body(SavedViewRequest, ("name", "address"), _EXAMPLE),
    )
    async def save_view(request: Request) -> Response:
        caller = await deps.visibility.find_caller(request)
        given, known = _decode(await request_body.read_body(request, BODY_BYTES_MAX))
        if found := check_request(given, known):
            raise validation_problem(found)
        assert given.name is not None
        assert given.address is not None
        if given.shared:
            _require_operator(caller)
        try:
            saved = await deps.saved_views.create(
                None if given.shared else caller.name,
                given.name.strip(),
                given.address,
                caller.name,
                clock.now_ms(),
            )
        except TooManySavedViews:
            most = SHARED_MAX if given.shared else PERSONAL_MAX
            kind = "shared" if given.shared else "personal"
            detail = f"There are {most} {kind} views already. Delete one first."
            raise Problem("conflict", detail) from None
        if saved is None:
            raise _name_conflict(given.name)
        answer = json_response(describe_saved_view(saved, caller))
        answer.status_code = 201
        return answer

    @router.put(
        "/saved-views/{view}",
        summary="Rename a saved view",
        responses={
            200: openapi.answer(SavedViewResponse, "The renamed view."),
            **openapi.problems(400, 403, 404, 409, 413, 415),
        },
        openapi_extra=_describe_body(RenameRequest, ("name",), {"name": "failed tonight"}),
    )
    async def rename_view(request: Request, number: ViewNumber) -> Response:
        caller = await deps.visibility.find_caller(request)
        given, known = _decode_name(await request_body.read_body(request, BODY_BYTES_MAX))
        if found := [*known, *without_implied(check_name(given.name), known)]:
            raise validation_problem(found)
        assert given.name is not None
        await _require_changeable(deps, number, caller)
        renamed = await deps.saved_views.rename(number, given.name.strip())
        if renamed is None:
            raise _name_conflict(given.name)
        return json_response(describe_saved_view(renamed, caller))

    @router.delete(
        "/saved-views/{view}",
        summary="Delete a saved view",
        status_code=204,
        responses={204: {"description": "Deleted."}, **openapi.problems(403, 404)},
    )
    async def delete_saved_view(request: Request, number: ViewNumber) -> Response:
        caller = await deps.visibility.find_caller(request)
        await _require_changeable(deps, number, caller)
        await deps.saved_views.delete(number)
        return Response(status_code=204)


async def _require_changeable(deps: Deps, number: int, caller: Caller) -> None:
    """Raises a 404 or 403 `Problem` unless the caller may rename and delete this view."""
    found = await deps.saved_views.find_visible(number, caller.name)
    if found is None:
        raise Problem("not-found", f"Saved view {number} does not exist.")
    if found.owner is None:
        _require_operator(caller)


def _name_conflict(name: str) -> Problem:
    return Problem("conflict", f"A view with the name {name.strip()!r} exists already.")


def _require_operator(caller: Caller) -> None:
    if not is_operator(caller):
        raise Problem(
            "forbidden",
            "Views of all users require the role operator."
            f" {caller.name} has the roles: {caller.titles()}.",
        )


def _describe_body(
    kind: type, required: tuple[str, ...], example: dict[str, str]
) -> dict[str, Any]:
    """The `requestBody` of a route. `Any`: OpenAPI as FastAPI has it."""
    content = {"schema": openapi.schema(kind, {kind: required}), "example": example}
    return {"requestBody": {"required": True, "content": {openapi.JSON: content}}}
