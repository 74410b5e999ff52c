"""A transport without any I/O: canned answers in, what was asked out."""

from collections.abc import Iterable, Iterator

import msgspec

from fairlead import Client, Retries
from fairlead.calls.exchange_types import Reply, Request, Unreachable
from fairlead.discovery import Server

Chunks = list[bytes | Unreachable]
SERVER = Server(url="http://world", token=None, source="test")
ONCE = Retries(attempts_max=1)


class World:
    """Answers requests in order. Time only passes by pauses and as `tick_s` per look at it.

    An answer to a request for a stream is a reply and the chunks that follow it.
    """

    def __init__(
        self,
        *answers: Reply | Unreachable | tuple[Reply, Chunks],
        tick_s: float = 0.0,
        retries: Retries = ONCE,
    ) -> None:
        self.asked: list[Request] = []
        self.pauses: list[float] = []
        self.client = Client(SERVER, retries=retries, transport=self)
        self._answers = list(answers)
        self._now_s = 0.0
        self._tick_s = tick_s

    def bodies(self) -> list[object]:
        """What was sent, decoded."""
        return [msgspec.json.decode(request.body) for request in self.asked]

    def open(self, request: Request) -> "Body":
        """The next answer."""
        self.asked.append(request)
        assert self._answers, f"nobody expected {request}"
        answer = self._answers.pop(0)
        if isinstance(answer, Unreachable):
            raise answer
        reply, chunks = answer if isinstance(answer, tuple) else (answer, [answer.body])
        return Body(reply, iter(chunks))

    def close(self) -> None:
        """There is nothing to close."""

    def sleep(self, s: float) -> None:
        """Let time pass at once."""
        self.pauses.append(s)
        self._now_s += s

    def now_s(self) -> float:
        """The time, which goes on a little whenever it is looked at."""
        self._now_s += self._tick_s
        return self._now_s

    def random_bits(self) -> int:
        """Always the middle one."""
        return 2**63


class Body:
    """What follows the head of an answer."""

    def __init__(self, reply: Reply, chunks: Iterator[bytes | Unreachable]) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self._chunks = chunks

    def read(self) -> bytes:
        """All that is left."""
        return b"".join(iter(self.chunk, b""))

    def chunk(self) -> bytes:
        """The next one."""
        found = next(self._chunks, b"")
        if isinstance(found, Unreachable):
            raise found
        return found

    def close(self) -> None:
        """There is nothing to close."""


def ok(body: object, **headers: str) -> Reply:
    """A 200 with this as JSON."""
    return Reply(200, headers, msgspec.json.encode(body))


def problem(status: int, detail: str = "", errors: Iterable[dict[str, str]] = ()) -> Reply:
    """A problem document."""
    body = {"title": "No", "status": status, "detail": detail, "errors": errors}
    headers = {"content-type": "application/problem+json"}
    return Reply(status, headers, msgspec.json.encode(body))


AWAY = Unreachable("refused", sent=False)
BROKEN = Unreachable("reset", sent=True)
