"""The shared fixtures of tests/conftest.py keep what their documentation says."""

import asyncpg
from redis.asyncio import Redis

from tests.conftest import Server


async def _tables(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE mine (x int)")
        statement = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        count: int = await connection.fetchval(statement)
        return count
    finally:
        await connection.close()


async def test_a_fresh_database_is_empty(fresh_database: str) -> None:
    assert await _tables(fresh_database) == 1


async def test_it_is_empty_again_in_the_next_test(fresh_database: str) -> None:
    assert await _tables(fresh_database) == 1


async def test_a_killed_postgres_comes_back_with_its_data(postgres_server: Server) -> None:
    url = postgres_server.url()
    assert await _tables(url) == 1
    postgres_server.kill()
    postgres_server.restart()
    connection = await asyncpg.connect(url)
    await connection.execute("DROP TABLE mine")
    await connection.close()


async def test_valkey_is_empty(valkey_url: str) -> None:
    async with Redis.from_url(valkey_url) as client:
        assert await client.dbsize() == 0
        await client.set("left", "behind")


async def test_valkey_is_empty_again_in_the_next_test(valkey_url: str) -> None:
    async with Redis.from_url(valkey_url) as client:
        assert await client.dbsize() == 0


def test_a_killed_valkey_restarts_on_its_address(valkey_server: Server, valkey_url: str) -> None:
    valkey_server.kill()
    valkey_server.restart()
    assert valkey_server.url() == valkey_url
