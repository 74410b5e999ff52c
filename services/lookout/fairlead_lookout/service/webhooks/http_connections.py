"""Connections to receivers: limited in time and size, and only to permitted addresses.

The name of a host is resolved once per connection, and the address is checked when the socket for
it is made, so what was checked is what is connected to. Redirects are not followed, proxies and
cookies are not used, and compressed responses are not inflated.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from fairlead_lookout.domain.webhooks.target_addresses import Network, explain_refusal
from fairlead_lookout.service.webhooks.http_client import HttpResponse, RequestFailed

CONNECTIONS_MAX: Final = 1_000
RESOLVERS: Final = 32
"""Names that are resolved at the same time; a name that is not answered holds one of them."""
IDLE_S: Final = 15.0
USER_AGENT: Final = "Fairlead-Webhooks/1"


class AddressRefused(OSError):
    """Requests to this address are not permitted."""


class HttpConnections:
    """Holds the connections to receivers, for `HttpClient`."""

    def __init__(
        self, allowed: Sequence[Network], timeout_s: float, context: ssl.SSLContext
    ) -> None:
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._resolver = _Resolver()
        self._sessions = {
            "https": self._open_session(context, encrypted=True),
            "http": self._open_session(context, encrypted=False),
        }

    def _open_session(self, context: ssl.SSLContext, *, encrypted: bool) -> aiohttp.ClientSession:
        def make_socket(address: aiohttp.AddrInfoType) -> socket.socket:
            family, kind, protocol, _, target = address
            refusal = explain_refusal(str(target[0]), self._allowed, encrypted=encrypted)
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
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
        )

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        bytes_max: int,
    ) -> HttpResponse:
        """See `HttpClient`."""
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
                content = await _read_content(response, bytes_max)
                return HttpResponse(response.status, content, retry_after_s)
        except TimeoutError:
            text = f"No complete response within {self._timeout_s:g} s."
            raise RequestFailed(text) from None
        except aiohttp.ClientConnectorError as failure:
            text = f"Cannot connect: {failure.os_error.strerror or failure.os_error}"
            raise RequestFailed(text) from failure
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            raise RequestFailed(f"{type(failure).__name__}: {failure}") from failure

    async def close(self) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            await session.close()
        await self._resolver.close()


class _Resolver(AbstractResolver):
    """Resolves names in threads of its own, so that slow names do not delay anything else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVERS, "webhook-resolver")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port, family)
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

    async def close(self) -> None:
        """End the threads that have nothing to do."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: int) -> list[tuple[int, int, int, str, tuple[object]]]:
    found: list[tuple[int, int, int, str, tuple[object]]] = socket.getaddrinfo(  # type: ignore[assignment]
        host, port, family, socket.SOCK_STREAM
    )
    return found


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
