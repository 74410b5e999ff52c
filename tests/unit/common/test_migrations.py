"""Migrations on a real Postgres: once each, in order, whoever starts first."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from fairlead_common.db import Pool, migrate, open_pool
from fairlead_common.db.connection_pool import DatabaseUnavailable
from fairlead_standalone.servers.addresses import free_port

PACKAGE = "fairlead_test_of_migrations"
SCHEMA = "things"
TABLE = "CREATE TABLE things.thing (id int PRIMARY KEY);"
COLUMN = "ALTER TABLE things.thing ADD name text; INSERT INTO things.thing VALUES (1, 'a');"


class Scripts:
    """The migrations of a package that only this test has."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "migrations"
        self._folder.mkdir()

    def write(self, **texts: str) -> None:
        """Exactly these, by name."""
        for old in self._folder.iterdir():
            old.unlink()
        for name, text in texts.items():
            (self._folder / f"{name}.sql").write_text(text)


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    """A package on the path, with no migrations yet."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Made by a test."""\n')
    sys.path.insert(0, str(tmp_path))
    yield Scripts(folder)
    sys.path.remove(str(tmp_path))
    sys.modules.pop(PACKAGE, None)


@pytest.fixture
async def pool(fresh_database: str) -> AsyncIterator[Pool]:
    """Connections to an empty database."""
    opened = await open_pool(fresh_database)
    yield opened
    await opened.close()


async def names(pool: Pool) -> list[str]:
    """The rows that the second migration makes once."""
    return [row["name"] for row in await pool.fetch("SELECT name FROM things.thing")]


async def test_migrations_run_in_order_and_once(pool: Pool, scripts: Scripts) -> None:
    scripts.write(**{"0002_name": COLUMN, "0001_thing": TABLE})
    assert await migrate(pool, SCHEMA, PACKAGE) == ["0001_thing.sql", "0002_name.sql"]
    assert await migrate(pool, SCHEMA, PACKAGE) == []
    assert await names(pool) == ["a"]


async def test_a_newer_program_runs_only_what_is_new(pool: Pool, scripts: Scripts) -> None:
    scripts.write(**{"0001_thing": TABLE})
    await migrate(pool, SCHEMA, PACKAGE)
    scripts.write(**{"0001_thing": TABLE, "0002_name": COLUMN})
    assert await migrate(pool, SCHEMA, PACKAGE) == ["0002_name.sql"]


async def test_processes_that_start_together_migrate_once(pool: Pool, scripts: Scripts) -> None:
    scripts.write(**{"0001_thing": TABLE, "0002_name": COLUMN})
    ran = await asyncio.gather(*(migrate(pool, SCHEMA, PACKAGE) for _ in range(6)))
    assert sorted(map(len, ran)) == [0, 0, 0, 0, 0, 2]
    assert await names(pool) == ["a"]


async def test_an_older_program_refuses_a_newer_schema(pool: Pool, scripts: Scripts) -> None:
    scripts.write(**{"0001_thing": TABLE, "0002_name": COLUMN})
    await migrate(pool, SCHEMA, PACKAGE)
    scripts.write(**{"0001_thing": TABLE})
    with pytest.raises(AssertionError, match=r"newer version: .*0002_name"):
        await migrate(pool, SCHEMA, PACKAGE)


async def test_a_failed_migration_is_rolled_back_and_can_be_repeated(
    pool: Pool, scripts: Scripts
) -> None:
    half = "CREATE TABLE things.half (id int); SELECT nonsense;"
    scripts.write(**{"0001_thing": TABLE, "0002_half": half})
    with pytest.raises(asyncpg.UndefinedColumnError):
        await migrate(pool, SCHEMA, PACKAGE)
    assert await pool.fetchval("SELECT to_regclass('things.half')") is None
    scripts.write(**{"0001_thing": TABLE, "0002_half": COLUMN})
    assert await migrate(pool, SCHEMA, PACKAGE) == ["0002_half.sql"]


async def test_schemas_of_one_database_are_independent(pool: Pool, scripts: Scripts) -> None:
    scripts.write(**{"0001_thing": "CREATE TABLE thing (id int);"})
    assert await migrate(pool, "one", PACKAGE) == ["0001_thing.sql"]
    scripts.write(**{"0001_other": "CREATE TABLE other (id int);"})
    assert await migrate(pool, "two", PACKAGE) == ["0001_other.sql"]


async def test_an_unresponsive_database_is_reported_in_time() -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    with pytest.raises(DatabaseUnavailable, match="did not answer within 0 s"):
        await open_pool(url, connect_s_max=0.0)
