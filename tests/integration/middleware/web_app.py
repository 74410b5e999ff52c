"""The web app on a port: both services on real servers, as `fairlead up` wires them."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import httpx2
from fastapi import FastAPI

from fairlead_common import db
from fairlead_common.service import clock
from fairlead_common.web import server
from fairlead_lookout.service.service import Service as Lookout
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.service import web
from fairlead_submit.service.service import Service as Submit
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.store import configuration_store as queues
from fairlead_submit.store import token_store
from tests.conftest import NO_TLS

WAIT_S = 120


class WebApp:
    """A running app. `token` may do everything; `queue` exists."""

    def __init__(
        self, app: FastAPI, client: httpx2.AsyncClient, pool: db.Pool, token: str, queue: str
    ) -> None:
        self.app = app
        self.client = client
        self.pool = pool
        self.token = token
        self.queue = queue

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        port = self.client.base_url.port
        assert port is not None
        return port

    async def token_of(
        self, name: str, *roles: str, ttl_s: float | None = None, queues: list[str] | None = None
    ) -> dict[str, str]:
        """The header of a new token."""
        token = await token_store.make_token(self.pool, name, roles, ttl_s=ttl_s, queues=queues)
        return bearer(token)


def bearer(token: str) -> dict[str, str]:
    """The header that carries it."""
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def serve_web_app(
    database: str,
    redis: str,
    settings: Mapping[str, object] | None = None,
    now_s: Callable[[], float] = clock.monotonic_s,
) -> AsyncIterator[WebApp]:
    """The app on these servers, ready to answer."""
    port = free_port()
    given = {"database_url": database, "log_url": database, "redis_url": redis}
    given |= {"instance": secrets.token_hex(4), **(settings or {})}  # type: ignore[dict-item]
    own = SubmitSettings(**given)  # type: ignore[arg-type]  # settings by name
    given = {name: given[name] for name in given.keys() & set(LookoutSettings.__struct_fields__)}
    async with (
        Submit.open(own, now_s) as submit,
        await Lookout.open(LookoutSettings(**given)) as lookout,  # type: ignore[arg-type]
        httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=WAIT_S, verify=NO_TLS
        ) as client,
        asyncio.TaskGroup() as group,
    ):
        app = web.build(submit, lookout, own)
        tasks = [group.create_task(task) for task in (*submit.tasks(), *lookout.tasks())]
        tasks.append(group.create_task(server.serve(app, "127.0.0.1", port, own.connections)))
        await answering(client)
        pool = await db.open_pool(database, size_max=2)
        queue = f"q-{secrets.token_hex(4)}"
        await queues.ensure_queue(pool, queue)
        token = await token_store.make_token(pool, "tester", ["admin"])
        client.headers.update(bearer(token))
        yield WebApp(app, client, pool, token, queue)
        await pool.close()
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def anonymous(app: WebApp) -> AsyncIterator[httpx2.AsyncClient]:
    """A client without credentials."""
    async with httpx2.AsyncClient(base_url=app.client.base_url, timeout=30, verify=NO_TLS) as http:
        yield http


async def answering(client: httpx2.AsyncClient) -> None:
    """Return when the server answers."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await client.get("/healthz")
            except httpx2.ConnectError:
                await asyncio.sleep(0.02)
            else:
                return
