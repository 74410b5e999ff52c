"""The transport of `Client`: the standard library's HTTP client, which imports in a fifth of the
time of httpx2.

`http.client` has connections, chunks, TLS and tunnels. What is added here: connections that several
threads use again, and proxies from the environment.
"""

import http.client
import os
import select
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from fairlead import discovery
from fairlead.calls.exchange_types import Request
from fairlead.transport import connection_settings
from fairlead.transport.connection_settings import CHUNK_BYTES, CONNECT_S, WRITE_S

PROXY: Final = "proxy-authorization"
FAILURES: Final = (OSError, http.client.HTTPException)


class BlockingTransport:
    """Connections to one server. A server on this machine is reached without a proxy."""

    def __init__(self, server: discovery.Server) -> None:
        self._server = server
        self._url = urlsplit(server.url)
        self._headers = {
            **connection_settings.build_headers(server),
            **_basic_auth_header("authorization", self._url),
        }
        self._proxy = None if server.is_local else _find_proxy(self._url)
        self._tls = ssl.create_default_context() if server.is_encrypted else None
        self._free = threading.BoundedSemaphore(connection_settings.CONNECTIONS_MAX)
        self._idle: list[http.client.HTTPConnection] = []  # append and pop are atomic

    def open(self, request: Request) -> "Body":
        """Send a request and read the head of its response. Raises `Unreachable`."""
        if not self._free.acquire(timeout=CONNECT_S):
            raise connection_settings.build_no_connection_error()
        connection: http.client.HTTPConnection | None = None
        sent = False
        try:
            connection = self._take_connection()
            sent = True
            return self._exchange(connection, request)
        except FAILURES as error:
            self.discard(connection)
            raise connection_settings.build_unreachable_error(
                self._server, error, sent=sent
            ) from None
        except BaseException:
            self.discard(connection)
            raise

    def close(self) -> None:
        """Close the connections that are idle."""
        while self._idle:
            self._idle.pop().close()

    def sleep(self, s: float) -> None:
        """Wait for this number of seconds."""
        time.sleep(s)

    def now_s(self) -> float:
        """Seconds of a monotonic clock."""
        return time.monotonic()

    def random_bits(self) -> int:
        """A random number of 64 bits."""
        return int.from_bytes(os.urandom(8))

    def build_error(self, error: Exception) -> Exception:
        """The `Unreachable` for an error that occurred while a body was read."""
        return connection_settings.build_unreachable_error(self._server, error, sent=True)

    def release(self, connection: http.client.HTTPConnection) -> None:
        """Take back a connection whose response was read to its end."""
        if connection.sock is None or len(self._idle) >= connection_settings.CONNECTIONS_IDLE_MAX:
            connection.close()
        else:
            self._idle.append(connection)
        self._free.release()

    def discard(self, connection: http.client.HTTPConnection | None) -> None:
        """Close a connection whose state is not known."""
        if connection is not None:
            connection.close()
        self._free.release()

    def _take_connection(self) -> http.client.HTTPConnection:
        """An idle connection that the server has not closed, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if _is_quiet(connection):
                return connection
            connection.close()
        connection = self._make_connection()
        connection.connect()
        return connection

    def _make_connection(self) -> http.client.HTTPConnection:
        host, port = _address(self._proxy or self._url)
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=CONNECT_S)
        secure = http.client.HTTPSConnection(host, port, timeout=CONNECT_S, context=self._tls)
        if self._proxy is not None:
            secure.set_tunnel(*_address(self._url), headers=_basic_auth_header(PROXY, self._proxy))
        return secure

    def _exchange(self, connection: http.client.HTTPConnection, request: Request) -> "Body":
        target = self._url.path + request.path
        if request.query:
            target += f"?{urlencode(request.query)}"
        headers = {**self._headers, **dict(request.headers)}
        if self._proxy is not None and self._tls is None:
            target = f"http://{self._url.netloc.rpartition('@')[2]}{target}"
            headers |= _basic_auth_header(PROXY, self._proxy)
        connection.sock.settimeout(WRITE_S)
        is_whole = True
        try:
            connection.request(request.method, target, request.body or None, headers)
        except (BrokenPipeError, ConnectionResetError):  # the reason may be there to be read
            is_whole = False
        connection.sock.settimeout(request.read_s)
        return Body(self, connection, connection.getresponse(), is_whole=is_whole)


class Body:
    """A response whose body is still to be read. Raises `Unreachable`."""

    def __init__(
        self,
        transport: BlockingTransport,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        *,
        is_whole: bool,
    ) -> None:
        self._transport = transport
        self._connection: http.client.HTTPConnection | None = connection
        self._response = response
        self._is_whole = is_whole
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def read(self) -> bytes:
        """The whole body."""
        try:
            return self._response.read()
        except FAILURES as error:
            raise self._transport.build_error(error) from None

    def chunk(self) -> bytes:
        """The next bytes of the body, empty at its end."""
        try:
            data = self._response.read1(CHUNK_BYTES)
            if not data and self._response.length:  # `read1` does not raise for it
                raise http.client.IncompleteRead(data, self._response.length)
            if not data:
                self._response.read()  # nothing: it lets the connection be used again
        except FAILURES as error:
            raise self._transport.build_error(error) from None
        return data

    def close(self) -> None:
        """End the response; its connection is used again if the body was read to its end."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._response.isclosed() and self._is_whole:
            self._transport.release(connection)
        else:
            self._response.close()
            self._transport.discard(connection)


def _is_quiet(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has neither closed an idle connection nor sent anything on it."""
    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _address(url: SplitResult) -> tuple[str, int]:
    port = url.port or (443 if url.scheme == "https" else 80)
    return url.hostname or "", port


def _find_proxy(url: SplitResult) -> SplitResult | None:
    """The proxy that the environment names for this address."""
    import urllib.request  # late: most servers are on this machine

    if urllib.request.proxy_bypass(url.netloc):
        return None
    named = urllib.request.getproxies()
    proxy = named.get(url.scheme) or named.get("all")
    if not proxy:
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _basic_auth_header(header: str, url: SplitResult) -> Mapping[str, str]:
    """The header with the user and password of an address, if it has them."""
    if url.username is None:
        return {}
    text = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {header: f"Basic {b64encode(text.encode()).decode()}"}
