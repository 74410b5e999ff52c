"""HTTP requests to receivers, as the senders of webhooks make them."""

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead_lookout.domain.webhooks.target_addresses import Network

if TYPE_CHECKING:
    from fairlead_lookout.service.webhooks.http_connections import HttpConnections

RESPONSE_BYTES_MAX: Final = 64 * 1024
"""What is read of the body of a response; more ends its connection."""

FoundAddress = tuple[int, int, int, str, tuple[Any, ...]]
"""Family, type, protocol, canonical name and socket address. `Any`: as `socket` has it."""
LookUp = Callable[[str, int, int, int], Sequence[FoundAddress]]
"""Resolves a name as `socket.getaddrinfo(host, port, family, type)` does."""


class RequestFailed(Exception):
    """There is no response; the message says why."""


class HttpResponse(NamedTuple):
    """A response. `content`: its beginning, at most the bytes that were wanted; `retry_after_s`: 0
    if the receiver did not ask for it."""

    status: int
    content: bytes
    retry_after_s: int


class RequestLimits(NamedTuple):
    """To which addresses requests are permitted, how long they take, and what is read of a body."""

    allowed: Sequence[Network]
    timeout_s: float
    bytes_max: int


class HttpClient:
    """Makes requests to receivers. `allowed`: networks that are permitted although they are not
    public; `ca_file`: certificates that are trusted in addition to the system's; `bytes_max`: what
    is read of the body of a response; `look_up`: resolves names.

    The first request imports the library and reads the certificates. Together they take a sixth of
    a second, and most processes never make a request.
    """

    def __init__(
        self,
        allowed: Sequence[Network],
        *,
        timeout_s: float = 10.0,
        ca_file: str = "",
        bytes_max: int = RESPONSE_BYTES_MAX,
        look_up: LookUp = socket.getaddrinfo,
    ) -> None:
        self._limits = RequestLimits(allowed, timeout_s, bytes_max)
        self._ca_file = ca_file
        self._look_up = look_up
        self._opening = asyncio.Lock()
        self._connections: HttpConnections | None = None

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        queue: str | None,
    ) -> HttpResponse:
        """The response, with the beginning of its body: what arrives in time, up to `bytes_max`.
        `queue`: whose users chose the URL; None for operators. Raises `RequestFailed`."""
        connections = await self._open()
        return await connections.request(method, url, headers, body, queue)

    async def _open(self) -> "HttpConnections":
        async with self._opening:
            if self._connections is None:
                open_connections = await asyncio.to_thread(_import_connections)
                context = await asyncio.to_thread(make_tls_context, self._ca_file)
                self._connections = open_connections(self._limits, context, self._look_up)
            return self._connections

    async def close(self) -> None:
        """Close the connections."""
        if self._connections is not None:
            await self._connections.close()


def _import_connections() -> "type[HttpConnections]":
    from fairlead_lookout.service.webhooks.http_connections import HttpConnections

    return HttpConnections


@functools.cache
def make_tls_context(ca_file: str) -> ssl.SSLContext:
    """Certificates and names are checked. `ca_file`: certificates that are trusted in addition to
    the system's. All callers with the same file share one context, which must not be changed."""
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(ca_file)
    return context
