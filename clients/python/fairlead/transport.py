"""What both transports agree on: HTTP settings, and how httpx2's objects become steps' answers."""

import functools
from collections.abc import Callable
from typing import Final, TypedDict

import httpx2

from fairlead import discovery
from fairlead.steps import Reply, Request, Unreachable

CONNECT_S: Final = 5.0
WRITE_S: Final = 60.0
CONNECTIONS_MAX: Final = 20

NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
"""Failures after which the server cannot have seen the request."""


class Settings(TypedDict):
    """Keyword arguments that both of httpx2's clients take."""

    base_url: str
    headers: dict[str, str]
    trust_env: bool
    limits: httpx2.Limits


def settings(server: discovery.Server) -> Settings:
    """How to talk to this server; proxies from the environment are not for this machine."""
    headers = {"user-agent": f"fairlead-python/{version()}"}
    if server.token is not None:
        headers["authorization"] = f"Bearer {server.token}"
    return Settings(
        base_url=server.url,
        headers=headers,
        trust_env=not server.is_local,
        limits=httpx2.Limits(max_connections=CONNECTIONS_MAX),
    )


@functools.cache
def version() -> str:
    """The version of this package."""
    from importlib import metadata

    return metadata.version("fairlead")


def build(make: Callable[..., httpx2.Request], request: Request) -> httpx2.Request:
    """The request, made by an httpx2 client's `build_request`."""
    return make(
        request.method,
        request.path,
        params=list(request.query),
        headers=list(request.headers),
        content=request.body or None,
        timeout=httpx2.Timeout(
            connect=CONNECT_S, read=request.read_s, write=WRITE_S, pool=CONNECT_S
        ),
    )


def reply(response: httpx2.Response, body: bytes = b"") -> Reply:
    """The answer, with the body where it has been read."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, body)


def unreachable(server: discovery.Server, error: httpx2.HTTPError) -> Unreachable:
    """What to say of a failed request."""
    reason = str(error) or type(error).__name__
    text = f"{server.url} ({server.found}) does not answer: {reason}"
    return Unreachable(text, sent=not isinstance(error, NOT_SENT))
