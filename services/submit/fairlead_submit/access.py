"""API tokens, and links that sign a browser in once. Only digests are stored."""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_common import auth, db
from fairlead_submit.store import SQL

KIND_TOKEN: Final = "token"
KIND_SESSION: Final = "session"
LINK_S: Final = 600
ROLES: Final = frozenset({"admin", "operator", "submitter", "viewer"})


class SignedIn(msgspec.Struct, frozen=True):
    """What a link was good for: the secret of a session, and whose."""

    token: str
    name: str


async def make_token(
    pool: db.Pool,
    name: str,
    roles: Sequence[str],
    kind: str = KIND_TOKEN,
    ttl_s: float | None = None,
) -> str:
    """A new token of that name, which nobody can find out again; `ttl_s` None: for good."""
    unknown = set(roles) - ROLES
    if unknown:
        raise ValueError(f"there is no role {', '.join(sorted(unknown))}")
    token = auth.new_token()
    await pool.execute(SQL["insert_token"], auth.digest(token), name, list(roles), kind, ttl_s)
    return token


async def make_link_code(
    pool: db.Pool, name: str, roles: Sequence[str], ttl_s: float = LINK_S
) -> str:
    """A code for `/sign-in?code=...` that works once, and only for so long."""
    code = auth.new_token()
    await pool.execute(SQL["insert_link"], auth.digest(code), name, list(roles), ttl_s)
    return code


async def sign_in(pool: db.Pool, code: str, session_s: float) -> SignedIn | None:
    """Use up the code and make a session; None if it is unknown, used or too old."""
    async with pool.acquire() as connection, connection.transaction():
        row = await connection.fetchrow(SQL["use_link"], auth.digest(code))
        if row is None:
            return None
        token = await make_token(connection, row["name"], row["roles"], KIND_SESSION, session_s)
        return SignedIn(token, row["name"])


async def forget_expired(pool: db.Pool) -> None:
    """Remove tokens and links that are of no use any more."""
    await pool.execute(SQL["forget_tokens"])
    await pool.execute(SQL["forget_links"])
