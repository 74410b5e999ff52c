"""Sends one delivery as an HTTP request: signed, limited in time and size, to permitted addresses.

The name of a host is resolved once per connection, and the address is checked when the socket for
it is made, so what was checked is what is connected to. Redirects are not followed, proxies and
cookies are not used, and compressed responses are not inflated.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from standardwebhooks import Webhook as Signer
from yarl import URL

from fairlead_common.domain.secret_values import DecryptionFailed, Keyring
from fairlead_common.service import clock
from fairlead_lookout.domain.webhooks.retry_schedule import Attempt
from fairlead_lookout.domain.webhooks.target_addresses import Network, explain_refusal
from fairlead_lookout.domain.webhooks.webhook_types import Webhook

RESPONSE_BYTES_MAX: Final = 64 * 1024
"""What is read of a response; more ends its connection."""
EXCERPT_MAX: Final = 300
CONNECTIONS_MAX: Final = 1_000
RESOLVERS: Final = 32
"""Names that are resolved at the same time; a name that is not answered holds one of them."""
IDLE_S: Final = 15.0
USER_AGENT: Final = "Fairlead-Webhooks/1"


class AddressRefused(OSError):
    """Requests to this address are not permitted."""


class RequestSender:
    """Sends deliveries; holds the connections to receivers."""

    def __init__(
        self,
        keyring: Keyring,
        allowed: Sequence[Network],
        *,
        timeout_s: float = 10.0,
        ca_file: str = "",
    ) -> None:
        self._keyring = keyring
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._resolver = _Resolver()
        context = ssl.create_default_context()
        if ca_file:
            context.load_verify_locations(ca_file)
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

    async def send(
        self, webhook: Webhook, message_id: str, body: str, content_type: str
    ) -> Attempt:
        """Send it once. Never raises for what the receiver or the network does."""
        started_s = clock.monotonic_s()
        status: int | None = None
        error: str | None = None
        retry_after_s = 0
        try:
            headers = self._make_headers(webhook, message_id, body, content_type)
            url = URL(webhook.url, encoded=True)
            async with self._sessions[url.scheme].post(
                url, data=body.encode(), headers=headers, allow_redirects=False
            ) as response:
                status = response.status
                retry_after_s = _parse_seconds(response.headers.get("Retry-After", ""))
                error = _explain_status(status, await _read_excerpt(response))
        except DecryptionFailed as failure:
            error = f"The secrets of the webhook cannot be decrypted: {failure}"
        except TimeoutError:
            error = error or f"No complete response within {self._timeout_s:g} s."
        except aiohttp.ClientConnectorError as failure:
            error = f"Cannot connect: {failure.os_error.strerror or failure.os_error}"
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            error = error or f"{type(failure).__name__}: {failure}"
        if status is not None and 200 <= status < 300:
            error = None
        return Attempt(
            duration_ms=round((clock.monotonic_s() - started_s) * 1000),
            status=status,
            error=None if error is None else _make_printable(error),
            retry_after_s=retry_after_s,
        )

    def _make_headers(
        self, webhook: Webhook, message_id: str, body: str, content_type: str
    ) -> dict[str, str]:
        now_ms = clock.now_ms()
        moment = datetime.fromtimestamp(now_ms // 1000, UTC)
        signatures = [
            Signer(self._open(webhook, secret.sealed)).sign(message_id, moment, body)
            for secret in webhook.list_valid_secrets(now_ms)
        ]
        return {
            "Content-Type": content_type,
            "User-Agent": USER_AGENT,
            "webhook-id": message_id,
            "webhook-timestamp": str(now_ms // 1000),
            "webhook-signature": " ".join(signatures),
            **{name: self._open(webhook, sealed) for name, sealed in webhook.headers.items()},
        }

    def _open(self, webhook: Webhook, sealed: str) -> str:
        return self._keyring.open(webhook.seal_name, sealed)

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


async def _read_excerpt(response: aiohttp.ClientResponse) -> str:
    """The beginning of the body. The rest is read up to a bound, so that the connection can be used
    again; beyond it the connection is closed."""
    beginning = b""
    size = 0
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        while piece := await response.content.read(RESPONSE_BYTES_MAX):
            size += len(piece)
            beginning += piece[: EXCERPT_MAX - len(beginning)]
            if size > RESPONSE_BYTES_MAX:
                response.close()
                break
    return beginning.decode(errors="replace")


def _explain_status(status: int, excerpt: str) -> str:
    if 300 <= status < 400:
        return f"Status {status}: redirects are not followed."
    return f"Status {status}: {excerpt}" if excerpt.strip() else f"Status {status}."


def _parse_seconds(text: str) -> int:
    """The seconds of a `Retry-After`; a date in it is ignored."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _make_printable(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[: EXCERPT_MAX + 100]
