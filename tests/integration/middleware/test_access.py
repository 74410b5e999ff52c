"""Tokens, sessions, passwords and providers over HTTP, and what each may do with queues."""

import base64
import gzip
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import argon2
import httpx2
import pytest

from fairlead_common.domain.permissions import Role
from fairlead_common.domain.records import events
from fairlead_common.log import topics
from fairlead_common.log.opening import open_log
from fairlead_common.log.protocol import caught_up
from fairlead_common.service import clock
from fairlead_common.service.access_settings import RequestLimits, RoleBinding
from fairlead_common.web import auth
from fairlead_common.web.auth import oidc
from tests.integration.middleware.web_app import WebApp, anonymous, bearer, serve_web_app
from tests.unit.common.issuer import Provider, provider

JOB = {"command": ["true"]}
CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
ROLES = (
    RoleBinding(role=Role.SUBMITTER, subjects=("group:ml",)),
    RoleBinding(role=Role.ADMIN, subjects=("root",)),
)


async def submit(app: WebApp, headers: dict[str, str], queue: str) -> httpx2.Response:
    """One job into this queue's job set `s`."""
    body = {"queue": queue, "jobSet": "s", "jobs": [JOB]}
    async with anonymous(app) as http:
        return await http.post("/api/v1/jobs", json=body, headers=headers)


async def made_queue(app: WebApp, *permissions: dict[str, list[str]]) -> str:
    """A new queue with these permissions."""
    name = f"q-{secrets.token_hex(4)}"
    body = {"name": name, "permissions": list(permissions)}
    assert (await app.client.post("/api/v1/queues", json=body)).status_code == 201
    return name


def allowing(subject: str, *verbs: str) -> dict[str, list[str]]:
    """One of a queue's permissions."""
    return {"subjects": [subject], "verbs": list(verbs)}


# Tokens ---------------------------------------------------------------------------------------


async def test_a_duplicate_label_of_a_token_is_refused(app: WebApp) -> None:
    wanted = {"name": "twice", "roles": ["viewer"], "label": "a"}
    made = await app.client.post("/api/v1/tokens", json=wanted)
    assert made.status_code == 201
    again = await app.client.post("/api/v1/tokens", json=wanted)
    assert again.status_code == 409
    assert "already created a token for 'twice' with the label 'a'" in again.json()["detail"]
    other = await app.client.post("/api/v1/tokens", json={**wanted, "label": "b"})
    assert other.status_code == 201
    await app.client.delete(f"/api/v1/tokens/{made.json()['id']}")
    assert (await app.client.post("/api/v1/tokens", json=wanted)).status_code == 201


async def test_a_token_is_created_displayed_once_used_and_revoked(app: WebApp) -> None:
    wanted = {"name": "ci", "roles": ["submitter"], "label": "nightly", "expiresInSeconds": 3600}
    made = await app.client.post("/api/v1/tokens", json=wanted)
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    token = made.json()
    secret = token.pop("token")
    assert token["madeBy"] == "tester"
    listed = (await app.client.get("/api/v1/tokens?all=true&limit=1000")).text
    assert f'"id":"{token["id"]}"' in listed
    assert secret not in listed
    assert (await submit(app, bearer(secret), app.queue)).status_code == 200
    gone = await app.client.delete(f"/api/v1/tokens/{token['id']}")
    assert gone.status_code == 204
    assert (await submit(app, bearer(secret), app.queue)).status_code == 401
    assert (await app.client.delete(f"/api/v1/tokens/{token['id']}")).status_code == 404


async def test_only_the_digest_of_a_token_is_stored(app: WebApp) -> None:
    wanted = {"name": "ci", "roles": ["viewer"]}
    secret = (await app.client.post("/api/v1/tokens", json=wanted)).json()["token"]
    rows = await app.pool.fetch("SELECT t::text AS text FROM fairlead_submit.tokens t")
    assert not [row for row in rows if secret in row["text"]]
    assert auth.digest(secret) in [
        row["digest"] for row in await app.pool.fetch("SELECT digest FROM fairlead_submit.tokens")
    ]


async def test_a_token_for_one_queue_works_only_there(app: WebApp) -> None:
    other = await made_queue(app)
    wanted = {"name": "one-queue", "roles": ["submitter"], "queues": [app.queue]}
    made = (await app.client.post("/api/v1/tokens", json=wanted)).json()
    headers = bearer(made["token"])
    assert (await submit(app, headers, app.queue)).status_code == 200
    refused = await submit(app, headers, other)
    assert refused.status_code in (404, 422)
    async with anonymous(app) as http:
        names = (await http.get("/api/v1/queues?limit=1000", headers=headers)).json()["queues"]
    assert [queue["name"] for queue in names] == [app.queue]


async def test_only_admin_tokens_create_tokens(app: WebApp) -> None:
    submitter = await app.token_of("ci", "operator")
    async with anonymous(app) as http:
        for name in ("ci", "other"):
            wanted = {"name": name, "roles": ["viewer"]}
            answer = await http.post("/api/v1/tokens", json=wanted, headers=submitter)
            assert answer.status_code == 403
        assert (await http.get("/api/v1/tokens?all=true", headers=submitter)).status_code == 403


async def test_users_cannot_list_or_revoke_tokens_of_others(app: WebApp) -> None:
    wanted = {"name": f"u-{secrets.token_hex(3)}", "roles": ["viewer"]}
    made = (await app.client.post("/api/v1/tokens", json=wanted)).json()
    other = await app.token_of("eve", "viewer")
    async with anonymous(app) as http:
        seen = (await http.get("/api/v1/tokens?limit=1000", headers=other)).json()["tokens"]
        assert {token["name"] for token in seen} == {"eve"}
        answer = await http.delete(f"/api/v1/tokens/{made['id']}", headers=other)
        assert answer.status_code == 404


INVALID: Final[Sequence[tuple[dict[str, Any], str]]] = (
    ({}, "/roles"),
    ({"roles": []}, "/roles"),
    ({"roles": ["king"]}, "/roles/0"),
    ({"roles": ["viewer"], "queues": ["A B"]}, "/queues/0"),
    ({"roles": ["viewer"], "queues": []}, "/queues"),
    ({"roles": ["viewer"], "expiresInSeconds": 1}, "/expiresInSeconds"),
    ({"roles": ["viewer"], "name": "a\nb"}, "/name"),
    ({"roles": ["viewer"], "secret": "x"}, "/secret"),
)
"""Requests for a token, and the field that is wrong in them."""


async def test_an_invalid_token_request_lists_its_errors(app: WebApp) -> None:
    for wanted, pointer in INVALID:
        answer = await app.client.post("/api/v1/tokens", json=wanted)
        assert answer.status_code == 422, wanted
        assert pointer in [error["pointer"] for error in answer.json()["errors"]], wanted


# People ---------------------------------------------------------------------------------------


def basic(name: str, password: str) -> dict[str, str]:
    """The header that carries them."""
    text = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"Authorization": f"Basic {text}"}


@pytest.fixture
async def issuer() -> AsyncIterator[Provider]:
    """An OpenID provider."""
    async with provider() as running:
        yield running


class Later:
    """A clock that goes on only when it is put forward."""

    def __init__(self) -> None:
        self.by_s = 0.0
        self._begun_s = clock.monotonic_s()

    def now_s(self) -> float:
        """The time by it."""
        return self._begun_s + self.by_s


@pytest.fixture
def later() -> Later:
    return Later()


@pytest.fixture
async def people(
    database: str, valkey_url: str, issuer: Provider, tmp_path: Path, later: Later
) -> AsyncIterator[WebApp]:
    """The app with a provider, a file of passwords, and roles for a group and a user."""
    file = tmp_path / "passwords"
    file.write_text(f"root:{CHEAP.hash('secret')}\nbob:{CHEAP.hash('hidden')}:ml\n")
    settings = {"oidc": (issuer.issuer(),), "password_file": str(file), "roles": ROLES}
    async with serve_web_app(database, valkey_url, settings, later.now_s) as running:
        yield running


async def test_oidc_user_gets_the_roles_of_their_groups(people: WebApp, issuer: Provider) -> None:
    of_group = bearer(issuer.token(groups=["ml"]))
    assert (await submit(people, of_group, people.queue)).status_code == 200
    alone = bearer(issuer.token(sub="eve"))
    assert (await submit(people, alone, people.queue)).status_code == 403
    expired = bearer(issuer.token(exp=1_000))
    assert (await submit(people, expired, people.queue)).status_code == 401


async def test_keys_of_a_provider_rotate_without_failures(
    people: WebApp, issuer: Provider, later: Later
) -> None:
    async def ask(key: str) -> int:
        token = issuer.token(key, groups=["ml"], jti=secrets.token_hex(4))
        return (await submit(people, bearer(token), people.queue)).status_code

    assert await ask("one") == 200
    issuer.rotate("one", "two")
    assert await ask("two") == 401, "the keys were looked at a moment ago"
    later.by_s += oidc.REFETCH_S
    assert await ask("two") == 200
    assert await ask("one") == 200


async def test_a_browser_is_challenged_for_basic_auth_if_passwords_exist(people: WebApp) -> None:
    async with anonymous(people) as browser:
        for path in ("/", "/jobs/x", "/api/v1/queues"):
            answer = await browser.get(path, headers={"Accept": "text/html,*/*"})
            assert answer.status_code == 401
            assert "Basic" in answer.headers["www-authenticate"], path


async def test_basic_auth_user_gets_the_roles_in_settings(people: WebApp) -> None:
    async with anonymous(people) as http:
        answer = await http.get("/api/v1/tokens?all=true", headers=basic("root", "secret"))
        assert answer.status_code == 200
        wrong = await http.get("/api/v1/queues", headers=basic("root", "hidden"))
        assert wrong.status_code == 401
        nobody = await http.get("/api/v1/queues")
        assert 'Basic realm="Fairlead"' in nobody.headers["www-authenticate"]
    assert (await submit(people, basic("bob", "hidden"), people.queue)).status_code == 200


async def test_only_admins_submit_jobs_that_are_not_confined(
    database: str, valkey_url: str, issuer: Provider, tmp_path: Path
) -> None:
    file = tmp_path / "passwords"
    file.write_text(f"root:{CHEAP.hash('secret')}\nbob:{CHEAP.hash('hidden')}:ml\n")
    settings = {
        "oidc": (issuer.issuer(),),
        "password_file": str(file),
        "roles": ROLES,
        "tokens_for_others": False,
    }
    async with serve_web_app(database, valkey_url, settings) as running:
        others = (
            basic("bob", "hidden"),
            bearer(issuer.token(groups=["ml"])),
            await running.token_of("made-earlier", "submitter"),
            await running.token_of("of-one-queue", "admin", queues=[running.queue]),
        )
        for headers in others:
            answer = await submit(running, headers, running.queue)
            assert answer.status_code == 403
            assert "--shared-unconfined" in answer.json()["detail"]
            body = {"filter": {"queue": running.queue}, "jobSet": "again"}
            url = "/api/v1/jobs/resubmit"
            assert (await running.client.post(url, json=body, headers=headers)).status_code == 403
            assert (await running.client.get("/api/v1/jobs", headers=headers)).status_code == 200
        for headers in (basic("root", "secret"), bearer(running.token)):
            assert (await submit(running, headers, running.queue)).status_code == 200


async def test_a_personal_token_has_at_most_the_roles_of_its_owner(people: WebApp) -> None:
    bob = basic("bob", "hidden")
    async with anonymous(people) as http:
        made = []
        for roles in (["admin"], ["viewer"]):
            wanted = {"roles": roles, "label": "-".join(roles)}
            answer = await http.post("/api/v1/tokens", json=wanted, headers=bob)
            assert answer.status_code == 201
            assert answer.json()["personal"]
            assert answer.json()["expiresAt"], "it ends by itself"
            made.append(bearer(answer.json()["token"]))
        refused = await http.post(
            "/api/v1/tokens", json={"name": "root", "roles": ["viewer"]}, headers=bob
        )
        assert refused.status_code == 403
        admin = await http.post("/api/v1/queues", json={"name": "stolen"}, headers=made[0])
        assert admin.status_code == 403, "bob is no admin, whatever his token says"
    assert (await submit(people, made[0], people.queue)).status_code == 200
    assert (await submit(people, made[1], people.queue)).status_code == 403


async def test_responses_to_a_caller_are_not_cacheable(app: WebApp) -> None:
    for path in ("/api/v1/queues", f"/api/v1/queues/{app.queue}", "/api/v1/jobs", "/"):
        assert (await app.client.get(path)).headers["cache-control"] == "no-store", path


# Queues ---------------------------------------------------------------------------------------


async def test_every_read_hides_queues_that_the_caller_cannot_view(app: WebApp) -> None:
    hidden = await made_queue(app, allowing("ann", "view", "submit", "cancel"))
    ann, eve = await app.token_of("ann", "submitter"), await app.token_of("eve", "submitter")
    done = await submit(app, ann, hidden)
    assert done.status_code == 200
    job, position = done.json()["jobs"][0]["id"], done.json()["position"]
    reads = [
        f"/api/v1/jobs/{job}",
        f"/api/v1/jobs/{job}/logs",
        f"/api/v1/jobsets/{hidden}/s",
        f"/api/v1/jobsets/{hidden}/s/events",
        f"/api/v1/queues/{hidden}",
        f"/api/v1/queues/{hidden}/report",
        f"/jobs/{job}",
        f"/jobsets/{hidden}/s",
        f"/live/jobs/{job}",
    ]
    lists = [
        f"/api/v1/jobs?queue={hidden}",
        "/api/v1/jobs?limit=1000",
        "/api/v1/jobs?groupBy=queue&limit=1000",
        "/api/v1/jobsets?limit=1000",
        "/api/v1/queues?limit=1000",
        "/api/v1/jobs/export.csv",
        "/api/v1/jobsets/export.csv",
        "/",
    ]
    async with anonymous(app) as http:
        seen = await http.get(f"/api/v1/jobs/{job}?after={position}&wait=20s", headers=ann)
        assert seen.status_code == 200
        assert seen.json()["queue"] == hidden
        for path in reads:
            answer = await http.get(path, headers=eve)
            assert answer.status_code == 404, (path, answer.text[:200])
        for path in lists:
            answer = await http.get(path, headers=eve)
            assert answer.status_code in (200, 404), path
            assert job not in answer.text, path
            assert hidden not in answer.text.replace(f"queue={hidden}", ""), path
        listed = await http.get(f"/api/v1/jobs?queue={hidden}", headers=ann)
        assert job in listed.text


async def test_changes_are_checked_against_the_queue_of_each_job(app: WebApp) -> None:
    shared = await made_queue(app, allowing("ann", "cancel"))
    ann, eve = await app.token_of("ann", "submitter"), await app.token_of("eve", "submitter")
    done = (await submit(app, eve, shared)).json()
    job = done["jobs"][0]["id"]
    async with anonymous(app) as http:
        for body in ({"ids": [job]}, {"filter": {"queue": shared}}):
            refused = await http.post("/api/v1/jobs/cancel", json=body, headers=eve)
            assert refused.status_code == 403, refused.text
            fine = await http.post(
                "/api/v1/jobs/reprioritize", json={**body, "priority": 3}, headers=eve
            )
            assert fine.status_code == 200, "nobody is named for that, so the role is enough"
            assert (
                await http.post("/api/v1/jobs/cancel", json=body, headers=ann)
            ).status_code == 200


async def test_every_change_records_its_caller(app: WebApp, database: str) -> None:
    """The audit: each message of the log names the caller, and so does what is shown of it."""
    queue = app.queue
    sue = await app.token_of("sue", "operator")
    done = (await submit(app, sue, queue)).json()
    job = done["jobs"][0]["id"]
    async with anonymous(app) as http:
        for name, more in (("reprioritize", {"priority": 1}), ("preempt", {}), ("cancel", {})):
            for target in ({"ids": [job]}, {"filter": {"queue": queue, "jobSet": "s"}}):
                answer = await http.post(f"/api/v1/jobs/{name}", json=target | more, headers=sue)
                assert answer.status_code == 200, answer.text
        cordoned = await http.post(f"/api/v1/queues/{queue}/cordon", json={}, headers=sue)
        assert cordoned.status_code == 200
    log = await open_log(database)
    try:
        values = await _all(log, topics.JOBS)
    finally:
        await log.close()
    sequences = [
        sequence
        for sequence in map(events.decode, values)
        if sequence.queue == queue or any(getattr(e, "job_id", "") == job for e in sequence.events)
    ]
    asked = [sequence for sequence in sequences if sequence.by]
    assert len(asked) >= 7
    assert {sequence.by for sequence in asked} == {"sue"}


async def _all(log: Any, topic: str) -> list[bytes]:
    """Every value of a topic. `Any`: whichever log it is."""
    end, place = await log.end_positions(topic), await log.start_positions(topic)
    reader = await log.reader(topic, place)
    values: list[bytes] = []
    while not caught_up(place, end):
        batch = await reader.read(wait_s=0.1)
        values += [entry.value for entry in batch.entries if entry.value is not None]
        place = batch.positions
    await reader.close()
    return values


# Limits ---------------------------------------------------------------------------------------


async def test_a_caller_beyond_the_rate_limit_gets_retry_after(
    database: str, valkey_url: str
) -> None:
    limits = RequestLimits(per_second=0.01, burst=20)
    async with serve_web_app(database, valkey_url, {"requests": limits}) as app:
        eager, calm = await app.token_of("eager", "viewer"), await app.token_of("calm", "viewer")
        async with anonymous(app) as http:
            answers = [await http.get("/api/v1/queues", headers=eager) for _ in range(22)]
            other = await http.get("/api/v1/queues", headers=calm)
            health = await http.get("/healthz", headers=eager)
    assert [answer.status_code for answer in answers[:20]] == [200] * 20
    assert answers[0].headers["ratelimit-policy"] == '"caller";q=20;w=2000'
    assert answers[0].headers["ratelimit"].startswith('"caller";r=19;t=')
    refused = answers[-1]
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 100
    assert refused.json()["type"] == "/problems/too-many-requests"
    assert (other.status_code, health.status_code) == (200, 200)


async def test_invalid_credentials_limit_only_further_invalid_ones(
    database: str, valkey_url: str
) -> None:
    limits = RequestLimits(failures_per_second=0.01, failures_burst=5)
    async with serve_web_app(database, valkey_url, {"requests": limits}) as app:
        await app.client.get("/api/v1/queues")
        async with anonymous(app) as http:
            guesses = [
                (await http.get("/api/v1/queues", headers=bearer(f"fl_{number}"))).status_code
                for number in range(8)
            ]
        assert guesses == [401] * 5 + [429] * 3
        known = await app.client.get("/api/v1/queues")
        assert known.status_code == 200, "the same address, with a token that was good before"
        unseen = await app.token_of("ann", "viewer")
        async with anonymous(app) as http:
            answer = await http.get("/api/v1/queues", headers=unseen)
        assert answer.status_code == 200, "the same address, with a valid token of somebody else"


async def test_decompression_of_a_body_is_limited(app: WebApp) -> None:
    bomb = gzip.compress(bytes(200 * 2**20), 9)
    assert len(bomb) < 2**18
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    for path in ("/api/v1/jobs", "/api/v1/jobs/cancel", "/api/v1/queues", "/api/v1/tokens"):
        answer = await app.client.post(path, content=bomb, headers=headers)
        assert answer.status_code == 413, path


async def test_only_a_well_formed_request_id_is_accepted(app: WebApp) -> None:
    fine = await app.client.get("/api/v1/queues", headers={"X-Request-Id": "a-1.B_2"})
    assert fine.headers["x-request-id"] == "a-1.B_2"
    for given in ("a b", 'a"b', "a{b}", "<script>", "a%0d"):
        answer = await app.client.get("/api/v1/queues", headers={"X-Request-Id": given})
        assert answer.headers["x-request-id"] != given
