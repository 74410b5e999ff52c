"""A small HTTP server on 127.0.0.1 that answers from a table, for tests of the transports."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


class Asked(msgspec.Struct, frozen=True):
    """One request as it arrived; header names are lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> object:
        """The body, decoded."""
        return msgspec.json.decode(self.body)


class Answered(msgspec.Struct, frozen=True):
    """What to say. `broken`: promise more bytes than are sent, and hang up."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    broken: bool = False


Route: TypeAlias = Callable[[Asked], object]
"""Answers with an `Answered`, or with anything else, which is sent as JSON."""


class Served:
    """A running server: `routes` maps "METHOD /path" to who answers; `asked` has every request."""

    def __init__(self, url: str, routes: dict[str, Route]) -> None:
        self.url = url
        self.routes = routes
        self.asked: list[Asked] = []


@contextmanager
def serve(routes: dict[str, Route]) -> Iterator[Served]:
    """Serve until the block ends."""
    served = Served("", routes)

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length", "0"))
            asked = Asked(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query)),
                {name.lower(): value for name, value in self.headers.items()},
                self.rfile.read(length),
            )
            served.asked.append(asked)
            route = served.routes.get(f"{asked.method} {asked.path}", _missing)
            found = route(asked)
            answer = found if isinstance(found, Answered) else Answered(msgspec.json.encode(found))
            self.send_response(answer.status)
            self.send_header("content-type", answer.content_type)
            if answer.broken:
                self.send_header("content-length", str(len(answer.body) + 1))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_DELETE = handle_one

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def _missing(asked: Asked) -> Answered:
    return problem(404, f"nothing at {asked.path}")


def problem(status: int, detail: str, errors: list[dict[str, str]] | None = None) -> Answered:
    """A problem document."""
    body = {"title": "No", "status": status, "detail": detail, "errors": errors or []}
    return Answered(msgspec.json.encode(body), status, "application/problem+json")


def accept(asked: Asked) -> object:
    """The answer to a submission."""
    body = asked.json()
    assert isinstance(body, dict)
    jobs = [{"id": f"id-{job['clientId']}", "clientId": job["clientId"]} for job in body["jobs"]]
    return {"position": "p", "jobs": jobs}
