"""Checks addresses before anything is started, so that a mistake is reported as one sentence, and
reserves ports.
"""

import atexit
import errno
import os
import socket
import sys
from collections import deque
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from fairlead_common.domain.errors import LogUrlInvalid, WorldError
from fairlead_common.log.kafka import address

CONNECT_S_MAX: Final = 5.0
PORTS_TRIED_MAX: Final = 50
RESERVED_PORTS_MAX: Final = 400
_KAFKA_SCHEMES: Final = ("kafka", "kafka+tls")
_DEFAULT_PORTS: Final = {
    "kafka": 9092,
    "kafka+tls": 9093,
    "postgres": 5432,
    "postgresql": 5432,
    "redis": 6379,
    "rediss": 6379,
}

_reserved: Final[deque[socket.socket]] = deque()


class AddressRefused(WorldError):
    """An address cannot be served or reached; the message says what to do."""


def check_free(port: int) -> None:
    """Raises `AddressRefused` if the port is not available, naming one that is."""
    error = _listen(port)
    if error is None:
        return
    above = range(max(port, 1024) + 1, min(port + PORTS_TRIED_MAX, 65536))
    other = next((free for free in above if _listen(free) is None), None) or free_port()
    in_use = error == errno.EADDRINUSE
    why = "is in use by another program" if in_use else f"cannot be used: {os.strerror(error)}"
    raise AddressRefused(
        f"Port {port} of 127.0.0.1 {why}. {'End that one, or take' if in_use else 'Take'} another"
        f" port: fairlead up --port {other}"
    )


def _listen(port: int) -> int | None:
    """The number of the error of an attempt to listen, or None."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError as error:
            return error.errno
    return None


def free_port() -> int:
    """Reserve a free TCP port of 127.0.0.1 for a server that this process starts and restarts.

    While the server does not listen, another program could get the port. A socket that is bound to
    the port, and does not listen, prevents that: Linux lets only servers that reuse addresses
    listen beside it, as all servers of this package do. The newest `RESERVED_PORTS_MAX` ports stay
    reserved until this process ends.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    port: int = keeper.getsockname()[1]
    _reserved.append(keeper)
    if sys.platform != "linux" or len(_reserved) > RESERVED_PORTS_MAX:
        _reserved.popleft().close()
    return port


@atexit.register
def _release_ports() -> None:
    while _reserved:
        _reserved.pop().close()


def check_url(option: str, url: str, schemes: tuple[str, ...]) -> str:
    """The URL with its scheme, if one of its hosts answers. Raises `AddressRefused`."""
    whole = url if "://" in url else f"{schemes[0]}://{url}"
    scheme = urlsplit(whole).scheme
    if scheme not in schemes:
        raise AddressRefused(f"{option} is {url!r}, which is not {schemes[0]}://HOST:PORT.")
    failures = []
    for host, port in _hosts(option, whole, _DEFAULT_PORTS[scheme]):
        try:
            with socket.create_connection((host, port), CONNECT_S_MAX):
                return whole
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    raise AddressRefused(
        f"Nothing answers at the address given by {option} ({'; '.join(failures)}). Start that"
        f" server first, or leave out {option} to use the built-in one."
    )


def check_kafka(url: str) -> str:
    """Check the address as `check_url` does, and all other parts of the URL."""
    whole = check_url("--kafka", url, _KAFKA_SCHEMES)
    try:
        address.parse(whole)
    except LogUrlInvalid as error:
        raise AddressRefused(f"--kafka: {error}.") from None
    return whole


def _hosts(option: str, url: str, default: int) -> Iterator[tuple[str, int]]:
    hosts = urlsplit(url).netloc.rpartition("@")[2]
    for item in hosts.split(","):
        try:
            parts = urlsplit(f"//{item}")
            host, port = parts.hostname, parts.port or default
        except ValueError:
            host, port = None, 0
        if not host:
            raise AddressRefused(f"{option}: {item!r} is not HOST:PORT.")
        yield host, port
