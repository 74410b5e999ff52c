"""The event loop of every service: its outgoing TCP connections notice a peer that has vanished.

A peer whose host disappears, or a link that is cut, closes nothing: without these options the
kernel keeps such a connection for hours. Postgres, Kafka and Redis clients all open their
connections through the loop, so this is the one place for it.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

import uvloop

USER_TIMEOUT_MS: Final = 10_000
"""Sent data that the peer's kernel does not acknowledge for so long ends the connection."""
KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
"""Probes of a connection on which nothing is sent, in seconds and times: 11 s in all."""


class EventLoop(uvloop.Loop):
    """uvloop's, with bounded silence on each connection that it opens."""

    async def create_connection(  # type: ignore[override]  # arguments are handed on
        self, protocol_factory: Callable[[], Any], *arguments: Any, **options: Any
    ) -> tuple[asyncio.Transport, Any]:
        """See `asyncio.AbstractEventLoop`."""
        made: tuple[Any, Any] = await super().create_connection(
            protocol_factory, *arguments, **options
        )
        bound_silence(made[0].get_extra_info("socket"))
        return made


def bound_silence(connection: socket.socket | None) -> None:
    """Let the kernel end a TCP connection whose peer cannot be reached."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
