"""The limits, headers and messages that both transports use."""

from typing import Final

from fairlead import discovery
from fairlead.calls.exchange_types import Unreachable

VERSION: Final = "0.1.0"
"""As in pyproject.toml. Looking it up when a command starts would take a tenth of its time."""

CONNECT_S: Final = 5.0
WRITE_S: Final = 60.0
CHUNK_BYTES: Final = 65_536
CONNECTIONS_MAX: Final = 200
"""Open connections; each iteration over a stream uses one."""
CONNECTIONS_IDLE_MAX: Final = 20
"""Idle connections that remain open."""


def build_headers(server: discovery.Server) -> dict[str, str]:
    """The headers of every request to this server."""
    common = {"user-agent": f"fairlead-python/{VERSION}"}
    if server.token is not None:
        common["authorization"] = f"Bearer {server.token}"
    return common


def build_unreachable_error(
    server: discovery.Server, error: Exception, *, sent: bool
) -> Unreachable:
    """The failure of a request to this server."""
    reason = str(error) or type(error).__name__
    text = f"{server.url} ({server.source}) does not answer: {reason}"
    return Unreachable(text, sent=sent)


def build_no_connection_error() -> Unreachable:
    """The failure of a request for which no connection became free."""
    text = (
        f"All {CONNECTIONS_MAX} connections of this client are in use; read its iterators to the"
        " end, or close them"
    )
    return Unreachable(text, sent=False)
