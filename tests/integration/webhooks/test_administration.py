"""Webhooks are created, changed, replayed and deleted by those who are permitted to."""

import asyncio
import json
import os
import sys
from typing import Any

import asyncpg
import httpx2

from fairlead_common.db import open_pool
from fairlead_common.domain.records import configuration
from fairlead_lookout.http.api.webhooks.webhook_delivery_routes import TESTS_BURST
from fairlead_lookout.store.webhooks.webhook_store import QUEUE_WEBHOOKS_MAX, WEBHOOKS_MAX
from fairlead_submit.store import schema, token_store
from tests.integration.webhooks.receiver import receiving
from tests.integration.webhooks.webhook_harness import WebhookHarness, delivering
from tests.unit.lookout.builders import job_id, submitted

NOBODY = "http://127.0.0.1:9/"


async def test_secrets_are_returned_once_and_encrypted_at_rest(
    fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        made = await harness.create(NOBODY, headers={"Authorization": "Bearer sesame"})
        assert made["secret"].startswith("whsec_")
        read = await harness.read("/webhooks/hook")
        assert "secret" not in read
        assert read["headers"] == ["Authorization"]
        connection = await asyncpg.connect(fresh_database)
        row = await connection.fetchrow("SELECT * FROM fairlead_webhooks.webhooks")
        await connection.close()
        text = repr(row)
        assert made["secret"].removeprefix("whsec_") not in text
        assert "sesame" not in text


async def test_headers_are_given_again_for_another_server(
    fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        await harness.create(NOBODY, headers={"Authorization": "Bearer sesame"})
        path, filtered = "/api/v1/webhooks/hook", {"filter": {"queue": "q"}}
        elsewhere = filtered | {"url": "http://127.0.0.1:10/"}
        refused = await harness.client.put(path, json=elsewhere)
        assert refused.status_code == 422
        assert [error["pointer"] for error in refused.json()["errors"]] == ["/headers"]
        read = await harness.read("/webhooks/hook")
        assert (read["url"], read["headers"]) == (NOBODY, ["Authorization"])
        moved = await harness.client.put(path, json=elsewhere | {"headers": {}})
        assert (moved.status_code, moved.json()["headers"]) == (200, [])


async def test_without_a_key_no_webhook_is_created(fresh_database: str, valkey_url: str) -> None:
    async with delivering(fresh_database, valkey_url, secrets_key="") as harness:
        answer = await harness.post(
            "/webhooks", {"name": "hook", "url": NOBODY, "filter": {"queue": "q"}}
        )
        assert answer.status_code == 409
        assert "secretsKey" in answer.json()["detail"]


async def test_changes_are_checked_against_the_version(
    fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        await harness.create(NOBODY)
        again = await harness.post(
            "/webhooks", {"name": "hook", "url": NOBODY, "filter": {"queue": "q"}}
        )
        assert again.status_code == 409
        path = "/api/v1/webhooks/hook"
        etag = (await harness.client.get(path)).headers["ETag"]
        body = {"url": NOBODY, "filter": {"queue": "q", "types": ["failed"]}}
        changed = await harness.client.put(path, json=body, headers={"If-Match": etag})
        assert changed.json()["filter"]["types"] == ["failed"]
        for call in (
            harness.client.put(path, json=body, headers={"If-Match": etag}),
            harness.client.delete(path, headers={"If-Match": etag}),
        ):
            assert (await call).status_code == 412
        assert (await harness.client.delete(path)).status_code == 204
        assert (await harness.client.get(path)).status_code == 404


async def test_an_unknown_queue_is_refused_with_its_field(
    fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        answer = await harness.post(
            "/webhooks", {"name": "hook", "url": NOBODY, "filter": {"queue": "nope"}}
        )
        assert answer.status_code == 422
        assert answer.json()["errors"] == [
            {"pointer": "/filter/queue", "detail": "queue 'nope' does not exist"}
        ]


async def _make_tokens(database: str) -> dict[str, str]:
    pool = await open_pool(database)
    await schema.migrate(pool)
    queue = configuration.Queue(
        name="q", permissions=(configuration.Permission(("bob",), ("submit", "view")),)
    )
    await pool.execute(
        "INSERT INTO fairlead_submit.queues (name, version, value) VALUES ('q', 1, $1)",
        configuration.record(queue).value,
    )
    made = {
        name: await token_store.make_token(pool, name, [role])
        for name, role in (("anna", "submitter"), ("bob", "submitter"), ("olga", "operator"))
    }
    made["rita"] = await token_store.make_token(pool, "rita", ["operator"], queues=["q"])
    await pool.close()
    return made


class _Callers:
    """Sends requests with the tokens of several users."""

    def __init__(self, harness: WebhookHarness, tokens: dict[str, str]) -> None:
        self._harness = harness
        self._tokens = tokens

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        """The answer to this user."""
        headers = {"Authorization": f"Bearer {self._tokens[who]}"}
        return await self._harness.client.request(
            method, f"/api/v1{path}", json=body, headers=headers
        )


async def test_webhooks_of_a_queue_belong_to_its_submitters(
    fresh_database: str, valkey_url: str
) -> None:
    tokens = await _make_tokens(fresh_database)
    async with delivering(fresh_database, valkey_url, anonymous=False) as harness:
        ask = _Callers(harness, tokens).ask
        of_queue = {"name": "hook", "url": NOBODY, "filter": {"queue": "q"}}
        of_all = {"name": "all", "url": NOBODY}
        assert (await ask("anna", "POST", "/webhooks", of_queue)).status_code == 422
        for who in ("bob", "rita"):
            assert (await ask(who, "POST", "/webhooks", of_all)).status_code == 403
        assert (await ask("bob", "POST", "/webhooks", of_queue)).status_code == 201
        assert (await ask("olga", "POST", "/webhooks", of_all)).status_code == 201
        widened = {"url": NOBODY}
        assert (await ask("bob", "PUT", "/webhooks/hook", widened)).status_code == 403
        seen = {
            who: [each["name"] for each in (await ask(who, "GET", "/webhooks")).json()["webhooks"]]
            for who in tokens
        }
        own = {"bob": ["hook"], "rita": ["hook"]}
        assert seen == {"anna": [], **own, "olga": ["all", "hook"]}
        hidden = [("anna", "hook"), ("bob", "all"), ("rita", "all")]
        for method, path in (
            ("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/rotate"),
            ("GET", "/deliveries"), ("POST", "/replay?from=2026-01-01T00:00:00Z"),
        ):  # fmt: skip
            for who, name in hidden:
                answer = await ask(who, method, f"/webhooks/{name}{path}", {})
                assert answer.status_code == 404, (who, method, path)


async def test_test_deliveries_are_limited_for_each_webhook_and_each_caller(
    fresh_database: str, valkey_url: str
) -> None:
    tokens = await _make_tokens(fresh_database)
    async with delivering(fresh_database, valkey_url, anonymous=False) as harness:
        ask = _Callers(harness, tokens).ask
        for who, name in (("bob", "first"), ("bob", "second"), ("olga", "third")):
            given = {"name": name, "url": NOBODY, "filter": {"queue": "q"}}
            assert (await ask(who, "POST", "/webhooks", given)).status_code == 201

        async def test(who: str, name: str) -> httpx2.Response:
            return await ask(who, "POST", f"/webhooks/{name}/test?wait=0")

        statuses = [(await test("bob", "first")).status_code for _ in range(TESTS_BURST + 5)]
        assert statuses[:TESTS_BURST] == [200] * TESTS_BURST
        assert 429 in statuses
        of_webhook, of_caller = await test("olga", "first"), await test("bob", "second")
        assert (of_webhook.status_code, of_caller.status_code) == (429, 429)
        assert int(of_webhook.headers["Retry-After"]) >= 1
        assert (await test("olga", "third")).status_code == 200


async def test_the_webhooks_of_a_deleted_queue_are_disabled(
    fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        await harness.create(NOBODY)
        deleted = configuration.Queue(name="q", version=2, deleted=True)
        await harness.append([configuration.record(deleted)])
        webhook = await harness.wait_until_disabled()
        assert webhook["disabled"] == "Queue q was deleted."
        assert webhook["missed"]["to"] is None


async def test_failed_deliveries_and_all_events_are_replayed(
    fresh_database: str, valkey_url: str
) -> None:
    since = {"from": "2020-01-01T00:00:00Z"}
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        await harness.create(receiver.url)
        await harness.append_events(*(submitted(f"j{number}") for number in range(10)))
        first = {each.id for each in await receiver.wait_for(10)}
        await harness.wait_for_state("DELIVERED", 10)
        started = (await harness.post("/webhooks/hook/replay", only="all", **since)).json()
        assert started["replay"]["kind"] == "REPLAY"
        again = await receiver.wait_for(20)
        assert {each.id for each in again[10:]} == first
        (delivery, *_) = await harness.list_deliveries()
        await harness.wait_for_state("DELIVERED", 20)
        answer = await harness.post(f"/webhooks/hook/deliveries/{delivery['id']}/replay")
        assert answer.status_code == 200
        assert (await receiver.wait_for(21))[20].id == delivery["messageId"]
        async with asyncio.timeout(60):
            while (await harness.read("/webhooks/hook/replays"))["replays"][0]["state"] != "DONE":  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_a_replay_has_the_events_of_its_time_only(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        await harness.create(receiver.url)
        for count, job in enumerate("abc", 1):
            await harness.append_events(submitted(job))
            await harness.wait_for_state("DELIVERED", count)
        c, b, a = await harness.list_deliveries()
        assert a["time"] < b["time"] < c["time"]
        times = {"from": b["time"], "to": c["time"]}
        await harness.post("/webhooks/hook/replay", only="all", **times)
        assert [each.id for each in (await receiver.wait_for(4))[3:]] == [b["messageId"]]
        await harness.wait_for_state("DELIVERED", 4)
        connection = await asyncpg.connect(fresh_database)
        await connection.execute("UPDATE fairlead_webhooks.deliveries SET state = 'FAILED'")
        await connection.close()
        until_b = {"from": a["time"], "to": b["time"]}
        started = (await harness.post("/webhooks/hook/replay", **until_b)).json()
        assert started == {"replayed": 1, "replay": None}
        assert (await receiver.wait_for(5))[4].id == a["messageId"]


async def test_what_waits_for_another_attempt_is_sent_now_by_a_replay(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        receiver.answer_status(503, Retry_After="3600")
        await harness.create(receiver.url)
        for count, job in enumerate("ab", 1):
            await harness.append_events(submitted(job))
            await receiver.wait_for(count)
        async with asyncio.timeout(60):
            while {each["attempts"] for each in await harness.list_deliveries()} != {1}:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        receiver.answer_status(200)
        b, a = await harness.list_deliveries()
        assert (await harness.post(f"/webhooks/hook/deliveries/{b['id']}/replay")).is_success
        await harness.wait_for_state("DELIVERED", 1)
        times = {"from": a["time"], "to": b["time"]}
        started = (await harness.post("/webhooks/hook/replay", **times)).json()
        assert started["replayed"] == 1
        await harness.wait_for_state("DELIVERED", 2)
        assert len(receiver.received) == 4


async def test_what_waits_for_its_turn_is_sent_when_a_webhook_is_not_ordered_any_more(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        receiver.answer_status(503, Retry_After="3600")
        await harness.create(receiver.url, ordered=True)
        await harness.append_events(submitted("a"), submitted("b"))
        async with asyncio.timeout(60):
            while {each["attempts"] for each in await harness.list_deliveries()} != {0, 1}:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        receiver.answer_status(200)
        body = {"url": receiver.url, "filter": {"queue": "q"}, "ordered": False}
        assert (await harness.client.put("/api/v1/webhooks/hook", json=body)).is_success
        (delivered,) = await harness.wait_for_state("DELIVERED", 1)
        assert delivered["jobId"] == job_id("b")


async def test_times_of_a_replay_are_checked(fresh_database: str, valkey_url: str) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        await harness.create(NOBODY)
        for first, last, pointer in (
            ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "/query/to"),
            ("2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z", "/query/to"),
            ("9000-01-01T00:00:00Z", None, "/query/from"),
            ("1960-01-01T00:00:00Z", None, "/query/from"),
        ):
            times = {"from": first, **({} if last is None else {"to": last})}
            refused = await harness.post("/webhooks/hook/replay", **times)
            assert refused.status_code == 422
            assert [each["pointer"] for each in refused.json()["errors"]] == [pointer]


async def test_a_replay_does_not_repeat_tests(fresh_database: str, valkey_url: str) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        await harness.create(NOBODY)
        assert (await harness.post("/webhooks/hook/test")).json()["state"] == "FAILED"
        since = {"from": "2020-01-01T00:00:00Z"}
        started = (await harness.post("/webhooks/hook/replay", **since)).json()
        assert started["replayed"] == 0


async def test_one_queue_cannot_use_up_the_webhooks_of_all(
    fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        one_more = {"name": "hook", "url": NOBODY, "filter": {"queue": "q"}}
        answers = await asyncio.gather(
            *(
                harness.post("/webhooks", one_more | {"name": f"hook-{number}"})
                for number in range(QUEUE_WEBHOOKS_MAX + 10)
            )
        )
        refused = [each for each in answers if each.status_code == 409]
        assert len(refused) == 10
        assert "Queue 'q' has 50 webhooks already" in refused[0].json()["detail"]
        await harness.create(NOBODY, filter={})
        moved = await harness.client.put("/api/v1/webhooks/hook", json=one_more)
        assert moved.status_code == 409
        known = (await harness.read("/webhooks", limit=2))["webhooks"][1]["name"]
        unmoved = await harness.client.put(
            f"/api/v1/webhooks/{known}", json={"url": NOBODY, "filter": {"queue": "q"}}
        )
        assert unmoved.status_code == 200


async def test_concurrent_requests_do_not_exceed_the_webhooks_of_an_installation(
    fresh_database: str, valkey_url: str
) -> None:
    async with delivering(fresh_database, valkey_url) as harness:
        await harness.create(NOBODY, "a", filter={}, enabled=False)
        connection = await asyncpg.connect(fresh_database)
        await connection.execute(
            "INSERT INTO fairlead_webhooks.webhooks"
            " (name, url, filter, format, ordered, concurrency, headers, secrets, enabled,"
            "  changed_ms, by)"
            " SELECT name || '-' || copy, url, filter, format, ordered, concurrency, headers,"
            "  secrets, enabled, changed_ms, by"
            " FROM fairlead_webhooks.webhooks, generate_series(2, $1) copy",
            WEBHOOKS_MAX - 1,
        )
        await connection.close()
        answers = await asyncio.gather(
            *(
                harness.post("/webhooks", {"name": name, "url": NOBODY, "filter": {"queue": "q"}})
                for name in ("b", "c", "d", "e")
            )
        )
        assert sorted(each.status_code for each in answers) == [201, 409, 409, 409]
        details = {each.json().get("detail") for each in answers} - {None}
        assert details == {"There are 1000 webhooks already; delete one first."}


async def test_a_backlog_beyond_the_limit_is_delivered_later(
    fresh_database: str, valkey_url: str
) -> None:
    async with (
        receiving() as receiver,
        delivering(fresh_database, valkey_url, webhook_pending_max=20) as harness,
    ):
        opened = asyncio.Event()
        accept = receiver.answer

        async def answer_when_opened(request: Any) -> Any:
            await opened.wait()
            return await accept(request)

        receiver.answer = answer_when_opened
        await harness.create(receiver.url, ordered=True)
        for batch in range(6):
            after = await harness.append_events(*(submitted(f"j{batch}-{n}") for n in range(10)))
            await harness.read("/jobs", after=after)
            await harness.wait_for_state("PENDING", min(20, 10 * (batch + 1)))
        async with asyncio.timeout(60):
            while not (await harness.read("/webhooks/hook/replays"))["replays"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert len(await harness.list_deliveries(state="PENDING")) <= 20
        # The backlog has what happens while the webhook is disabled, so nothing is missed.
        body = {"url": receiver.url, "filter": {"queue": "q"}, "ordered": True}
        for enabled in (False, True):
            changed = body | {"enabled": enabled}
            webhook = (await harness.client.put("/api/v1/webhooks/hook", json=changed)).json()
        assert webhook["missed"] is None
        opened.set()
        received = await receiver.wait_for(60)
        sequences = [each.message["data"]["sequence"] for each in received]
        assert sequences == sorted(sequences)
        assert len(set(sequences)) == 60


async def test_commands_create_test_and_replay(fresh_database: str, valkey_url: str) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        server = str(harness.client.base_url)
        messages: list[str] = []

        async def call(*arguments: str) -> str:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "fairlead", "webhook", *arguments,
                env={**os.environ, "FAIRLEAD_SERVER": server},
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            output, errors = await process.communicate()
            assert process.returncode == 0, errors.decode()
            messages.append(errors.decode())
            return output.decode()

        secret = (
            await call("create", "hook", "--url", receiver.url, "-q", "q", "--type", "submitted")
        ).strip()
        assert "delivered: status 200" in await call("test", "hook")
        assert receiver.received[0].verify(secret)["type"] == "test"
        await call("update", "hook", "--jobset", "scan-*")
        found = json.loads(await call("get", "hook", "-o", "json"))
        assert found["filter"] == {"queue": "q", "jobSet": "scan-*", "types": ["submitted"]}
        rotated = (await call("rotate", "hook", "--overlap", "60")).strip()
        assert rotated.startswith("whsec_")
        assert rotated != secret
        (listed,) = json.loads(await call("deliveries", "hook", "-o", "json"))
        assert "sent again" in await call("replay", "hook", listed["id"])
        await receiver.wait_for(2)
        await call("update", "hook", "--disable")
        await call("update", "hook", "--enable")
        _, found_command, words = messages[-1].partition("fairlead webhook replay ")
        assert found_command
        assert "has started" in await call("replay", *words.split())
        assert "hook" in await call("list")
        await call("delete", "hook")
        assert await call("list", "-o", "name") == ""
