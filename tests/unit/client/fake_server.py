"""A small HTTP server on 127.0.0.1 that answers from a table, for tests of the transports."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

import msgspec

FILE = """
queue: q
jobSet: s
defaults: {cpu: 1}
jobs:
  - {clientId: one, command: [echo, hello]}
  - {clientId: two, command: [echo, there]}
"""
"""Two jobs, as `fairlead submit` reads them."""


class Request(msgspec.Struct, frozen=True):
    """One request as it arrived; header names are lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> object:
        """The body, decoded."""
        return msgspec.json.decode(self.body)


class Reply(msgspec.Struct, frozen=True):
    """What to say. `broken`: promise more bytes than are sent, and hang up.

    `hangs_up`: close the connection afterwards, without having said so.
    """

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    broken: bool = False
    hangs_up: bool = False


Route: TypeAlias = Callable[[Request], object]
"""Answers with an `Reply`, or with anything else, which is sent as JSON."""


class Server:
    """A running server: `routes` maps "METHOD /path" to who answers; `asked` has every request.

    `connections` counts those that were opened; `closed` is released for each that was closed.
    """

    def __init__(self, url: str, routes: dict[str, Route]) -> None:
        self.url = url
        self.routes = routes
        self.asked: list[Request] = []
        self.connections = 0
        self.closed = threading.Semaphore(0)


@contextmanager
def serve(routes: dict[str, Route], tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve until the block ends, encrypted with `tls`."""
    served = Server("", routes)

    class Listener(ThreadingHTTPServer):
        def shutdown_request(self, request: socket | tuple[bytes, socket]) -> None:
            super().shutdown_request(request)
            served.closed.release()

        def handle_error(self, request: object, client_address: object) -> None:
            return  # a client that hangs up

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            served.connections += 1

        def handle_one(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length", "0"))
            asked = Request(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query)),
                {name.lower(): value for name, value in self.headers.items()},
                self.rfile.read(length),
            )
            served.asked.append(asked)
            route = served.routes.get(f"{asked.method} {asked.path}", _missing)
            found = route(asked)
            answer = found if isinstance(found, Reply) else Reply(msgspec.json.encode(found))
            self.send_response(answer.status)
            self.send_header("content-type", answer.content_type)
            self.send_header("content-length", str(len(answer.body) + answer.broken))
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection |= answer.broken or answer.hangs_up

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

        def log_message(self, format: str, *args: object) -> None:
            return

    with Listener(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        served.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def _missing(asked: Request) -> Reply:
    return problem(404, f"nothing at {asked.path}")


def problem(status: int, detail: str, errors: list[dict[str, str]] | None = None) -> Reply:
    """A problem document."""
    body = {"title": "No", "status": status, "detail": detail, "errors": errors or []}
    return Reply(msgspec.json.encode(body), status, "application/problem+json")


def accept(asked: Request) -> object:
    """The answer to a submission."""
    body = asked.json()
    assert isinstance(body, dict)
    jobs = [{"id": f"id-{job['clientId']}", "clientId": job["clientId"]} for job in body["jobs"]]
    return {"position": "p", "jobs": jobs}
