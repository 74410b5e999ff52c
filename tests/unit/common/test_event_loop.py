"""Outgoing connections notice a peer that has vanished."""

import asyncio
import socket

import pytest

from fairlead_common.service.event_loop import OUTGOING, EventLoop


async def _options_of_a_connection() -> tuple[int, int, int]:
    """Of a connection that a client library would open."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    opened: socket.socket = writer.get_extra_info("socket")
    found = (
        opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
    )
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    return found


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux only")
def test_connections_end_when_the_peer_cannot_be_reached() -> None:
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        assert runner.run(_options_of_a_connection()) == (
            1,
            OUTGOING.idle_s,
            OUTGOING.unacknowledged_ms,
        )
