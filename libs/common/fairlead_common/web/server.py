"""The HTTP server: an app with the common routes and middleware, which ends with its task.

A service gives its routes; this adds `/healthz`, `/readyz`, `/metrics`, the problem pages, the
middleware and the connection limits.
"""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import asyncpg
import msgspec
import prometheus_client
import uvicorn
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import PlainTextResponse
from fastapi.telemetry import TelemetryConfig

from fairlead_common.domain.errors import WorldError
from fairlead_common.service.access_settings import ConnectionLimits
from fairlead_common.service.disk import Disk
from fairlead_common.service.health import VERSION, Check, Degraded
from fairlead_common.service.settings import Settings
from fairlead_common.web import middleware, openapi, problem_documents, problem_pages
from fairlead_common.web.connections import connection_limits, refused_requests
from fairlead_common.web.middleware import (
    DiskFullMiddleware,
    Identify,
    RequestMiddleware,
)
from fairlead_common.web.routing import DeferredRoute, DirectDispatch

CHECK_S_MAX: Final = 2.0
BACKLOG: Final = 2_048
GRACE_S: Final = 5.0
"""How long requests in progress have to end when the server ends."""
CANCELLED_S: Final = 1.0
"""How long they then have to respond with an error."""
ACCEPT_TURNS: Final = 3
"""Turns of the event loop until a connection that was just accepted is created, and closed."""
_SILENT: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False}
"""Without this the framework looks for a tracer in each request; services have own metrics."""
_silent_parser: Final = refused_requests.SilentParser()
_logger = logging.getLogger("fairlead.http")


def build_app(
    title: str,
    routers: Sequence[APIRouter],
    checks: Mapping[str, Check],
    settings: Settings,
    *,
    identify: Identify | None = None,
    open_below: tuple[str, ...] = (),
    error_page: problem_documents.ErrorPage | None = None,
) -> FastAPI:
    """One app with all these routers; it is ready when every check returns None.

    Paths other than the open ones (`middleware.OPEN_PATHS`, and prefixes in `open_below`) need a
    caller that `identify` finds. `error_page` renders a problem for browsers.
    """
    disk = Disk(settings.disk)
    included = (*routers, problem_pages.routes(), _common_routes(_with_disk(checks, disk)))
    app = FastAPI(
        title=title,
        version="1",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_SILENT,
    )
    for router in included:
        # `include_router` would build every route again, and match every request twice.
        app.routes.extend(router.routes)
    problem_documents.install(app, error_page)
    openapi.install(app, tuple(middleware.OPEN_PATHS), (*middleware.OPEN_PREFIXES, *open_below))
    app.add_middleware(DirectDispatch, routers=included, error_page=error_page)
    app.add_middleware(DiskFullMiddleware, disk=disk)
    app.add_middleware(
        RequestMiddleware,
        settings=settings,
        identify=identify,
        open_below=open_below,
        error_page=error_page,
    )
    return app


def _with_disk(checks: Mapping[str, Check], disk: Disk) -> Mapping[str, Check]:
    """The checks, and one of the disk: a service with a full disk still answers reads."""

    async def check() -> str | None:
        problem = disk.problem()
        return None if problem is None else Degraded(problem)

    return {**checks, "disk": check} if disk.is_watched else checks


class Ready(msgspec.Struct, frozen=True):
    """The response of `/readyz`: each check is `ok`, or a sentence."""

    ready: bool
    version: str
    checks: dict[str, str]


def _common_routes(checks: Mapping[str, Check]) -> APIRouter:
    router = APIRouter(tags=["health"], route_class=DeferredRoute)

    @router.get(
        "/healthz", summary="Check that the process is alive", response_class=PlainTextResponse
    )
    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @router.get(
        "/readyz",
        summary="Check that everything the service needs is available",
        responses={200: openapi.answer(Ready, "Ready."), 503: openapi.answer(Ready, "Not ready.")},
    )
    async def readyz() -> Response:
        answers = await asyncio.gather(*(run_check(check) for check in checks.values()))
        is_ready = all(each is None or isinstance(each, Degraded) for each in answers)
        messages = {  # `str`: msgspec refuses subclasses, and `Degraded` is one
            name: "ok" if answer is None else str(answer)
            for name, answer in zip(checks, answers, strict=True)
        }
        return Response(
            msgspec.json.encode(Ready(is_ready, VERSION, messages)),
            status_code=200 if is_ready else 503,
            media_type="application/json",
        )

    @router.get("/metrics", summary="Measurements for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(
            prometheus_client.generate_latest(), media_type=prometheus_client.CONTENT_TYPE_LATEST
        )

    return router


async def run_check(check: Check) -> str | None:
    """What is wrong, if anything; a check that fails or takes too long is wrong too."""
    try:
        async with asyncio.timeout(CHECK_S_MAX):
            return await check()
    except TimeoutError:
        return f"did not answer within {CHECK_S_MAX:.0f} s"
    except (WorldError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return f"failed: {error}"


async def serve(
    app: FastAPI,
    host: str,
    port: int,
    limits: ConnectionLimits | None = None,
    listening: Callable[[], None] = lambda: None,
) -> None:
    """Serve until cancelled, then close the listening sockets.

    `listening` is called once, when connections are accepted and before the first is answered.

    Requests in progress then have `GRACE_S` to end: the caller cancels its other tasks only after
    this one, so that what they need still works. Event streams end immediately, because their
    readers reconnect by themselves.
    """
    given = limits or ConnectionLimits()
    config = uvicorn.Config(
        app,
        http=connection_limits.build_protocol(given),
        forwarded_allow_ips=list(given.proxies),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=3600,  # `check_connections` closes idle ones
    )
    logging.getLogger("uvicorn.error").addFilter(_silent_parser)
    server = _Server(config)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    sockets = await _bind_sockets(host, port)
    listening()
    running = asyncio.create_task(server.serve(sockets))
    watching = asyncio.create_task(server.check_connections())
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await (
            server.started_or_failed.wait()
        )  # an interrupted start would leave its listeners in the loop
        await server.drain()
        raise
    finally:
        watching.cancel()
        await server.close_connections()
        running.cancel()
        await asyncio.wait([running, watching])


async def _bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address of the host. Raises OSError with the address in it."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets = []
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            sockets.append(socket.create_server(address, family=family, backlog=BACKLOG))
        except OSError as error:
            for each in sockets:
                each.close()
            raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from None
    return sockets


class _Server(uvicorn.Server):
    """uvicorn's server without signal handlers: `main` turns signals into cancellation."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.started_or_failed = asyncio.Event()
        """Set when the start has succeeded or failed."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's."""
        try:
            await super().startup(sockets)
        finally:
            self.started_or_failed.set()

    async def check_connections(self) -> None:
        """Check all connections once a second, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(connection_limits.CHECK_S)
            now_s = loop.time()
            refused_requests.ALL.log(now_s)
            for connection in self._connections():
                connection.check(now_s)

    async def drain(self) -> None:
        """Accept no new connections, and wait for requests in progress, within a bound."""
        await self._close_listeners()
        for connection in self._connections():
            connection.end()
        for bound_s in (GRACE_S, CANCELLED_S):
            if self.server_state.tasks:
                await asyncio.wait(self.server_state.tasks, timeout=bound_s)
            for task in self.server_state.tasks:
                task.cancel()

    async def close_connections(self) -> None:
        """Accept no new connections and close all that exist, also those being accepted."""
        await self._close_listeners()
        for _ in range(ACCEPT_TURNS):
            for connection in self._connections():
                connection.transport.close()
            await asyncio.sleep(0)

    def _connections(self) -> list[connection_limits.Connection]:
        return [
            each
            for each in self.server_state.connections
            if isinstance(each, connection_limits.Connection)
        ]

    async def _close_listeners(self) -> None:
        """Close the listening sockets. asyncio accepts a connection in one turn and creates its
        transport in the next, which fails, and leaves the connection open for ever, if the listener
        was closed in between.
        """
        if not self.started:
            return
        loop = asyncio.get_running_loop()
        for listener in self.servers:
            for each in listener.sockets:
                loop.remove_reader(each.fileno())
        await asyncio.sleep(0)
        for listener in self.servers:
            listener.close()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()
