"""Serving HTTP: an app with the common routes and guards, and a server that ends with its task.

A service offers its routes; this adds `/healthz`, `/readyz`, `/metrics`, request ids, the check of
the `Host` header, problem documents and structured logs.
"""

import asyncio
import gc
import json
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
import prometheus_client
import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead_common import problems
from fairlead_common.errors import WorldError
from fairlead_common.settings import Settings

Check = Callable[[], Awaitable[str | None]]
"""None when well, else a sentence that says what is not ready."""

CHECK_S_MAX: Final = 2.0
REQUEST_ID_MAX: Final = 64
_logger = logging.getLogger("fairlead.http")


def build_app(
    title: str, routers: Sequence[APIRouter], checks: Mapping[str, Check], settings: Settings
) -> FastAPI:
    """One app of all these routers; ready when every check answers None."""
    app = FastAPI(title=title, version="1", docs_url=None, redoc_url=None)
    problems.install(app)
    for router in routers:
        app.include_router(router)
    app.include_router(_common_routes(checks))
    app.add_middleware(_Guard, hosts=frozenset(settings.hosts))
    return app


def _common_routes(checks: Mapping[str, Check]) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/healthz")
    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @router.get("/readyz")
    async def readyz() -> Response:
        answers = await asyncio.gather(*(_answer(check) for check in checks.values()))
        body = dict(zip(checks, answers, strict=True))
        bad = {name: answer for name, answer in body.items() if answer is not None}
        text = json.dumps({"ready": not bad, "checks": {n: a or "ok" for n, a in body.items()}})
        return Response(text, status_code=503 if bad else 200, media_type="application/json")

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(
            prometheus_client.generate_latest(), media_type=prometheus_client.CONTENT_TYPE_LATEST
        )

    return router


async def _answer(check: Check) -> str | None:
    try:
        async with asyncio.timeout(CHECK_S_MAX):
            return await check()
    except TimeoutError:
        return f"did not answer within {CHECK_S_MAX:.0f} s"
    except (WorldError, OSError) as error:
        return f"failed: {error}"


class _Guard:
    """Pure ASGI: refuses foreign `Host` headers, gives each request an id, returns it."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"").decode("latin-1")[:REQUEST_ID_MAX]
        request_id = given if given.isascii() and given.isprintable() and given else ""
        request_id = request_id or secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-request-id", request_id.encode()))
            await send(message)

        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rpartition(":")[0] if _has_port(host) else host
        if "*" not in self._hosts and name not in self._hosts:
            problem = problems.Problem(
                "malformed",
                f"The Host header {name!r} is not one of this server's names; add it to the"
                " setting `hosts`.",
            )
            await problem.response(Request(scope))(scope, receive, send_with_id)
            return
        await self._app(scope, receive, send_with_id)


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]") and ":" in host


async def serve(app: FastAPI, host: str, port: int) -> None:
    """Serve until cancelled; then nobody listens there any more.

    uvicorn would catch SIGINT and SIGTERM and raise them again after its shutdown, so that nothing
    after it ran; here they end the caller's task group in order instead. Requests under way are
    not waited for: what would answer them is ending as well.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        limit_concurrency=2_000,
        h11_max_incomplete_event_size=64 * 1024,
    )
    server = _Server(config)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    try:
        await server.serve()
    finally:
        server.hang_up()


class _Server(uvicorn.Server):
    """Leaves signals to the process: `main` turns them into the cancellation of its tasks."""

    def install_signal_handlers(self) -> None:
        return

    def hang_up(self) -> None:
        """Take no new connections and close idle ones, without waiting for anything."""
        for listener in self.servers if self.started else ():
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()

    def capture_signals(self) -> "_NoSignals":  # type: ignore[override]
        return _NoSignals()


class _NoSignals:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": record.created,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def set_up_logging(level: str) -> None:
    """Structured logs on stderr, one JSON object a line."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
