"""The frame around every service's routes: hosts, request ids, health, and a server that ends."""

import asyncio
import gc
import socket
import warnings
from collections.abc import Callable, Mapping
from importlib import metadata
from itertools import product

import asyncpg
import httpx2
import pytest
import uvloop
from fastapi import APIRouter, Request

from fairlead_common.service.health import Check, Degraded
from fairlead_common.service.settings import Settings
from fairlead_common.web import middleware, server
from fairlead_standalone.servers.addresses import free_port
from tests.unit.common.callers import Only


async def well() -> str | None:
    """A check that finds nothing."""
    return None


async def ill() -> str | None:
    """A check that finds something."""
    return "the view is 12 s behind"


async def silent() -> str | None:
    """A check that never answers."""
    await asyncio.Event().wait()
    raise AssertionError


def client(
    checks: Mapping[str, Check] | None = None, settings: Settings | None = None
) -> httpx2.AsyncClient:
    """Of an app with one route, which says the id of its request."""
    router = APIRouter()

    @router.get("/id")
    async def request_id(request: Request) -> str:
        return str(request.state.request_id)

    app = server.build_app("test", [router], checks or {}, settings or Settings(), identify=Only())
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")


# Health ---------------------------------------------------------------------------------------


async def test_a_server_that_answers_is_alive() -> None:
    async with client({"view": ill}) as http:
        answer = await http.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")


async def test_a_service_is_ready_if_all_checks_pass() -> None:
    async with client({"log": well, "view": well}) as http:
        answer = await http.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "version": metadata.version("fairlead-common"),
        "checks": {"log": "ok", "view": "ok"},
    }


async def test_readiness_names_the_failed_check() -> None:
    async with client({"log": well, "view": ill}) as http:
        answer = await http.get("/readyz")
    assert answer.status_code == 503
    body = answer.json()
    assert body["ready"] is False
    assert body["checks"] == {"log": "ok", "view": "the view is 12 s behind"}


async def test_a_check_that_hangs_times_out() -> None:
    async with client({"log": silent}) as http:
        answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"log": "did not answer within 2 s"}


async def test_a_check_that_fails_is_a_service_that_is_not_ready() -> None:
    async def broken() -> str | None:
        raise ConnectionRefusedError("nobody listens")

    async with client({"log": broken, "view": well}) as http:
        answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"log": "failed: nobody listens", "view": "ok"}


async def test_a_degraded_service_is_ready_with_the_reason() -> None:
    async def degraded() -> str | None:
        return Degraded("pool gpu: its last round failed")

    async with client({"pools": degraded, "log": well}) as http:
        answer = await http.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["checks"] == {"pools": "pool gpu: its last round failed", "log": "ok"}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (asyncpg.CannotConnectNowError("starting up"), "failed: starting up"),
        (asyncpg.InterfaceError("connection is closed"), "failed: connection is closed"),
    ],
    ids=["starting", "closed"],
)
async def test_a_database_that_fails_during_a_check_is_a_503(
    error: Exception, message: str
) -> None:
    async def broken() -> str | None:
        raise error

    async with client({"database": broken, "log": well}) as http:
        answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": message, "log": "ok"}


async def test_metrics_are_there_for_prometheus() -> None:
    async with client() as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert "python_info" in answer.text


# Hosts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080"]
)
async def test_configured_host_names_are_accepted(host: str) -> None:
    async with client() as http:
        assert (await http.get("/id", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", ""])
async def test_a_foreign_host_header_is_refused(host: str) -> None:
    async with client() as http:
        answer = await http.get("/healthz", headers={"Host": host})
    assert answer.status_code == 400
    assert answer.json()["type"] == "/problems/malformed"
    assert "setting `hosts`" in answer.json()["detail"]


async def test_host_names_come_from_the_settings() -> None:
    named = Settings(hosts=("fairlead.example",))
    async with client(settings=named) as http:
        assert (await http.get("/id", headers={"Host": "fairlead.example"})).status_code == 200
        assert (await http.get("/id", headers={"Host": "localhost"})).status_code == 400
    async with client(settings=Settings(hosts=("*",))) as http:
        assert (await http.get("/id", headers={"Host": "any.example"})).status_code == 200


# Request ids ----------------------------------------------------------------------------------


async def test_a_given_request_id_is_retained() -> None:
    async with client() as http:
        answer = await http.get("/id", headers={"X-Request-Id": "abc-1"})
    assert (answer.json(), answer.headers["x-request-id"]) == ("abc-1", "abc-1")


async def test_a_request_without_an_id_gets_one() -> None:
    async with client() as http:
        first, second = [await http.get("/id") for _ in range(2)]
    assert first.json() == first.headers["x-request-id"] != second.json()


async def test_a_long_request_id_is_truncated_and_an_invalid_one_replaced() -> None:
    async with client() as http:
        long = await http.get("/id", headers={"X-Request-Id": "a" * 1_000})
        strange = await http.get("/id", headers={"X-Request-Id": "a\tb"})
    assert long.json() == "a" * middleware.REQUEST_ID_MAX
    assert strange.json() not in ("", "a\tb")


async def test_a_refusal_has_an_id_too() -> None:
    async with client() as http:
        answer = await http.get("/nothing", headers={"X-Request-Id": "abc-1"})
        foreign = await http.get("/id", headers={"X-Request-Id": "abc-2", "Host": "evil.example"})
    assert answer.json()["instance"] == answer.headers["x-request-id"] == "abc-1"
    assert foreign.json()["instance"] == foreign.headers["x-request-id"] == "abc-2"


# A real server --------------------------------------------------------------------------------


async def answers(url: str) -> httpx2.Response:
    """The first answer of a server that is just starting."""
    async with httpx2.AsyncClient(timeout=60) as http, asyncio.timeout(120):
        while True:
            try:
                return await http.get(url)
            except httpx2.ConnectError:
                await asyncio.sleep(0.01)


async def test_a_server_ends_when_its_task_is_cancelled() -> None:
    app = server.build_app("test", [], {}, Settings())
    port = free_port()
    task = asyncio.create_task(server.serve(app, "127.0.0.1", port))
    assert (await answers(f"http://127.0.0.1:{port}/healthz")).text == "ok\n"
    task.cancel()
    await asyncio.wait([task])
    assert task.done()
    async with httpx2.AsyncClient() as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get(f"http://127.0.0.1:{port}/healthz")


async def test_an_internal_error_announces_that_its_connection_is_closed() -> None:
    router = APIRouter()

    @router.get("/broken")
    async def broken() -> None:
        raise ZeroDivisionError

    app = server.build_app("test", [router], {}, Settings(), identify=Only())
    port = free_port()
    task = asyncio.create_task(server.serve(app, "127.0.0.1", port))
    try:
        await answers(f"http://127.0.0.1:{port}/healthz")
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            answer = await http.get("/broken")
            assert (answer.status_code, answer.headers["connection"]) == (500, "close")
            assert (await http.get("/healthz")).status_code == 200
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_a_connection_during_shutdown_is_closed(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    app = server.build_app("test", [], {}, Settings())

    async def ended(turns_before: int, turns_after: int) -> None:
        port, listens = free_port(), asyncio.Event()
        task = asyncio.create_task(server.serve(app, "127.0.0.1", port, listening=listens.set))
        await listens.wait()
        for _ in range(turns_before):
            await asyncio.sleep(0)
        with socket.socket() as client:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            for _ in range(turns_after):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for turns in product(range(6), range(4)):
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(ended(*turns))
            gc.collect()
    assert [str(each.message) for each in found] == []
