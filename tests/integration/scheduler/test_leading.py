"""The scheduler as a service: on a real Postgres, with the log in it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import msgspec
import pytest

from fairlead_common.domain.errors import ProducerFenced
from fairlead_common.domain.ids import run_id
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.configuration import Cordon
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import DesiredState
from fairlead_common.domain.records.scheduling_reports import RoundReport, WaitingReport
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import topics
from fairlead_common.service.health import Degraded
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.engine.preparation.pool.static_pool import StaticPool
from fairlead_scheduler.rules.decider import Engine
from fairlead_scheduler.service.follower import CHECKPOINT
from fairlead_scheduler.service.service import Service
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.pool_rules import Rate, Rules
from tests.full_disk import full_disk
from tests.integration.scheduler.world import World, job_id, submitted

KEY = shapes.key(bytes(submitted("a").shape), "default")


def ended_job(events: list[ev.AnyEvent], name: str) -> bool:
    """Whether the success of this job is among the events."""
    return any(isinstance(e, ev.JobSucceeded) and e.job_id == job_id(name) for e in events)


@pytest.fixture
async def world(fresh_database: str) -> AsyncIterator[World]:
    async with World.open(fresh_database) as made:
        yield made


@asynccontextmanager
async def scheduler(
    url: str, valkey_url: str, engine: Engine = schedule, **settings: object
) -> AsyncIterator[Service]:
    """A scheduler that runs while the block does."""
    plain = SchedulerSettings(log_url=url, database_url=url, redis_url=valkey_url, checkpoint_s=0.1)
    async with Service.open(msgspec.structs.replace(plain, **settings), engine) as service:
        running = asyncio.create_task(service.run())
        try:
            yield service
        finally:
            running.cancel()
            results = await asyncio.gather(running, return_exceptions=True)
            problems = [r for r in results if not isinstance(r, asyncio.CancelledError)]
            assert problems == [None] * len(problems)


class BadPool:
    """An engine that raises for one pool for as long as it is bad, and is right for all others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bad = True

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
        if self.bad and snapshot.pool == self.name:
            raise ArithmeticError("nodes of imaginary size")
        return schedule(
            snapshot, settings, static=static, explain=explain, expired=expired, clock_s=clock_s
        )


async def test_a_failing_pool_is_reported_and_does_not_stop_the_others(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    await world.report_nodes()
    await world.report_nodes(pool="bad")
    await world.tell(submitted("a", pool="bad"), submitted("b"))
    engine = BadPool("bad")
    async with scheduler(fresh_database, valkey_url, engine) as service:
        await world.first(ev.JobRunLeased, "b")
        failed = await world.report("bad", lambda found: isinstance(found, RoundReport))
        assert isinstance(failed, RoundReport)
        assert (failed.outcome, failed.waiting) == ("failed", 1)
        assert failed.error == "ArithmeticError: nodes of imaginary size"
        why = await world.report(
            f"bad/research/s/{KEY}", lambda found: isinstance(found, WaitingReport)
        )
        assert isinstance(why, WaitingReport)
        assert why.code == "pool-failing"
        said = await service.checks()["pools"]()
        assert isinstance(said, Degraded)
        assert "pool bad has failed" in said
        engine.bad = False
        await world.first(ev.JobRunLeased, "a")
        await world.report("bad", lambda found: isinstance(found, RoundReport) and not found.error)
        assert await service.checks()["pools"]() is None


async def test_decisions_are_appended_after_a_full_disk_has_space(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    """A lease is refused first, whose key is that of a run, then the checkpoint."""
    await world.report_nodes()
    async with scheduler(fresh_database, valkey_url) as service:
        check = service.checks()["writing"]
        tables = {
            "fairlead_log.batches": "NEW.keys[1] ~ '-[0-9]+$'",
            "fairlead_scheduler.jobs": "true",
        }
        for name, (table, rows) in zip("ab", tables.items(), strict=True):
            async with full_disk(fresh_database, table, when=rows), asyncio.timeout(60):
                await world.tell(submitted(name))
                while (said := await check()) is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                assert isinstance(said, Degraded)
                assert "The disk of Postgres is full" in said
            await world.first(ev.JobRunLeased, name)
            async with asyncio.timeout(60):
                while await check() is not None:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


async def test_a_job_is_leased_and_succeeds(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    await world.report_nodes()
    await world.tell(submitted("a"))
    async with scheduler(fresh_database, valkey_url):
        leased = await world.first(ev.JobRunLeased, "a")
        assert (leased.run, leased.executor, leased.node) == (1, "e0", "n0")
        live = await world.live_leases(bool)
        assert live[run_id(job_id("a"), 1)].env["FAIRLEAD_RUN"] == "1"
        await world.tell(
            ev.JobRunPending(job_id=job_id("a"), run=1),
            ev.JobRunRunning(job_id=job_id("a"), run=1),
            ev.JobRunSucceeded(job_id=job_id("a"), run=1),
        )
        await world.first(ev.JobSucceeded, "a")
        await world.live_leases(lambda leases: not leases)


async def test_a_running_job_that_is_cancelled_is_stopped_first(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    await world.report_nodes()
    await world.tell(submitted("a"))
    async with scheduler(fresh_database, valkey_url):
        await world.first(ev.JobRunLeased, "a")
        await world.tell(ev.JobCancelRequested(job_id=job_id("a"), reason="enough"))
        run = run_id(job_id("a"), 1)
        live = await world.live_leases(
            lambda held: run in held and held[run].desired_state is DesiredState.STOP
        )
        assert live[run].reason == "enough"
        await world.tell(ev.JobRunStopped(job_id=job_id("a"), run=1, reason="asked to"))
        cancelled = await world.first(ev.JobCancelled, "a")
        assert cancelled.reason == "enough"


async def test_a_job_waits_for_its_dependencies_to_succeed(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    await world.report_nodes()
    await world.tell(submitted("a"), submitted("b", after=("a",)))
    await world.tell(submitted("c"), submitted("d", after=("c",)))
    async with scheduler(fresh_database, valkey_url):
        await world.first(ev.JobRunLeased, "a")
        await world.first(ev.JobRunLeased, "c")
        await world.tell(
            ev.JobRunSucceeded(job_id=job_id("a"), run=1),
            ev.JobRunFailed(
                job_id=job_id("c"), run=1, category=FailureCategory.EXIT_CODE, reason="exit 3"
            ),
        )
        await world.first(ev.JobRunLeased, "b")
        doomed = await world.first(ev.JobCancelled, "d")
        assert job_id("c") in doomed.reason


async def test_an_infeasible_job_is_rejected_with_the_reason(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    await world.report_nodes(cores=4)
    await world.tell(submitted("a", cpu=5000))
    async with scheduler(fresh_database, valkey_url):
        rejected = await world.first(ev.JobRejected, "a")
        assert rejected.code == "infeasible"
        assert "1 is too small" in rejected.reason


async def test_a_standby_takes_over_and_continues(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    await world.report_nodes(cores=1)
    await world.tell(submitted("a"), submitted("b"))
    async with AsyncExitStack() as leading:
        await leading.enter_async_context(scheduler(fresh_database, valkey_url))
        await world.first(ev.JobRunLeased, "a")
        async with scheduler(fresh_database, valkey_url):
            await leading.aclose()
            await world.tell(ev.JobRunSucceeded(job_id=job_id("a"), run=1))
            await world.first(ev.JobSucceeded, "a")
            await world.first(ev.JobRunLeased, "b")
            await world.tell(ev.JobRunSucceeded(job_id=job_id("b"), run=1))
            await world.first(ev.JobSucceeded, "b")


async def test_a_repeated_submission_of_an_ended_job_changes_nothing_after_a_restart(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    await world.report_nodes()
    await world.tell(submitted("a"))
    async with scheduler(fresh_database, valkey_url) as service:
        await world.first(ev.JobRunLeased, "a")
        await world.tell(ev.JobRunSucceeded(job_id=job_id("a"), run=1))
        await world.first(ev.JobSucceeded, "a")
        ended = await world.log.end_positions(topics.JOBS)
        await service.state.wait_until_folded(CHECKPOINT, ended)
    await world.tell(submitted("a"), submitted("b"))
    async with scheduler(fresh_database, valkey_url):
        await world.first(ev.JobRunLeased, "b")
        await world.tell(ev.JobRunSucceeded(job_id=job_id("b"), run=1))
        await world.first(ev.JobSucceeded, "b")
        seen = await world.events(lambda events: ended_job(events, "b"))
        leased = [e for e in seen if isinstance(e, ev.JobRunLeased)]
        assert [e.job_id for e in leased] == [job_id("a"), job_id("b")]


async def test_a_change_of_leader_does_not_refill_token_buckets(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    rules = Rules(rate=Rate(per_second=0.001, burst=4))
    names = [f"j{number}" for number in range(10)]
    await world.report_nodes(cores=20)
    await world.tell(*(submitted(name) for name in names))

    def leases(seen: list[ev.AnyEvent]) -> int:
        return sum(isinstance(event, ev.JobRunLeased) for event in seen)

    for term in range(3):
        async with scheduler(fresh_database, valkey_url, rules=rules):
            await world.events(lambda seen: leases(seen) >= 4)
            await world.tell(submitted(f"huge{term}", cpu=99_000))
            await world.first(ev.JobRejected, f"huge{term}")  # so this leader had its round
    assert leases(await world.events(lambda seen: leases(seen) >= 4)) == 4


async def test_a_run_that_exceeds_its_deadline_is_stopped_and_fails(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    await world.report_nodes()
    await world.tell(submitted("a", runtime_s_max=1, grace_s=1))
    async with scheduler(fresh_database, valkey_url, deadline_grace_s=0.1):
        await world.first(ev.JobRunLeased, "a")
        await world.tell(ev.JobRunRunning(job_id=job_id("a"), run=1))
        run = run_id(job_id("a"), 1)
        live = await world.live_leases(
            lambda held: run in held and held[run].desired_state is DesiredState.STOP
        )
        assert live[run].failure is FailureCategory.DEADLINE
        failed = ev.JobRunFailed(
            job_id=job_id("a"), run=1, category=FailureCategory.DEADLINE, reason=live[run].reason
        )
        await world.tell(failed)
        ended = await world.first(ev.JobFailed, "a")
        assert ended.category is FailureCategory.DEADLINE


async def test_a_cordoned_executor_gets_no_new_runs(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    await world.report_nodes()
    await world.configure(Cordon(executor="e0", version=1, reason="repair"))
    await world.tell(submitted("a"))
    async with scheduler(fresh_database, valkey_url):
        waits = f"default/research/s/{KEY}"
        why = await world.report(waits, lambda found: isinstance(found, WaitingReport))
        assert isinstance(why, WaitingReport)
        assert why.nodes == {"cordoned": 1}
        await world.configure(Cordon(executor="e0", version=2, cordoned=False))
        await world.first(ev.JobRunLeased, "a")


async def test_a_deposed_leader_appends_nothing(
    world: World, fresh_database: str, valkey_url: str
) -> None:
    old = await world.log.producer("scheduler")
    await world.log.producer("scheduler")
    with pytest.raises(ProducerFenced):
        await old.append(ev.records("q", "s", "old", [submitted("a")]))


async def test_only_the_scheduler_sets_the_retention_of_jobs(
    fresh_database: str, valkey_url: str
) -> None:
    async def retention_days() -> float:
        connection = await asyncpg.connect(fresh_database)
        query = "SELECT retention_s FROM fairlead_log.topics WHERE topic = $1"
        seconds = await connection.fetchval(query, topics.JOBS)
        await connection.close()
        return float(seconds) / 86_400

    async with World.open(fresh_database) as world:
        await world.log.create(topics.jobs())  # as submit, lookout and executors do
        assert await retention_days() == 30
        async with scheduler(fresh_database, valkey_url, log_retention_days=7):
            assert await retention_days() == 7
            await world.log.create(topics.jobs())
            assert await retention_days() == 7
        async with scheduler(fresh_database, valkey_url, log_retention_days=90):
            assert await retention_days() == 90
