"""Saved views through the API: who sees, saves and deletes them, and how many there can be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2

from fairlead_common.db import open_pool
from fairlead_lookout.domain.saved_views import PERSONAL_MAX
from fairlead_submit.store import schema, token_store
from tests.integration.lookout.lookout_harness import running

PATH = "/api/v1/saved-views"
VIEW = {"name": "failed", "address": "/jobs?state=FAILED"}
Clients = dict[str, httpx2.AsyncClient]


@asynccontextmanager
async def open_clients(database: str, redis: str, **roles: str) -> AsyncIterator[Clients]:
    """A client for each user with this role, of one lookout."""
    pool = await open_pool(database)
    await schema.migrate(pool)
    tokens = {
        name: await token_store.make_token(pool, name, [role]) for name, role in roles.items()
    }
    await pool.close()
    async with (
        running(database, redis, anonymous=False) as harness,
        AsyncExitStack() as stack,
    ):
        yield {
            name: await stack.enter_async_context(
                httpx2.AsyncClient(
                    base_url=harness.client.base_url,
                    headers={"Authorization": f"Bearer {token}"},
                    timeout=60,
                )
            )
            for name, token in tokens.items()
        }


async def list_names(client: httpx2.AsyncClient) -> list[str]:
    answer = await client.get(PATH)
    assert answer.status_code == 200, answer.text
    return [view["name"] for view in answer.json()["views"]]


async def test_a_personal_view_is_visible_to_its_owner_only(
    fresh_database: str, valkey_url: str
) -> None:
    async with open_clients(
        fresh_database, valkey_url, anna="viewer", bob="viewer", root="admin"
    ) as clients:
        anna, bob, root = clients.values()
        made = await anna.post(PATH, json=VIEW)
        assert made.status_code == 201, made.text
        assert made.json() | VIEW == made.json()
        assert (made.json()["shared"], made.json()["by"]) == (False, "anna")
        path = f"{PATH}/{made.json()['id']}"
        assert await list_names(anna) == ["failed"]
        for other in (bob, root):
            assert await list_names(other) == []
            assert (await other.delete(path)).status_code == 404
        assert (await bob.post(PATH, json=VIEW)).status_code == 201  # names are per user
        again = await anna.post(PATH, json=VIEW)
        assert again.status_code == 409
        assert (await anna.delete(path)).status_code == 204
        assert (await anna.delete(path)).status_code == 404
        assert (await list_names(anna), await list_names(bob)) == ([], ["failed"])


async def test_operators_save_and_delete_the_views_of_all_users(
    fresh_database: str, valkey_url: str
) -> None:
    async with open_clients(
        fresh_database, valkey_url, anna="submitter", olga="operator", root="admin"
    ) as clients:
        anna, olga, root = clients.values()
        refused = await anna.post(PATH, json={**VIEW, "shared": True})
        assert refused.status_code == 403
        assert "require the role operator" in refused.json()["detail"]
        made = await olga.post(PATH, json={**VIEW, "shared": True})
        assert made.status_code == 201, made.text
        (seen,) = (await anna.get(PATH)).json()["views"]
        assert (seen["shared"], seen["deletable"], seen["by"]) == (True, False, "olga")
        path = f"{PATH}/{made.json()['id']}"
        assert (await anna.delete(path)).status_code == 403
        assert (await root.delete(path)).status_code == 204
        assert await list_names(anna) == []


async def test_views_are_renamed_by_those_who_delete_them(
    fresh_database: str, valkey_url: str
) -> None:
    async with open_clients(
        fresh_database, valkey_url, anna="viewer", bob="viewer", olga="operator"
    ) as clients:
        anna, bob, olga = clients.values()
        own = f"{PATH}/{(await anna.post(PATH, json=VIEW)).json()['id']}"
        await anna.post(PATH, json={**VIEW, "name": "other"})
        everybody = f"{PATH}/{(await olga.post(PATH, json={**VIEW, 'shared': True})).json()['id']}"
        renamed = await anna.put(own, json={"name": " night "})
        assert renamed.status_code == 200, renamed.text
        assert (renamed.json()["name"], renamed.json()["address"]) == ("night", VIEW["address"])
        for client, path, name, status in (
            (anna, own, "night", 200),
            (anna, own, "other", 409),
            (anna, own, " ", 422),
            (bob, own, "bobs", 404),
            (olga, own, "olgas", 404),
            (anna, everybody, "annas", 403),
            (olga, everybody, "night", 200),
        ):
            answer = await client.put(path, json={"name": name})
            assert answer.status_code == status, (path, name, answer.text)
        assert await list_names(anna) == ["night", "night", "other"]


async def test_bad_views_are_refused(fresh_database: str, valkey_url: str) -> None:
    async with open_clients(fresh_database, valkey_url, anna="viewer") as clients:
        anna = clients["anna"]
        wrong = {"name": "x" * 101, "address": "https://example.org/jobs", "other": 1}
        answer = await anna.post(PATH, json=wrong)
        assert answer.status_code == 422
        pointers = {error["pointer"] for error in answer.json()["errors"]}
        assert pointers == {"/name", "/address", "/other"}
        assert (await anna.post(PATH, content=b"{")).status_code in (400, 415)
        assert (await anna.post(PATH, json={**VIEW, "name": "x" * 20_000})).status_code == 413
        assert await list_names(anna) == []


async def test_a_user_has_a_bounded_number_of_views(fresh_database: str, valkey_url: str) -> None:
    async with open_clients(fresh_database, valkey_url, anna="viewer") as clients:
        anna = clients["anna"]
        answers = await asyncio.gather(
            *(anna.post(PATH, json={**VIEW, "name": f"v{n}"}) for n in range(PERSONAL_MAX + 3))
        )
        statuses = [answer.status_code for answer in answers]
        assert (statuses.count(201), statuses.count(409)) == (PERSONAL_MAX, 3)
        assert len(await list_names(anna)) == PERSONAL_MAX
