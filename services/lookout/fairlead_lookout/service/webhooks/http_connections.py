"""Connections to receivers: limited in time and size, and only to permitted addresses.

The name of a host is resolved once per connection, and the address is checked when the socket for
it is made, so what was checked is what is connected to. Redirects are not followed, proxies and
cookies are not used, and compressed responses are not inflated. The bytes of a response are counted
before the library sees them, because it reads any number of responses with a status of 1xx.
"""

import asyncio
import contextlib
import errno
import functools
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from fairlead_common.web.rate_limits import ConcurrencyLimiter
from fairlead_lookout.domain.webhooks.target_addresses import explain_refusal
from fairlead_lookout.service.webhooks.http_client import (
    FoundAddress,
    HttpResponse,
    LookUp,
    RequestFailed,
    RequestLimits,
)
from fairlead_lookout.store.webhooks.webhook_store import QUEUE_WEBHOOKS_MAX, WEBHOOKS_MAX

if TYPE_CHECKING:
    from aiohttp.connector import Connection

CONNECTIONS_MAX: Final = 1_000
IDLE_S: Final = 15.0
HEAD_BYTES_MAX: Final = 64 * 1024
"""What a response has beside its body: headers, responses before it (1xx), chunks, TLS records."""
USER_AGENT: Final = "Fairlead-Webhooks/1"
_OWN: Final = frozenset({errno.EACCES, errno.EBUSY, errno.EMSGSIZE})
"""Errors that have a text of this module."""
_QUEUE: Final[ContextVar[str | None]] = ContextVar("queue")
"""The queue whose events the current request is about; None for the webhooks of operators."""


class _NameKey(NamedTuple):
    """A name that is resolved, and for which queue."""

    queue: str | None
    host: str
    port: int
    family: int


class AddressRefused(OSError):
    """Requests to this address are not permitted."""


class HttpConnections:
    """Holds the connections to receivers, for `HttpClient`."""

    def __init__(self, limits: RequestLimits, context: ssl.SSLContext, look_up: LookUp) -> None:
        self._limits = limits
        self._resolver = _Resolver(look_up)
        self._sessions = {
            "https": self._open_session(context, encrypted=True),
            "http": self._open_session(context, encrypted=False),
        }

    def _open_session(self, context: ssl.SSLContext, *, encrypted: bool) -> aiohttp.ClientSession:
        def make_socket(address: aiohttp.AddrInfoType) -> socket.socket:
            family, kind, protocol, _, target = address
            refusal = explain_refusal(str(target[0]), self._limits.allowed, encrypted=encrypted)
            if refusal is not None:
                raise AddressRefused(errno.EACCES, refusal)
            return socket.socket(family, kind, protocol)

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX,
                use_dns_cache=False,
                resolver=self._resolver,
                ssl=context,
                keepalive_timeout=IDLE_S,
                socket_factory=make_socket,
            ),
            timeout=aiohttp.ClientTimeout(total=self._limits.timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
            response_class=_limit_responses(self._limits.bytes_max + HEAD_BYTES_MAX),
        )

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, queue: str | None
    ) -> HttpResponse:
        """See `HttpClient`."""
        _QUEUE.set(queue)
        target = URL(url, encoded=True)
        try:
            async with self._sessions[target.scheme].request(
                method,
                target,
                data=body,
                headers={"User-Agent": USER_AGENT, **headers},
                allow_redirects=False,
            ) as response:
                retry_after_s = _parse_seconds(response.headers.get("Retry-After", ""))
                content = await _read_content(response, self._limits.bytes_max)
                return HttpResponse(response.status, content, retry_after_s)
        except TimeoutError:
            text = f"No complete response within {self._limits.timeout_s:g} s."
            raise RequestFailed(text) from None
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            raise RequestFailed(_explain(failure)) from failure

    async def close(self) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            await session.close()
        await self._resolver.close()


def _limit_responses(bytes_max: int) -> type[aiohttp.ClientResponse]:
    """The class of responses that have at most these bytes in all. More ends the connection."""

    class LimitedResponse(aiohttp.ClientResponse):
        async def start(self, connection: "Connection") -> aiohttp.ClientResponse:
            """Read the head of the response."""
            if (transport := connection.transport) is not None:
                _limit_reading(transport, bytes_max)
            return await super().start(connection)

    return LimitedResponse


def _limit_reading(transport: asyncio.Transport, bytes_max: int) -> None:
    """From now on the protocol of this connection receives at most these bytes."""
    protocol = transport.get_protocol()
    if not isinstance(protocol, _LimitedProtocol):
        assert isinstance(protocol, asyncio.Protocol)
        protocol = _LimitedProtocol(protocol, transport)
        transport.set_protocol(protocol)
    protocol.bytes_left = bytes_max


class _LimitedProtocol(asyncio.Protocol):
    """Hands on at most `bytes_left` bytes to another protocol; more ends the connection."""

    def __init__(self, inner: asyncio.Protocol, transport: asyncio.Transport) -> None:
        self.bytes_left = 0
        self._inner = inner
        self._transport = transport
        self._error: OSError | None = None

    def data_received(self, data: bytes) -> None:
        taken = data[: self.bytes_left]
        self.bytes_left -= len(taken)
        if taken:
            self._inner.data_received(taken)
        if len(taken) < len(data):
            self._error = OSError(errno.EMSGSIZE, "The response is too long")
            self._transport.abort()

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(self._error or exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class _Resolver(AbstractResolver):
    """Resolves names in threads. A name that no server answers holds its thread for a long time, so
    there is a thread for each webhook, and the names of one queue hold at most as many as it has
    webhooks. All who want the same name at the same time wait for one thread."""

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(WEBHOOKS_MAX, "webhook-resolver")
        self._of_queues: ConcurrencyLimiter[str] = ConcurrencyLimiter(QUEUE_WEBHOOKS_MAX)
        self._running: dict[_NameKey, asyncio.Future[Sequence[FoundAddress]]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name. Raises `OSError`."""
        key = _NameKey(_QUEUE.get(), host, port, family)
        if key not in self._running:
            self._start(key)
        # A caller that waits no longer does not end the thread.
        found = await asyncio.shield(self._running[key])
        return [
            ResolveResult(
                hostname=host,
                host=str(target[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, target in found
        ]

    def _start(self, key: _NameKey) -> None:
        queue, host, port, family = key
        if queue is not None and not self._of_queues.begin(queue):
            text = f"{QUEUE_WEBHOOKS_MAX} other names of queue {queue} are not answered"
            raise OSError(errno.EBUSY, text)
        running = asyncio.get_running_loop().run_in_executor(
            self._threads, self._look_up, host, port, family, socket.SOCK_STREAM
        )
        self._running[key] = running
        running.add_done_callback(functools.partial(self._forget, key))

    def _forget(self, key: _NameKey, done: asyncio.Future[Sequence[FoundAddress]]) -> None:
        del self._running[key]
        if key.queue is not None:
            self._of_queues.end(key.queue)
        if not done.cancelled():
            done.exception()  # perhaps nobody waits for it any more

    async def close(self) -> None:
        """End the threads that have nothing to do."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _explain(failure: Exception) -> str:
    """Why a response is missing, in words for the owner of a webhook."""
    match failure:
        case aiohttp.ClientConnectorCertificateError():
            return f"Cannot connect: the certificate is not valid: {_describe(failure.os_error)}"
        case aiohttp.ClientConnectorError():
            return f"Cannot connect: {_describe(failure.os_error)}"
        case aiohttp.ServerDisconnectedError():
            return "The connection was closed before a response."
        case aiohttp.ClientResponseError():
            return f"The response is not valid HTTP: {failure.message}"
        case OSError():
            return f"The connection failed: {_describe(failure)}"
        case _:
            return f"The request failed: {failure}"


def _describe(error: BaseException) -> str:
    """What the system or TLS says about an error."""
    match error:
        case ssl.SSLCertVerificationError():
            return error.verify_message
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            return "TLS: the server does not speak TLS on this port"
        case ssl.SSLError():
            return f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}"
        case OSError(errno=int(number)) if number in errno.errorcode and number not in _OWN:
            return os.strerror(number)  # asyncio writes addresses into its text
        case OSError(strerror=str(text)):
            return text
        case _:
            return str(error)


async def _read_content(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """The beginning of the body. Up to `bytes_max` the connection can be used again; beyond it the
    connection is closed."""
    content = b""
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        while piece := await response.content.read(bytes_max):
            content += piece
            if len(content) > bytes_max:
                response.close()
                break
    return content[:bytes_max]


def _parse_seconds(text: str) -> int:
    """The seconds of a `Retry-After`; a date in it is ignored."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
