"""A transport that sends what is written within one turn of the loop all at once.

uvicorn writes the head of an answer and its body one after the other, and uvloop sends each write
as it comes: two calls into the kernel and two packets for an answer of some hundred bytes, and a
client that wakes twice. What is written waits here for the end of the turn, within a bound.
"""

import asyncio
from typing import Any, Final

BYTES_MAX: Final = 65_536
"""More than this does not wait: the transport below says when its reader is too slow."""


class CoalescingTransport(asyncio.Transport):
    """All that uvicorn and our connections ask of a transport."""

    def __init__(self, below: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._below = below
        self._loop = loop
        self._written: list[bytes] = []
        self._bytes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send it with what else is written in this turn."""
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(bytes(data))
        self._bytes += len(data)
        if self._bytes > BYTES_MAX:
            self._send()

    def write_eof(self) -> None:
        """Send what was written, and then that this was all."""
        self._send()
        self._below.write_eof()

    def close(self) -> None:
        """Send what was written, and close."""
        self._send()
        self._below.close()

    def abort(self) -> None:
        """Close at once; what was written is lost."""
        self._forget()
        self._below.abort()

    def is_closing(self) -> bool:
        """Whether it is closing, or closed."""
        return self._below.is_closing()

    def pause_reading(self) -> None:
        """Take nothing more from the other side for now."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Go on."""
        self._below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # as the base class has it
        """What is known of the connection."""
        return self._below.get_extra_info(name, default)

    def _send(self) -> None:
        if self._written:
            data = b"".join(self._written)
            self._forget()
            self._below.write(data)

    def _forget(self) -> None:
        self._written.clear()
        self._bytes = 0
