"""The HTTP calls for tokens and for signing browsers in and out.

Users who sign in with a provider or a password create personal tokens, whose rights are at most
those of their owner. Admins create tokens for programs and choose their roles. Other tokens cannot
create tokens, and sessions cannot create links, so that nobody makes new credentials with one that
leaked. A session has the permissions of the token that it was made with, and ends with that token.
"""

import base64
import logging
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import HTMLResponse
from msgspec import Meta

from fairlead_common import db
from fairlead_common.domain import timestamps
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import ROLES, Role
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.service import clock
from fairlead_common.web import auth
from fairlead_common.web.auth import Authenticator, Caller, request_origin
from fairlead_common.web.requests import request_body
from fairlead_common.web.requests.query_validation import After, StrictRoute, Wait
from fairlead_common.web.routing import DeferredRoute
from fairlead_submit.domain import name_rules, request_types
from fairlead_submit.http import openapi_schemas, query_string
from fairlead_submit.http.auth import oidc_sign_in, sign_in_routes
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.store import token_store
from fairlead_submit.store.token_store import StoredToken, TokenGrant

DAY_S: Final = 86_400
YEAR_S: Final = 366 * DAY_S
DEFAULT_TTL_S: Final = 90 * DAY_S
"""The default validity of a token."""

NUMBER_MAX: Final = 2**63 - 1
_NO_STORE: Final = {"Cache-Control": "no-store"}
_audit: Final = logging.getLogger("fairlead.audit")


class NewToken(request_types.Request, kw_only=True):
    """The body of `POST /api/v1/tokens`. Without `name` it is a personal token."""

    name: request_types.Name | None = None
    roles: Annotated[list[Role], Meta(max_length=len(Role))] | None = None
    queues: Annotated[list[request_types.Name], Meta(max_length=1_000)] | None = None
    label: Annotated[str, Meta(max_length=200)] | None = None
    expires_in_seconds: Annotated[int, Meta(ge=60, le=10 * YEAR_S)] | None = None


class TokenView(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A token without its secret. Only the response that creates it contains `token`."""

    id: str
    name: str
    roles: list[str]
    kind: Literal["token", "session"]
    personal: bool
    queues: list[str] | None = None
    label: str = ""
    made_by: str = ""
    created_at: str
    expires_at: str | None = None
    token: str | None = None


class TokenPage(msgspec.Struct, frozen=True):
    """Some tokens, oldest first; `next` is the cursor of the following page, if there is one."""

    tokens: list[TokenView]
    next: str | None


class SignInLink(msgspec.Struct, frozen=True, rename="camel"):
    """The path of a link that signs a browser in once, before it expires."""

    path: str
    expires_at: str


_EXAMPLE: Final = {"name": "ci", "roles": ["submitter"], "queues": ["physics"], "label": "nightly"}
_decoder: Final = Decoder(NewToken)


def token_routes(
    settings: SubmitSettings, pool: db.Pool, authenticator: Authenticator
) -> APIRouter:
    """The routes that create, list and revoke tokens."""
    router = APIRouter(tags=["access"], route_class=StrictRoute)
    _add_creation_routes(router, settings, pool)
    _add_management_routes(router, pool, authenticator)
    return router


def _add_creation_routes(router: APIRouter, settings: SubmitSettings, pool: db.Pool) -> None:
    @router.post(
        "/api/v1/tokens",
        summary="Create an API token; only this response contains its secret",
        status_code=201,
        responses={
            201: openapi_schemas.describe_response(TokenView, "Made."),
            **openapi_schemas.describe_problems(400, 409, 413, 415),
        },
        openapi_extra=openapi_schemas.describe_body(NewToken, example=_EXAMPLE),
    )
    async def create_token(request: Request) -> Response:
        caller: Caller = request.state.caller
        if not caller.is_person:
            auth.require_role(caller)
        query_string.read_query(request)
        given, found = _decoder(await request_body.read_body(request))
        wanted = make_grant(given, found, caller)
        if not settings.tokens_for_others:
            require_own_grant(wanted, caller)
        ttl_s = given.expires_in_seconds or DEFAULT_TTL_S
        with db.translate_errors():
            made_token = await token_store.insert_unique_token(pool, wanted, ttl_s)
        if made_token is None:
            raise _label_conflict(wanted)
        token, row = made_token
        made = _make_view(row, token)
        _write_audit_line("made", caller, made.id, made.name, roles=made.roles, queues=made.queues)
        return _json_response(made, 201)

    @router.post(
        "/api/v1/sign-in-links",
        summary="Create a one-time link that signs a browser in as the caller",
        status_code=201,
        responses={
            201: openapi_schemas.describe_response(SignInLink, "Made."),
            **openapi_schemas.describe_problems(),
        },
    )
    async def make_sign_in_link(request: Request) -> Response:
        caller: Caller = request.state.caller
        query_string.read_query(request)
        with db.translate_errors():
            code = await _make_link(pool, caller)
        expires_ms = clock.now_ms() + token_store.LINK_S * 1000
        _write_audit_line("made a sign-in link for", caller, "", caller.name)
        return _json_response(
            SignInLink(f"/sign-in?code={code}", timestamps.rfc3339(expires_ms)), 201
        )


def _add_management_routes(router: APIRouter, pool: db.Pool, authenticator: Authenticator) -> None:
    @router.get(
        "/api/v1/tokens",
        summary="The tokens and sessions of the caller, or (for admins) of all users",
        responses={
            200: openapi_schemas.describe_response(TokenPage, "Some of them."),
            **openapi_schemas.describe_problems(400),
        },
    )
    async def list_tokens(
        request: Request,
        everybody: Annotated[bool, Query(alias="all")] = False,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
        cursor: Annotated[str, Query(max_length=40)] = "",
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        query_string.check_position(after)
        caller: Caller = request.state.caller
        if everybody:
            auth.require_role(caller)
        whose = None if everybody else caller.name
        tokens = await token_store.list_tokens(pool, whose, _read_cursor(cursor), limit + 1)
        following = _make_cursor(tokens[limit - 1].number) if len(tokens) > limit else None
        return _json_response(TokenPage([_make_view(each) for each in tokens[:limit]], following))

    @router.delete(
        "/api/v1/tokens/{token_id}",
        summary="Revoke a token or end a session",
        status_code=204,
        responses={204: {"description": "Revoked."}, **openapi_schemas.describe_problems(404)},
    )
    async def revoke_token(
        request: Request, token_id: Annotated[str, Path(max_length=40)]
    ) -> Response:
        caller: Caller = request.state.caller
        query_string.read_query(request)
        number = int(token_id) if token_id.isascii() and token_id.isdecimal() else 0
        revoked = await token_store.revoke_token(
            pool, number if number <= NUMBER_MAX else 0, caller
        )
        if revoked is None:
            raise Problem(
                "not-found",
                f"Token {token_id!r} does not exist, or you are not permitted to revoke it.",
            )
        authenticator.forget(revoked.digest)
        _write_audit_line("revoked", caller, token_id, revoked.name)
        return Response(status_code=204)


def session_routes(
    settings: SubmitSettings, pool: db.Pool, authenticator: Authenticator
) -> APIRouter:
    """The routes that begin and end the session of a browser.

    They ignore unknown parameters, because mail programs add some to links.
    """
    router = APIRouter(tags=["access"], route_class=DeferredRoute)
    session_s = settings.sign_in_days * DAY_S

    @router.get(
        "/sign-in",
        summary="Sign a browser in by a link's code, once",
        status_code=303,
        response_class=HTMLResponse,
        responses={
            200: {"description": "A page of another site has this link: a page that asks first."},
            303: {"description": "Signed in."},
            **openapi_schemas.describe_problems(401),
        },
    )
    async def sign_in(
        request: Request, code: Annotated[str, Query(max_length=1_000)] = ""
    ) -> Response:
        # Another site could sign the browser in as somebody else; and a redirect would still count
        # as that site's, and would not carry the strict cookie.
        if request_origin.is_opened_by_another_site(dict(request.scope["headers"])):
            return sign_in_routes.ask_to_sign_in(code)
        return await sign_in_routes.sign_in_by_code(request, pool, code, session_s)

    @router.post(
        "/sign-out",
        summary="End the session of this browser",
        status_code=303,
        responses={
            200: {"description": "Signed out; the page redirects to the OpenID provider."},
            303: {"description": "Signed out."},
            **openapi_schemas.describe_problems(),
        },
    )
    async def sign_out(request: Request) -> Response:
        host = request.headers.get("host", "")
        cookie = auth.cookie_name(host)
        token = request.cookies.get(cookie, "")
        with db.translate_errors():
            await token_store.end_session(pool, token)
        authenticator.forget(auth.digest(token))
        response = await sign_in_routes.provider_sign_out(request, authenticator)
        if response is None:
            response = Response(status_code=303, headers={"Location": "/", **_NO_STORE})
        response.delete_cookie(cookie, httponly=True, samesite="strict")
        response.delete_cookie(
            oidc_sign_in.provider_cookie(host),
            path=oidc_sign_in.SIGN_OUT,
            httponly=True,
            samesite="strict",
        )
        return response

    return router


def make_grant(given: NewToken, known: list[FieldError], caller: Caller) -> TokenGrant:
    """The requested rights, if the caller is permitted to grant them. Raises a 403 or 422
    `Problem`."""
    found: list[FieldError] = []
    if not given.roles:
        found.append(FieldError("/roles", f"is missing; the roles are {', '.join(ROLES)}"))
    if given.queues == []:
        found.append(FieldError("/queues", "is empty; omit it for all queues"))
    for index, queue in enumerate(given.queues or ()):
        if detail := name_rules.check_name(queue):
            found.append(FieldError(f"/queues/{index}", detail))
    for field in ("name", "label"):
        text = getattr(given, field)
        if text is not None and not text.isprintable():
            found.append(FieldError(f"/{field}", "contains characters that are not printable"))
    found = [*known, *validation.without_implied(found, known)]
    if found:
        raise validation_problem(found)
    roles = tuple(dict.fromkeys(str(role) for role in given.roles or ()))
    queues = None if given.queues is None else tuple(dict.fromkeys(given.queues))
    name = given.name or caller.name
    if caller.is_person and name == caller.name:
        return msgspec.structs.replace(
            make_personal_grant(caller, roles), queues=queues, label=given.label or ""
        )
    if Role.ADMIN not in caller.roles:
        raise Problem(
            "forbidden",
            f"{caller.name} is not permitted to create a token for {name}: admins make tokens for"
            " programs, and users create their own after signing in with their provider or"
            " password.",
        )
    return TokenGrant(
        name=name, roles=roles, queues=queues, label=given.label or "", made_by=caller.name
    )


def require_own_grant(wanted: TokenGrant, caller: Caller) -> None:
    """Raises a 403 `Problem` for a token whose limits a job could leave behind."""
    unlimited = Role.ADMIN in wanted.roles and wanted.queues is None
    if wanted.name == caller.name and (unlimited or set(wanted.roles) <= {Role.VIEWER}):
        return
    raise Problem(
        "forbidden",
        "Jobs are not confined on this server, so a user who submits one can read the server's"
        " secrets. Tokens for other users, and tokens that submit jobs with limited rights, are"
        " therefore refused. Start the server with `fairlead up --shared-unconfined` to permit"
        " them.",
    )


def _label_conflict(wanted: TokenGrant) -> Problem:
    """A 409: of two tokens with one name it would be unclear which to revoke."""
    return Problem(
        "conflict",
        f"{wanted.made_by} has already created a token for {wanted.name!r} with the label"
        f" {wanted.label!r}. Send another `label`, or revoke that token first.",
        [FieldError("/label", "is the label of another token")],
    )


def make_personal_grant(caller: Caller, roles: Sequence[str]) -> TokenGrant:
    """A personal token or session of this person, with these roles at most."""
    return TokenGrant(
        name=caller.name,
        roles=tuple(roles),
        personal=True,
        groups=caller.groups,
        made_by=caller.name,
    )


async def _make_link(pool: db.Pool, caller: Caller) -> str:
    """A code that signs a browser in as this caller. Raises a 403 `Problem`."""
    if caller.is_person:
        return await token_store.make_person_link(
            pool, make_personal_grant(caller, [str(role) for role in Role])
        )
    if caller.is_session:
        raise Problem(
            "forbidden",
            "A browser session cannot create sign-in links. Use an API token: `fairlead token"
            " link`.",
        )
    code = None if caller.token is None else await token_store.make_token_link(pool, caller.token)
    if code is None:
        raise Problem("forbidden", "Only users and API tokens can create sign-in links.")
    return code


def _make_view(stored: StoredToken, token: str | None = None) -> TokenView:
    return TokenView(
        id=str(stored.number),
        name=stored.name,
        roles=stored.roles,
        kind="session" if stored.kind == token_store.KIND_SESSION else "token",
        personal=stored.personal,
        queues=stored.queues,
        label=stored.label,
        made_by=stored.made_by,
        created_at=timestamps.rfc3339(stored.created_ms),
        expires_at=None if stored.expires_ms is None else timestamps.rfc3339(stored.expires_ms),
        token=token,
    )


def _json_response(value: object, status: int = 200) -> Response:
    return Response(
        msgspec.json.encode(value), status, headers=_NO_STORE, media_type="application/json"
    )


def _write_audit_line(did: str, caller: Caller, token_id: str, name: str, **more: object) -> None:
    """A line of the audit: who did what with which token; never a secret."""
    fields = {"by": caller.name, "token": token_id, "name": name, **more}
    _audit.info("%s %s a token of %s", caller.name, did, name, extra={"fields": fields})


def _make_cursor(number: int) -> str:
    return base64.urlsafe_b64encode(str(number).encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> int:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        number = int(text) if text.isascii() and text.isdecimal() else -1
    except ValueError:
        number = -1
    if cursor and not 0 <= number <= NUMBER_MAX:
        found = [FieldError("/query/cursor", "is not a cursor of this list")]
        raise Problem(
            "malformed", "Unknown cursor. Request the list again without `cursor`.", found
        )
    return max(0, number)
