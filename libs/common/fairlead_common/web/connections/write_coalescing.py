"""A transport that combines the writes of one turn of the event loop.

uvicorn writes the head of a response and its body separately, and uvloop sends each write
immediately: two system calls and two packets for a response of a few hundred bytes, and a client
that wakes up twice. Here writes are buffered until the end of the turn, up to a limit.
"""

import asyncio
from typing import Any, Final

BYTES_MAX: Final = 65_536
"""More than this does not wait: the transport below says when its reader is too slow."""


class CoalescingTransport(asyncio.Transport):
    """The methods of a transport that uvicorn and `Connection` use."""

    def __init__(self, below: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._below = below
        self._loop = loop
        self._written: list[bytes] = []
        self._bytes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send the data together with other writes of this turn."""
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(bytes(data))
        self._bytes += len(data)
        if self._bytes > BYTES_MAX:
            self._send()

    def write_eof(self) -> None:
        """Send what is buffered, then end of file."""
        self._send()
        self._below.write_eof()

    def close(self) -> None:
        """Send what is buffered, and close."""
        self._send()
        self._below.close()

    def abort(self) -> None:
        """Close immediately; buffered data is lost."""
        self._forget()
        self._below.abort()

    def is_closing(self) -> bool:
        """Whether the transport is closing or closed."""
        return self._below.is_closing()

    def pause_reading(self) -> None:
        """Stop reading from the peer."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading."""
        self._below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # as the base class has it
        """Information about the connection."""
        return self._below.get_extra_info(name, default)

    def _send(self) -> None:
        if self._written:
            data = b"".join(self._written)
            self._forget()
            self._below.write(data)

    def _forget(self) -> None:
        self._written.clear()
        self._bytes = 0
