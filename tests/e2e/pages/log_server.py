"""An executor's address as lookout sees it: serves one text to whoever has a signed token."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Request, Response

from fairlead_common.domain.records import log_parts
from fairlead_common.domain.records.log_parts import LogPart
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
        self.has_offsets = True
        self.part_bytes = sys.maxsize
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
        text = server.text.encode() if isinstance(server.text, str) else server.text
        last = server.parameters.get("last_bytes")
        if last is None:
            return Response(text, media_type="text/plain")
        end = min(len(text), int(server.parameters.get("before_bytes", len(text))))
        begin = max(0, end - min(int(last), server.part_bytes))
        part = LogPart(is_cut=begin > 0)
        if server.has_offsets:
            part = LogPart(begin > 0, begin, 0, len(text))
        headers = {log_parts.HEADER: log_parts.encode(part)}
        return Response(text[begin:end], media_type="text/plain", headers=headers)

    app = build_app("executor", [router], {}, Settings(), open_below=("/logs/",))
    task = asyncio.create_task(serve(app, "127.0.0.1", port))
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
