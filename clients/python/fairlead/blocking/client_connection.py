# Generated from fairlead/asynchronous/client_connection.py (`make client`).
"""Sends the requests of a client: with retries, by pages, and as streams."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self, TypeVar

import msgspec

from fairlead import discovery, errors
from fairlead.calls import request_building
from fairlead.calls.exchange_types import Reply, Request, Unreachable
from fairlead.calls.written_positions import Writes
from fairlead.models.job_models import Answer, Filter
from fairlead.transport import blocking_transport, retry_policy
from fairlead.transport.retry_policy import Retries

A = TypeVar("A", bound=Answer)


class Body(Protocol):
    """A response whose body is still to be read. Reading raises `Unreachable`."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers, with names in lower case."""

    def read(self) -> bytes:
        """The whole body."""

    def chunk(self) -> bytes:
        """The next bytes of the body, empty at its end."""

    def close(self) -> None:
        """End the response; its connection is used again if the body was read to its end."""


class Transport(Protocol):
    """All effects of a client: HTTP, time and chance."""

    def open(self, request: Request) -> Body:
        """Send a request and read the head of its response. Raises `Unreachable`."""

    def close(self) -> None:
        """Close the connections."""

    def sleep(self, s: float) -> None:
        """Wait for this number of seconds."""

    def now_s(self) -> float:
        """Seconds of a monotonic clock."""

    def random_bits(self) -> int:
        """A random number of 64 bits."""


class Opened(msgspec.Struct, frozen=True):
    """A reply, and the body if it was left open."""

    reply: Reply
    body: Body | None = None


class Connection:
    """What the methods of `Client` are built on. `transport`: for tests; HTTP otherwise."""

    def __init__(
        self,
        server: str | discovery.Server | None = None,
        *,
        token: str | None = None,
        retries: Retries | None = None,
        transport: Transport | None = None,
    ) -> None:
        if not isinstance(server, discovery.Server):
            server = discovery.find(os.environ, server=server, token=token)
        self.server = server
        self._retries = retries or Retries()
        self._met = False
        self._writes = Writes()
        self._transport: Transport = transport or blocking_transport.BlockingTransport(server)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def expect(self, queue: str, job_set: str, position: str) -> None:
        """Let reads include this position, at which another client submitted to the job set."""
        self._writes.record(queue, job_set, position)

    def fetch(self, path: str) -> Reply:
        """The response of any path of the server, with any status."""
        return self._answered(Request(path=path))

    def _written(self, where: Filter | None) -> str | None:
        """The position of this client's last submission to the filter's job set, or to any."""
        if where is None:
            return self._writes.position()
        return self._writes.position(where.queue, where.job_set)

    def _ask(self, request: Request, kind: type[A]) -> A:
        """Send a request and decode its response as this struct."""
        return request_building.decoded(self._answered(request), kind)

    def _done(self, request: Request) -> None:
        """Send a request whose response has no content."""
        request_building.accepted(self._answered(request))

    def _answered(self, request: Request) -> Reply:
        """Send a request; the response with any status."""
        return (self._send(request, keep_open=False)).reply

    @contextmanager
    def _stream(self, request: Request) -> Iterator[Body]:
        """Send a request whose body is read in the block."""
        opened = self._send(request, keep_open=True)
        if opened.body is None:
            raise errors.refusal(request_building.problem_of(opened.reply))
        try:
            yield opened.body
        finally:
            opened.body.close()

    def _pages(
        self, path: str, query: request_building.Query, key: str, kind: type[A]
    ) -> Iterator[A]:
        """The items under `key` of all pages."""
        fixed = tuple(query)
        cursor: str | None = None
        while True:
            reply = self._answered(request_building.page(path, fixed, cursor))
            for item in request_building.items(reply, key, kind):
                yield item
            cursor = request_building.next_cursor(reply)
            if cursor is None:
                return

    def _listed(self, path: str, key: str, kind: type[A]) -> Iterator[A]:
        """The items under `key` of a response that has no pages."""
        reply = self._answered(request_building.get(path))
        for item in request_building.items(reply, key, kind):
            yield item

    def _send(self, request: Request, *, keep_open: bool) -> Opened:
        """Send a request as often as the retry policy says. Raises `ServerUnreachable`."""
        policy = self._retries.for_client(met=self._met)
        attempt = 1
        while True:
            answer: Reply | Unreachable
            try:
                opened = self._attempt(request, keep_open=keep_open)
            except Unreachable as error:
                answer = error
                if attempt >= policy.attempts_max or not retry_policy.worth_repeating(
                    request, answer
                ):
                    raise errors.ServerUnreachable(error.reason) from None
            else:
                self._met, answer = True, opened.reply
                if attempt >= policy.attempts_max or not retry_policy.worth_repeating(
                    request, answer
                ):
                    return opened
            bits = self._transport.random_bits()
            self._transport.sleep(retry_policy.delay_s(policy, attempt, answer, bits))
            attempt += 1

    def _attempt(self, request: Request, *, keep_open: bool) -> Opened:
        """Send a request once; the body of a successful response stays open on request."""
        body = self._transport.open(request)
        if keep_open and body.status < 300:
            return Opened(Reply(body.status, body.headers), body)
        try:
            return Opened(Reply(body.status, body.headers, body.read()))
        finally:
            body.close()
