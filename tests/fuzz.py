"""Requests made from the OpenAPI document and then spoilt, over raw connections.

    python -m tests.fuzz [--requests 100000] [--seed 1]

Starts `fairlead up` with a simulated cluster and sends it requests whose types, sizes, encodings
and connections are mutated at random, from one seed. Fails when anything is answered with 500, when
a complete request has no answer within a minute, or when the web process grows by more than
100 MB. The last line of output is one JSON object.
"""

import argparse
import asyncio
import gzip
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from backports import zstd

from fairlead_standalone.service.testing import StandaloneInstallation, memory_bytes

DOCUMENT: Final = Path(__file__).parent.parent / "docs" / "openapi.json"
METHODS: Final = ("get", "post", "put", "delete", "patch")
CONNECTIONS: Final = 8
ANSWER_S_MAX: Final = 60.0
GROWTH_BYTES_MAX: Final = 100 * 10**6
WARM_UP: Final = 2_000
"""Requests before memory is measured: caches fill, modules load."""
FAILURES_PRINTED: Final = 20
DEPTH_MAX: Final = 6
STRANGE: Final[Sequence[Any]] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, -0.0, "", " ",
    "\0", "a\0b", "\ud800", "\u202e", "\U0001f600", "x" * 300, "x" * 70_000, "../../etc/passwd",
    "' OR 1=1 --", "${7*7}", "<script>", "1Gi", "-5", "1e99", "99999999999999999999Gi", "NaN",
    "%00", [], {}, [[]], [None], {"": None}, {"a": {"b": {}}}, [1] * 5_000,
    "2026-01-31T12:00:00Z", "9999999-01-01T00:00:00Z",
)  # fmt: skip
Schema = Mapping[str, Any]


class Failure(msgspec.Struct, frozen=True):
    """A request that was not answered as it should be: its beginning, and what came."""

    what: str
    request: str
    answer: str


class Outcome(msgspec.Struct, rename="camel"):
    """What a run found."""

    seed: int
    requests: int = 0
    statuses: Counter[str] = msgspec.field(default_factory=Counter)
    failures: list[Failure] = []
    seconds: float = 0.0
    growth_bytes: int = 0

    def fail(self, what: str, request: bytes, answer: bytes = b"") -> None:
        """Take note of a failure."""
        texts = (each[:600].decode("latin-1") for each in (request, answer))
        self.failures.append(Failure(what, *texts))


class Maker:
    """Makes requests. All chance comes from the seed."""

    def __init__(self, document: Schema, seed: int, token: str, known: Sequence[str]) -> None:
        self.chance = random.Random(seed)
        self._schemas = document["components"]["schemas"]
        self._token = token
        self._is_grown = False
        self._known = [*known, "default", "nobody", "x"]
        self._calls = [
            (method.upper(), path, item[method])
            for path, item in document["paths"].items()
            for method in METHODS
            if method in item and path not in ("/sign-out",)
        ]

    def request(self) -> bytes:
        """One request, head and body."""
        chance = self.chance
        method, path, call = chance.choice(self._calls)
        headers = {"Host": "127.0.0.1", "Authorization": f"Bearer {self._token}"}
        query: list[tuple[str, str]] = []
        for parameter in call.get("parameters", ()):
            name, place = parameter["name"], parameter["in"]
            if place == "path":
                path = path.replace(f"{{{name}}}", quote(self._text(name), safe=""))
            elif chance.random() < 0.3:
                text = self._text(name, parameter.get("schema", {}))
                if place == "query":
                    query.append((name, text))
                else:
                    headers[name] = re.sub(r"[\r\n\0]", " ", text)
        if chance.random() < 0.05:
            query.append(("x" * chance.randrange(1, 300), "1"))
        if query:
            path += "?" + "&".join(f"{n}={quote(t, safe='')}" for n, t in query)
        body = self._body(call)
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = self._encoded(body, headers)
        if chance.random() < 0.03:
            method = chance.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW"))
        return self._written(method, path, headers, body)

    def _body(self, call: Schema) -> bytes | None:
        content = call.get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        if schema is None:
            return None if self.chance.random() < 0.9 else b"{}"
        value, self._is_grown = self._value(schema, 0), False
        for _ in range(self.chance.choice((0, 1, 1, 2, 5))):
            value = self._spoilt(value)
        text = json.dumps(value, ensure_ascii=self.chance.random() < 0.5)
        body = text.encode("utf-8", "surrogatepass")
        match self.chance.randrange(20):
            case 0:
                return body[: self.chance.randrange(len(body) + 1)]
            case 1:
                at = self.chance.randrange(len(body) + 1)
                return body[:at] + self.chance.randbytes(3) + body[at:]
            case 2:
                return body.replace(b"{", b'{"queue":"q","queue":"r",', 1)
            case 3:
                return b"[" * self.chance.choice((10, 100, 100_000))
            case _:
                return body

    def _value(self, schema: Schema, depth: int) -> Any:
        """Something that the schema allows, or almost."""
        chance = self.chance
        if "$ref" in schema:
            return self._value(self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._value(chance.choice(schema[key]), depth)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        match schema.get("type"):
            case "object" if depth < DEPTH_MAX:
                properties = schema.get("properties", {})
                required = schema.get("required", ())
                made = {
                    name: self._value(each, depth + 1)
                    for name, each in properties.items()
                    if name in required or chance.random() < 0.25
                }
                if "queue" in properties:
                    made["queue"] = chance.choice(self._known)
                if not properties:
                    made[self._text("key")[:60]] = self._text("value")[:60]
                return made
            case "array" if depth < DEPTH_MAX:
                count = chance.choice((0, 1, 1, 2, 3))
                return [self._value(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "integer":
                return chance.choice((0, 1, 5, 1000, -1, 2**31))
            case "number":
                return chance.choice((0, 0.5, 1, 1e9))
            case "boolean":
                return chance.random() < 0.5
            case "string":
                return self._text("")
            case _:
                return chance.choice((None, "x", 1, {}))

    def _spoilt(self, value: Any) -> Any:
        """The same with something strange at one place."""
        chance = self.chance
        if isinstance(value, dict) and value and chance.random() < 0.85:
            name = chance.choice(list(value))
            if chance.random() < 0.1:
                return {**value, chance.choice(("", "\0", "~/", "x" * 500)): 1}
            return {**value, name: self._spoilt(value[name])}
        if isinstance(value, list) and value and chance.random() < 0.85:
            place = chance.randrange(len(value))
            if chance.random() < 0.05 and len(value) <= 10 and not self._is_grown:
                self._is_grown = True  # twice would be a body of a gigabyte, and stop this client
                return value * chance.choice((2, 100))
            return [*value[:place], self._spoilt(value[place]), *value[place + 1 :]]
        return chance.choice(STRANGE)

    def _text(self, name: str, schema: Schema | None = None) -> str:
        chance = self.chance
        if schema and "enum" in schema and chance.random() < 0.7:
            return str(chance.choice(schema["enum"]))
        if name in ("wait", "token_id"):  # no long polls, and no token of ours is revoked
            return chance.choice(("1ms", "0s", "x", "-1s", "1e9", "99999999999999999999"))
        if chance.random() < 0.6:
            return chance.choice(self._known)
        value = chance.choice(STRANGE)
        return (
            value.encode("utf-8", "replace").decode()
            if isinstance(value, str)
            else str(value)[:300]
        )

    def _encoded(self, body: bytes, headers: dict[str, str]) -> bytes:
        match self.chance.randrange(16):
            case 0:
                headers["Content-Encoding"] = "gzip"
                return gzip.compress(body)
            case 1:
                headers["Content-Encoding"] = "zstd"
                return zstd.compress(body)
            case 2:
                headers["Content-Encoding"] = self.chance.choice(("gzip", "zstd", "br", "x" * 200))
            case 3:
                headers["Content-Encoding"] = "gzip"
                return gzip.compress(body)[: self.chance.randrange(1, 20)]
            case 4:
                headers["Content-Type"] = self.chance.choice(
                    (
                        "application/x-ndjson",
                        "text/plain",
                        "application/json; charset=utf-16",
                        "\xff",
                    )
                )
        return body

    def _written(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> bytes:
        chance = self.chance
        if body is not None and chance.random() < 0.1:
            headers["Transfer-Encoding"] = "chunked"
            size = chance.choice((b"%x" % len(body), b"%x" % len(body), b"zz", b"-1", b"f" * 20))
            body = size + b"\r\n" + body + b"\r\n0\r\n\r\n"
        elif body is not None:
            headers["Content-Length"] = str(len(body))
        match chance.randrange(40):
            case 0:
                headers["Content-Length"] = chance.choice(("-1", "x", "9" * 30, "1"))
            case 1:
                headers["X-" + "y" * chance.choice((10, 70_000))] = "z"
            case 2:
                headers["Authorization"] = chance.choice(
                    ("Bearer", "Basic eA==", "x" * 500, "\xe9")
                )
            case 3:
                headers["If-None-Match"] = headers["If-Match"] = chance.choice(
                    ("*", '"x"', "\xff", ",")
                )
            case 4:
                return chance.randbytes(chance.choice((1, 100, 5_000)))
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(
            f"{n}: {v}\r\n" for n, v in headers.items()
        )
        return head.encode("latin-1", "replace") + b"\r\n" + (body or b"")


async def send(port: int, maker: Maker, outcome: Outcome) -> None:
    """One request on a connection of its own, whose other side may break off anywhere."""
    request, ending = maker.request(), maker.chance.randrange(10)
    outcome.requests += 1
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        if ending == 0:  # gone in the middle
            writer.write(request[: maker.chance.randrange(len(request) + 1)])
            writer.transport.abort()
            outcome.statuses["broken off"] += 1
            return
        writer.write(request if ending > 1 else request + request)
        if ending == 2 and writer.can_write_eof():
            writer.write_eof()
        async with asyncio.timeout(ANSWER_S_MAX):
            answer = await reader.readline()
            status = answer.split()[1].decode() if len(answer.split()) > 1 else "closed"
            outcome.statuses[status] += 1
            if status == "500":
                outcome.fail("answered with 500", request, answer + await reader.read(2_000))
    except TimeoutError:
        outcome.fail(f"no answer within {ANSWER_S_MAX:.0f} s", request)
    except ConnectionError:
        outcome.statuses["closed"] += 1
    finally:
        writer.transport.abort()


async def send_all(port: int, maker: Maker, outcome: Outcome, requests: int) -> None:
    """So many requests, on a few connections at a time."""
    last = outcome.requests + requests

    async def work() -> None:
        while outcome.requests < last and len(outcome.failures) < FAILURES_PRINTED:
            await send(port, maker, outcome)

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


def run(
    standalone: StandaloneInstallation, known: Sequence[str], *, requests: int, seed: int
) -> Outcome:
    """Send them to a running installation; it must answer as before afterwards."""
    document = msgspec.json.decode(DOCUMENT.read_bytes())
    maker, outcome = Maker(document, seed, standalone.token, known), Outcome(seed)
    began_s = time.perf_counter()
    asyncio.run(send_all(standalone.port, maker, outcome, min(WARM_UP, requests)))
    before = memory_bytes(standalone.child("web"))
    asyncio.run(send_all(standalone.port, maker, outcome, max(0, requests - WARM_UP)))
    outcome.growth_bytes = memory_bytes(standalone.child("web")) - before
    outcome.seconds = round(time.perf_counter() - began_s, 1)
    if outcome.growth_bytes > GROWTH_BYTES_MAX:
        outcome.fail(f"the web process grew by {outcome.growth_bytes} bytes", b"")
    standalone.wait_ready()
    return outcome


def main() -> None:
    """Read the arguments, start everything, send."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    given = parser.parse_args()
    limits = {"FAIRLEAD_REQUESTS": '{"perSecond": 100000, "burst": 100000}'}
    with (
        tempfile.TemporaryDirectory(prefix="fairlead-fuzz-") as folder,
        StandaloneInstallation(
            Path(folder), "--backend", "simulated", environment=limits
        ) as standalone,
    ):
        standalone.start()
        sys.stderr.write(f"seed {given.seed}\n")
        outcome = run(standalone, (), requests=given.requests, seed=given.seed)
    for failure in outcome.failures:
        sys.stderr.write(f"{failure.what}:\n{failure.request!r}\n{failure.answer!r}\n")
    sys.stdout.write(f"{msgspec.json.encode(outcome).decode()}\n")
    sys.exit(1 if outcome.failures else 0)


if __name__ == "__main__":
    main()
