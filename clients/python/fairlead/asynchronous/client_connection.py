"""Sends the requests of a client: with retries, by pages, and as streams."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Protocol, Self, TypeVar

import msgspec

from fairlead import discovery, errors
from fairlead.calls import request_building
from fairlead.calls.exchange_types import Reply, Request, Unreachable
from fairlead.calls.job_parameters import POSITION_WAIT_S
from fairlead.calls.submission_positions import SubmissionPositions
from fairlead.models.array_models import ArrayActionResult
from fairlead.models.group_models import GroupActionResult
from fairlead.models.job_models import Filter
from fairlead.models.model_bases import ResponseModel
from fairlead.transport import asyncio_transport, retry_policy
from fairlead.transport.retry_policy import Retries

A = TypeVar("A", bound=ResponseModel)
C = TypeVar("C", GroupActionResult, ArrayActionResult)


class AsyncBody(Protocol):
    """A response whose body is still to be read. Reading raises `Unreachable`."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers, with names in lower case."""

    async def read(self) -> bytes:
        """The whole body."""

    async def chunk(self) -> bytes:
        """The next bytes of the body, empty at its end."""

    async def close(self) -> None:
        """End the response; its connection is used again if the body was read to its end."""


class AsyncTransport(Protocol):
    """All effects of a client: HTTP, time and random numbers."""

    async def open(self, request: Request) -> AsyncBody:
        """Send a request and read the head of its response. Raises `Unreachable`."""

    async def close(self) -> None:
        """Close the connections."""

    async def sleep(self, s: float) -> None:
        """Wait for this number of seconds."""

    def now_s(self) -> float:
        """Seconds of a monotonic clock."""

    def random_bits(self) -> int:
        """A random number of 64 bits."""


class OpenResponse(msgspec.Struct, frozen=True):
    """A reply, and the body if it was left open."""

    reply: Reply
    body: AsyncBody | None = None


class AsyncConnection:
    """Sends the requests of `AsyncClient`. `transport`: HTTP by default; tests pass another one."""

    def __init__(
        self,
        server: str | discovery.Server | None = None,
        *,
        token: str | None = None,
        retries: Retries | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        if not isinstance(server, discovery.Server):
            server = discovery.find_server(os.environ, server=server, token=token)
        self.server = server
        self._retries = retries or Retries()
        self._has_answered = False
        self._positions = SubmissionPositions()
        self._transport: AsyncTransport = transport or asyncio_transport.AsyncioTransport(server)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def expect(self, queue: str, job_set: str, position: str) -> None:
        """Let later reads of the job set include this position of another client's submission."""
        self._positions.record(queue, job_set, position)

    async def fetch(self, path: str) -> Reply:
        """The response of the server to a GET of this path, with any status."""
        return await self._fetch_reply(Request(path=path))

    def _find_position(self, where: Filter | None) -> str | None:
        """The position of this client's last submission to the job set of the filter; without a
        job set, to any job set.
        """
        if where is None:
            return self._positions.position()
        return self._positions.position(where.queue, where.job_set)

    def _make_position_query(self, after: str | None) -> tuple[tuple[str, str], ...]:
        """The parameters of a read that includes `after`, by default this client's last change."""
        return request_building.make_position_query(
            after or self._positions.position(), POSITION_WAIT_S
        )

    async def _request_change(self, request: Request, kind: type[C]) -> C:
        """Request a change of a group or an array, which later reads include."""
        done = await self._request(request, kind)
        if done.position is not None:
            self._positions.record("", done.id, done.position)
        return done

    async def _request(self, request: Request, kind: type[A]) -> A:
        """Send a request and decode its response as this struct."""
        return request_building.decode_reply(await self._fetch_reply(request), kind)

    async def _request_no_content(self, request: Request) -> None:
        """Send a request whose response has no content."""
        request_building.check_reply(await self._fetch_reply(request))

    async def _fetch_reply(self, request: Request) -> Reply:
        """Send a request; the response with any status."""
        return (await self._send(request, keep_open=False)).reply

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncBody]:
        """Send a request whose body is read in the block."""
        opened = await self._send(request, keep_open=True)
        if opened.body is None:
            raise errors.build_refusal(request_building.read_problem(opened.reply))
        try:
            yield opened.body
        finally:
            await opened.body.close()

    async def _iterate_pages(
        self, path: str, query: request_building.Query, key: str, kind: type[A]
    ) -> AsyncIterator[A]:
        """The items under `key` of all pages."""
        fixed = tuple(query)
        cursor: str | None = None
        while True:
            reply = await self._fetch_reply(
                request_building.build_page_request(path, fixed, cursor)
            )
            for item in request_building.decode_items(reply, key, kind):
                yield item
            cursor = request_building.read_next_cursor(reply)
            if cursor is None:
                return

    async def _iterate_list(self, path: str, key: str, kind: type[A]) -> AsyncIterator[A]:
        """The items under `key` of a response that has no pages."""
        reply = await self._fetch_reply(request_building.build_get(path))
        for item in request_building.decode_items(reply, key, kind):
            yield item

    async def _send(self, request: Request, *, keep_open: bool) -> OpenResponse:
        """Send a request, with retries by the policy. Raises `ServerUnreachable`."""
        policy = self._retries.for_client(has_answered=self._has_answered)
        attempt = 1
        while True:
            answer: Reply | Unreachable
            try:
                opened = await self._attempt(request, keep_open=keep_open)
            except Unreachable as error:
                answer = error
                if attempt >= policy.attempts_max or not retry_policy.is_worth_repeating(
                    request, answer
                ):
                    raise errors.ServerUnreachable(error.reason) from None
            else:
                self._has_answered, answer = True, opened.reply
                if attempt >= policy.attempts_max or not retry_policy.is_worth_repeating(
                    request, answer
                ):
                    return opened
            bits = self._transport.random_bits()
            await self._transport.sleep(retry_policy.delay_s(policy, attempt, answer, bits))
            attempt += 1

    async def _attempt(self, request: Request, *, keep_open: bool) -> OpenResponse:
        """Send a request once; the body of a successful response stays open on request."""
        body = await self._transport.open(request)
        if keep_open and body.status < 300:
            return OpenResponse(Reply(body.status, body.headers), body)
        try:
            return OpenResponse(Reply(body.status, body.headers, await body.read()))
        finally:
            await body.close()
