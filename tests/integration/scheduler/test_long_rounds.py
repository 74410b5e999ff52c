"""The scheduler as a service in long rounds: it answers, keeps its lock and hands over."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import httpx2
import pytest

from bench import adversarial
from bench.engine import snapshot as make_snapshot
from fairlead_common.domain.records import events as ev
from fairlead_common.web.server import build_app
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.engine.compiler.decorators import is_compiled
from fairlead_scheduler.engine.preparation.pool.static_pool import StaticPool
from tests.integration.scheduler.test_leading import scheduler
from tests.integration.scheduler.world import PATIENCE_S, World, stands_by, submitted

NODES = 4_000 if is_compiled() else 100
"""Nodes of the pool whose rounds take long. Without compiled kernels small ones do."""


class LongRounds:
    """An engine whose rounds decide about the worst pool known, again and again until released."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.ended = threading.Event()
        self._worst = make_snapshot(**adversarial.urgent_gangs_with_rack(NODES))

    def __call__(
        self,
        snapshot: Snapshot,
        settings: EngineSettings,
        *,
        static: StaticPool | None = None,
        explain: bool,
        expired: Callable[[], bool],
        clock_s: Callable[[], float],
    ) -> Plan:
        self.begun.set()
        while not self.released.is_set():
            schedule(self._worst, adversarial.SETTINGS, expired=self.released.is_set)
        self.ended.set()
        return schedule(
            snapshot, settings, static=static, explain=explain, expired=expired, clock_s=clock_s
        )

    async def wait_for(self, event: threading.Event) -> None:
        """Return once a round has begun or ended."""
        assert await asyncio.to_thread(event.wait, PATIENCE_S)


@pytest.fixture
async def world(fresh_database: str) -> AsyncIterator[World]:
    async with World.open(fresh_database) as made:
        yield made


async def test_during_a_long_round_the_leader_answers_and_keeps_its_lock(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    engine = LongRounds()
    await world.report_nodes()
    await world.tell(submitted("a"))
    async with (
        scheduler(fresh_database, valkey_url, engine) as leading,
        AsyncExitStack() as stack,
    ):
        stack.callback(engine.released.set)
        await engine.wait_for(engine.begun)
        await stack.enter_async_context(scheduler(fresh_database, valkey_url))
        await stands_by(fresh_database)
        leaders = await world.next_leaders(3)
        app = build_app("Fairlead scheduler", [], leading.checks(), leading.settings)
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for path in ("/healthz", "/readyz", "/metrics"):
                assert (await client.get(path)).status_code == 200
        assert not engine.ended.is_set()
        assert len(set(leaders)) == 1
        engine.released.set()
        await world.report_nodes()
        await world.first(ev.JobRunLeased, "a")
        assert await world.next_leaders(1) == leaders[:1]


async def test_a_leader_that_ends_during_a_long_round_hands_over(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    engine = LongRounds()
    await world.report_nodes()
    await world.tell(submitted("a"))
    async with AsyncExitStack() as leading, AsyncExitStack() as stack:
        stack.callback(engine.released.set)
        await leading.enter_async_context(scheduler(fresh_database, valkey_url, engine))
        await engine.wait_for(engine.begun)
        await stack.enter_async_context(scheduler(fresh_database, valkey_url))
        await stands_by(fresh_database)
        await leading.aclose()
        await world.first(ev.JobRunLeased, "a")
        assert not engine.ended.is_set()
        engine.released.set()
        await engine.wait_for(engine.ended)
        await world.tell(ev.JobRunSucceeded(job_id=submitted("a").job_id, run=1))
        await world.first(ev.JobSucceeded, "a")
        seen = await world.events(
            lambda events: any(isinstance(e, ev.JobSucceeded) for e in events)
        )
        assert sum(isinstance(event, ev.JobRunLeased) for event in seen) == 1
