"""TCP options with which the kernel ends a connection to an unreachable peer.

A peer whose host disappears, or a broken link, closes nothing: without these options the kernel
keeps such a connection for hours.
"""

import socket

import msgspec


class KeepAlive(msgspec.Struct, frozen=True, kw_only=True):
    """Probes are sent after `idle_s` without traffic, every `interval_s`, at most `count` times.

    `unacknowledged_ms`: sent data that the peer does not acknowledge for this long ends the
    connection.
    """

    idle_s: int
    interval_s: int
    count: int
    unacknowledged_ms: int

    def apply(self, connection: socket.socket | None) -> None:
        """Set the options that this system has on a TCP connection."""
        if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
            return
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", self.idle_s),
            ("TCP_KEEPINTVL", self.interval_s),
            ("TCP_KEEPCNT", self.count),
            ("TCP_USER_TIMEOUT", self.unacknowledged_ms),
        ):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
