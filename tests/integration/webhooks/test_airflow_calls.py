"""What an event starts in Airflow, and what a delivery says when Airflow does not do it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from fairlead_common.domain.secret_values import Keyring
from fairlead_common.domain.timestamps import parse_rfc3339
from fairlead_lookout.domain.webhooks.retry_schedule import Attempt
from fairlead_lookout.domain.webhooks.target_addresses import parse_networks
from fairlead_lookout.domain.webhooks.webhook_types import (
    AirflowTarget,
    KindOptions,
    Webhook,
)
from fairlead_lookout.service.webhooks.airflow_sender import AirflowSender
from fairlead_lookout.service.webhooks.http_client import HttpClient
from tests.integration.webhooks.fake_airflow import (
    ASSET,
    PASSWORD,
    USER,
    FakeAirflow,
    expired,
    running_airflow,
    wrongly_signed,
)
from tests.unit.lookout import builders

KEYRING = Keyring("a key of tests")
LOOPBACK = parse_networks(["127.0.0.0/8"])
TIME = "2026-01-31T12:00:00.000Z"
EVENT = {
    "type": "finished",
    "timestamp": TIME,
    "data": {"id": "7-1-0", "queue": "q", "jobSet": "s", "counts": {"SUCCEEDED": 1}},
}
ID = "evt_ab12_7-1-0"
DAG = AirflowTarget("report", None, USER)


def make_webhook(airflow: FakeAirflow, target: AirflowTarget = DAG, **credentials: str) -> Webhook:
    given = credentials or {"password": PASSWORD}
    return builders.make_webhook(
        url=airflow.url,
        concurrency=8,
        kind="airflow",
        options=KindOptions(airflow=target),
        credentials={name: KEYRING.seal("webhook/hook", each) for name, each in given.items()},
    )


@asynccontextmanager
async def sending(timeout_s: float = 10.0) -> AsyncIterator[AirflowSender]:
    http = HttpClient(LOOPBACK, timeout_s=timeout_s)
    try:
        yield AirflowSender(KEYRING, http)
    finally:
        await http.close()


async def send(
    sender: AirflowSender, webhook: Webhook, message_id: str = ID, event: Any = EVENT
) -> Attempt:
    body = msgspec.json.encode(event).decode()
    return await sender.send(webhook, message_id, body, "application/json")


async def test_an_event_that_is_sent_twice_starts_one_run() -> None:
    async with running_airflow() as airflow, sending() as sender:
        webhook = make_webhook(airflow)
        first, second = [await send(sender, webhook) for _ in range(2)]
        assert first.succeeded
        assert second.succeeded
        assert airflow.runs == {f"fairlead__{ID}": EVENT}
        assert airflow.sign_ins == 1


async def test_an_asset_is_updated_once_for_each_event() -> None:
    async with running_airflow() as airflow, sending() as sender:
        both = make_webhook(airflow, AirflowTarget("report", ASSET, USER))
        alone = make_webhook(airflow, AirflowTarget(None, ASSET, USER))
        for webhook, message_id in ((both, ID), (both, ID), (alone, ID), (alone, "evt_2")):
            assert (await send(sender, webhook, message_id)).succeeded
        assert [each["extra"]["fairleadEvent"] for each in airflow.events] == [ID, "evt_2"]
        assert airflow.events[0]["extra"]["data"] == EVENT["data"]
        assert len(airflow.runs) == 1


async def test_an_asset_is_updated_once_by_an_airflow_whose_clock_is_late() -> None:
    async with running_airflow() as airflow, sending() as sender:
        webhook = make_webhook(airflow, AirflowTarget(None, ASSET, USER))
        airflow.clock_ms = parse_rfc3339(TIME) - 300_000
        for _ in range(2):
            assert (await send(sender, webhook)).succeeded
        assert len(airflow.events) == 1


@pytest.mark.parametrize("refusal", [expired, wrongly_signed])
async def test_a_refused_token_is_renewed_once_for_all_deliveries(
    refusal: Callable[[], web.Response],
) -> None:
    async with running_airflow() as airflow, sending() as sender:
        airflow.token_refusal = refusal
        webhook = make_webhook(airflow)
        await send(sender, webhook)
        airflow.expire_tokens()
        ids = [f"evt_{number}" for number in range(8)]
        attempts = await asyncio.gather(*(send(sender, webhook, each) for each in ids))
        assert all(attempt.succeeded for attempt in attempts)
        assert airflow.sign_ins == 2
        assert len(airflow.runs) == 9


async def test_a_given_token_is_used_without_a_sign_in() -> None:
    async with running_airflow() as airflow, sending() as sender:
        webhook = make_webhook(airflow, AirflowTarget("report"), token="given")
        assert (await send(sender, webhook)).succeeded
        airflow.expire_tokens()
        refused = await send(sender, webhook, "evt_2")
        assert refused.status == 401
        assert (refused.error or "").startswith("Airflow refuses the token.")
        assert airflow.sign_ins == 0


async def test_a_test_starts_nothing() -> None:
    async with running_airflow() as airflow, sending() as sender:
        test = {**EVENT, "type": "test"}
        both = make_webhook(airflow, AirflowTarget("report", ASSET, USER))
        assert (await send(sender, both, event=test)).succeeded
        other = make_webhook(airflow, AirflowTarget("nope", None, USER))
        missing = await send(sender, other, event=test)
        assert (missing.error or "").startswith("Airflow has no DAG nope.")
        airflow.is_paused = True
        paused = await send(sender, both, event=test)
        assert not paused.succeeded
        assert (paused.error or "").startswith("DAG report is paused in Airflow")
        assert (airflow.runs, airflow.events) == ({}, [])


NOT_AIRFLOW_3 = "No API of Airflow 3 (/api/v2) answers at this URL."


@pytest.mark.parametrize(
    ("path", "status", "content", "text", "is_final"),
    [
        ("/auth/token", 401, "{}", "Airflow refuses the user name or the password.", False),
        ("/auth/token", 404, "<html>Airflow 404 = lots of circles", NOT_AIRFLOW_3, False),
        ("/auth/token", 200, "<html>a login page", NOT_AIRFLOW_3, False),
        ("/auth/token", 400, '{"detail": "no"}', "Give the webhook a token. It says: no", False),
        (
            "/auth/token",
            422,
            '{"detail": [{"loc": ["body", "grant"], "msg": "Field required",'
            f' "input": {{"password": "{PASSWORD}"}}}}]}}',
            "It says: body.grant: Field required",
            False,
        ),
        ("/auth/token", 502, "bad gateway", "Status 502 from Airflow.", False),
        ("dagRuns", 200, "<html>the page of Airflow", NOT_AIRFLOW_3, False),
        ("dagRuns", 401, "{}", "Airflow refuses the token.", False),
        ("dagRuns", 403, "{}", "does not permit this user to use the DAG report", False),
        (
            "dagRuns",
            404,
            '{"detail": "Dag with dag_id: \'report\' not found"}',
            "has no DAG",
            False,
        ),
        ("dagRuns", 404, '{"detail": null, "title": "Not Found"}', NOT_AIRFLOW_3, False),
        ("dagRuns", 400, '{"detail": "report has import errors"}', "import errors", False),
        ("dagRuns", 400, '{"detail": "Invalid input for param x"}', "Invalid input", True),
        ("dagRuns", 422, '{"detail": [{"loc": ["body"]}]}', "does not accept the event", True),
        ("dagRuns", 503, "", "Status 503 from Airflow.", False),
        ("dagRuns", 302, "", "redirects are not followed", False),
        ("/assets", 404, "{}", NOT_AIRFLOW_3, False),
        ("/assets", 200, '{"assets": []}', f"Airflow has no asset {ASSET}", False),
        ("/assets", 200, "[]", NOT_AIRFLOW_3, False),
        ("/assets/events", 403, "{}", f"does not permit this user to use the asset {ASSET}", False),
    ],
)
async def test_what_airflow_refuses_is_said_in_plain_words(
    path: str, status: int, content: str, text: str, is_final: bool
) -> None:
    def wrong_answer(request: web.Request) -> web.Response | None:
        wrong = request.path.endswith(path)
        headers = {"Location": "http://127.0.0.1:1/"} if status == 302 else {}
        return web.Response(status=status, text=content, headers=headers) if wrong else None

    async with running_airflow() as airflow, sending() as sender:
        airflow.wrong_answer = wrong_answer
        webhook = make_webhook(airflow, AirflowTarget("report", ASSET, USER))
        attempt = await send(sender, webhook)
        assert not attempt.succeeded
        assert text in (attempt.error or "")
        assert attempt.status == (None if status == 200 else status)
        assert PASSWORD not in (attempt.error or "")
        assert attempt.is_final is is_final


async def test_a_sign_in_that_is_refused_for_now_is_tried_when_airflow_says() -> None:
    def busy(request: web.Request) -> web.Response | None:
        return web.Response(status=503, headers={"Retry-After": "120"})

    async with running_airflow() as airflow, sending() as sender:
        airflow.wrong_answer = busy
        attempt = await send(sender, make_webhook(airflow))
        assert (attempt.status, attempt.retry_after_s) == (503, 120)


async def test_an_airflow_that_is_down_or_never_answers_is_explained() -> None:
    async with running_airflow() as airflow:
        webhook = make_webhook(airflow)
    async with sending() as sender:
        down = await send(sender, webhook)
        assert (down.error or "").startswith("Airflow does not answer. Cannot connect:")
    parts: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: parts.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    stuck = msgspec.structs.replace(webhook, url=f"http://127.0.0.1:{port}")
    async with sending(timeout_s=0.2) as sender:
        never = await send(sender, stuck)
        assert never.error == "Airflow does not answer. No complete response within 0.2 s."
    for part in parts:
        part.close()
    silent.close()


async def test_a_huge_answer_of_airflow_is_read_up_to_a_bound() -> None:
    sent = 0

    async def answer_without_end(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(status=201)
        await response.prepare(request)
        for _ in range(30 * 16):
            await response.write(b"x" * 65_536)
            sent += 65_536
        return response

    async with running_airflow() as airflow, sending() as sender:
        airflow.answer = answer_without_end
        attempt = await send(sender, make_webhook(airflow))
        assert not attempt.succeeded
        assert sent < 30 * 2**20


async def test_private_addresses_are_refused_for_airflow_too() -> None:
    async with running_airflow() as airflow:
        http = HttpClient(())
        attempt = await send(AirflowSender(KEYRING, http), make_webhook(airflow))
        await http.close()
        assert "is not a public address" in (attempt.error or "")
        assert airflow.calls == 0
