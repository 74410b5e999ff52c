"""Who is calling: tokens in the database, the browser's cookie, and tokens between services."""

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from fastapi import APIRouter, Request
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.db import Pool, open_pool
from fairlead_common.domain import permissions
from fairlead_common.service.settings import Settings
from fairlead_common.web import auth, server
from fairlead_common.web.auth import Authenticator
from fairlead_submit.store import schema

KEEP = "INSERT INTO fairlead_submit.tokens (digest, name, roles, kind, expires_at)"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def pool(fresh_database: str) -> AsyncIterator[Pool]:
    """A database with the table of tokens."""
    opened = await open_pool(fresh_database)
    await schema.migrate(opened)
    yield opened
    await opened.close()


async def keep(
    pool: Pool,
    token: str,
    *roles: str,
    expires_at: datetime | None = None,
    kind: str = auth.KIND_TOKEN,
) -> None:
    """Store a token or session of `ada` as submit does."""
    values = (auth.digest(token), "ada", list(roles), kind, expires_at)
    await pool.execute(f"{KEEP} VALUES ($1, $2, $3, $4, $5)", *values)


def client(authenticator: Authenticator) -> httpx2.AsyncClient:
    """Of an app with one route that says who calls, and one that only operators may call."""
    router = APIRouter()

    @router.get("/me")
    async def me(request: Request) -> dict[str, object]:
        caller = await authenticator(request)
        return {"name": caller.name, "roles": list(caller.roles)}

    @router.get("/operate")
    async def operate(request: Request) -> None:
        permissions.require_role(await authenticator(request), "operator")

    app = server.build_app("test", [router], {}, Settings(), identify=authenticator)
    transport = httpx2.ASGITransport(app)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


def bearer(token: str) -> dict[str, str]:
    """The header that carries it."""
    return {"Authorization": f"Bearer {token}"}


# Tokens of people and programs ----------------------------------------------------------------


async def test_a_known_token_identifies_its_caller(pool: Pool) -> None:
    await keep(pool, "fl_1", "submitter", "viewer")
    async with client(Authenticator(pool, Settings())) as http:
        answer = await http.get("/me", headers=bearer("fl_1"))
    assert answer.json() == {"name": "ada", "roles": ["submitter", "viewer"]}


async def test_a_session_is_sent_as_a_cookie(pool: Pool) -> None:
    await keep(pool, "fl_1", "viewer", kind=auth.KIND_SESSION)
    async with client(Authenticator(pool, Settings())) as http:
        answer = await http.get("/me", headers={"Cookie": f"{auth.COOKIE}=fl_1"})
    assert answer.json()["name"] == "ada"


async def test_two_servers_on_one_host_have_sessions_of_their_own(pool: Pool) -> None:
    await keep(pool, "fl_1", "viewer", kind=auth.KIND_SESSION)
    both = f"{auth.cookie_name('localhost:8081')}=fl_other; {auth.cookie_name('localhost')}=fl_1"
    async with client(Authenticator(pool, Settings())) as http:
        assert (await http.get("/me", headers={"Cookie": both})).json()["name"] == "ada"
        elsewhere = {"Cookie": both, "Host": "localhost:8081"}
        assert (await http.get("/me", headers=elsewhere)).status_code == 401
    assert auth.cookie_name("[::1]:9") == f"{auth.COOKIE}_9"
    assert auth.cookie_name("[::1]") == auth.cookie_name("x:y") == auth.COOKIE


@pytest.mark.parametrize(
    "header", ["bearer fl_1", "BEARER fl_1", "Bearer  fl_1"], ids=["small", "large", "spaced"]
)
async def test_the_authentication_scheme_is_case_insensitive(pool: Pool, header: str) -> None:
    await keep(pool, "fl_1", "viewer")
    async with client(Authenticator(pool, Settings())) as http:
        assert (await http.get("/me", headers={"Authorization": header})).status_code == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "fl_1"])
async def test_a_refusal_without_a_token_explains_how_to_get_one(pool: Pool, header: str) -> None:
    async with client(Authenticator(pool, Settings())) as http:
        answer = await http.get("/me", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "fairlead token show" in answer.json()["detail"]


async def test_an_unknown_token_is_refused(pool: Pool) -> None:
    await keep(pool, "fl_1", "viewer")
    async with client(Authenticator(pool, Settings())) as http:
        answer = await http.get("/me", headers=bearer("fl_2"))
    assert answer.status_code == 401
    assert answer.json()["type"] == "/problems/unauthenticated"


async def test_an_expired_token_is_refused(pool: Pool) -> None:
    await keep(pool, "fl_1", "viewer", expires_at=NOW - timedelta(days=365 * 20))
    async with client(Authenticator(pool, Settings())) as http:
        assert (await http.get("/me", headers=bearer("fl_1"))).status_code == 401


async def test_a_token_lookup_is_cached_briefly(pool: Pool) -> None:
    await keep(pool, "fl_1", "viewer")
    authenticator = Authenticator(pool, Settings())
    async with client(authenticator) as http:
        await http.get("/me", headers=bearer("fl_1"))
        await pool.execute("DELETE FROM fairlead_submit.tokens")
        with_token = await http.get("/me", headers=bearer("fl_1"))
    async with client(Authenticator(pool, Settings())) as http:
        fresh = await http.get("/me", headers=bearer("fl_1"))
    assert (with_token.status_code, fresh.status_code) == (200, 401)


async def test_anonymous_access_needs_no_token(pool: Pool) -> None:
    async with client(Authenticator(pool, Settings(anonymous=True))) as http:
        nobody = await http.get("/me")
        forged = await http.get("/me", headers=bearer("fl_2"))
    assert nobody.json() == {"name": "anonymous", "roles": ["admin"]}
    assert forged.status_code == 401


class Away:
    """A pool that cannot get a connection."""

    async def fetchrow(self, *_: object) -> object:
        raise ConnectionRefusedError("nobody listens")


async def test_an_unavailable_database_is_a_503_with_retry_after() -> None:
    async with client(Authenticator(Away(), Settings())) as http:
        answer = await http.get("/me", headers=bearer("fl_1"))
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["type"] == "/problems/unavailable"
    assert "nobody listens" in answer.json()["detail"]


# Roles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("roles", "status"), [(["operator"], 200), (["admin"], 200)])
async def test_a_role_or_admin_is_permitted(pool: Pool, roles: list[str], status: int) -> None:
    await keep(pool, "fl_1", *roles)
    async with client(Authenticator(pool, Settings())) as http:
        assert (await http.get("/operate", headers=bearer("fl_1"))).status_code == status


# Secrets --------------------------------------------------------------------------------------


def test_new_tokens_are_unique_and_have_a_prefix() -> None:
    made = {auth.new_token() for _ in range(100)}
    assert len(made) == 100
    assert all(token.startswith("fl_") and len(token) >= 43 for token in made)


def test_only_a_digest_of_a_token_is_stored() -> None:
    token = auth.new_token()
    assert len(auth.digest(token)) == 32
    assert token.encode() not in auth.digest(token)


# Tokens between services ----------------------------------------------------------------------


@given(st.text(min_size=1, max_size=20), st.text(max_size=40), st.integers(0, 2**45))
def test_a_signed_subject_is_valid_until_it_expires(key: str, subject: str, now_ms: int) -> None:
    token = auth.sign(key, subject, now_ms + 1)
    assert auth.verify(key, token, now_ms) == subject
    assert auth.verify(key, token, now_ms + 1) is None
    assert auth.verify(key + "x", token, now_ms) is None
    assert auth.verify("", token, now_ms) is None


@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_modified_signed_token_is_refused(place: int, change: int) -> None:
    raw = bytearray(base64.urlsafe_b64decode(auth.sign("key", "logs:run-1", 1_000)))
    raw[place % len(raw)] ^= change
    assert auth.verify("key", base64.urlsafe_b64encode(raw).decode(), 0) is None


@pytest.mark.parametrize("token", ["", "x", "====", "é", "AAAA", "A" * 44, "A" * 200])
def test_a_malformed_signed_token_is_refused(token: str) -> None:
    assert auth.verify("key", token, 0) is None


def test_a_service_without_a_key_signs_nothing() -> None:
    with pytest.raises(AssertionError, match="signing key"):
        auth.sign("", "logs:run-1", 1_000)
