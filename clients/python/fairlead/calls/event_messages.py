"""Streams of events: the request for one, and its bytes as events of the API.

The bytes are server-sent events (the `text/event-stream` format of WHATWG HTML).
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead import errors
from fairlead.calls import group_requests, request_building
from fairlead.calls.exchange_types import Request
from fairlead.models.job_models import Event

LINE_BYTES_MAX: Final = 4 * 2**20

SILENCE_S_MAX: Final = 60.0
"""The server writes a comment at least every 15 s; longer silence means a dead connection."""


def build_event_request(
    queue: str,
    job_set: str | None,
    *,
    last: str | None,
    after: str | None,
    until_finished: bool,
) -> Request:
    """The stream of a job set or queue that continues after the event with the id `last`."""
    if job_set is None:
        return _build_stream("/events", [("queue", queue)], last)
    path = f"{request_building.job_set_path(queue, job_set)}/events"
    return _build_stream(path, _make_query(after, until_finished), last)


def build_group_event_request(
    group_id: str, *, last: str | None, after: str | None, until_finished: bool
) -> Request:
    """The stream of a group that continues after the event with the id `last`."""
    path = f"{group_requests.group_path(group_id)}/events"
    return _build_stream(path, _make_query(after, until_finished), last)


def _make_query(after: str | None, until_finished: bool) -> list[tuple[str, str]]:
    query = [*request_building.make_position_query(after, None)]
    return [*query, ("until", "finished")] if until_finished else query


def _build_stream(path: str, query: list[tuple[str, str]], last: str | None) -> Request:
    headers = [("accept", "text/event-stream")]
    if last is not None:
        headers.append(("last-event-id", last))
    return Request(
        path=request_building.API + path,
        query=tuple(query),
        headers=tuple(headers),
        read_s=SILENCE_S_MAX,
    )


class Message(msgspec.Struct, frozen=True):
    """One event of a stream; `id` is the `Last-Event-ID` to resume after it."""

    event: str
    data: str
    id: str


def decode_event(message: Message) -> Event:
    """The event of the API that a message carries. Raises `UnexpectedResponse`."""
    if message.event == "reset":
        return Event(type="reset", id=message.id)
    event = request_building.decode(message.data.encode(), Event)
    return msgspec.structs.replace(event, id=message.id or event.id)


class Parser:
    """Parses chunks into messages; holds an incomplete line until the next chunk."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._event = ""
        self._data: list[str] = []
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that these bytes complete; lines end in LF or CR LF.

        Raises `UnexpectedResponse` for a line of more than `LINE_BYTES_MAX` bytes.
        """
        self._rest += chunk
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        if len(rest) > LINE_BYTES_MAX:
            raise errors.UnexpectedResponse("A line of the event stream is too long.")
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
