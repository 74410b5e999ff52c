"""Sessions of browsers: how they begin, what they may do, and with what they end."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import httpx2
import pytest

from fairlead_common.service.access_settings import RequestLimits
from fairlead_common.web import auth
from tests.integration.middleware.web_app import WebApp, anonymous, bearer, serve_web_app

END_S_MAX = 60
"""A bound for what takes 10 s at most, on a machine that is busy."""


async def make_token(app: WebApp, *roles: str, **more: Any) -> dict[str, Any]:
    """A new token made by an admin, as the API shows it. `Any`: it is JSON."""
    body = {"name": f"t-{secrets.token_hex(4)}", "roles": list(roles), **more}
    answer = await app.client.post("/api/v1/tokens", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def cookie_of(browser: httpx2.AsyncClient) -> str:
    """The name of its session's cookie."""
    return auth.cookie_name(browser.base_url.netloc.decode())


async def sign_in(browser: httpx2.AsyncClient, token: str) -> str:
    """Sign the browser in by a link of this API token; returns the session's secret."""
    link = await browser.post("/api/v1/sign-in-links", headers=bearer(token))
    assert link.status_code == 201, link.text
    assert (await browser.get(link.json()["path"])).status_code == 303
    session: str = browser.cookies[cookie_of(browser)]
    return session


@pytest.fixture
async def watched(database: str, valkey_url: str) -> AsyncIterator[WebApp]:
    """The app, which checks the credentials of long requests often."""
    limits = RequestLimits(recheck_s=0.1)
    async with serve_web_app(database, valkey_url, {"requests": limits}) as running:
        yield running


async def test_a_link_signs_a_browser_in_once_and_out_again(app: WebApp) -> None:
    link = (await app.client.post("/api/v1/sign-in-links")).json()["path"]
    own = {"Origin": f"http://127.0.0.1:{app.port}"}
    async with anonymous(app) as browser:
        answer = await browser.get(f"{link}&utm_source=mail")  # as mail programs write them
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await browser.get("/api/v1/queues")).status_code == 200
        session = browser.cookies[cookie_of(browser)]
        assert (await browser.post("/sign-out", headers=own)).status_code == 303
        headers = {"Cookie": f"{cookie_of(browser)}={session}"}
        assert (await browser.get("/api/v1/queues", headers=headers)).status_code == 401
    async with anonymous(app) as another:
        assert (await another.get(link)).status_code == 401
        page = await another.get(link, headers={"Accept": "text/html,*/*"})
        assert page.status_code == 401
        assert page.text.startswith("<!doctype html>")
        assert "used already" in page.text


ORIGINS: Final[Sequence[tuple[dict[str, str], int]]] = (
    ({}, 403),
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:{port}"}, 403),
    ({"Sec-Fetch-Site": "same-origin"}, 201),
    ({"Origin": "http://127.0.0.1:{port}"}, 201),
)
"""Headers of a change by a browser that is signed in, and the status of the response."""


async def test_a_session_permits_changes_only_from_own_pages(app: WebApp) -> None:
    link = (await app.client.post("/api/v1/sign-in-links")).json()["path"]
    async with anonymous(app) as browser:
        await browser.get(link)
        for headers, status in ORIGINS:
            given = {name: value.format(port=app.port) for name, value in headers.items()}
            body = {"name": f"q-{secrets.token_hex(4)}"}
            answer = await browser.post("/api/v1/queues", json=body, headers=given)
            assert answer.status_code == status, headers
            assert (await browser.get("/api/v1/queues", headers=given)).status_code == 200


async def test_an_anonymous_browser_gets_the_sign_in_page_without_inline_scripts(
    app: WebApp,
) -> None:
    async with anonymous(app) as browser:
        answer = await browser.get("/", headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 401
    assert "fairlead token link" in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-inline" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_session_expires_with_its_token(app: WebApp) -> None:
    token = await make_token(app, "operator", expiresInSeconds=60)
    async with anonymous(app) as browser:
        await sign_in(browser, token["token"])
        listed = (await browser.get("/api/v1/tokens")).json()["tokens"]
    (session,) = [item for item in listed if item["kind"] == "session"]
    assert session["expiresAt"] <= token["expiresAt"]


async def test_a_session_is_not_a_bearer_token_and_a_token_is_not_a_session(app: WebApp) -> None:
    token = await make_token(app, "viewer")
    async with anonymous(app) as browser:
        session = await sign_in(browser, token["token"])
        assert (await browser.get("/api/v1/queues")).status_code == 200
    async with anonymous(app) as other:
        cookie = {"Cookie": f"{cookie_of(other)}={token['token']}"}
        for headers in (bearer(session), cookie):
            assert (await other.get("/api/v1/queues", headers=headers)).status_code == 401


async def test_a_session_cannot_create_links(app: WebApp) -> None:
    token = await make_token(app, "admin")
    own = {"Origin": f"http://127.0.0.1:{app.port}"}
    async with anonymous(app) as browser:
        await sign_in(browser, token["token"])
        answer = await browser.post("/api/v1/sign-in-links", headers=own)
    assert answer.status_code == 403
    assert "API token" in answer.json()["detail"]


async def test_a_session_has_the_rights_of_its_token(app: WebApp) -> None:
    token = await make_token(app, "submitter", queues=[app.queue])
    async with anonymous(app) as browser:
        await sign_in(browser, token["token"])
        queues = (await browser.get("/api/v1/queues?limit=1000")).json()["queues"]
        assert [queue["name"] for queue in queues] == [app.queue]


async def test_revoking_a_token_ends_its_sessions_and_unused_links(app: WebApp) -> None:
    token = await make_token(app, "operator")
    async with anonymous(app) as browser, anonymous(app) as other:
        await sign_in(browser, token["token"])
        link = await other.post("/api/v1/sign-in-links", headers=bearer(token["token"]))
        gone = await app.client.delete(f"/api/v1/tokens/{token['id']}")
        assert gone.status_code == 204
        assert (await other.get(link.json()["path"])).status_code == 401
        async with asyncio.timeout(END_S_MAX):
            while (await browser.get("/api/v1/queues")).status_code != 401:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("by_session", [False, True], ids=["of the token", "of its session"])
async def test_revoking_a_token_ends_open_streams(watched: WebApp, by_session: bool) -> None:
    token = await make_token(watched, "viewer")
    path = f"/api/v1/events?queue={watched.queue}&follow=true"
    async with anonymous(watched) as http:
        headers = bearer(token["token"])
        if by_session:
            headers = {"Cookie": f"{cookie_of(http)}={await sign_in(http, token['token'])}"}
        async with http.stream("GET", path, headers=headers) as stream:
            assert stream.status_code == 200
            await watched.client.delete(f"/api/v1/tokens/{token['id']}")
            async with asyncio.timeout(END_S_MAX):
                async for _ in stream.aiter_raw():
                    pass


async def test_a_token_can_revoke_only_itself(app: WebApp) -> None:
    name = f"t-{secrets.token_hex(4)}"
    viewer = await make_token(app, "viewer", name=name)
    operator = await make_token(app, "operator", name=name, label="other")
    async with anonymous(app) as http:
        headers = bearer(viewer["token"])
        other = await http.delete(f"/api/v1/tokens/{operator['id']}", headers=headers)
        assert other.status_code == 404, "of the same name, but with more rights"
        own = await http.delete(f"/api/v1/tokens/{viewer['id']}", headers=headers)
        assert own.status_code == 204
    assert (
        await app.client.get("/api/v1/queues", headers=bearer(operator["token"]))
    ).status_code == 200


async def test_a_token_expires_after_ninety_days_by_default(
    app: WebApp,
) -> None:
    token = await make_token(app, "viewer")
    assert "expiresAt" in token
