"""API tokens and browser sessions: 256 random bits; only a digest is stored.

Submit owns their table; every service reads the view `fairlead_submit.valid_tokens`. Because a
token is random, it needs no slow hash, and the look-up of its digest in an index leaks nothing.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from cachetools import TTLCache

from fairlead_common.db import access_views
from fairlead_common.db.access_views import ValidToken
from fairlead_common.db.connection_pool import Pool
from fairlead_common.domain.permissions import Caller
from fairlead_common.domain.problems import Problem
from fairlead_common.service.access_settings import RoleBinding
from fairlead_common.service.single_flight import SingleFlight
from fairlead_common.web.auth import role_bindings

TOKEN_PREFIX: Final = "fl_"
TOKEN_LENGTH_MAX: Final = 200
KIND_TOKEN: Final = "token"
KIND_SESSION: Final = "session"
CACHE_S: Final = 5.0
CACHED_TOKENS_MAX: Final = 10_000


def new_token() -> str:
    """Return a new secret, 256 bits, with a prefix that secret scanners recognise."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """The digest of a token, which is what the database stores."""
    return hashlib.sha256(token.encode()).digest()


class Tokens:
    """Finds the caller of a token. Results, also invalid ones, are cached for `CACHE_S`."""

    def __init__(
        self, pool: Pool, roles: Sequence[RoleBinding], now_s: Callable[[], float]
    ) -> None:
        self._pool = pool
        self._roles = tuple(roles)
        self._known: TTLCache[bytes, Caller] = TTLCache(CACHED_TOKENS_MAX, CACHE_S, timer=now_s)
        self._unknown: TTLCache[bytes, bool] = TTLCache(CACHED_TOKENS_MAX, CACHE_S, timer=now_s)
        self._look_ups: SingleFlight[bytes, ValidToken | None] = SingleFlight()

    def find_cached(self, token: str, *, is_session: bool) -> Caller | None:
        """The caller, if the cache has it."""
        try:
            caller = self._known[digest(token)]  # a third of the cost of `get`
        except KeyError:
            return None
        return caller if caller.is_session is is_session else None

    async def find(self, token: str, *, is_session: bool) -> Caller:
        """The caller. An API token is sent as a bearer token, a session as a cookie, never the
        other way round. Raises a 401 `Problem`, or `DatabaseUnavailable`.
        """
        caller = await self._find(token)
        if caller.is_session is not is_session:
            raise _unknown()
        return caller

    async def _find(self, token: str) -> Caller:
        if len(token) > TOKEN_LENGTH_MAX:
            raise _unknown()
        key = digest(token)
        if (caller := self._known.get(key)) is not None:
            return caller
        if key in self._unknown:
            raise _unknown()
        found = await self._look_ups.run(key, lambda: access_views.find_token(self._pool, key))
        if found is None:
            self._unknown[key] = True
            raise _unknown()
        caller = self._known[key] = self._caller(found)
        return caller

    def forget(self, token_digest: bytes) -> None:
        """Remove a revoked token from the cache."""
        self._known.pop(token_digest, None)

    def _caller(self, token: ValidToken) -> Caller:
        if token.personal:
            owner = role_bindings.bind_roles(token.name, token.groups, self._roles)
            caller = role_bindings.restrict_owner(owner, token.roles, token.queues)
        else:
            program = Caller(token.name, tuple(token.roles), tuple(token.groups))
            caller = role_bindings.scope_caller(program, token.roles, token.queues)
        return msgspec.structs.replace(
            caller, token=token.number, is_session=token.kind == KIND_SESSION
        )


def _unknown() -> Problem:
    return Problem(
        "unauthenticated",
        "The token is unknown, expired or revoked. `fairlead token create` creates a new one.",
    )
