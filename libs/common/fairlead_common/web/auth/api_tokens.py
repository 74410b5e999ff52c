"""API tokens and browser sessions: 256 random bits; only a digest is stored.

Submit owns their table; every service reads the view `fairlead_submit.valid_tokens`. Because a
token is random, it needs no slow hash, and the look-up of its digest in an index leaks nothing.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import Final

import asyncpg
import msgspec
from cachetools import TTLCache

from fairlead_common.db.connection_pool import DatabaseUnavailable, Pool, translate_errors
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
_FIND: Final = (
    "SELECT number, kind, name, roles, personal, groups, queues FROM"
    " fairlead_submit.valid_tokens WHERE digest = $1"
)


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
        self._asked: SingleFlight[bytes, asyncpg.Record | None] = SingleFlight()

    def find_cached(self, token: str, *, is_session: bool) -> Caller | None:
        """The caller, if the cache has it."""
        caller = self._known.get(digest(token))
        return caller if caller is not None and caller.is_session is is_session else None

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
        row = await self._asked.run(key, lambda: self._row(key))
        if row is None:
            self._unknown[key] = True
            raise _unknown()
        caller = self._known[key] = self._caller(row)
        return caller

    def forget(self, token_digest: bytes) -> None:
        """Remove a revoked token from the cache."""
        self._known.pop(token_digest, None)

    async def _row(self, key: bytes) -> asyncpg.Record | None:
        try:
            with translate_errors():
                return await self._pool.fetchrow(_FIND, key)
        except asyncpg.UndefinedTableError as error:
            raise DatabaseUnavailable(f"submit has not made its tables yet: {error}") from error

    def _caller(self, row: asyncpg.Record) -> Caller:
        name, roles, queues = row["name"], row["roles"], row["queues"]
        if row["personal"]:
            owner = role_bindings.bind_roles(name, row["groups"], self._roles)
            caller = role_bindings.restrict_owner(owner, roles, queues)
        else:
            program = Caller(name, tuple(roles), tuple(row["groups"]))
            caller = role_bindings.scope_caller(program, roles, queues)
        return msgspec.structs.replace(
            caller, token=row["number"], is_session=row["kind"] == KIND_SESSION
        )


def _unknown() -> Problem:
    return Problem(
        "unauthenticated",
        "The token is unknown, expired or revoked. `fairlead token create` makes another.",
    )
