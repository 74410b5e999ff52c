"""Slow, silent and greedy clients on real sockets: what they hold is taken from them again."""

import asyncio

import msgspec
import pytest

from fairlead_common.service.access_settings import ConnectionLimits, RequestLimits
from tests.integration.middleware.sockets import SHORT, Served, ended, head, served


async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send one byte after the other, slowly, until the other side has had enough."""
    try:
        while not writer.is_closing():
            for byte in data:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.05 if not writer.is_closing() else 0)
    except ConnectionError:
        return


async def still_serves(app: Served) -> None:
    """Somebody else is answered."""
    assert (await app.ask("/here")).endswith(b"here")


async def test_a_slow_header_is_refused() -> None:
    async with served() as app:
        reader, writer = await app.connect()
        writer.write(b"GET /here HTTP/1.1\r\nHost: localhost\r\n")
        task = asyncio.create_task(drip(writer, b"X-A: b\r\n"))
        answer = await ended(reader)
        task.cancel()
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"/problems/too-slow" in answer
        await still_serves(app)


async def test_a_slow_body_is_refused() -> None:
    async with served() as app:
        reader, writer = await app.connect()
        writer.write(head("POST", "/body", "Content-Length: 1000000"))
        task = asyncio.create_task(drip(writer, b"x"))
        answer = await ended(reader)
        task.cancel()
        assert answer.startswith(b"HTTP/1.1 408")
        await still_serves(app)


async def test_a_long_body_at_the_required_rate_is_read() -> None:
    limits = msgspec.structs.replace(SHORT, body_bytes_per_s=100.0)
    async with served(limits) as app:
        reader, writer = await app.connect()
        writer.write(head("POST", "/body", "Content-Length: 400", "Connection: close"))
        loop = asyncio.get_running_loop()
        begun_s, sent = loop.time(), 0
        while sent < 400:
            # A quarter faster than it must be: 1.6 s of sending, three times the first grace.
            due = min(400, int((loop.time() - begun_s) * 250))
            writer.write(b"x" * (due - sent))
            sent = due
            await asyncio.sleep(0.01)
        assert (await ended(reader)).endswith(b"400")


@pytest.mark.parametrize("sent", [b"", b"GET /here HTTP/1.1\r\n", b"\r\n"])
async def test_a_silent_connection_is_closed(sent: bytes) -> None:
    async with served() as app:
        reader, writer = await app.connect()
        writer.write(sent)
        answer = await ended(reader)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 408")


async def test_an_idle_connection_is_closed_after_its_timeout() -> None:
    async with served() as app:
        reader, writer = await app.connect()
        writer.write(head("GET", "/here"))
        assert (await ended(reader)).endswith(b"here")


async def test_the_size_of_a_header_is_limited() -> None:
    async with served() as app:
        reader, writer = await app.connect()
        writer.write(b"GET /here HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 200_000)
        answer = await ended(reader)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
        await still_serves(app)


@pytest.mark.parametrize("twice", ["Host: localhost", "Authorization: Bearer a"])
async def test_a_repeated_host_or_authorization_header_is_refused(twice: str) -> None:
    async with served() as app:
        answer = await app.ask("/here", *[twice] * (1 if "Host" in twice else 2))
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"more than once" in answer
        assert b"200" in (await app.ask("/here", "Accept: a", "Accept: b"))[:20]


async def test_a_response_that_is_not_read_is_aborted() -> None:
    async with served() as app:
        connections = [await app.connect(limit=1024) for _ in range(20)]
        for reader, writer in connections:
            writer.write(head("GET", "/endless"))
            reader._transport.pause_reading()  # type: ignore[attr-defined]  # as a client that hangs
        await app.until(streams=20)
        await app.until(streams=0)
        await still_serves(app)


async def test_idle_connections_are_closed_for_new_requests() -> None:
    limits = ConnectionLimits(connections_max=50, idle_s=600)
    async with served(limits) as app:
        idle = [await app.connect() for _ in range(300)]
        await still_serves(app)
        for _, writer in idle:
            writer.close()


async def test_idle_connections_of_the_caller_with_the_most_are_closed_first() -> None:
    async with served(ConnectionLimits(connections_max=200, idle_s=600)) as app:
        reader, writer = await app.connect()
        writer.write(head("GET", "/here"))  # of a caller; the silent ones below are of nobody
        await reader.readuntil(b"here")
        silent = [await app.connect() for _ in range(400)]
        await still_serves(app)
        writer.write(head("GET", "/here", "Connection: close"))
        assert (await ended(reader)).endswith(b"here"), "it was idle the longest, and is open"
        for _, other in silent:
            other.close()


async def test_thousands_of_idle_connections_do_not_block_other_callers() -> None:
    async with served(ConnectionLimits(idle_s=600, head_s=600)) as app:
        opened = []
        for number in range(2_000):
            reader, writer = await app.connect()
            writer.write(b"" if number % 2 else b"GET / HTTP/1.1\r\nHost:")
            opened.append((reader, writer))
        for _ in range(20):
            await still_serves(app)
        for _, writer in opened:
            writer.close()


async def test_a_new_connection_is_refused_if_all_are_busy() -> None:
    limits = ConnectionLimits(connections_max=5)
    async with served(limits) as app:
        waiting = [await app.connect() for _ in range(5)]
        for _, writer in waiting:
            writer.write(head("GET", "/wait"))
        await app.until(streams=5)
        reader, _ = await app.connect()
        assert (await ended(reader)).startswith(b"HTTP/1.1 503")
        app.release.set()
        reader, _ = waiting[0]
        assert b"200" in await reader.readline()


async def test_concurrent_requests_of_a_caller_are_limited() -> None:
    async with served(requests=RequestLimits(concurrent_max=3)) as app:
        waiting = [await app.connect() for _ in range(3)]
        for _, writer in waiting:
            writer.write(head("GET", "/events"))
        await app.until(streams=3)
        answer = await app.ask("/here")
        assert answer.startswith(b"HTTP/1.1 429")
        assert b"retry-after: 1" in answer
        waiting[0][1].close()
        await app.until(streams=2)
        await still_serves(app)


async def test_a_stream_ends_with_its_client() -> None:
    async with served() as app:
        _, writer = await app.connect()
        writer.write(head("GET", "/events"))
        await app.until(streams=1)
        writer.transport.abort()
        await app.until(streams=0)


async def test_malformed_http_gets_a_problem_document() -> None:
    async with served() as app:
        reader, writer = await app.connect()
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        answer = await ended(reader)
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"/problems/malformed" in answer


# The end of a server --------------------------------------------------------------------------


async def test_a_server_finishes_responses_and_streams_at_shutdown() -> None:
    async with served() as app:
        asked, events, idle = [await app.connect() for _ in range(3)]
        asked[1].write(head("GET", "/wait"))
        events[1].write(head("GET", "/events"))
        await app.until(streams=2)
        app.task.cancel()
        assert await ended(idle[0]) == b""
        assert (await ended(events[0])).endswith(b"0\r\n\r\n"), "the stream ends as a whole"
        assert not app.task.done(), "an answer is still under way"
        with pytest.raises(ConnectionRefusedError):
            await app.connect()
        app.release.set()
        answer = await ended(asked[0])
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"waited")
        await asyncio.wait([app.task])
        assert app.task.cancelled()


@pytest.mark.parametrize("path", ["/wait", "/open/wait"])
async def test_a_request_that_outlasts_a_shutdown_gets_503(
    path: str,
) -> None:
    async with served() as app:
        reader, writer = await app.connect()
        writer.write(head("GET", path))
        await app.until(streams=1)
        app.task.cancel()
        answer = await ended(reader)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in answer
        assert b"This server is shutting down" in answer
