"""What the middleware costs a request: caller, rate limit and headers of the response.

    python bench/middleware.py [--requests 20000]

Sends the same request through an empty app alone and through the middleware around it, in one
process, for a caller whose token is known. The fastest of several turns counts. The last line is
one JSON object.
"""

import argparse
import asyncio
import json
import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead_common.service.access_settings import RequestLimits
from fairlead_common.service.settings import Settings
from fairlead_common.web.auth import Authenticator
from fairlead_common.web.middleware import RequestMiddleware

TURNS: Final = 7
MOST_US: Final = 50.0
ROW: Final = {
    "number": 1,
    "kind": "token",
    "name": "ann",
    "roles": ["submitter"],
    "personal": False,
    "groups": [],
    "queues": None,
}


class OneToken:
    """A database that knows every token as the same caller's."""

    async def fetchrow(self, *_: object) -> object:
        return ROW


async def empty(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


def scope() -> Scope:
    headers = [
        (b"host", b"127.0.0.1:8080"),
        (b"authorization", b"Bearer fl_" + b"x" * 43),
        (b"content-type", b"application/json"),
        (b"content-length", b"100"),
    ]
    return {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/jobs",
        "client": ("127.0.0.1", 1),
        "state": {},
        "headers": headers,
    }


async def receive() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def send(_: Message) -> None:
    return


async def fastest_us(app: ASGIApp, requests: int) -> float:
    best_s = float("inf")
    for _ in range(TURNS):
        started_s = time.perf_counter()
        for _ in range(requests):
            await app(scope(), receive, send)
        best_s = min(best_s, time.perf_counter() - started_s)
    return best_s / requests * 1e6


async def measured(requests: int) -> dict[str, object]:
    settings = Settings(requests=RequestLimits(per_second=1e7, burst=10**7))
    wrapped = RequestMiddleware(empty, settings, Authenticator(OneToken(), settings))
    alone_us, around_us = await fastest_us(empty, requests), await fastest_us(wrapped, requests)
    return {
        "bench": "middleware",
        "aloneUs": round(alone_us, 2),
        "withMiddlewareUs": round(around_us, 2),
        "costUs": round(around_us - alone_us, 2),
        "mostUs": MOST_US,
        "ok": around_us - alone_us < MOST_US,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20_000, help="requests of each turn")
    print(json.dumps(asyncio.run(measured(parser.parse_args().requests))))


if __name__ == "__main__":
    main()
