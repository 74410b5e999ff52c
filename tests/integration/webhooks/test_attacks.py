"""Receivers and names that attack the server: private addresses, endless and huge responses."""

import asyncio
import ssl

import pytest
from aiohttp import web

from fairlead_common.domain.secret_values import Keyring
from fairlead_lookout.domain.webhooks.target_addresses import parse_networks
from fairlead_lookout.domain.webhooks.webhook_types import Webhook, rotate_secrets
from fairlead_lookout.service.webhooks.http_client import RESPONSE_BYTES_MAX, HttpClient
from fairlead_lookout.service.webhooks.request_sender import RequestSender
from tests.integration.webhooks.receiver import receiving
from tests.unit.lookout import builders

KEYRING = Keyring("a key of tests")
LOOPBACK = parse_networks(["127.0.0.0/8", "::1/128"])
SECRET = "whsec_" + "c2VjcmV0" * 5


def make_webhook(url: str) -> Webhook:
    secrets = rotate_secrets((), KEYRING.seal("webhook/hook", SECRET), 0, 0)
    return builders.make_webhook(url=url, secrets=secrets)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_an_address_that_is_not_public_is_never_connected_to(host: str, scheme: str) -> None:
    async with receiving() as receiver:
        port = receiver.url.rpartition(":")[2].partition("/")[0]
        http = HttpClient(())
        sender = RequestSender(KEYRING, http)
        attempt = await sender.send(
            make_webhook(f"{scheme}://{host}:{port}/x"), "evt_1", "{}", "application/json"
        )
        await http.close()
        assert attempt.status is None
        refusals = ("is not a public address", "is not a canonical IPv4 address")
        assert any(refusal in (attempt.error or "") for refusal in refusals)
        assert receiver.received == []


async def test_a_huge_response_is_read_up_to_a_bound() -> None:
    sent = 0

    async def answer_without_end(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(status=500)
        await response.prepare(request)
        for _ in range(30 * 16):
            await response.write(b"x" * 65_536)
            sent += 65_536
        return response

    async with receiving() as receiver:
        receiver.answer = answer_without_end
        http = HttpClient(LOOPBACK)
        sender = RequestSender(KEYRING, http)
        attempt = await sender.send(make_webhook(receiver.url), "evt_1", "{}", "application/json")
        await http.close()
        assert attempt.status == 500
        assert len(attempt.error or "") <= 400
        assert sent < 30 * 2**20
        assert RESPONSE_BYTES_MAX < 30 * 2**20


async def test_a_receiver_that_never_answers_ends_with_the_time_limit() -> None:
    async def never_answer(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with receiving() as receiver:
        receiver.answer = never_answer
        http = HttpClient(LOOPBACK, timeout_s=0.2)
        sender = RequestSender(KEYRING, http)
        attempt = await sender.send(make_webhook(receiver.url), "evt_1", "{}", "application/json")
        await http.close()
        assert attempt.error == "No complete response within 0.2 s."


@pytest.mark.parametrize(("status", "succeeded"), [(500, False), (200, True)])
async def test_a_slow_response_ends_with_the_time_limit(status: int, succeeded: bool) -> None:
    async def answer_slowly(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        await response.write(b"slow")
        await asyncio.Event().wait()
        raise AssertionError

    async with receiving() as receiver:
        receiver.answer = answer_slowly
        http = HttpClient(LOOPBACK, timeout_s=0.2)
        sender = RequestSender(KEYRING, http)
        attempt = await sender.send(make_webhook(receiver.url), "evt_1", "{}", "application/json")
        await http.close()
        assert (attempt.status, attempt.succeeded) == (status, succeeded)
        assert attempt.error == (None if succeeded else "Status 500: slow")


@pytest.mark.parametrize("answer", [b"not HTTP at all\r\n\r\n", b"HTTP/1.1 200", b""])
async def test_what_is_not_http_is_explained(answer: bytes) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    http = HttpClient(LOOPBACK)
    sender = RequestSender(KEYRING, http)
    webhook = make_webhook(f"http://127.0.0.1:{port}/")
    attempt = await sender.send(webhook, "evt_1", "{}", "application/json")
    await http.close()
    server.close()
    assert attempt.status is None
    assert attempt.error


async def test_a_certificate_that_is_not_trusted_is_refused() -> None:
    async with receiving() as receiver:
        http = HttpClient(LOOPBACK)
        sender = RequestSender(KEYRING, http)
        url = receiver.url.replace("http://", "https://")
        attempt = await sender.send(make_webhook(url), "evt_1", "{}", "application/json")
        await http.close()
        assert attempt.status is None
        assert receiver.received == []
        assert ssl.create_default_context().check_hostname


async def test_a_name_that_does_not_exist_is_an_error() -> None:
    http = HttpClient(())
    sender = RequestSender(KEYRING, http)
    webhook = make_webhook("https://does-not-exist.invalid/")
    attempt = await sender.send(webhook, "evt_1", "{}", "application/json")
    await http.close()
    assert attempt.status is None
    assert attempt.error
