"""The views of submit that every service reads: valid tokens, and queues that have permissions."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import asyncpg

from fairlead_common.db.connection_pool import DatabaseUnavailable, Pool, translate_errors
from fairlead_common.db.statements import load
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records.configuration import Permission

SQL: Final = load("fairlead_common", "db/access.sql")


class ValidToken(NamedTuple):
    """An API token or session. `queues`: the only ones for which it is valid, None for all."""

    number: int
    kind: str
    name: str
    roles: list[str]
    personal: bool
    groups: list[str]
    queues: list[str] | None


async def find_token(pool: Pool, digest: bytes) -> ValidToken | None:
    """The token with this digest; None if there is no valid one. Raises `DatabaseUnavailable`."""
    with _translate_missing_views():
        row = await pool.fetchrow(SQL["find_token"], digest)
    return None if row is None else ValidToken(*row)


async def read_restricted_queues(pool: Pool) -> dict[str, tuple[Permission, ...]]:
    """The permissions of all queues that have some. Raises `DatabaseUnavailable`."""
    with _translate_missing_views():
        rows = await pool.fetch(SQL["read_restricted_queues"])
    found = {}
    for row in rows:
        queue = configuration.decode(row["value"])
        assert isinstance(queue, configuration.Queue)
        found[row["name"]] = queue.permissions
    return found


@contextmanager
def _translate_missing_views() -> Iterator[None]:
    """As `translate_errors`, and `DatabaseUnavailable` before the first start of submit."""
    try:
        with translate_errors():
            yield
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError) as error:
        raise DatabaseUnavailable(
            f"the submit service has not created its tables yet: {error}"
        ) from error
