"""Receivers and names that attack the server: private addresses, endless and huge responses."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from fairlead_common.domain.secret_values import Keyring
from fairlead_common.service.event_loop import EventLoop
from fairlead_lookout.domain.webhooks.retry_schedule import Attempt
from fairlead_lookout.domain.webhooks.target_addresses import parse_networks
from fairlead_lookout.domain.webhooks.webhook_types import EventFilter, Webhook, rotate_secrets
from fairlead_lookout.service.webhooks.http_client import (
    RESPONSE_BYTES_MAX,
    FoundAddress,
    HttpClient,
)
from fairlead_lookout.service.webhooks.request_sender import RequestSender
from fairlead_lookout.store.webhooks.webhook_store import QUEUE_WEBHOOKS_MAX
from tests.contract.log.certificates import Authority
from tests.integration.webhooks.receiver import receiving
from tests.unit.lookout import builders

KEYRING = Keyring("a key of tests")
LOOPBACK = parse_networks(["127.0.0.0/8", "::1/128"])
SECRET = "whsec_" + "c2VjcmV0" * 5


def make_webhook(url: str, queue: str | None = "q") -> Webhook:
    secrets = rotate_secrets((), KEYRING.seal("webhook/hook", SECRET), 0, 0)
    return builders.make_webhook(url=url, secrets=secrets, filter=EventFilter(queue))


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


@asynccontextmanager
async def serving(
    answer: Callable[[asyncio.StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """The port of a server that reads the head of each request and answers with this."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def send_to(url: str, http: HttpClient | None = None, queue: str | None = "q") -> Attempt:
    """One attempt, by a client that is permitted to use loopback addresses if none is given."""
    client = http or HttpClient(LOOPBACK)
    sender = RequestSender(KEYRING, client)
    try:
        return await sender.send(make_webhook(url, queue), "evt_1", "{}", "application/json")
    finally:
        if http is None:
            await client.close()


@pytest.mark.parametrize("answer", [b"not HTTP at all\r\n\r\n", b"HTTP/1.1 200", b""])
async def test_what_is_not_http_is_explained(answer: bytes) -> None:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async with serving(say) as port:
        attempt = await send_to(f"http://127.0.0.1:{port}/")
    assert attempt.status is None
    assert attempt.error in (
        "The connection was closed before a response.",
        "The response is not valid HTTP: Bad status line: Expected HTTP/, RTSP/ or ICE/:"
        " b'not HTTP at all' ^",
    )


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, EventLoop])
def test_responses_of_1xx_without_end_do_not_occupy_the_process(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def inform_without_end(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" * 100)
            await writer.drain()

    async def attempt() -> Attempt:
        async with serving(inform_without_end) as port:
            return await send_to(f"http://127.0.0.1:{port}/")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        made = runner.run(attempt())
    assert made.status is None
    assert made.error == "The connection failed: The response is too long"


async def test_some_responses_of_1xx_are_skipped() -> None:
    async def inform(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with serving(inform) as port:
        attempt = await send_to(f"http://127.0.0.1:{port}/")
    assert attempt.status == 200


async def test_each_response_of_a_connection_has_the_whole_limit() -> None:
    async def answer_much(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * RESPONSE_BYTES_MAX)

    async with receiving() as receiver:
        receiver.answer = answer_much
        http = HttpClient(LOOPBACK)
        for _ in range(4):
            response = await http.request("POST", receiver.url, {}, b"", queue=None)
            assert len(response.content) == RESPONSE_BYTES_MAX
        await http.close()


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (b"", "The connection failed: Connection reset by peer"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200, "not valid HTTP: Too many headers received"),
    ],
)
async def test_errors_of_connections_are_written_for_people(part: bytes, text: str) -> None:
    async def reset(writer: asyncio.StreamWriter) -> None:
        if part:
            writer.write(part)
            await writer.drain()
        else:
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
            )
            writer.transport.abort()

    async with serving(reset) as port:
        attempt = await send_to(f"http://127.0.0.1:{port}/")
    assert text in (attempt.error or "")


async def test_a_refused_connection_and_a_wrong_certificate_are_explained(tmp_path: Path) -> None:
    async def accept(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    authority = Authority(tmp_path)
    signed = authority.sign("other.example.org")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(signed.cert, signed.key)
    trusting = HttpClient(LOOPBACK, ca_file=str(authority.ca))
    async with serving(accept, tls) as port:
        accepted = await send_to(f"https://127.0.0.1:{port}/", trusting)
        wrong_name = await send_to(f"https://localhost:{port}/", trusting)
        untrusted = await send_to(f"https://127.0.0.1:{port}/")
    refused = await send_to(f"https://127.0.0.1:{port}/")
    await trusting.close()
    assert accepted.status == 200
    invalid = "Cannot connect: the certificate is not valid: "
    assert (wrong_name.error or "").startswith(f"{invalid}Hostname mismatch")
    assert untrusted.error == f"{invalid}unable to get local issuer certificate"
    assert refused.error == "Cannot connect: Connection refused"


def found(*hosts: str) -> list[FoundAddress]:
    """Addresses as `getaddrinfo` returns them; a port is added by the caller."""
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in hosts]


async def test_a_name_that_changes_is_checked_at_each_connection() -> None:
    answers = [found("127.0.0.2"), found("127.0.0.1"), found("169.254.169.254")]

    def look_up(_: str, __: int, ___: int, ____: int) -> Sequence[FoundAddress]:
        return answers.pop(0)

    async def accept_once(_: web.Request) -> web.Response:
        response = web.Response()
        response.force_close()
        return response

    async with receiving("127.0.0.2") as permitted, receiving() as private:
        permitted.answer = accept_once
        http = HttpClient(parse_networks(["127.0.0.2/32"]), look_up=look_up)
        # One port for both addresses: only the name decides where a request goes.
        first = await send_to(f"http://rebound.example.org:{permitted.port}/", http)
        second = await send_to(f"http://rebound.example.org:{private.port}/", http)
        third = await send_to(f"http://rebound.example.org:{private.port}/", http)
        await http.close()
        assert first.status == 200
        for attempt, address in ((second, "127.0.0.1"), (third, "169.254.169.254")):
            assert attempt.status is None
            assert f"{address} is not a public address" in (attempt.error or "")
        assert private.received == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver, receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await send_to(receiver.url)).status == 200
        assert (len(receiver.received), len(proxy.received)) == (1, 0)


async def test_a_name_that_is_never_answered_holds_one_thread() -> None:
    ends = threading.Event()
    asked: list[str] = []

    def look_up(host: str, _: int, __: int, ___: int) -> Sequence[FoundAddress]:
        asked.append(host)
        if host == "dead.example.org":
            ends.wait()
        return found("127.0.0.1")

    async with receiving() as receiver:
        http = HttpClient(LOOPBACK, look_up=look_up)
        try:
            dead = [
                asyncio.create_task(send_to("http://dead.example.org:9/", http)) for _ in range(64)
            ]
            await asyncio.sleep(0)
            alive = await send_to(f"http://alive.example.org:{receiver.port}/", http)
            assert alive.status == 200
            assert not any(task.done() for task in dead)
            assert asked.count("dead.example.org") == 1
        finally:
            ends.set()
            await asyncio.gather(*dead)
            await http.close()


async def test_new_names_that_are_never_answered_delay_no_others() -> None:
    ends = threading.Event()

    def look_up(host: str, _: int, __: int, ___: int) -> Sequence[FoundAddress]:
        if host.startswith("dead"):
            ends.wait()
        return found("127.0.0.1")

    async with receiving() as receiver:
        http = HttpClient(LOOPBACK, look_up=look_up)
        alive = f"http://alive.example.org:{receiver.port}/"
        try:
            dead = [
                asyncio.create_task(send_to(f"http://dead-{number}.example.org:9/", http, "a"))
                for number in range(QUEUE_WEBHOOKS_MAX)
            ]
            await asyncio.sleep(0)
            assert (await send_to(alive, http, "b")).status == 200
            assert (await send_to(alive, http, None)).status == 200
            one_more = await send_to("http://dead-more.example.org:9/", http, "a")
            assert one_more.error == "Cannot connect: 50 other names of queue a are not answered"
            assert not any(task.done() for task in dead)
        finally:
            ends.set()
            await asyncio.gather(*dead)
        assert (await send_to(alive, http, "a")).status == 200
        await http.close()


async def test_a_name_that_does_not_exist_is_an_error() -> None:
    http = HttpClient(())
    sender = RequestSender(KEYRING, http)
    webhook = make_webhook("https://does-not-exist.invalid/")
    attempt = await sender.send(webhook, "evt_1", "{}", "application/json")
    await http.close()
    assert attempt.status is None
    assert attempt.error
