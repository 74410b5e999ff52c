"""Numbered, forward-only migrations, run at start under an advisory lock.

A service keeps them as `NNNN_what.sql` in one folder of its package, and owns one schema. A
statement file may hold several statements; it runs in one transaction with the row that records it.
"""

import logging
from importlib import resources
from typing import Final

from fairlead_common.db.connection_pool import Connection, Pool, require_version
from fairlead_common.db.locks import migration_lock

FOLDER: Final = "migrations"
MIGRATION_S_MAX: Final = 3_600.0
"""How long a migration may take, or a process may wait for another one that migrates: a migration
can write each row of a table."""
_logger = logging.getLogger("fairlead.db")


async def migrate(pool: Pool, schema: str, package: str, folder: str = FOLDER) -> list[str]:
    """Bring `schema` up to date and return the names of the migrations that ran now.

    Raises `DatabaseUnsuitable`, and AssertionError if the schema is newer than this program.
    """
    scripts = _read_scripts(package, folder)
    lock = migration_lock(schema).number
    async with pool.acquire() as connection:
        require_version(connection)
        await connection.execute("SELECT pg_advisory_lock($1)", lock, timeout=MIGRATION_S_MAX)
        try:
            return await _run(connection, schema, scripts)
        finally:
            await connection.execute("SELECT pg_advisory_unlock($1)", lock)


async def is_migrated(pool: Pool, schema: str, package: str) -> bool:
    """Whether exactly the migrations of this program have run; changes nothing."""
    if await pool.fetchval("SELECT to_regclass($1)", f'"{schema}".migrations') is None:
        return False
    rows = await pool.fetch(f'SELECT name FROM "{schema}".migrations')
    return {row["name"] for row in rows} == {name for name, _ in _read_scripts(package, FOLDER)}


def _read_scripts(package: str, folder: str) -> list[tuple[str, str]]:
    """(Name, SQL) of each migration, in order."""
    return sorted(
        (item.name, item.read_text())
        for item in resources.files(package).joinpath(folder).iterdir()
        if item.name.endswith(".sql")
    )


async def _run(connection: Connection, schema: str, scripts: list[tuple[str, str]]) -> list[str]:
    await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    await connection.execute(
        f'CREATE TABLE IF NOT EXISTS "{schema}".migrations '
        "(name text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
    )
    rows = await connection.fetch(f'SELECT name FROM "{schema}".migrations')
    done = {row["name"] for row in rows}
    unknown = done - {name for name, _ in scripts}
    assert not unknown, f"schema {schema} was made by a newer version: {sorted(unknown)}"
    ran = []
    for name, text in scripts:
        if name in done:
            continue
        if done:  # not a new installation
            _logger.info("migrating the tables of %s: %s", schema, name)
        async with connection.transaction():
            await connection.execute(text, timeout=MIGRATION_S_MAX)
            await connection.execute(f'INSERT INTO "{schema}".migrations (name) VALUES ($1)', name)
        ran.append(name)
    return ran
