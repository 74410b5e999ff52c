"""HTTP connections with timeouts and limits that uvicorn does not have.

uvicorn limits only the idle time after a response. Here each connection records its phase and when
the phase began, which costs a request a few hundred nanoseconds, and one check of all connections
per second closes those that are too slow: with their head, with their body, in reading the
response, or idle for too long. When the maximum number of connections is reached, the caller with
the most idle connections loses those that have been idle the longest.
"""

import asyncio
import contextlib
import resource
from collections import Counter
from enum import Enum, auto
from typing import Final

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairlead_common.service.access_settings import ConnectionLimits
from fairlead_common.service.tcp_keepalive import KeepAlive
from fairlead_common.web import problem_documents
from fairlead_common.web.connections import refused_requests
from fairlead_common.web.connections.write_coalescing import CoalescingTransport

CHECK_S: Final = 1.0
LATE_BODY_S: Final = 5.0
"""How long the rest of a request may come after it was answered or refused."""
EVICTED: Final = 64
"""The number of idle connections that are closed at once, so that this is rare."""
RESERVED_FILES: Final = 256
"""File descriptors for everything else than connections."""
INCOMING: Final = KeepAlive(idle_s=60, interval_s=15, count=4, unacknowledged_ms=60_000)


class Phase(Enum):
    """What a connection is waiting for."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    ANSWER = auto()


class Connection(HttpToolsProtocol):
    """One connection, its phase, and when the phase began (seconds of the loop's clock)."""

    limits: ConnectionLimits = ConnectionLimits()
    places: int = ConnectionLimits().connections_max
    phase = Phase.IDLE
    since_s = 0.0
    head_bytes = 0
    body_bytes = 0
    stalled_s: float | None = None
    closing_s: float | None = None
    refused_s: float | None = None

    @property
    def holder(self) -> str:
        """The caller of the latest request on it, or the client's address."""
        caller = self.cycle.scope["state"].get("caller") if self.cycle is not None else None
        return (
            f"caller {caller.name}"
            if caller is not None
            else f"address {(self.client or ('',))[0]}"
        )

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or refuse it if the maximum is reached."""
        super().connection_made(CoalescingTransport(transport, self.loop))
        self.since_s = self.loop.time()
        INCOMING.apply(transport.get_extra_info("socket"))
        if len(self.connections) > self.places and not close_waiting_connections(self):
            busy = "The server has reached its maximum number of connections."
            self.transport.write(build_raw_response("unavailable", busy, "retry-after: 5\r\n"))
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of the head, which the parser does not limit."""
        if self.refused_s is not None or self.transport.is_closing():
            return
        if self.phase is Phase.IDLE:
            self._enter(Phase.HEAD)
            self.head_bytes = 0
        super().data_received(data)
        if self.phase is Phase.HEAD:
            self.head_bytes += len(data)
            if self.head_bytes > self.limits.head_bytes_max:
                self.refuse(
                    "head-too-large",
                    f"The request head is larger than {self.limits.head_bytes_max} bytes.",
                )

    def on_headers_complete(self) -> None:
        """The head is complete."""
        self._enter(Phase.BODY)
        self.body_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body has arrived."""
        self.body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The body is complete."""
        super().on_message_complete()
        self._enter(Phase.IDLE if self.cycle.response_complete else Phase.ANSWER)

    def on_response_complete(self) -> None:
        """The response has been sent."""
        super().on_response_complete()
        self.since_s = self.loop.time()
        if self.phase is Phase.ANSWER:
            self.phase = Phase.IDLE

    def pause_writing(self) -> None:
        """The client does not read the response."""
        self.stalled_s = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client reads the response again."""
        self.stalled_s = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse the request like any other."""
        self.refuse("malformed", "This is not a valid HTTP request.")

    def refuse(self, slug: str, detail: str) -> None:
        """Respond with a problem, unless a response has begun, and close the connection."""
        refused_requests.ALL.note(slug, (self.client or ("",))[0])
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        self.transport.write(build_raw_response(slug, detail))
        # To close now, with bytes unread, would reset the connection and lose what was written.
        self.refused_s = self.loop.time()
        self.flow.resume_reading()
        self.transport.write_eof()

    def check(self, now_s: float) -> None:
        """Close the connection if its phase has lasted too long."""
        if self.transport.is_closing():
            # What was not taken keeps it open for ever.
            self.closing_s = now_s if self.closing_s is None else self.closing_s
            if now_s - self.closing_s > self.limits.write_s:
                self.transport.abort()
        elif self.stalled_s is not None and now_s - self.stalled_s > self.limits.write_s:
            self.transport.abort()
        elif self.refused_s is not None:
            if now_s - self.refused_s > LATE_BODY_S:
                self.transport.close()
        else:
            self._check_phase(now_s)

    def _check_phase(self, now_s: float) -> None:
        given, took_s = self.limits, now_s - self.since_s
        match self.phase:
            case Phase.IDLE if took_s > given.idle_s:
                self.transport.close()
            case Phase.HEAD if took_s > given.head_s:
                self.refuse(
                    "too-slow", f"The request head did not arrive within {given.head_s:g} s."
                )
            case Phase.BODY if self.cycle.response_complete:
                if took_s > LATE_BODY_S:
                    self.transport.close()
            case Phase.BODY if self.flow.read_paused:
                self.since_s, self.body_bytes = now_s, 0  # it is we who do not read
            case Phase.BODY if took_s > given.body_s + self.body_bytes / given.body_bytes_per_s:
                self.refuse(
                    "too-slow",
                    f"Only {self.body_bytes} bytes of the body arrived within {took_s:.0f} s.",
                )
            case _:
                return

    def end(self) -> None:
        """The server shuts down: close it if idle, end its event stream, or let the response be the
        last.

        An event stream ends as if it were complete, because its reader asks for the rest by itself.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.scope["state"].get("event_stream"):
            self.shutdown()
            return
        if cycle.chunked_encoding:
            self.transport.write(b"0\r\n\r\n")
        cycle.response_complete = True
        cycle.message_event.set()
        self.transport.close()

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.since_s = self.loop.time()


def close_waiting_connections(newest: Connection) -> bool:
    """Close idle connections, the oldest ones of the caller (or address) with the most of them;
    whether there were any.
    """
    waiting = [
        each
        for each in newest.connections
        if isinstance(each, Connection)
        and each is not newest
        and each.phase in (Phase.IDLE, Phase.HEAD)
        and not each.transport.is_closing()
    ]
    held = Counter(each.holder for each in waiting)
    waiting.sort(key=lambda each: (-held[each.holder], each.phase is Phase.HEAD, each.since_s))
    for each in waiting[:EVICTED]:
        each.transport.abort()
    return bool(waiting)


def build_protocol(limits: ConnectionLimits) -> type[Connection]:
    """The protocol with these limits, and at most as many connections as the process can open
    files.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections_max + RESERVED_FILES
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    places = min(limits.connections_max, max(1, soft - RESERVED_FILES))
    return type("Connection", (Connection,), {"limits": limits, "places": places})


def build_raw_response(slug: str, detail: str, headers: str = "") -> bytes:
    """A complete response with a problem, for a request that could not be parsed."""
    status, document = problem_documents.build_document(slug, detail)
    body = msgspec.json.encode(document)
    head = (
        f"HTTP/1.1 {status} {document['title']}\r\ncontent-type: application/problem+json\r\n"
        f"content-length: {len(body)}\r\nx-content-type-options: nosniff\r\n"
        f"connection: close\r\n{headers}\r\n"
    )
    return head.encode() + body
