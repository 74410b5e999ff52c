"""API tokens, sessions, and links that sign a browser in once. Only digests are stored."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec

from fairlead_common import db
from fairlead_common.domain.permissions import ROLES, Caller, Role
from fairlead_common.web import auth
from fairlead_submit.store.schema import SQL

KIND_TOKEN: Final = auth.KIND_TOKEN
KIND_SESSION: Final = auth.KIND_SESSION
LINK_S: Final = 600


class TokenGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a token is to be good for. Without `queues` it is good for all of them.

    A personal one has of its owner's roles these at most, as they are when it is used; the roles
    of any other are its own.
    """

    name: str
    roles: tuple[str, ...]
    personal: bool = False
    groups: tuple[str, ...] = ()
    queues: tuple[str, ...] | None = None
    label: str = ""
    made_by: str = ""
    parent: int | None = None
    """The number of the API token that a session ends with."""
    unique_name: str | None = None
    """A name that no other token is allowed to have."""


class StoredToken(NamedTuple):
    """A token or session as it is stored: all but its digest. Times in ms of the epoch."""

    number: int
    name: str
    roles: list[str]
    kind: str
    personal: bool
    queues: list[str] | None
    label: str
    made_by: str
    created_ms: int
    expires_ms: int | None


class RevokedToken(NamedTuple):
    """A token that was revoked, and the name of its owner."""

    digest: bytes
    name: str


class NewSession(msgspec.Struct, frozen=True):
    """The session that a link began: its secret, and the name of its user."""

    token: str
    name: str


async def make_token(
    pool: db.Pool,
    name: str,
    roles: Sequence[str],
    ttl_s: float | None = None,
    queues: Sequence[str] | None = None,
) -> str:
    """A new token with this name, stored as a digest only; `ttl_s` None: it does not expire."""
    scope = None if queues is None else tuple(queues)
    token, _ = await insert_token(
        pool, TokenGrant(name=name, roles=tuple(roles), queues=scope), ttl_s
    )
    return token


async def insert_token(
    pool: db.Pool, wanted: TokenGrant, ttl_s: float | None, kind: str = KIND_TOKEN
) -> tuple[str, StoredToken]:
    """Make a token and store it; returns its secret as well."""
    unknown = set(wanted.roles) - set(ROLES)
    if unknown:
        raise ValueError(f"unknown role: {', '.join(sorted(unknown))}")
    token = auth.new_token()
    row = await pool.fetchrow(
        SQL["insert_token"],
        auth.digest(token),
        wanted.name,
        list(wanted.roles),
        kind,
        ttl_s,
        wanted.personal,
        list(wanted.groups),
        None if wanted.queues is None else list(wanted.queues),
        wanted.label,
        wanted.made_by,
        wanted.parent,
        wanted.unique_name,
    )
    return token, _decode_token(row)


async def insert_unique_token(
    pool: db.Pool, wanted: TokenGrant, ttl_s: float | None
) -> tuple[str, StoredToken] | None:
    """As `insert_token`; None if its maker has a valid one for the same name with this label."""
    unique_name = "\n".join((wanted.made_by, wanted.name, wanted.label))
    wanted = msgspec.structs.replace(wanted, unique_name=unique_name)
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(SQL["delete_expired_name"], unique_name)
        try:
            async with connection.transaction():
                return await insert_token(connection, wanted, ttl_s)
        except asyncpg.UniqueViolationError:
            return None


async def adopt_token(pool: db.Pool, token: str, name: str, roles: Sequence[str]) -> bool:
    """Insert this token if the database has no API token at all, and return whether it did."""
    adopted = await pool.fetchval(
        SQL["adopt_token"], auth.digest(token), name, list(roles), KIND_TOKEN
    )
    return bool(adopted)


async def find_number(pool: db.Pool, token: str) -> int | None:
    """The number of the token with this secret; None if it does not exist."""
    number: int | None = await pool.fetchval(SQL["find_token_number"], auth.digest(token))
    return number


async def make_person_link(pool: db.Pool, wanted: TokenGrant, ttl_s: float = LINK_S) -> str:
    """A code for `/sign-in?code=...` that works once, for a session that is good for this."""
    code = auth.new_token()
    await pool.execute(
        SQL["insert_link"],
        auth.digest(code),
        wanted.name,
        list(wanted.roles),
        ttl_s,
        wanted.personal,
        list(wanted.groups),
        None if wanted.queues is None else list(wanted.queues),
    )
    return code


async def make_token_link(pool: db.Pool, token: int, ttl_s: float = LINK_S) -> str | None:
    """A code for a session that has the permissions of this API token and ends with it.

    None if the token is unknown or has expired.
    """
    code = auth.new_token()
    found = await pool.fetchval(SQL["insert_link_of_token"], auth.digest(code), token, ttl_s)
    return None if found is None else code


async def redeem_link(pool: db.Pool, code: str, session_s: float) -> NewSession | None:
    """Use up the code and make a session; None if it is unknown, used or too old."""
    async with pool.acquire() as connection, connection.transaction():
        row = await connection.fetchrow(SQL["use_link"], auth.digest(code))
        if row is None:
            return None
        wanted = TokenGrant(
            name=row["name"],
            roles=tuple(row["roles"]),
            personal=row["personal"],
            groups=tuple(row["groups"]),
            queues=None if row["queues"] is None else tuple(row["queues"]),
            label="browser",
            made_by=row["name"],
            parent=row["parent"],
        )
        token, _ = await insert_token(connection, wanted, session_s, KIND_SESSION)
        return NewSession(token, row["name"])


async def list_tokens(
    pool: db.Pool, owner: str | None, after: int, tokens_max: int
) -> list[StoredToken]:
    """The valid tokens and sessions of a name or made by it (None: all), after this number."""
    with db.translate_errors():
        rows = await pool.fetch(SQL["list_tokens"], owner, after, tokens_max)
    return [_decode_token(row) for row in rows]


async def revoke_token(pool: db.Pool, number: int, caller: Caller) -> RevokedToken | None:
    """Revoke a token; None if it does not exist or the caller must not revoke it."""
    with db.translate_errors():
        row = await pool.fetchrow(
            SQL["revoke_token"],
            number,
            Role.ADMIN in caller.roles,
            caller.token,
            caller.name if caller.is_person else None,
        )
    return None if row is None else RevokedToken(row["digest"], row["name"])


async def end_session(pool: db.Pool, token: str) -> None:
    """End a session; other tokens are not affected."""
    await pool.execute(SQL["end_session"], auth.digest(token), KIND_SESSION)


async def delete_expired(pool: db.Pool) -> None:
    """Delete expired tokens and links."""
    await pool.execute(SQL["delete_expired_tokens"])
    await pool.execute(SQL["delete_expired_links"])


def _decode_token(row: Mapping[str, Any]) -> StoredToken:
    """`Any`: a row of Postgres."""
    expires = row["expires_at"]
    return StoredToken(
        row["number"],
        row["name"],
        row["roles"],
        row["kind"],
        row["personal"],
        row["queues"],
        row["label"],
        row["made_by"],
        round(row["created_at"].timestamp() * 1000),
        None if expires is None else round(expires.timestamp() * 1000),
    )
