"""The blocking and the asyncio client against a real HTTP server: both must say the same."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from fairlead import (
    AsyncClient,
    Client,
    Job,
    NotFound,
    Retries,
    ServerUnreachable,
    TooLarge,
    Unauthenticated,
)
from tests.unit.client import fake_server
from tests.unit.client.fake_server import Reply, Request, Server

T = TypeVar("T")
QUICK = Retries(attempts_max=3, base_s=0.001, cap_s=0.002)
SPAN = b'data: {"type": "queued", "jobId": "a"}\nid: 1-0\n\n'


class Blocking:
    """Calls methods of `Client`."""

    def __init__(self, url: str) -> None:
        self._client = Client(url, token="fl_t", retries=QUICK)

    def call(self, method: str, *args: object, **kwargs: object) -> Any:  # whatever it returns
        with self._client:
            return getattr(self._client, method)(*args, **kwargs)

    def items(self, method: str, most: int, *args: object, **kwargs: object) -> list[Any]:
        with self._client:
            found = getattr(self._client, method)(*args, **kwargs)
            return [item for item, _ in zip(found, range(most), strict=False)]


class OnAsyncio:
    """Calls methods of `AsyncClient`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, method: str, *args: object, **kwargs: object) -> Any:
        async def go(client: AsyncClient) -> Any:
            return await getattr(client, method)(*args, **kwargs)

        return self._run(go)

    def items(self, method: str, most: int, *args: object, **kwargs: object) -> list[Any]:
        async def go(client: AsyncClient) -> list[Any]:
            found: AsyncIterator[Any] = getattr(client, method)(*args, **kwargs)
            items: list[Any] = []
            async for item in found:
                items.append(item)
                if len(items) == most:
                    break
            return items

        return self._run(go)

    def _run(self, go: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        async def whole() -> T:
            async with AsyncClient(self._url, token="fl_t", retries=QUICK) as client:
                return await go(client)

        return asyncio.run(whole())


@pytest.fixture(params=[Blocking, OnAsyncio])
def connect(request: pytest.FixtureRequest) -> Callable[[str], Blocking | OnAsyncio]:
    made: Callable[[str], Blocking | OnAsyncio] = request.param
    return made


@pytest.fixture
def server() -> Iterator[Server]:
    with fake_server.serve({}) as running:
        yield running


Connect = Callable[[str], Blocking | OnAsyncio]


def test_a_submission_arrives_with_the_token(connect: Connect, server: Server) -> None:
    server.routes["POST /api/v1/jobs"] = lambda _: {"position": "p", "jobs": [{"id": "j"}]}
    done = connect(server.url).call("submit", "q", "s", [Job(client_id="a", command=("x",))])
    assert done.jobs[0].id == "j"
    (asked,) = server.asked
    assert asked.headers["authorization"] == "Bearer fl_t"
    assert asked.json() == {
        "queue": "q",
        "jobSet": "s",
        "jobs": [{"clientId": "a", "command": ["x"]}],
    }


def test_a_request_to_a_busy_server_is_repeated(connect: Connect, server: Server) -> None:
    answers = iter(
        [fake_server.problem(503, "away"), fake_server.problem(429, "slowly"), {"name": "a"}]
    )
    server.routes["GET /api/v1/queues/a"] = lambda _: next(answers)
    assert connect(server.url).call("queue", "a").name == "a"
    assert len(server.asked) == 3


def test_refusals_raise_their_exceptions(connect: Connect, server: Server) -> None:
    server.routes["GET /api/v1/queues/a"] = lambda _: fake_server.problem(401, "who?")
    with pytest.raises(Unauthenticated, match="who"):
        connect(server.url).call("queue", "a")
    with pytest.raises(NotFound, match="nothing at"):
        connect(server.url).call("queue", "b")


def test_an_unreachable_server_is_named(connect: Connect) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ServerUnreachable, match=url):
            connect(url).call("queue", "a")


def test_a_request_with_an_interrupted_response_is_repeated(
    connect: Connect, server: Server
) -> None:
    answers = iter([Reply(b'{"na', broken=True), {"name": "a"}])
    server.routes["GET /api/v1/queues/a"] = lambda _: next(answers)
    assert connect(server.url).call("queue", "a").name == "a"


def test_lists_are_read_page_by_page(connect: Connect, server: Server) -> None:
    def page(asked: Request) -> object:
        if "cursor" in asked.query:
            return {"queues": [{"name": "b"}]}
        return {"queues": [{"name": "a"}], "next": "more"}

    server.routes["GET /api/v1/queues"] = page
    assert [queue.name for queue in connect(server.url).items("queues", 9)] == ["a", "b"]


def test_events_are_streamed_and_resumed(connect: Connect, server: Server) -> None:
    def stream(asked: Request) -> Reply:
        again = asked.headers.get("last-event-id") == "1-0"
        return Reply(SPAN.replace(b"1-0", b"2-0") if again else SPAN, broken=not again)

    server.routes["GET /api/v1/jobsets/q/s/events"] = stream
    found = connect(server.url).items("events", 2, "q", "s")
    assert [event.id for event in found] == ["1-0", "2-0"]


def test_logs_are_streamed_as_bytes(connect: Connect, server: Server) -> None:
    server.routes["GET /api/v1/jobs/j/logs"] = lambda _: Reply(b"\xff\n")
    assert b"".join(connect(server.url).items("logs", 9, "j")) == b"\xff\n"


def test_one_client_follows_many_streams_concurrently(server: Server) -> None:
    server.routes["GET /api/v1/jobs/export.csv"] = lambda _: Reply(b"a" * 300_000)
    server.routes["GET /api/v1/queues/q"] = lambda _: {"name": "q"}
    with Client(server.url, token="fl_t", retries=QUICK) as client:
        streams = [client.export_jobs() for _ in range(30)]
        assert all(next(stream) for stream in streams)
        assert client.queue("q").name == "q"


def test_a_refused_stream_raises_as_well(connect: Connect, server: Server) -> None:
    with pytest.raises(NotFound):
        connect(server.url).items("logs", 9, "j")


def test_a_connection_is_used_again(connect: Connect, server: Server) -> None:
    server.routes["GET /api/v1/queues"] = lambda asked: {
        "queues": [{"name": "a"}],
        **({} if "cursor" in asked.query else {"next": "more"}),
    }
    assert len(connect(server.url).items("queues", 9)) == 2
    assert server.connections == 1


def test_a_connection_that_the_server_closed_is_not_used_again(server: Server) -> None:
    server.routes["GET /api/v1/queues/a"] = lambda _: Reply(b'{"name": "a"}', hangs_up=True)
    server.routes["POST /api/v1/queues"] = lambda _: {"name": "b"}
    with Client(server.url, token="fl_t", retries=Retries(attempts_max=1)) as client:
        client.queue("a")
        assert server.closed.acquire(timeout=60)
        assert client.create_queue("b").name == "b"
    assert server.connections == 2


def test_a_stream_that_is_not_read_to_its_end_is_closed(server: Server) -> None:
    server.routes["GET /api/v1/jobs/export.csv"] = lambda _: Reply(b"a" * 10_000_000)
    with Client(server.url, token="fl_t", retries=QUICK) as client:
        for _ in client.export_jobs():
            break
        assert server.closed.acquire(timeout=60)


def test_a_server_elsewhere_is_reached_through_the_proxy_of_the_environment(
    connect: Connect, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.url.replace("//", "//me:se%40cret@"))
    server.routes["GET /api/v1/queues/a"] = lambda _: {"name": "a"}
    assert connect("http://fairlead.example.org").call("queue", "a").name == "a"
    (asked,) = server.asked
    assert asked.headers["host"] == "fairlead.example.org"
    assert asked.headers["proxy-authorization"] == "Basic bWU6c2VAY3JldA=="


def test_a_server_on_this_machine_is_reached_without_the_proxy(
    connect: Connect, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server.routes["GET /api/v1/queues/a"] = lambda _: {"name": "a"}
    assert connect(server.url).call("queue", "a").name == "a"


def test_user_and_password_of_an_address_are_sent(connect: Connect, server: Server) -> None:
    server.routes["GET /api/v1/queues/a"] = lambda _: {"name": "a"}
    assert connect(server.url.replace("//", "//me:secret@")).call("queue", "a").name == "a"
    assert server.asked[0].headers["authorization"] == "Basic bWU6c2VjcmV0"


def test_a_refusal_that_comes_before_the_request_is_sent_is_read(connect: Connect) -> None:
    """A server that answers before it has read a large request."""
    body = b'{"title": "Too large", "status": 413}'
    head = b"HTTP/1.1 413 No\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n"

    def refuse(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(1_000)
            peer.sendall(head % len(body) + b"connection: close\r\n\r\n" + body)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(2**20):  # unread bytes would reset the connection
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(TooLarge):
            connect(url).call("submit", "q", "s", [Job(env={"X": "x" * 10_000_000})])
        thread.join()
