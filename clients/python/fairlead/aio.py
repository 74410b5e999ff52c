"""The asynchronous client: drives the same flows on asyncio."""

import asyncio
import functools
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar, assert_never

import httpx2

from fairlead import discovery, flows, follow, steps, transport
from fairlead.models import Event, JobSet, JobView, Queue
from fairlead.retries import Retries, retrying
from fairlead.steps import Answer, Flow, Reply, Request, Step, Unreachable

P = ParamSpec("P")
T = TypeVar("T")


def _call(
    flow: Callable[P, Flow[T]],
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[None, None, T]]":
    """A method that drives the flow to its end and returns its value."""

    @functools.wraps(flow)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._finish(flow(*args, **kwargs))

    return method


def _each(
    flow: Callable[P, Flow[None]], kind: type[T]
) -> "Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]":
    """A method that iterates over what the flow emits, all of this kind."""

    @functools.wraps(flow)
    def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._items(flow(*args, **kwargs), kind)

    return method


class AsyncClient:
    """As `fairlead.Client`, with methods to await and iterators to `async for` over."""

    create_queue = _call(flows.create_queue)
    queue = _call(flows.queue)
    queues = _each(flows.queues, Queue)
    submit = _call(flows.submit)
    check = _call(flows.check)
    cancel = _call(flows.cancel)
    cancel_where = _call(flows.cancel_where)
    job_set = _call(flows.job_set)
    job_sets = _each(flows.job_sets, JobSet)
    job = _call(flows.job)
    iter_jobs = _each(flows.iter_jobs, JobView)
    wait = _call(flows.wait)
    wait_job = _call(flows.wait_job)
    watch = _each(flows.watch, JobSet)
    events = _each(follow.events, Event)
    logs = _each(follow.logs, bytes)

    def __init__(
        self, server: str | None = None, *, token: str | None = None, retries: Retries | None = None
    ) -> None:
        self.server = discovery.find(os.environ, server=server, token=token)
        self._retries = retries or Retries()
        self._met = False
        self._http = httpx2.AsyncClient(**transport.settings(self.server))

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
        await self._http.aclose()

    async def _finish(self, flow: Flow[T]) -> T:
        flow = retrying(flow, self._retries, met=self._met)
        body = _Body(self._http, self.server)
        answer: Answer = None
        try:
            while True:
                try:
                    step = flow.send(answer)
                except StopIteration as end:
                    self._met = True
                    value: T = end.value
                    return value
                answer = await _perform(step, body)
        finally:
            flow.close()
            await body.close()

    async def _items(self, flow: Flow[None], kind: type[T]) -> AsyncIterator[T]:
        flow = retrying(flow, self._retries, met=self._met)
        body = _Body(self._http, self.server)
        answer: Answer = None
        try:
            while True:
                try:
                    step = flow.send(answer)
                except StopIteration:
                    return
                answer = None
                if isinstance(step, steps.Emit):
                    assert isinstance(step.item, kind)
                    yield step.item
                else:
                    answer = await _perform(step, body)
        finally:
            flow.close()
            await body.close()


async def _perform(step: Step, body: "_Body") -> Answer:
    match step:
        case steps.Send():
            return await body.send(step.request)
        case steps.Open():
            return await body.open(step.request)
        case steps.More():
            return await body.more()
        case steps.Pause():
            await asyncio.sleep(step.s)
            return None
        case steps.Draw():
            return secrets.randbits(64)
        case steps.Now():
            return time.monotonic()
        case steps.Emit():
            raise steps.Misdriven("only iterators emit")
        case _:
            assert_never(step)


class _Body:
    """The HTTP side of one flow, with the body that it has open."""

    def __init__(self, http: httpx2.AsyncClient, server: discovery.Server) -> None:
        self._http = http
        self._server = server
        self._response: httpx2.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def send(self, request: Request) -> Reply | Unreachable:
        try:
            response = await self._http.send(transport.build(self._http.build_request, request))
            return transport.reply(response, response.content)
        except httpx2.HTTPError as error:
            return transport.unreachable(self._server, error)

    async def open(self, request: Request) -> Reply | Unreachable:
        await self.close()
        try:
            built = transport.build(self._http.build_request, request)
            response = self._response = await self._http.send(built, stream=True)
            if response.status_code >= 300:
                return transport.reply(response, await response.aread())
            self._chunks = response.aiter_bytes()
            return transport.reply(response)
        except httpx2.HTTPError as error:
            return transport.unreachable(self._server, error)

    async def more(self) -> steps.Chunk | Unreachable:
        if self._chunks is None:
            raise steps.Misdriven("no body is open")
        try:
            return steps.Chunk(await anext(self._chunks, b""))
        except httpx2.HTTPError as error:
            return transport.unreachable(self._server, error)

    async def close(self) -> None:
        self._chunks = None
        if self._response is not None:
            await self._response.aclose()
            self._response = None
