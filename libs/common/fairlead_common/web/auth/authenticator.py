"""Finds the caller of a request by the first credentials that it has."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import Request

from fairlead_common.db.connection_pool import Pool
from fairlead_common.domain.permissions import Caller
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_common.service.settings import Settings
from fairlead_common.web.auth import request_origin
from fairlead_common.web.auth.api_tokens import Tokens
from fairlead_common.web.auth.passwords import Passwords

if TYPE_CHECKING:
    from fairlead_common.web.auth.oidc import Issuers

COOKIE: Final = "fairlead_session"
"""The beginning of the name of a session's cookie."""

Headers = Mapping[bytes, bytes]
"""Of a request, by names in lower case, as ASGI has them."""


class Authenticator:
    """Finds the caller by OIDC bearer token, API token, password or session, or as anonymous."""

    def __init__(
        self, pool: Pool, settings: Settings, now_s: Callable[[], float] = clock.monotonic_s
    ) -> None:
        self._tokens = Tokens(pool, settings.roles, now_s)
        self.issuers = _open_issuers(settings, now_s)
        self._passwords = (
            Passwords(Path(settings.password_file), settings.roles, now_s)
            if settings.password_file
            else None
        )
        self._anybody = (
            Caller("anonymous", tuple(settings.anonymous_roles)) if settings.anonymous else None
        )

    async def __call__(self, request: Request) -> Caller:
        """The caller of this request, which the middleware has found."""
        caller = request.state.caller
        assert isinstance(caller, Caller)
        return caller

    def find_cached(self, headers: Headers) -> Caller | None:
        """The caller, if these credentials were verified a moment ago; needs no I/O."""
        match _split(headers):
            case "bearer", token if self.issuers is not None and _is_web_token(token):
                return self.issuers.find_cached(token)
            case (("bearer" | "cookie") as kind, token):
                return self._tokens.find_cached(token, is_session=kind == "cookie")
            case "basic", text if self._passwords is not None:
                name, password = _name_and_password(text)
                return self._passwords.find_cached(name, password)
            case "", _:
                return self._anybody
            case _:
                return None

    async def find(self, headers: Headers) -> Caller:
        """The caller. Raises a 401 `Problem` that says what to do, or `WorldError`."""
        match _split(headers):
            case "bearer", token if self.issuers is not None and _is_web_token(token):
                return await self.issuers.find(token, clock.now_ms())
            case (("bearer" | "cookie") as kind, token):
                return await self._tokens.find(token, is_session=kind == "cookie")
            case "basic", text if self._passwords is not None:
                name, password = _name_and_password(text)
                return await self._passwords.find(name, password)
            case "", _ if self._anybody is not None:
                return self._anybody
            case _:
                raise Problem(
                    "unauthenticated",
                    "No token was sent. Send `Authorization: Bearer <token>`; on the machine that"
                    " runs Fairlead `fairlead token show` prints one.",
                    headers=self._challenge(),
                )

    def is_costly(self, headers: Headers) -> bool:
        """Whether failures must be limited before these credentials are checked: for passwords,
        whose hashing is slow by design; a token is one look-up.
        """
        return _split(headers)[0] == "basic"

    def forget(self, token_digest: bytes) -> None:
        """Remove a revoked token from the cache."""
        self._tokens.forget(token_digest)

    def _challenge(self) -> dict[str, str]:
        """The authentication scheme for a browser; Basic only if there are passwords."""
        both = 'Bearer, Basic realm="Fairlead", charset="UTF-8"'
        return {} if self._passwords is None else {"WWW-Authenticate": both}


def _open_issuers(settings: Settings, now_s: Callable[[], float]) -> "Issuers | None":
    """The OpenID providers in the settings, if there are any. What verifies their tokens is
    imported only then: it takes a tenth of the start of a service."""
    if not settings.oidc:
        return None
    from fairlead_common.web.auth.oidc import Issuers

    return Issuers(settings.oidc, settings.roles, now_s)


def _is_web_token(token: str) -> bool:
    """Whether it has the form of a JSON Web Token, which an API token has not."""
    return token.count(".") == 2


def cookie_name(host: str) -> str:
    """The name of the session cookie for a `Host` header. Browsers send a cookie to every port of a
    host: with the port in its name, two servers on one host do not end each other's sessions.
    """
    port = host.rpartition(":")[2]
    has_port = ":" in host and port.isascii() and port.isdecimal()
    return f"{COOKIE}_{port}" if has_port else COOKIE


def check_origin(method: str, headers: Headers) -> None:
    """Raises a 403 `Problem` for a change that a page of another site could have triggered."""
    if method in request_origin.SAFE:
        return
    kind, _ = _split(headers)
    own = request_origin.is_same_origin(headers) if kind in ("cookie", "basic") else True
    if own is False or (own is None and kind == "cookie"):
        raise Problem(
            "forbidden",
            "A browser session can make changes only from Fairlead's own pages. Programs send"
            " `Authorization: Bearer <token>` instead of the cookie.",
        )


def _split(headers: Headers) -> tuple[str, str]:
    """The type of credentials (`""`: none) and the credentials."""
    header = headers.get(b"authorization")
    if header:
        scheme, _, value = header.decode("latin-1").partition(" ")
        return (scheme.lower(), value.strip()) if value.strip() else ("unreadable", "")
    if cookies := headers.get(b"cookie"):
        begin = cookie_name(headers.get(b"host", b"").decode("latin-1")).encode("latin-1") + b"="
        for part in cookies.split(b";"):
            part = part.strip()
            if part.startswith(begin):
                return "cookie", part[len(begin) :].decode("latin-1")
    return "", ""


def _name_and_password(text: str) -> tuple[str, str]:
    """The user name and password. Raises a 401 `Problem` if they cannot be decoded."""
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except ValueError:
        colon = ""
    if not colon:
        raise Problem("unauthenticated", "The user name and password cannot be decoded.")
    return name, password
