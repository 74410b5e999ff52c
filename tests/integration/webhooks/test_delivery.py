"""Events arrive at receivers: signed, filtered, in order, and again after errors."""

import asyncio

import pytest
from aiohttp import web
from standardwebhooks import WebhookVerificationError

from fairlead_common.domain.records.events import JobSucceeded
from tests.integration.webhooks.receiver import receiving
from tests.integration.webhooks.webhook_harness import WAIT_S, delivering
from tests.unit.lookout.builders import job_id, leased, submitted


async def test_an_event_is_delivered_with_a_valid_signature(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        made = await harness.create(receiver.url, headers={"Authorization": "Bearer abc"})
        await harness.append_events(submitted("a"))
        (received,) = await receiver.wait_for(1)
        message = received.verify(made["secret"])
        assert message["type"] == "submitted"
        assert message["data"]["jobId"] == job_id("a")
        assert message["data"]["link"] == f"https://fairlead.example.org/jobs/{job_id('a')}"
        assert received.headers["authorization"] == "Bearer abc"
        assert received.headers["content-type"] == "application/json"
        (delivery,) = await harness.wait_for_state("DELIVERED", 1)
        assert delivery["messageId"] == received.id
        assert delivery["attempts"] == 1
        assert delivery["status"] == 200


async def test_a_cloudevent_has_the_attributes_of_version_1(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        made = await harness.create(receiver.url, format="cloudevents")
        await harness.append_events(submitted("a"))
        (received,) = await receiver.wait_for(1)
        event = received.verify(made["secret"])
        assert received.headers["content-type"] == "application/cloudevents+json"
        assert event["specversion"] == "1.0"
        assert event["id"] == received.id
        assert event["source"] == "https://fairlead.example.org/queues/q"
        assert event["type"] == "fairlead.job.submitted"
        assert event["subject"] == job_id("a")
        assert event["data"]["jobId"] == job_id("a")


async def test_only_events_of_the_filter_are_delivered(
    fresh_database: str, valkey_url: str
) -> None:
    wanted = {"queue": "q", "jobSet": "scan-*", "types": ["leased"]}
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        await harness.create(receiver.url, filter=wanted)
        await harness.append_events(submitted("a"), leased("a"), job_set="other")
        await harness.append_events(submitted("b"), leased("b"), queue="r", job_set="scan-1")
        await harness.append_events(submitted("c"), leased("c"), job_set="scan-2")
        (received,) = await receiver.wait_for(1)
        assert received.message["data"]["jobId"] == job_id("c")
        (only,) = await harness.list_deliveries()
        assert (only["type"], only["jobSet"]) == ("leased", "scan-2")


async def test_a_failed_attempt_is_repeated_with_the_same_id(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        receiver.answer_status(500, 200)
        await harness.create(receiver.url)
        await harness.append_events(submitted("a"))
        first, second = await receiver.wait_for(2)
        assert first.id == second.id
        (delivery,) = await harness.wait_for_state("DELIVERED", 1)
        assert delivery["attempts"] == 2
        webhook = await harness.read("/webhooks/hook")
        assert webhook["failingSince"] is None


async def test_redirects_are_not_followed(fresh_database: str, valkey_url: str) -> None:
    async with (
        receiving() as receiver,
        receiving() as other,
        delivering(fresh_database, valkey_url) as harness,
    ):
        receiver.answer_status(302, Location=other.url)
        await harness.create(receiver.url)
        tested = (await harness.post("/webhooks/hook/test")).json()
        assert tested["state"] == "FAILED"
        assert tested["error"] == "Status 302: redirects are not followed."
        assert other.received == []


async def test_a_receiver_that_repeats_headers_does_not_disclose_them(
    fresh_database: str, valkey_url: str
) -> None:
    async def repeat(request: web.Request) -> web.Response:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        return web.Response(status=400, text=f"wrong token: {token}")

    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        receiver.answer = repeat
        await harness.create(receiver.url, headers={"Authorization": "Bearer sesame-open"})
        tested = (await harness.post("/webhooks/hook/test")).json()
        assert tested["error"] == "Status 400: wrong token: ***"


async def test_a_rotated_secret_is_valid_beside_the_new_one(
    fresh_database: str, valkey_url: str
) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        first = (await harness.create(receiver.url))["secret"]
        second = (await harness.post("/webhooks/hook/rotate", {"overlapSeconds": 3600})).json()
        assert len(second["secrets"]) == 2
        await harness.post("/webhooks/hook/test")
        third = (await harness.post("/webhooks/hook/rotate", {"overlapSeconds": 0})).json()
        assert len(third["secrets"]) == 1
        await harness.post("/webhooks/hook/test")
        both, one = receiver.received
        for secret in (first, second["secret"]):
            assert both.verify(secret)["type"] == "test"
        assert one.verify(third["secret"])
        with pytest.raises(WebhookVerificationError):
            one.verify(second["secret"])


async def test_events_of_a_job_set_arrive_in_order(fresh_database: str, valkey_url: str) -> None:
    jobs = [f"j{number}" for number in range(30)]
    failed_once: set[str] = set()

    async def refuse_each_first_attempt(request: web.Request) -> web.Response:
        key = request.headers["webhook-id"]
        if len(failed_once) < 3 and key not in failed_once:
            failed_once.add(key)
            return web.Response(status=503)
        return web.Response()

    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        receiver.answer = refuse_each_first_attempt
        await harness.create(receiver.url, ordered=True, filter={"queue": "q"})
        for job_set in ("s", "t"):
            await harness.append_events(
                *(submitted(f"{job_set}-{job}", job_set) for job in jobs), job_set=job_set
            )
        await harness.wait_for_state("DELIVERED", 60)
        for job_set in ("s", "t"):
            of_set = [r for r in receiver.received if r.message["data"]["jobSet"] == job_set]
            sequences = [each.message["data"]["sequence"] for each in of_set]
            assert sequences == sorted(sequences)
            assert len(set(sequences)) == 30
        assert len(failed_once) == 3


async def test_a_receiver_that_never_answers_does_not_delay_others(
    fresh_database: str, valkey_url: str
) -> None:
    async def never_answer(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with (
        receiving() as dead,
        receiving() as receiver,
        delivering(fresh_database, valkey_url) as harness,
    ):
        dead.answer = never_answer
        await harness.create(dead.url, "dead")
        await harness.create(receiver.url)
        await harness.append_events(*(submitted(f"j{number}") for number in range(200)))
        await receiver.wait_for(200)
        assert not await harness.list_deliveries("dead", state="DELIVERED")


async def test_a_webhook_that_fails_sends_one_request_at_a_time(
    fresh_database: str, valkey_url: str
) -> None:
    failed, ends = False, asyncio.Event()

    async def fail_once(_: web.Request) -> web.Response:
        nonlocal failed
        if not failed:
            failed = True
            return web.Response(status=500)
        await ends.wait()
        return web.Response()

    async with (
        receiving() as failing,
        receiving() as other,
        delivering(fresh_database, valkey_url) as harness,
    ):
        failing.answer = fail_once
        await harness.create(failing.url, "failing", filter={"queue": "q", "jobSet": "s"})
        await harness.create(other.url, "other", filter={"queue": "q", "jobSet": "t"})
        await harness.append_events(submitted("a"))
        async with asyncio.timeout(WAIT_S):
            while (await harness.read("/webhooks/failing"))["failingSince"] is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await harness.append_events(*(submitted(f"j{number}") for number in range(20)))
        await harness.append_events(submitted("b", "t"), job_set="t")
        await failing.wait_for(2)
        await harness.wait_for_state("DELIVERED", 1, "other")
        assert len(failing.received) == 2, "the one that failed, and one under way"
        ends.set()
        await harness.wait_for_state("DELIVERED", 20, "failing")


async def test_a_disabled_webhook_sends_only_tests(fresh_database: str, valkey_url: str) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        receiver.answer_status(500)
        await harness.create(receiver.url)
        await harness.append_events(submitted("a"))
        await receiver.wait_for(1)
        body = {"url": receiver.url, "filter": {"queue": "q"}, "enabled": False}
        assert (await harness.client.put("/api/v1/webhooks/hook", json=body)).is_success
        assert (await harness.post("/webhooks/hook/test")).json()["state"] == "FAILED"
        receiver.answer_status(200)
        # Another change makes due what is pending.
        assert (await harness.client.put("/api/v1/webhooks/hook", json=body)).is_success
        for _ in range(2):
            assert (await harness.post("/webhooks/hook/test")).json()["state"] == "DELIVERED"
        (pending,) = await harness.list_deliveries(state="PENDING")
        assert pending["type"] == "submitted"


async def test_a_webhook_is_disabled_after_failures_and_can_be_enabled_again(
    fresh_database: str, valkey_url: str
) -> None:
    async with (
        receiving() as receiver,
        delivering(fresh_database, valkey_url, webhook_disable_s=0.01) as harness,
    ):
        receiver.answer_status(500)
        await harness.create(receiver.url)
        await harness.append_events(submitted("a"))
        webhook = await harness.wait_until_disabled()
        assert "failed for" in webhook["disabled"]
        assert "Status 500" in webhook["disabled"]
        receiver.answer_status(200)
        body = {"url": receiver.url, "filter": {"queue": "q"}, "enabled": True}
        answer = await harness.client.put("/api/v1/webhooks/hook", json=body)
        assert answer.json()["disabled"] is None
        await harness.wait_for_state("DELIVERED", 1)


async def test_410_gone_disables_at_once(fresh_database: str, valkey_url: str) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        receiver.answer_status(410)
        await harness.create(receiver.url)
        await harness.append_events(submitted("a"))
        webhook = await harness.wait_until_disabled()
        assert "410 Gone" in webhook["disabled"]
        assert webhook["missed"]["to"] is None


async def test_the_end_of_a_job_has_its_state(fresh_database: str, valkey_url: str) -> None:
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        await harness.create(
            receiver.url, filter={"queue": "q", "types": ["succeeded", "finished"]}
        )
        await harness.append_events(submitted("a"), leased("a"))
        await harness.append_events(JobSucceeded(job_id=job_id("a")))
        messages = [each.message for each in await receiver.wait_for(2)]
        by_type = {message["type"]: message["data"] for message in messages}
        assert by_type["succeeded"]["state"] == "SUCCEEDED"
        assert by_type["finished"]["counts"] == {"SUCCEEDED": 1}
