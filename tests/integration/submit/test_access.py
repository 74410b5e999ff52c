"""Who may call what: no route is open by accident, and a link signs in once."""

import re

import pytest

from fairlead_common.web import auth
from fairlead_submit.store import token_store
from fairlead_submit.store.token_store import TokenGrant
from tests.integration.submit.submit_server import served

ANN = TokenGrant(name="ann", roles=("viewer",))


async def test_every_route_of_submit_except_public_ones_needs_credentials(database: str) -> None:
    async with served(database) as submit:
        document = (await submit.client.get("/openapi.json")).json()
        assert "/api/v1/jobs" in document["paths"]
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if operation.get("security") == []:
                    continue
                url = re.sub(r"\{.*?\}", "x", path)
                for header in ("", "Bearer ", "Bearer fl_unknown", "Basic eDp5"):
                    answer = await submit.client.request(
                        method, url, headers={"Authorization": header}
                    )
                    assert answer.status_code == 401, (method, path, header)
                    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_viewer_can_only_view(database: str) -> None:
    async with served(database, roles=("viewer",)) as submit:
        assert (await submit.client.get("/api/v1/queues")).status_code == 200
        assert (await submit.client.get("/api/v1/priority-classes")).status_code == 200
        assert (await submit.submit([{"command": ["true"]}])).status_code == 403
        for action in ("cancel", "preempt", "reprioritize", "release"):
            assert (await submit.post(f"/jobs/{action}", {"ids": []})).status_code == 403
        assert (await submit.post("/queues", {"name": "x"})).status_code == 403
        for call in ("cordon", "uncordon"):
            assert (await submit.post(f"/queues/{submit.queue}/{call}", {})).status_code == 403


async def test_queue_permissions_restrict_submission(database: str) -> None:
    async with served(database, roles=("submitter",)) as submit:
        assert (await submit.submit([{"command": ["true"]}])).status_code == 200
        value = (
            b'{"type":"queue","name":"%s","permissions":[{"subjects":["eve"],"verbs":["submit"]}]}'
        )
        name = submit.queue + "-own"
        await submit.pool.execute(
            "INSERT INTO fairlead_submit.queues (name, version, value) VALUES ($1, 1, $2)",
            name,
            value % name.encode(),
        )
        body = {"queue": name, "jobSet": "s", "jobs": [{"command": ["true"]}]}
        assert (await submit.post("/jobs", body)).status_code == 403
        answer = await submit.post("/jobs/cancel", {"filter": {"queue": name}})
        assert answer.status_code == 200


async def test_a_link_signs_in_once(database: str) -> None:
    async with served(database) as submit:
        code = await token_store.make_person_link(submit.pool, ANN)
        submit.client.headers.pop("Authorization")
        answer = await submit.client.get(f"/sign-in?code={code}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert cookie.startswith(f"{auth.COOKIE}=")
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await submit.client.get("/api/v1/queues")).status_code == 200
        submit.client.cookies.clear()
        for spent in (code, "", "x", "x" * 500):
            answer = await submit.client.get("/sign-in", params={"code": spent})
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers


async def test_a_link_on_a_page_of_another_site_asks_before_it_signs_in(database: str) -> None:
    async with served(database) as submit:
        code = await token_store.make_person_link(submit.pool, ANN)
        submit.client.headers.pop("Authorization")
        for site in ("cross-site", "same-site"):
            abroad = {"Sec-Fetch-Site": site}
            page = await submit.client.get(f"/sign-in?code={code}", headers=abroad)
            assert page.status_code == 200
            assert "set-cookie" not in page.headers
            assert f'value="{code}"' in page.text
            sent = await submit.client.post("/sign-in", data={"code": code}, headers=abroad)
            assert sent.status_code == 403
        evil = await submit.client.get("/sign-in", params={"code": '"><b>'}, headers=abroad)
        assert "<b>" not in evil.text
        own = {"Sec-Fetch-Site": "same-origin"}
        answer = await submit.client.post("/sign-in", data={"code": code}, headers=own)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert (await submit.client.get("/api/v1/queues")).status_code == 200
        submit.client.cookies.clear()
        spent = await submit.client.post("/sign-in", data={"code": code}, headers=own)
        assert spent.status_code == 401


async def test_links_and_tokens_expire(database: str) -> None:
    async with served(database) as submit:
        code = await token_store.make_person_link(submit.pool, ANN, ttl_s=-1)
        assert (await submit.client.get(f"/sign-in?code={code}")).status_code == 401
        token = await token_store.make_token(submit.pool, "ann", ["viewer"], ttl_s=-1)
        headers = {"Authorization": f"Bearer {token}"}
        assert (await submit.client.get("/api/v1/queues", headers=headers)).status_code == 401
        with pytest.raises(ValueError, match="unknown role: king"):
            await token_store.make_token(submit.pool, "ann", ["king"])
