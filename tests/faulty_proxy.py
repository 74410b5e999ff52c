"""A proxy before a Kubernetes API server that refuses, loses answers and cuts watches at random."""

import asyncio
import json
import random
import ssl
from pathlib import Path
from typing import Final, Self

import aiohttp
from aiohttp import web

from tests.kubernetes_control_plane import ADMIN_TOKEN, ControlPlane

CODES: Final = {
    409: "Conflict",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
"""What is answered instead of asking the API server, and the reason in the answer."""
CHUNK_BYTES: Final = 2**16


class FaultyProxy:
    """One proxy on a free port of 127.0.0.1; `async with` starts and stops it.

    `refused_share` and `lost_share`, from 0 to 1: of the requests that are refused before they
    reach the server, and of those whose answer does not come back. `watch_s`: each watch is cut
    after a random time up to this one, every second one in the middle of a line.
    `refused_codes`: what it answers.
    """

    def __init__(self, plane: ControlPlane, kubeconfig: Path, seed: int) -> None:
        self.kubeconfig = kubeconfig
        self.refused_share = 0.0
        self.lost_share = 0.0
        self.watch_s: float | None = None
        self.refused_codes = tuple(CODES)
        self.refused = 0
        self.lost = 0
        self.cut = 0
        self._plane = plane
        self._chance = random.Random(seed)

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=str(self._plane.certificate))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0), auto_decompress=False
        )
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = self._runner.addresses[0][1]
        context_ = {"cluster": "proxy", "user": "proxy"}
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "proxy",
                    "clusters": [
                        {"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{port}"}}
                    ],
                    "users": [{"name": "proxy", "user": {"token": ADMIN_TOKEN}}],
                    "contexts": [{"name": "proxy", "context": context_}],
                }
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        watch = "watch" in request.query
        if self._chance.random() < self.refused_share:
            self.refused += 1
            code = self._chance.choice(self.refused_codes)
            status = {"kind": "Status", "code": code, "reason": CODES[code], "message": "a fault"}
            return web.json_response(status, status=code)
        headers = {
            name: request.headers[name]
            for name in ("Authorization", "Content-Type", "Accept")
            if name in request.headers
        }
        # The answer is forwarded without its encoding: the server must not compress a long one.
        headers["Accept-Encoding"] = "identity"
        async with self._session.request(
            request.method,
            self._plane.url + request.path_qs,
            data=await request.read(),
            headers=headers,
        ) as answer:
            if watch:
                return await self._forward_watch(request, answer)
            body = await answer.read()
            if self._chance.random() < self.lost_share:
                self.lost += 1
                assert request.transport is not None
                request.transport.close()
            return web.Response(status=answer.status, body=body, content_type=answer.content_type)

    async def _forward_watch(
        self, request: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status)
        await response.prepare(request)
        wait_s = None if self.watch_s is None else self._chance.random() * self.watch_s
        last = b""
        try:
            async with asyncio.timeout(wait_s):
                async for chunk in answer.content.iter_any():
                    last = chunk
                    await response.write(chunk)
        except TimeoutError:
            self.cut += 1
            if self.cut % 2:
                await response.write(last[: len(last) // 2])
        return response
