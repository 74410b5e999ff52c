"""A line between a client and a server that can be cut at a chosen moment."""

import asyncio
from collections.abc import AsyncIterator
from typing import Self


class BreakableConnection:
    """Forwards connections to a server, until the client says the word: then all are cut."""

    def __init__(self, host: str, to: int) -> None:
        self._host = host
        self._to = to
        self._word: bytes | None = None
        self._answered = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._hang_up()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def cut_at_question(self, word: bytes) -> None:
        """Cut when a client says the word; the server does not hear it."""
        self._word, self._answered = word, False

    def cut_at_answer(self, word: bytes) -> None:
        """Cut when the server answers to the word; the client does not hear the answer."""
        self._word, self._answered = word, True

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._host, self._to)
        self._writers |= {writer, far_writer}
        said = asyncio.Event()
        for forwarding in (
            self._forward_questions(reader, far_writer, said),
            self._forward_answers(far_reader, writer, said),
        ):
            task = asyncio.create_task(forwarding)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward_questions(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, said: asyncio.Event
    ) -> None:
        async for data in _chunks(source):
            if self._word is not None and self._word in data:
                if not self._answered:
                    self._hang_up()
                    break
                said.set()
            target.write(data)
        target.close()

    async def _forward_answers(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, said: asyncio.Event
    ) -> None:
        async for data in _chunks(source):
            if said.is_set():
                self._hang_up()
                break
            target.write(data)
        target.close()

    def _hang_up(self) -> None:
        self._word = None
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()


async def _chunks(source: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What comes, until the end of the stream or of the connection."""
    while True:
        try:
            data = await source.read(65_536)
        except ConnectionError:
            return
        if not data:
            return
        yield data
