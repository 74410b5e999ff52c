"""A small app on a real port with short limits, and clients that behave badly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from fairlead_common.service.access_settings import ConnectionLimits, RequestLimits
from fairlead_common.service.settings import Settings
from fairlead_common.web import server
from fairlead_standalone.servers.addresses import free_port
from tests.unit.common.callers import Only

WAIT_S: Final = 120
SHORT: Final = ConnectionLimits(
    head_s=0.5, body_s=0.5, body_bytes_per_s=1e6, idle_s=1.0, write_s=1.0, connections_max=100
)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Served:
    """The app under test. `streams`: how many endless answers are being written."""

    def __init__(self, port: int, task: "asyncio.Task[None]") -> None:
        self.port = port
        self.task = task
        self.streams = 0
        self.release = asyncio.Event()
        self._changed = asyncio.Event()
        self._opened: list[asyncio.StreamWriter] = []

    async def connect(self, limit: int = 2**16) -> Streams:
        """A connection that says nothing yet."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=limit)
        self._opened.append(writer)
        return reader, writer

    async def hang_up(self) -> None:
        """End all connections, however they are."""
        for writer in self._opened:
            writer.transport.abort()
        await asyncio.gather(
            *(writer.wait_closed() for writer in self._opened), return_exceptions=True
        )

    async def ask(self, path: str, *headers: str, body: bytes = b"") -> bytes:
        """A whole answer over a connection of its own."""
        reader, writer = await self.connect()
        writer.write(head("POST" if body else "GET", path, *headers, "Connection: close") + body)
        return await ended(reader)

    def count(self, change: int) -> None:
        """An endless answer has begun (1) or ended (-1)."""
        self.streams += change
        self._changed.set()

    async def until(self, streams: int) -> None:
        """Return when so many endless answers are being written."""
        async with asyncio.timeout(WAIT_S):
            while self.streams != streams:
                self._changed.clear()
                await self._changed.wait()


def head(method: str, path: str, *headers: str) -> bytes:
    """The head of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Everything until the server closes the connection."""
    async with asyncio.timeout(WAIT_S):
        try:
            return await reader.read(-1)
        except ConnectionResetError:
            return b""


def routes(app: Served) -> APIRouter:
    """Routes that answer at once, read a body, write without end, or wait."""
    router = APIRouter()

    @router.get("/here")
    async def here() -> Response:
        return Response("here")

    @router.post("/body")
    async def body(request: Request) -> Response:
        return Response(str(len(await request.body())))

    @router.get("/endless")
    async def endless() -> Response:
        return StreamingResponse(_endless(app, b"x" * 65_536), media_type="text/plain")

    @router.get("/events")
    async def events() -> Response:
        return StreamingResponse(_now_and_then(app), media_type="text/event-stream")

    @router.get("/open/wait")
    @router.get("/wait")
    async def wait() -> Response:
        app.count(1)
        try:
            await app.release.wait()
        finally:
            app.count(-1)
        return Response("waited")

    return router


async def _endless(app: Served, piece: bytes) -> AsyncIterator[bytes]:
    app.count(1)
    try:
        while True:
            yield piece
            await asyncio.sleep(0)
    finally:
        app.count(-1)


async def _now_and_then(app: Served) -> AsyncIterator[bytes]:
    app.count(1)
    try:
        while True:
            yield b"data: here\n\n"
            await asyncio.sleep(0.05)
    finally:
        app.count(-1)


@asynccontextmanager
async def served(
    limits: ConnectionLimits = SHORT, requests: RequestLimits | None = None
) -> AsyncIterator[Served]:
    """The app, answering on a port of its own."""
    port = free_port()
    settings = Settings(requests=requests or RequestLimits())
    app: FastAPI
    running = Served(port, asyncio.current_task())  # type: ignore[arg-type]  # replaced below
    app = server.build_app(
        "test", [routes(running)], {}, settings, identify=Only(), open_below=("/open/",)
    )
    running.task = asyncio.create_task(server.serve(app, "127.0.0.1", port, limits))
    await _answering(running)
    try:
        yield running
    finally:
        await running.hang_up()
        running.task.cancel()
        await asyncio.wait([running.task])


async def _answering(running: Served) -> None:
    async with asyncio.timeout(WAIT_S):
        while not running.task.done():
            try:
                assert (await running.ask("/healthz")).startswith(b"HTTP/1.1 200")
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
            else:
                return
        await running.task
