"""The event loop of every service: its outgoing TCP connections detect a lost peer.

The clients of Postgres, Kafka and Redis all open their connections through the event loop, so this
is the one place for the TCP options.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import uvloop

from fairlead_common.service.tcp_keepalive import KeepAlive

OUTGOING: Final = KeepAlive(idle_s=5, interval_s=2, count=3, unacknowledged_ms=10_000)
"""A peer that vanished is noticed after 11 s."""


class EventLoop(uvloop.Loop):
    """uvloop's event loop, with TCP keepalive on each connection that it opens."""

    async def create_connection(  # type: ignore[override]  # arguments are handed on
        self, protocol_factory: Callable[[], Any], *arguments: Any, **options: Any
    ) -> tuple[asyncio.Transport, Any]:
        """See `asyncio.AbstractEventLoop`."""
        made: tuple[Any, Any] = await super().create_connection(
            protocol_factory, *arguments, **options
        )
        OUTGOING.apply(made[0].get_extra_info("socket"))
        return made
