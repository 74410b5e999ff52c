"""The blocking client."""

import time
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from fairlead.calls.call_effects import Flow
from fairlead.calls.method_table import Methods
from fairlead.transport import http_transport

T = TypeVar("T")


class Client(Methods):
    """A client of a Fairlead server; threads can share it.

    Without arguments it finds the server as the command line does (see `fairlead.discovery`).
    Raises `NotConfigured` if no server is configured; every method raises the exceptions of
    `fairlead.errors`.
    """

    def _connect(self) -> None:
        self._http = httpx2.Client(**http_transport.settings(self.server))

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
        self._http.close()

    def _finish(self, flow: Flow[T]) -> T:
        flow = self._with_retries(flow)
        return run_blocking(http_transport.finish(flow, _Wire(self._http), self.server))

    def _items(self, flow: Flow[None], kind: type[T]) -> Iterator[T]:
        flow = self._with_retries(flow)
        found = http_transport.items(flow, kind, _Wire(self._http), self.server)
        try:
            while True:
                try:
                    item = run_blocking(found.__anext__())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            run_blocking(found.aclose())


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits for an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("a blocking wire does not suspend")


class _Wire:
    """A `transport.Wire` whose coroutines block."""

    def __init__(self, http: httpx2.Client) -> None:
        self.make = http.build_request
        self._http = http
        self._chunks: Iterator[bytes] | None = None

    async def open(self, request: httpx2.Request) -> httpx2.Response:
        self._chunks = None
        return self._http.send(request, stream=True)

    async def read(self, response: httpx2.Response) -> bytes:
        return response.read()

    async def chunk(self, response: httpx2.Response) -> bytes:
        if self._chunks is None:
            self._chunks = response.iter_bytes()
        return next(self._chunks, b"")

    async def close(self, response: httpx2.Response) -> None:
        response.close()

    async def sleep(self, s: float) -> None:
        time.sleep(s)  # noqa: ASYNC251 - this wire is the one that blocks
