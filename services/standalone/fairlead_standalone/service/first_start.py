"""The first start of an installation: its first token, its first queue, and the sign-in link."""

from pathlib import Path
from typing import Final

from fairlead import discovery
from fairlead_common import db
from fairlead_standalone.data.data_folder import write_private
from fairlead_submit.store import configuration_store, token_store

NAME: Final = "first"
ROLES: Final = ("admin",)
QUEUE: Final = "default"


async def prepare_first_start(pool: db.Pool, data: Path) -> None:
    """Create what does not exist yet. The token's file is written last: without it all of this is
    repeated.

    A revoked token stays revoked, and a deleted queue stays deleted.
    """
    file = data / discovery.TOKEN_FILE
    if file.exists():
        await _adopt(pool, file.read_text().strip())
        return
    await configuration_store.ensure_queue(pool, QUEUE)
    token = await token_store.make_token(pool, NAME, ROLES)
    write_private(file, f"{token}\n".encode())


async def _adopt(pool: db.Pool, token: str) -> None:
    """A new database has no tokens: then the old token is stored in it."""
    if await token_store.adopt_token(pool, token, NAME, ROLES):
        await configuration_store.ensure_queue(pool, QUEUE)


async def make_sign_in_link(pool: db.Pool, data: Path, address: str) -> str:
    """A link that signs a browser in, once, within `token_store.LINK_S` seconds.

    Its session ends when the token in the data folder is revoked. If that token is revoked
    already, this is the address only.
    """
    secret = (data / discovery.TOKEN_FILE).read_text().strip()
    token = await token_store.find_number(pool, secret)
    code = None if token is None else await token_store.make_token_link(pool, token)
    return address if code is None else f"{address}/sign-in?code={code}"
