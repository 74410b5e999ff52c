"""The transport of `AsyncClient`: httpx2."""

import asyncio
import secrets
import ssl
import time
from collections.abc import AsyncIterator
from typing import Final

import httpx2

from fairlead import discovery
from fairlead.calls.exchange_types import Request
from fairlead.transport import connection_settings
from fairlead.transport.connection_settings import CONNECT_S, WRITE_S

NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout)
"""Failures after which the server cannot have seen the request."""


class AsyncioTransport:
    """Connections to one server. A server on this machine is reached without a proxy."""

    def __init__(self, server: discovery.Server) -> None:
        self._server = server
        self._http = httpx2.AsyncClient(
            base_url=server.url,
            headers=connection_settings.build_headers(server),
            trust_env=not server.is_local,
            verify=_tls_context(server),
            limits=httpx2.Limits(
                max_connections=connection_settings.CONNECTIONS_MAX,
                max_keepalive_connections=connection_settings.CONNECTIONS_IDLE_MAX,
            ),
        )

    async def open(self, request: Request) -> "Body":
        """Send a request and read the head of its response. Raises `Unreachable`."""
        timeout = httpx2.Timeout(
            connect=CONNECT_S, read=request.read_s, write=WRITE_S, pool=CONNECT_S
        )
        built = self._http.build_request(
            request.method,
            request.path,
            params=list(request.query),
            headers=list(request.headers),
            content=request.body or None,
            timeout=timeout,
        )
        try:
            return Body(self._server, await self._http.send(built, stream=True))
        except httpx2.PoolTimeout:
            raise connection_settings.build_no_connection_error() from None
        except httpx2.HTTPError as error:
            sent = not isinstance(error, NOT_SENT)
            raise connection_settings.build_unreachable_error(
                self._server, error, sent=sent
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def sleep(self, s: float) -> None:
        """Wait for this number of seconds."""
        await asyncio.sleep(s)

    def now_s(self) -> float:
        """Seconds of a monotonic clock."""
        return time.monotonic()

    def random_bits(self) -> int:
        """A random number of 64 bits."""
        return secrets.randbits(64)


def _tls_context(server: discovery.Server) -> ssl.SSLContext:
    """The TLS settings of this machine and the environment. Without TLS an empty context, which
    takes 35 ms less to create.
    """
    if server.is_encrypted:
        return httpx2.create_ssl_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Body:
    """A response whose body is still to be read."""

    def __init__(self, server: discovery.Server, response: httpx2.Response) -> None:
        self._server = server
        self._response = response
        self._chunks: AsyncIterator[bytes] | None = None
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    async def read(self) -> bytes:
        """The whole body. Raises `Unreachable`."""
        try:
            return await self._response.aread()
        except httpx2.HTTPError as error:
            raise connection_settings.build_unreachable_error(
                self._server, error, sent=True
            ) from None

    async def chunk(self) -> bytes:
        """The next bytes of the body, empty at its end. Raises `Unreachable`."""
        if self._chunks is None:
            self._chunks = self._response.aiter_bytes()
        try:
            return await anext(self._chunks, b"")
        except httpx2.HTTPError as error:
            raise connection_settings.build_unreachable_error(
                self._server, error, sent=True
            ) from None

    async def close(self) -> None:
        """End the response."""
        await self._response.aclose()
