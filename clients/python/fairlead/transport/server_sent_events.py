"""Server-sent events: bytes in, messages out (the `text/event-stream` format of WHATWG HTML)."""

from collections.abc import Iterator
from typing import Final

import msgspec

LINE_BYTES_MAX: Final = 4 * 2**20


class Message(msgspec.Struct, frozen=True):
    """One event of a stream; `id` is the `Last-Event-ID` to resume after it."""

    event: str
    data: str
    id: str


class TooLong(Exception):
    """A line is longer than `LINE_BYTES_MAX`."""


class Parser:
    """Parses chunks into messages; holds an incomplete line until the next chunk."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._event = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that these bytes complete; lines end in LF or CR LF."""
        self._rest += chunk
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        if len(rest) > LINE_BYTES_MAX:
            raise TooLong
        for line in lines:
            message = self._line(line.rstrip(b"\r").decode("utf-8", "replace"))
            if message is not None:
                yield message

    def _line(self, line: str) -> Message | None:
        if not line:
            return self._end()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case _:
                pass  # a comment (the server's heartbeat), or an unknown field
        return None

    def _end(self) -> Message | None:
        event, data = self._event or "message", self._data
        self._event, self._data = "", []
        if not data:
            return None
        return Message(event, "\n".join(data), self._id)
