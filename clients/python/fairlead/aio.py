"""The asynchronous client."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self, TypeVar

import httpx2

from fairlead.calls.call_effects import Flow
from fairlead.calls.method_table import Methods
from fairlead.transport import http_transport

T = TypeVar("T")


class AsyncClient(Methods):
    """As `fairlead.Client`, with methods to await and iterators to `async for` over."""

    def _connect(self) -> None:
        self._http = httpx2.AsyncClient(**http_transport.settings(self.server))

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
        flow = self._with_retries(flow)
        return await http_transport.finish(flow, _Wire(self._http), self.server)

    def _items(self, flow: Flow[None], kind: type[T]) -> AsyncIterator[T]:
        flow = self._with_retries(flow)
        return http_transport.items(flow, kind, _Wire(self._http), self.server)


class _Wire:
    """A `transport.Wire` on asyncio."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.make = http.build_request
        self._http = http
        self._chunks: AsyncIterator[bytes] | None = None

    async def open(self, request: httpx2.Request) -> httpx2.Response:
        self._chunks = None
        return await self._http.send(request, stream=True)

    async def read(self, response: httpx2.Response) -> bytes:
        return await response.aread()

    async def chunk(self, response: httpx2.Response) -> bytes:
        if self._chunks is None:
            self._chunks = response.aiter_bytes()
        return await anext(self._chunks, b"")

    async def close(self, response: httpx2.Response) -> None:
        await response.aclose()

    async def sleep(self, s: float) -> None:
        await asyncio.sleep(s)
