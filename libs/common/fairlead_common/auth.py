"""Who is calling: API tokens, the browser's cookie, and short-lived tokens between services.

Tokens are kept as SHA-256 digests (they are 256 random bits, so no slow hash is needed) in
`fairlead_submit.tokens`, which submit owns and every service may read.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Final

from fastapi import Request

from fairlead_common import clock
from fairlead_common.db.pool import AWAY, DatabaseUnavailable, Pool
from fairlead_common.permissions import Caller as Caller
from fairlead_common.permissions import require as require
from fairlead_common.problems import Problem

COOKIE: Final = "fairlead_session"
TOKEN_PREFIX: Final = "fl_"
CACHE_S: Final = 5.0
CACHE_MAX: Final = 10_000


def new_token() -> str:
    """A fresh secret, 256 bits, with a prefix that secret scanners can recognise."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).digest()


class Authenticator:
    """Finds the caller of a request; answers are kept for `CACHE_S` seconds."""

    def __init__(self, pool: Pool, *, anonymous: bool = False) -> None:
        self._pool = pool
        self._anonymous = anonymous
        self._cache: dict[bytes, tuple[float, Caller | None]] = {}

    async def __call__(self, request: Request) -> Caller:
        """The caller. Raises a 401 `Problem` that says what to do."""
        token = _token_of(request)
        if token is None:
            if self._anonymous:
                return Caller("anonymous", ("admin",))
            raise Problem(
                "unauthenticated",
                "No token was sent. Send `Authorization: Bearer <token>`; on the machine that runs"
                " Fairlead `fairlead token show` prints one.",
            )
        caller = await self._look_up(digest(token))
        if caller is None:
            raise Problem("unauthenticated", "The token is not known, or has expired.")
        return caller

    async def _look_up(self, token_digest: bytes) -> Caller | None:
        now_s = clock.monotonic_s()
        kept = self._cache.get(token_digest)
        if kept is not None and kept[0] > now_s:
            return kept[1]
        try:
            row = await self._pool.fetchrow(
                "SELECT name, roles FROM fairlead_submit.tokens"
                " WHERE digest = $1 AND (expires_at IS NULL OR expires_at > now())",
                token_digest,
            )
        except AWAY as error:
            raise DatabaseUnavailable(f"Postgres is away: {error}") from error
        caller = None if row is None else Caller(row["name"], tuple(row["roles"]))
        if len(self._cache) >= CACHE_MAX:
            self._cache.clear()
        self._cache[token_digest] = (now_s + CACHE_S, caller)
        return caller


def _token_of(request: Request) -> str | None:
    header = request.headers.get("authorization", "")
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer" and value:
        return value.strip()
    return request.cookies.get(COOKIE)


def sign(key: str, subject: str, expires_ms: int) -> str:
    """A token by which one service vouches for a request to another, until `expires_ms`."""
    assert key, "services need a signing key"
    payload = f"{expires_ms}:{subject}".encode()
    mark = hmac.digest(key.encode(), payload, "sha256")
    return base64.urlsafe_b64encode(mark + payload).decode()


def verify(key: str, token: str, now_ms: int) -> str | None:
    """The subject of a token made by `sign`, or None if it is forged or too old."""
    try:
        raw = base64.urlsafe_b64decode(token.encode())
        mark, payload = raw[:32], raw[32:]
        expires, _, subject = payload.decode().partition(":")
        expires_ms = int(expires)
    except (ValueError, UnicodeError):
        return None
    genuine = hmac.compare_digest(mark, hmac.digest(key.encode(), payload, "sha256"))
    return subject if key and genuine and expires_ms > now_ms else None
