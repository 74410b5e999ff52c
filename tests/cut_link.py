"""A TCP link that can be cut: what was forwarded stops coming, and neither side gets an error."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

CHUNK_BYTES = 65_536


class CutLink:
    """Forwards connections to one server until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self._server = (host, port)
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    @classmethod
    @asynccontextmanager
    async def to(cls, url: str) -> AsyncIterator[tuple["CutLink", str]]:
        """A link to the server that a URL names, and the URL that leads over the link."""
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        link = cls(parts.hostname, parts.port)
        server = await asyncio.start_server(link._forward, "127.0.0.1", 0)
        link.port = server.sockets[0].getsockname()[1]
        there = parts.netloc.replace(f":{parts.port}", f":{link.port}")
        try:
            yield link, urlunsplit(parts._replace(netloc=there))
        finally:
            server.close()
            for task in link._tasks:
                task.cancel()
            await asyncio.gather(*link._tasks, return_exceptions=True)
            for writer in link._writers:
                writer.transport.abort()
            closed = (writer.wait_closed() for writer in link._writers)
            await asyncio.gather(*closed, return_exceptions=True)

    def cut(self) -> None:
        """From now on nothing passes, and nothing is closed."""
        self._open.clear()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if not self._open.is_set():
            return  # accepted by the kernel, and nobody is there
        far_reader, far_writer = await asyncio.open_connection(*self._server)
        self._writers.append(far_writer)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(CHUNK_BYTES):
                await self._open.wait()
                target.write(data)
                await target.drain()
            await self._open.wait()
        except OSError:
            await self._open.wait()
        finally:
            target.close()
