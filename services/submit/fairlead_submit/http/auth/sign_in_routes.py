"""The HTTP calls by which users sign a browser in: with an OpenID provider, or an API token."""

import html
import logging
import secrets
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from fairlead_common import db
from fairlead_common.domain.permissions import ROLES, Caller
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.web import auth, problem_documents, rate_limits
from fairlead_common.web.auth import Authenticator, request_origin
from fairlead_common.web.rate_limits import RateLimiter
from fairlead_common.web.requests import request_body as body
from fairlead_common.web.routing import DeferredRoute
from fairlead_submit.http import openapi_schemas
from fairlead_submit.http.auth import oidc_sign_in
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.store import token_store
from fairlead_submit.store.token_store import TokenGrant

if TYPE_CHECKING:
    from fairlead_common.web.auth.oidc import Issuers, Provider

FORM: Final = "application/x-www-form-urlencoded"
FORM_BYTES_MAX: Final = 8_192
FIELDS_MAX: Final = 8
DAY_S: Final = 86_400
CODE_LENGTH_MAX: Final = 200
_AGAIN: Final = "Open the page that you want to see again."
_FORM_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            FORM: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "token": {"type": "string", "description": "An API token."},
                        "code": {
                            "type": "string",
                            "description": "The code of a link, instead of a token.",
                        },
                        "next": {
                            "type": "string",
                            "description": "The path to open after the sign-in.",
                        },
                    },
                },
                "example": {"token": "fl_...", "next": "/"},
            }
        },
    }
}
_audit: Final = logging.getLogger("fairlead.audit")


def sign_in_routes(
    settings: SubmitSettings, pool: db.Pool, authenticator: Authenticator
) -> APIRouter:
    """The routes under `/sign-in`."""
    router = APIRouter(tags=["access"], route_class=DeferredRoute)
    _add_token_route(router, settings, pool, authenticator)
    _add_begin_route(router, settings, authenticator)
    _add_callback_route(router, settings, pool, authenticator)
    return router


def _add_token_route(
    router: APIRouter, settings: SubmitSettings, pool: db.Pool, authenticator: Authenticator
) -> None:
    given = settings.requests
    session_s = settings.sign_in_days * DAY_S
    failures = RateLimiter[str](given.failures_per_second, given.failures_burst, given.callers_max)

    @router.post(
        oidc_sign_in.PATH,
        summary="Sign a browser in with an API token or a link's code, from Fairlead's own page",
        status_code=303,
        responses={
            303: {"description": "Signed in."},
            **openapi_schemas.describe_problems(401, 403, 413, 415),
        },
        openapi_extra=_FORM_BODY,
    )
    async def sign_in_with_token(request: Request) -> Response:
        if request_origin.is_same_origin(dict(request.scope["headers"])) is not True:
            raise Problem("forbidden", "Browsers sign in from Fairlead's own pages only.")
        form = _read_form(await body.read_body(request, FORM_BYTES_MAX, (FORM,)))
        if "code" in form:
            return await sign_in_by_code(request, pool, form["code"], session_s)
        token = form.get("token", "").strip()
        try:
            caller = await authenticator.find({b"authorization": f"Bearer {token}".encode()})
            session = await _make_session_of_token(pool, caller, session_s)
        except Problem as problem:
            address = request.client.host if request.client else ""
            if (wait_s := failures.take(address, clock.monotonic_s()).wait_s) > 0:
                raise Problem(
                    "too-many-requests",
                    "Too many invalid tokens were sent from your address. Try again later.",
                    retry_after_s=rate_limits.retry_after_s(wait_s),
                ) from problem
            raise
        target = oidc_sign_in.local_path(form.get("next", "/"))
        response = Response(status_code=303, headers={"Location": target, **_NO_STORE})
        set_session(response, request, session, session_s)
        return response


def _add_begin_route(
    router: APIRouter, settings: SubmitSettings, authenticator: Authenticator
) -> None:
    @router.get(
        "/sign-in/oidc",
        summary="Send a browser to an OpenID provider to sign in",
        status_code=303,
        responses={
            303: {"description": "To the provider."},
            **openapi_schemas.describe_problems(404),
        },
    )
    async def begin_sign_in(
        request: Request,
        issuer: Annotated[
            str, Query(max_length=1_000, description="The URL of the provider.")
        ] = "",
        target: Annotated[
            str,
            Query(
                alias="next", max_length=2_000, description="The path to open after the sign-in."
            ),
        ] = "/",
    ) -> Response:
        _, provider = _find_provider(authenticator, issuer)
        endpoint = await provider.endpoint("authorization_endpoint")
        made = [secrets.token_urlsafe(32) for _ in range(oidc_sign_in.SECRETS)]
        begun = oidc_sign_in.begin_attempt(provider.issuer, made, target)
        url = oidc_sign_in.make_authorization_url(
            endpoint, provider.issuer, begun, _redirect_uri(request)
        )
        expires_ms = clock.now_ms() + oidc_sign_in.ATTEMPT_S * 1000
        response = Response(status_code=303, headers={"Location": url, **_NO_STORE})
        response.set_cookie(
            oidc_sign_in.COOKIE,
            oidc_sign_in.seal_attempt(settings.signing_key, begun, expires_ms),
            max_age=oidc_sign_in.ATTEMPT_S,
            path=oidc_sign_in.PATH,
            httponly=True,
            samesite="lax",  # it must come with the provider's redirect, which is another site's
            secure=request.url.scheme == "https",
        )
        return response


def _add_callback_route(
    router: APIRouter, settings: SubmitSettings, pool: db.Pool, authenticator: Authenticator
) -> None:
    @router.get(
        oidc_sign_in.CALLBACK,
        summary="The redirect target of an OpenID provider",
        response_class=HTMLResponse,
        responses={
            200: {"description": "Signed in; the page redirects."},
            **openapi_schemas.describe_problems(401, 404),
        },
    )
    async def finish_sign_in(
        request: Request,
        code: Annotated[str, Query(max_length=4_096, description="The code of the provider.")] = "",
        state: Annotated[
            str, Query(max_length=200, description="The `state` of the sign-in.")
        ] = "",
        iss: Annotated[str, Query(max_length=1_000, description="The provider (RFC 9207).")] = "",
        error: Annotated[
            str, Query(max_length=200, description="Why the provider refused the sign-in.")
        ] = "",
    ) -> Response:
        cookie = request.cookies.get(oidc_sign_in.COOKIE, "")
        begun = oidc_sign_in.open_attempt(settings.signing_key, cookie, state, clock.now_ms())
        if begun is None:
            raise _unauthenticated(
                f"This sign-in was started in another browser, or has expired. {_AGAIN}"
            )
        if error:
            reason = error if error.isprintable() else "unreadable"
            raise _unauthenticated(f"The OpenID provider refused the sign-in: {reason}. {_AGAIN}")
        if iss not in ("", begun.issuer):
            raise _unauthenticated(
                f"The response came from another OpenID provider than the requested one. {_AGAIN}"
            )
        issuers, provider = _find_provider(authenticator, begun.issuer)
        id_token = await provider.exchange(code, begun.verifier, _redirect_uri(request))
        caller = await issuers.signed_in(provider, id_token, begun.nonce)
        session = await _make_session_of_person(pool, caller, provider.issuer.session_s)
        # A redirect would still count as the provider's, and would not carry a strict cookie.
        response = HTMLResponse(_redirect_page("Signed in.", begun.target), headers=_NO_STORE)
        session_s = int(provider.issuer.session_s)
        set_session(response, request, session, session_s)
        response.set_cookie(
            oidc_sign_in.provider_cookie(request.headers.get("host", "")),
            oidc_sign_in.provider_session(provider.issuer.issuer, id_token),
            max_age=session_s,
            path=oidc_sign_in.SIGN_OUT,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        response.delete_cookie(
            oidc_sign_in.COOKIE, path=oidc_sign_in.PATH, httponly=True, samesite="lax"
        )
        return response


async def sign_in_by_code(request: Request, pool: db.Pool, code: str, session_s: int) -> Response:
    """Use up the code of a link and give the browser its session. Raises a 401 `Problem`."""
    signed_in = None
    with db.translate_errors():
        if 0 < len(code) <= CODE_LENGTH_MAX:
            signed_in = await token_store.redeem_link(pool, code, session_s)
    if signed_in is None:
        raise _unauthenticated(
            "This link was used already, or has expired. `fairlead token link` prints a new one."
        )
    response = Response(status_code=303, headers={"Location": "/", **_NO_STORE})
    set_session(response, request, signed_in.token, session_s)
    return response


def ask_to_sign_in(code: str) -> Response:
    """A page that signs in by the code when the user confirms it."""
    return HTMLResponse(
        _page(
            "<h1>Sign in to Fairlead?</h1><p>A page of another site has opened this link. Continue"
            " if you requested it; otherwise close this page.</p>"
            f'<form method="post" action="{oidc_sign_in.PATH}">'
            f'<input type="hidden" name="code" value="{html.escape(code)}">'
            "<button>Sign in</button></form>"
        ),
        headers=_NO_STORE,
    )


def set_session(response: Response, request: Request, session: str, seconds: int) -> None:
    """Give the browser its session."""
    response.set_cookie(
        auth.cookie_name(request.headers.get("host", "")),
        session,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


async def _make_session_of_token(pool: db.Pool, caller: Caller, session_s: float) -> str:
    """The secret of a session with the rights of this token. Raises a 401 `Problem`."""
    with db.translate_errors():
        link = (
            None if caller.token is None else await token_store.make_token_link(pool, caller.token)
        )
        signed_in = None if link is None else await token_store.redeem_link(pool, link, session_s)
    if signed_in is None:
        raise _unauthenticated(
            "This is not a valid API token. `fairlead token create` creates one."
        )
    return signed_in.token


async def _make_session_of_person(pool: db.Pool, caller: Caller, session_s: float) -> str:
    """Make a session for a user whom a provider has identified; returns its secret."""
    wanted = TokenGrant(
        name=caller.name,
        roles=tuple(str(role) for role in ROLES),  # at most what the settings give at each look-up
        personal=True,
        groups=caller.groups,
        label="browser",
        made_by=caller.name,
    )
    with db.translate_errors():
        token, stored = await token_store.insert_token(
            pool, wanted, session_s, token_store.KIND_SESSION
        )
    fields = {"by": caller.name, "token": str(stored.number), "name": caller.name}
    _audit.info("%s signed in with an OpenID provider", caller.name, extra={"fields": fields})
    return token


def _find_provider(authenticator: Authenticator, issuer: str) -> "tuple[Issuers, Provider]":
    """All providers, and the one with this name. Raises a 404 `Problem` if it does not exist."""
    issuers = authenticator.issuers
    found = None if issuers is None else issuers.provider(issuer)
    if issuers is None or found is None:
        raise Problem("not-found", f"{issuer[:200]!r} is not an OpenID provider of this server.")
    return issuers, found


def _redirect_uri(request: Request) -> str:
    """Our address as the browser knows it; the middleware has checked the host."""
    return f"{request.url.scheme}://{request.headers['host']}{oidc_sign_in.CALLBACK}"


def _read_form(content: bytes) -> dict[str, str]:
    """The first value of each field of a form. Raises a 400 `Problem`."""
    try:
        found = parse_qs(content.decode("ascii"), max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError as error:
        raise Problem("malformed", f"The form cannot be read: {error}") from None
    return {name: values[0] for name, values in found.items()}


def problem_page(request: Request, problem: Problem) -> Response:
    """A problem as a page, for a submit whose pages are served by another process."""
    plain = problem_documents.build_response(request, problem)
    body = f'<p>{html.escape(problem.detail)}</p><p><a href="/">All job sets</a></p>'
    headers = {name: value for name, value in plain.headers.items() if name in _PROBLEM_HEADERS}
    return HTMLResponse(_page(body), plain.status_code, {**headers, **_NO_STORE})


async def provider_sign_out(request: Request, authenticator: Authenticator) -> Response | None:
    """A page that leads on to the provider, to end the browser's session there as well; None where
    the browser has not signed in with one, or that has no address for it.
    """
    host = request.headers.get("host", "")
    cookie = request.cookies.get(oidc_sign_in.provider_cookie(host), "")
    session = oidc_sign_in.read_provider_session(cookie) if cookie else None
    issuers = authenticator.issuers
    provider = None if session is None or issuers is None else issuers.provider(session.issuer)
    if session is None or provider is None:
        return None
    endpoint = await provider.end_session_endpoint()
    if endpoint is None:
        return None
    home = f"{request.url.scheme}://{host}/"
    url = oidc_sign_in.end_session_url(endpoint, provider.issuer, session.id_token, home)
    # A redirect of a form to another site is against the pages' Content-Security-Policy.
    return HTMLResponse(_redirect_page("Signed out of Fairlead.", url), headers=_NO_STORE)


def _redirect_page(done: str, target: str) -> str:
    """A page that immediately opens another one."""
    path = html.escape(target)
    return _page(
        f'<p>{done} <a href="{path}">Continue</a></p>',
        f'<meta http-equiv="refresh" content="0; url={path}">',
    )


def _page(body: str, head: str = "") -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Fairlead</title>'
        f"{head}</head><body>{body}</body></html>"
    )


def _unauthenticated(why: str) -> Problem:
    return Problem("unauthenticated", why)


_NO_STORE: Final = {"Cache-Control": "no-store"}
_PROBLEM_HEADERS: Final = ("www-authenticate", "retry-after", "allow")
