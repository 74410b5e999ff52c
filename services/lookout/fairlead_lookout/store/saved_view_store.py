"""Saved views in Postgres. Their schema is not a part of the view of lookout: a view can be built
again from the log, saved views cannot."""

from collections.abc import Mapping
from typing import Any, Final

from fairlead_common import db
from fairlead_common.db import Pool, load, migrate
from fairlead_lookout.domain.saved_views import PERSONAL_MAX, SHARED_MAX, SavedView

SCHEMA: Final = "fairlead_saved_views"
_PACKAGE: Final = "fairlead_lookout.store"
_SQL: Final = load(_PACKAGE, "sql/saved_views.sql")


async def migrate_saved_views(pool: Pool) -> None:
    """Bring the schema up to date."""
    await migrate(pool, SCHEMA, _PACKAGE, "sql/saved_view_migrations")


class TooManySavedViews(Exception):
    """There are as many as a user, or all users together, can have."""


class SavedViewStore:
    """Reads and changes saved views. Raises `DatabaseUnavailable`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_visible(self, user: str) -> list[SavedView]:
        """The personal views of a user and the views of all users, by name."""
        with db.translate_errors():
            rows = await self._pool.fetch(_SQL["list_views"], user)
        return [_decode(row) for row in rows]

    async def find_visible(self, number: int, user: str) -> SavedView | None:
        """One of these; None if it does not exist."""
        with db.translate_errors():
            row = await self._pool.fetchrow(_SQL["find_view"], number, user)
        return None if row is None else _decode(row)

    async def create(
        self, owner: str | None, name: str, address: str, by: str, now_ms: int
    ) -> SavedView | None:
        """Save a view; None if the owner has one of this name. Raises `TooManySavedViews`."""
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock_views"])
                count = await connection.fetchval(_SQL["count_views"], owner)
                if count >= (SHARED_MAX if owner is None else PERSONAL_MAX):
                    raise TooManySavedViews
                row = await connection.fetchrow(
                    _SQL["insert_view"], owner, name, address, by, now_ms
                )
        return None if row is None else _decode(row)

    async def rename(self, number: int, name: str) -> SavedView | None:
        """Rename a view; None if its owner has another one of this name, or it does not exist."""
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock_views"])
                row = await connection.fetchrow(_SQL["rename_view"], number, name)
        return None if row is None else _decode(row)

    async def delete(self, number: int) -> None:
        """Delete a view."""
        with db.translate_errors():
            await self._pool.execute(_SQL["delete_view"], number)


def _decode(row: Mapping[str, Any]) -> SavedView:
    """`Any`: a row of Postgres."""
    return SavedView(
        number=row["number"],
        name=row["name"],
        address=row["address"],
        owner=row["owner"],
        by=row["by"],
        created_ms=row["created_ms"],
    )
