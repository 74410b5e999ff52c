"""An executor's address as lookout sees it: serves one text to whoever has a signed token."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Request, Response

from fairlead_common.service import clock
from fairlead_common.service.settings import Settings
from fairlead_common.web import auth
from fairlead_common.web.server import build_app, serve
from fairlead_standalone.servers.addresses import free_port


class LogServer:
    """What is asked of it, and what it answers."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.text: str | bytes = ""
        self.gone = False
        self.run_ids: set[str] = set()
        self.parameters: dict[str, str] = {}


@asynccontextmanager
async def log_server(signing_key: str) -> AsyncIterator[LogServer]:
    """A server on a port of its own."""
    port = free_port()
    server = LogServer(f"http://127.0.0.1:{port}")
    router = APIRouter()

    @router.get("/logs/{run_id}")
    async def logs(request: Request, run_id: str) -> Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        if auth.verify(signing_key, token, clock.now_ms()) != f"logs:{run_id}":
            return Response(status_code=403)
        if server.gone:
            return Response(status_code=404)
        server.run_ids.add(run_id)
        server.parameters = dict(request.query_params)
        return Response(server.text, media_type="text/plain")

    app = build_app("executor", [router], {}, Settings(), open_below=("/logs/",))
    task = asyncio.create_task(serve(app, "127.0.0.1", port))
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
