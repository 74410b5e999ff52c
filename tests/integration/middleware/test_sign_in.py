"""People sign a browser in: with an OpenID provider, or with an API token of limited rights."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest
from playwright.async_api import expect

from fairlead_common.domain.permissions import Role
from fairlead_common.service import clock
from fairlead_common.service.access_settings import RoleBinding
from fairlead_common.web import auth
from fairlead_common.web.auth.oidc import Issuers, IssuerUnavailable
from fairlead_submit.http.auth import oidc_sign_in
from tests.e2e.pages.browser import browser_page, start_browser
from tests.integration.middleware.test_sessions import make_token
from tests.integration.middleware.web_app import WebApp, anonymous, serve_web_app
from tests.unit.common.issuer import CLIENT, Provider, provider

HTML_TYPE = "text/html"
HTML = {"Accept": "text/html,*/*"}
ROLES = (
    RoleBinding(role=Role.VIEWER, subjects=("group:staff",)),
    RoleBinding(role=Role.SUBMITTER, subjects=("ann",), queues=("physics",)),
)


@asynccontextmanager
async def trusting(
    known: Provider, database: str, valkey_url: str, **more: object
) -> AsyncIterator[WebApp]:
    """A Fairlead in which people sign in with this provider."""
    issuer = known.issuer(client_id=CLIENT, title="The lab", **more)
    settings: Mapping[str, object] = {"oidc": (issuer,), "roles": ROLES, "signing_key": "secret"}
    async with serve_web_app(database, valkey_url, settings) as app:
        known.redirect_uris = {f"http://127.0.0.1:{app.port}/sign-in/callback"}
        known.person = {"sub": "ann", "groups": ["staff"]}
        yield app


@pytest.fixture
async def known() -> AsyncIterator[Provider]:
    """A provider that answers."""
    async with provider() as running:
        yield running


@pytest.fixture
async def app(known: Provider, database: str, valkey_url: str) -> AsyncIterator[WebApp]:
    async with trusting(known, database, valkey_url) as running:
        yield running


async def begin(browser: httpx2.AsyncClient, known: Provider, target: str = "/") -> str:
    """Go to the provider; its address."""
    query = {"issuer": known.url, "next": target}
    answer = await browser.get("/sign-in/oidc", params=query)
    assert answer.status_code == 303, answer.text
    location: str = answer.headers["location"]
    return location


async def agree(browser: httpx2.AsyncClient, address: str) -> str:
    """Sign in at the provider; the address that it leads back to."""
    form = await browser.get(address)
    assert form.status_code == 200, form.text
    assert 'id="yes" href="' in form.text
    return form.text.partition('id="yes" href="')[2].partition('"')[0].replace("&amp;", "&")


async def signed_in(browser: httpx2.AsyncClient, known: Provider, target: str = "/") -> Any:
    """The answer to the whole of it."""
    return await browser.get(await agree(browser, await begin(browser, known, target)))


@pytest.mark.parametrize(
    ("secret", "methods"),
    [
        ("", ["none"]),
        ("a secret: %", ["client_secret_basic"]),
        ("a secret: %", ["client_secret_post"]),
    ],
    ids=["public", "basic", "post"],
)
async def test_an_oidc_sign_in_gives_the_roles_in_settings(
    known: Provider, database: str, valkey_url: str, secret: str, methods: list[str]
) -> None:
    known.client_secret, known.auth_methods = secret, methods
    async with (
        trusting(known, database, valkey_url, client_secret=secret) as app,
        anonymous(app) as browser,
    ):
        answer = await signed_in(browser, known, "/?queue=physics")
        assert answer.status_code == 200
        assert 'url=/?queue=physics"' in answer.text
        cookies = answer.headers.get_list("set-cookie")
        (session,) = [text.lower() for text in cookies if text.startswith(auth.COOKIE)]
        assert "httponly" in session
        assert "samesite=strict" in session
        assert f"max-age={12 * 3600}" in session
        assert (await browser.get("/api/v1/jobs")).status_code == 200
        tokens = (await browser.get("/api/v1/tokens")).json()["tokens"]
        own = max(tokens, key=lambda token: int(token["id"]))  # others are of other tests
        assert (own["name"], own["kind"], own["personal"]) == ("ann", "session", True)
        page = await browser.get("/", headers=HTML)
        assert "Sign out" in page.text
        home = {"Origin": f"http://127.0.0.1:{app.port}"}
        assert (await browser.post("/sign-out", headers=home)).status_code == 303
        assert (await browser.get("/api/v1/jobs")).status_code == 401


async def test_signing_out_ends_the_session_of_the_provider(
    known: Provider, database: str, valkey_url: str
) -> None:
    known.ends_sessions = True
    async with (
        trusting(known, database, valkey_url) as app,
        anonymous(app) as browser,
        httpx2.AsyncClient() as elsewhere,
    ):
        await signed_in(browser, known)
        home = f"http://127.0.0.1:{app.port}"
        page = await browser.post("/sign-out", headers={"Origin": home})
        assert page.status_code == 200
        assert (await browser.get("/api/v1/jobs")).status_code == 401
        address = unescape(page.text.partition("url=")[2].partition('"')[0])
        assert address.startswith(f"{known.url}/logout?")
        await elsewhere.get(address)
        (asked,) = known.ended
        assert asked["client_id"] == CLIENT
        assert asked["post_logout_redirect_uri"] == f"{home}/"
        said = jwt.decode(asked["id_token_hint"], options={"verify_signature": False})
        assert (said["iss"], said["sub"]) == (known.url, "ann")
        again = await browser.post("/sign-out", headers={"Origin": home})
        assert again.status_code in (303, 401), "nothing is remembered of the provider"


async def test_a_foreign_provider_in_the_cookie_is_ignored(known: Provider, app: WebApp) -> None:
    known.ends_sessions = True
    async with anonymous(app) as browser:
        await signed_in(browser, known)
        forged = oidc_sign_in.provider_session("https://evil.example", "")
        name = oidc_sign_in.provider_cookie(browser.base_url.netloc.decode())
        for cookie in (forged, "odd", "%%%"):
            browser.cookies.set(name, cookie, domain="127.0.0.1", path="/sign-out")
            home = {"Origin": f"http://127.0.0.1:{app.port}"}
            answer = await browser.post("/sign-out", headers=home)
            assert "evil" not in answer.text + answer.headers.get("location", "")


async def test_a_callback_works_once_and_only_in_the_same_browser(
    app: WebApp, known: Provider
) -> None:
    async with anonymous(app) as browser, anonymous(app) as other:
        back = await agree(browser, await begin(browser, known))
        assert (await other.get(back)).status_code == 401
        await begin(other, known)
        assert (await other.get(back)).status_code == 401, "of another attempt"
        assert auth.cookie_name(other.base_url.netloc.decode()) not in other.cookies
        assert (await browser.get(back)).status_code == 200
        assert (await browser.get(back)).status_code == 401


async def test_a_code_is_useless_without_its_verifier(app: WebApp, known: Provider) -> None:
    """Somebody who has seen a code cannot use it in a sign-in of their own."""
    async with anonymous(app) as victim, anonymous(app) as thief:
        seen = parse_qs(urlsplit(await agree(victim, await begin(victim, known))).query)
        own = parse_qs(urlsplit(await agree(thief, await begin(thief, known))).query)
        query = {"code": seen["code"][0], "state": own["state"][0]}
        answer = await thief.get("/sign-in/callback", params=query)
    assert answer.status_code == 401
    assert "invalid_grant" in answer.json()["detail"]


async def test_an_id_token_that_is_not_for_this_sign_in_is_refused(
    app: WebApp, known: Provider
) -> None:
    wrong: list[dict[str, object]] = [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another client"},
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"sub": None},
        {"sub": "group:admins"},
    ]
    async with anonymous(app) as browser:
        for known.changes in wrong:
            answer = await signed_in(browser, known)
            assert answer.status_code == 401, (known.changes, answer.text)
            assert auth.cookie_name(browser.base_url.netloc.decode()) not in browser.cookies


async def test_errors_and_foreign_callbacks_of_a_provider_are_refused(
    app: WebApp, known: Provider
) -> None:
    async with anonymous(app) as browser:
        back = await agree(browser, await begin(browser, known))
        state = parse_qs(urlsplit(back).query)["state"][0]
        for query, why in (
            ({"error": "access_denied", "state": state}, "access_denied"),
            (
                {"code": "x", "state": state, "iss": "https://evil.example"},
                "another OpenID provider than",
            ),
            ({"code": "x", "state": state}, "invalid_grant"),
            ({}, "started in another browser"),
        ):
            answer = await browser.get("/sign-in/callback", params=query, headers=HTML)
            assert answer.status_code == 401
            assert why in answer.text
        unknown = await browser.get("/sign-in/oidc", params={"issuer": "https://evil.example"})
        assert unknown.status_code == 404


async def test_an_unavailable_provider_is_reported(known: Provider) -> None:
    known.is_away = True
    found = Issuers([known.issuer(client_id=CLIENT)], (), clock.monotonic_s).provider(known.url)
    assert found is not None
    with pytest.raises(IssuerUnavailable, match="answered 500"):
        await found.endpoint("authorization_endpoint")


async def test_a_sign_in_never_redirects_to_another_site(app: WebApp, known: Provider) -> None:
    abroad = ["//evil.example", "https://evil.example", "/\\evil.example", "/\tx", "/sign-in", ""]
    async with anonymous(app) as browser:
        for target in abroad:
            answer = await signed_in(browser, known, target)
            assert 'content="0; url=/"' in answer.text, target


async def test_a_token_signs_in_only_from_the_sign_in_page(
    app: WebApp,
) -> None:
    token = await make_token(app, "viewer", queues=[app.queue])
    own = {"Origin": f"http://127.0.0.1:{app.port}"}
    form = {"token": f" {token['token']}\n", "next": "/?queue=x"}
    async with anonymous(app) as browser:
        for headers in ({}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await browser.post("/sign-in", data=form, headers=headers)).status_code == 403
        wrong = await browser.post("/sign-in", data={"token": "fl_x"}, headers={**own, **HTML})
        assert wrong.status_code == 401
        assert 'name="token"' in wrong.text
        answer = await browser.post("/sign-in", data=form, headers=own)
        assert (answer.status_code, answer.headers["location"]) == (303, "/?queue=x")
        queues = (await browser.get("/api/v1/queues")).json()["queues"]
        assert [queue["name"] for queue in queues] == [app.queue]
        gone = await app.client.delete(f"/api/v1/tokens/{token['id']}")
        assert gone.status_code == 204
        statuses = [
            (await browser.post("/sign-in", data=form, headers=own)).status_code for _ in range(150)
        ]
        assert statuses[0] == 401
        assert 429 in statuses, "wrong tokens are limited by address"


async def test_in_a_real_browser(app: WebApp, known: Provider, chromium: str) -> None:
    """For a browser `localhost` and the provider's 127.0.0.1 are two sites, as they would be."""
    base = f"http://localhost:{app.port}"
    known.redirect_uris = {f"{base}/sign-in/callback"}
    token = await make_token(app, "viewer")
    async with start_browser(chromium) as started, browser_page(started) as page:
        await page.goto(f"{base}/?queue=physics")
        await page.get_by_role("link", name="Sign in with The lab").click()
        await page.get_by_role("link", name="I am ann").click()
        await expect(page.get_by_text("ann", exact=True)).to_be_visible()
        assert page.url == f"{base}/?queue=physics"
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_text("This browser is not signed in")).to_be_visible()
        await page.get_by_label("API token").fill(token["token"])
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text(token["name"], exact=True)).to_be_visible()


async def test_a_link_of_another_site_signs_in_after_a_confirmation(
    app: WebApp, chromium: str
) -> None:
    """As in web mail: a strict cookie is not sent by what another site has opened."""
    token = await make_token(app, "viewer", queues=[app.queue])
    headers = {"Authorization": f"Bearer {token['token']}"}
    made = await app.client.post("/api/v1/sign-in-links", headers=headers)
    link = f"http://127.0.0.1:{app.port}{made.json()['path']}"
    async with start_browser(chromium) as browser, browser_page(browser) as page:
        await page.route(
            "http://mail.example/",
            lambda route: route.fulfill(body=f'<a href="{link}">link</a>', content_type=HTML_TYPE),
        )
        await page.goto("http://mail.example/")
        await page.get_by_role("link").click()
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.locator(".who")).to_have_text(token["name"])
