"""Performs the effects of calls over HTTP. There is a blocking wire and one for asyncio.

The driver is written for asyncio. A blocking wire never suspends, so its coroutines run to their
end in one step, and the blocking client needs no event loop (`client.run_blocking`).
"""

import functools
import secrets
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final, Protocol, TypedDict, TypeVar, assert_never

import httpx2

from fairlead import discovery
from fairlead.calls import call_effects
from fairlead.calls.call_effects import Answer, Chunk, Flow, Reply, Request, Step, Unreachable

T = TypeVar("T")

CONNECT_S: Final = 5.0
WRITE_S: Final = 60.0
CONNECTIONS_MAX: Final = 200
"""Open connections; each iteration over a stream uses one."""
CONNECTIONS_IDLE_MAX: Final = 20
"""Idle connections that remain open."""

NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
"""Failures after which the server cannot have seen the request."""


class Wire(Protocol):
    """What differs between blocking and asynchronous HTTP. Raises `httpx2.HTTPError`."""

    @property
    def make(self) -> Callable[..., httpx2.Request]:
        """`build_request` of the httpx2 client: it knows the base address and the headers."""

    async def open(self, request: httpx2.Request) -> httpx2.Response:
        """The head of the answer; its body is still to come."""

    async def read(self, response: httpx2.Response) -> bytes:
        """The whole body."""

    async def chunk(self, response: httpx2.Response) -> bytes:
        """The next bytes of the body, empty at its end."""

    async def close(self, response: httpx2.Response) -> None:
        """Let go of an answer."""

    async def sleep(self, s: float) -> None:
        """Let time pass."""


class Settings(TypedDict):
    """Keyword arguments that both of httpx2's clients take."""

    base_url: str
    headers: dict[str, str]
    trust_env: bool
    verify: ssl.SSLContext | bool
    limits: httpx2.Limits


def settings(server: discovery.Server) -> Settings:
    """How to talk to this server; proxies from the environment are not for this machine.

    Reading the certificates that a machine trusts takes 35 ms, which a command line without TLS
    saves: its context trusts nobody.
    """
    headers = {"user-agent": f"fairlead-python/{version()}"}
    if server.token is not None:
        headers["authorization"] = f"Bearer {server.token}"
    return Settings(
        base_url=server.url,
        headers=headers,
        trust_env=not server.is_local,
        verify=server.is_encrypted or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        limits=httpx2.Limits(
            max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_IDLE_MAX
        ),
    )


@functools.cache
def version() -> str:
    """The version of this package."""
    from importlib import metadata

    return metadata.version("fairlead")


async def finish(flow: Flow[T], wire: Wire, server: discovery.Server) -> T:
    """Drive a flow to its end; its value."""
    exchange = Exchange(wire, server)
    answer: Answer = None
    try:
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                value: T = end.value
                return value
            answer = await exchange.perform(step)
    finally:
        flow.close()
        await exchange.close()


async def items(
    flow: Flow[None], kind: type[T], wire: Wire, server: discovery.Server
) -> AsyncGenerator[T, None]:
    """What a flow emits, all of this kind."""
    exchange = Exchange(wire, server)
    answer: Answer = None
    try:
        while True:
            try:
                step = flow.send(answer)
            except StopIteration:
                return
            answer = None
            if isinstance(step, call_effects.Emit):
                assert isinstance(step.item, kind)
                yield step.item
            else:
                answer = await exchange.perform(step)
    finally:
        flow.close()
        await exchange.close()


class Exchange:
    """The HTTP side of one flow, with the body that it has open."""

    def __init__(self, wire: Wire, server: discovery.Server) -> None:
        self._wire = wire
        self._server = server
        self._open: httpx2.Response | None = None

    async def perform(self, step: Step) -> Answer:
        """What the step asks for."""
        match step:
            case call_effects.Send():
                return await self._ask(step.request, keep=False)
            case call_effects.Open():
                return await self._ask(step.request, keep=True)
            case call_effects.More():
                return await self._more()
            case call_effects.Pause():
                await self._wire.sleep(step.s)
                return None
            case call_effects.Draw():
                return secrets.randbits(64)
            case call_effects.Now():
                return time.monotonic()
            case call_effects.Emit():
                raise call_effects.Misdriven("only iterators emit")
            case call_effects.Wrote() | call_effects.Written():
                raise call_effects.Misdriven("the client itself remembers what was written")
            case _:
                assert_never(step)

    async def close(self) -> None:
        """Let go of the body that is open."""
        if self._open is not None:
            response, self._open = self._open, None
            await self._wire.close(response)

    async def _ask(self, request: Request, *, keep: bool) -> Reply | Unreachable:
        """The response; the body of a successful one stays open on request."""
        await self.close()
        try:
            response = self._open = await self._wire.open(_built(self._wire, request))
            headers = {name.lower(): value for name, value in response.headers.items()}
            if keep and response.status_code < 300:
                return Reply(response.status_code, headers)
            body = await self._wire.read(response)
        except httpx2.HTTPError as error:
            return self._unreachable(error)
        await self.close()
        return Reply(response.status_code, headers, body)

    async def _more(self) -> Chunk | Unreachable:
        if self._open is None:
            raise call_effects.Misdriven("no body is open")
        try:
            return Chunk(await self._wire.chunk(self._open))
        except httpx2.HTTPError as error:
            return self._unreachable(error)

    def _unreachable(self, error: httpx2.HTTPError) -> Unreachable:
        if isinstance(error, httpx2.PoolTimeout):
            text = (
                f"All {CONNECTIONS_MAX} connections of this client are in use; read its iterators"
                " to the end, or close them"
            )
            return Unreachable(text, sent=False)
        reason = str(error) or type(error).__name__
        text = f"{self._server.url} ({self._server.found}) does not answer: {reason}"
        return Unreachable(text, sent=not isinstance(error, NOT_SENT))


def _built(wire: Wire, request: Request) -> httpx2.Request:
    return wire.make(
        request.method,
        request.path,
        params=list(request.query),
        headers=list(request.headers),
        content=request.body or None,
        timeout=httpx2.Timeout(
            connect=CONNECT_S, read=request.read_s, write=WRITE_S, pool=CONNECT_S
        ),
    )
