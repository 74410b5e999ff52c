"""The blocking and the asyncio client against a real HTTP server: both must say the same."""

import asyncio
import socket
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
    Unauthenticated,
)
from tests.unit.client import served
from tests.unit.client.served import Answered, Asked, Served

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
def server() -> Iterator[Served]:
    with served.serve({}) as running:
        yield running


Connect = Callable[[str], Blocking | OnAsyncio]


def test_a_submission_arrives_with_the_token(connect: Connect, server: Served) -> None:
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


def test_a_request_to_a_busy_server_is_repeated(connect: Connect, server: Served) -> None:
    answers = iter([served.problem(503, "away"), served.problem(429, "slowly"), {"name": "a"}])
    server.routes["GET /api/v1/queues/a"] = lambda _: next(answers)
    assert connect(server.url).call("queue", "a").name == "a"
    assert len(server.asked) == 3


def test_refusals_raise_their_exceptions(connect: Connect, server: Served) -> None:
    server.routes["GET /api/v1/queues/a"] = lambda _: served.problem(401, "who?")
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
    connect: Connect, server: Served
) -> None:
    answers = iter([Answered(b'{"na', broken=True), {"name": "a"}])
    server.routes["GET /api/v1/queues/a"] = lambda _: next(answers)
    assert connect(server.url).call("queue", "a").name == "a"


def test_lists_are_read_page_by_page(connect: Connect, server: Served) -> None:
    def page(asked: Asked) -> object:
        if "cursor" in asked.query:
            return {"queues": [{"name": "b"}]}
        return {"queues": [{"name": "a"}], "next": "more"}

    server.routes["GET /api/v1/queues"] = page
    assert [queue.name for queue in connect(server.url).items("queues", 9)] == ["a", "b"]


def test_events_are_streamed_and_resumed(connect: Connect, server: Served) -> None:
    def stream(asked: Asked) -> Answered:
        again = asked.headers.get("last-event-id") == "1-0"
        return Answered(SPAN.replace(b"1-0", b"2-0") if again else SPAN, broken=not again)

    server.routes["GET /api/v1/jobsets/q/s/events"] = stream
    found = connect(server.url).items("events", 2, "q", "s")
    assert [event.id for event in found] == ["1-0", "2-0"]


def test_logs_are_streamed_as_bytes(connect: Connect, server: Served) -> None:
    server.routes["GET /api/v1/jobs/j/logs"] = lambda _: Answered(b"\xff\n")
    assert b"".join(connect(server.url).items("logs", 9, "j")) == b"\xff\n"


def test_one_client_follows_many_streams_concurrently(server: Served) -> None:
    server.routes["GET /api/v1/jobs/export.csv"] = lambda _: Answered(b"a" * 300_000)
    server.routes["GET /api/v1/queues/q"] = lambda _: {"name": "q"}
    with Client(server.url, token="fl_t", retries=QUICK) as client:
        streams = [client.export_jobs() for _ in range(30)]
        assert all(next(stream) for stream in streams)
        assert client.queue("q").name == "q"


def test_a_refused_stream_raises_as_well(connect: Connect, server: Served) -> None:
    with pytest.raises(NotFound):
        connect(server.url).items("logs", 9, "j")
