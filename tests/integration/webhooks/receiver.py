"""A receiver of webhooks on this machine: it records requests and answers as it is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web
from standardwebhooks import Webhook

from fairlead_standalone.servers.addresses import free_port

WAIT_S = 120.0
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Received(msgspec.Struct):
    """One request."""

    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verify(self, secret: str) -> Any:
        """What the independent library makes of it. Raises if the signature is not valid."""
        return Webhook(secret).verify(self.body, self.headers)


class Receiver:
    """What was received. `answer` makes the responses; by default 200."""

    def __init__(self, port: int, host: str) -> None:
        self.received: list[Received] = []
        self.answer: Answer = self.accept
        self.port = port
        self.url = f"http://{host}:{port}/hook"
        self._arrived = asyncio.Condition()

    async def accept(self, _: web.Request) -> web.Response:
        return web.Response(text="thanks")

    def answer_status(self, *statuses: int, **headers: str) -> None:
        """Answer with these statuses, one after the other, and then with the last one."""
        left = list(statuses)

        async def answer(_: web.Request) -> web.Response:
            status = left.pop(0) if len(left) > 1 else left[0]
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return web.Response(status=status, headers=named)

        self.answer = answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Received(headers, await request.read())
        async with self._arrived:
            self.received.append(received)
            self._arrived.notify_all()
        return await self.answer(request)

    async def wait_for(self, count: int) -> list[Received]:
        """The requests, as soon as there are this many."""
        async with asyncio.timeout(WAIT_S), self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def wait_until(self, is_done: Callable[[list[Received]], bool]) -> list[Received]:
        """The requests, as soon as this is true of them."""
        async with asyncio.timeout(WAIT_S), self._arrived:
            await self._arrived.wait_for(lambda: is_done(self.received))
        return self.received


@asynccontextmanager
async def receiving(host: str = "127.0.0.1") -> AsyncIterator[Receiver]:
    """A receiver until the end of the block."""
    port = free_port()
    receiver = Receiver(port, host)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    try:
        yield receiver
    finally:
        await runner.cleanup()
