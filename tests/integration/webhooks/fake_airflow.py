"""An Airflow for tests: the calls of its API that webhooks make, with answers as Airflow 3.3 gives
them, and wrong answers on demand."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from fairlead_common.domain.timestamps import parse_rfc3339
from fairlead_common.service import clock
from fairlead_standalone.servers.addresses import free_port

USER = "fairlead"
PASSWORD = "sesame"
WrongAnswer = Callable[[web.Request], web.Response | None]
ASSET = "s3://results/scan"


def expired() -> web.Response:
    """The answer to an expired token."""
    return web.json_response({"detail": "Token Expired"}, status=401)


def wrongly_signed() -> web.Response:
    """The answer to a token that was signed with another key."""
    return web.json_response({"detail": "Invalid JWT token"}, status=403)


class FakeAirflow:
    """`wrong_answer` answers instead, if it returns something. `runs`, `events`: what was made."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/airflow"
        self.clock_ms: int | None = None
        self.is_paused = False
        self.sign_ins = 0
        self.calls = 0
        self.runs: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.wrong_answer: WrongAnswer = lambda _: None
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] = self.handle
        self.token_refusal = expired
        self._tokens: set[str] = {"given"}

    def expire_tokens(self) -> None:
        """Every token is refused from now on."""
        self._tokens.clear()

    async def handle(self, request: web.Request) -> web.Response:
        self.calls += 1
        wrong = self.wrong_answer(request)
        if wrong is not None:
            return wrong
        path = request.path.removeprefix("/airflow")
        if path == "/auth/token":
            return await self._sign_in(request)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self._tokens:
            return self.token_refusal()
        match (request.method, path):
            case ("GET", "/api/v2/dags/report"):
                return web.json_response({"dag_id": "report", "is_paused": self.is_paused})
            case ("POST", "/api/v2/dags/report/dagRuns"):
                return await self._start(request)
            case ("GET", "/api/v2/assets"):
                found = [{"id": 6, "uri": ASSET + "-other"}, {"id": 7, "uri": ASSET}]
                return web.json_response({"assets": found, "total_entries": 2})
            case ("GET", "/api/v2/assets/events"):
                since = parse_rfc3339(request.query["timestamp_gte"])
                late = [each for each in self.events if each["created_ms"] >= since]
                return web.json_response({"asset_events": late})
            case ("POST", "/api/v2/assets/events"):
                body = await request.json()
                assert body["asset_id"] == 7
                made = {
                    "asset_id": 7,
                    "extra": body["extra"],
                    "created_ms": self.clock_ms or clock.now_ms(),
                }
                self.events.append(made)
                return web.json_response(made)
            case _:
                dag = path.split("/")[4] if path.startswith("/api/v2/dags/") else "?"
                detail = f"Dag with dag_id: '{dag}' not found"
                return web.json_response({"detail": detail}, status=404)

    async def _sign_in(self, request: web.Request) -> web.Response:
        self.sign_ins += 1
        if await request.json() != {"username": USER, "password": PASSWORD}:
            return web.json_response({"detail": "Invalid credentials"}, status=401)
        token = f"token-{self.sign_ins}"
        self._tokens.add(token)
        return web.json_response({"access_token": token}, status=201)

    async def _start(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["logical_date"] is None
        run_id = body["dag_run_id"]
        if run_id in self.runs:
            detail = {"reason": "Unique constraint violation"}
            return web.json_response({"detail": detail}, status=409)
        self.runs[run_id] = body["conf"]
        return web.json_response({"dag_run_id": run_id, "state": "queued"})


@asynccontextmanager
async def running_airflow() -> AsyncIterator[FakeAirflow]:
    """A fake Airflow until the end of the block."""
    port = free_port()
    airflow = FakeAirflow(port)
    app = web.Application()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await airflow.answer(request)

    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield airflow
    finally:
        await runner.cleanup()
