"""What is kept only to spare look-ups is not forgotten under the hands of those who need it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairlead_common.db import Connection, Pool, migrate, open_pool
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import JobFilter
from fairlead_common.log import topics
from fairlead_scheduler.service import follower
from fairlead_scheduler.service.follower import State, load_specs, trim_caches_safely
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.jobs.specs import CACHED_MAX
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View
from tests.integration.scheduler.world import QUEUE, World, job_id, submitted


@asynccontextmanager
async def scheduler_database(url: str) -> AsyncIterator[tuple[Pool, Connection]]:
    """The scheduler's tables, and a connection of somebody else who may lock them."""
    pool, other = await open_pool(url, name="follower"), await open_pool(url, name="other")
    try:
        await migrate(pool, "fairlead_scheduler", "fairlead_scheduler.store")
        async with other.acquire() as connection:
            yield pool, connection
    finally:
        await pool.close()
        await other.close()


@asynccontextmanager
async def locked(connection: Connection, table: str) -> AsyncIterator[None]:
    """Whoever reads this table waits until the block is over."""
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE fairlead_scheduler.{table}")
        yield


async def somebody_waits(connection: Connection) -> None:
    """Return once somebody waits for a lock."""
    async with asyncio.timeout(120):
        while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            pass


async def test_specs_stay_until_all_dependencies_have_succeeded(fresh_database: str) -> None:
    here, elsewhere = JobId("here"), JobId("elsewhere")
    async with scheduler_database(fresh_database) as (pool, other):
        state = State(View(), Clusters(), Queues())
        cached = {here: b"{}"} | {JobId(f"{n}"): b"{}" for n in range(CACHED_MAX)}
        state.view.specs.add_saved(cached)
        await pool.execute(
            "INSERT INTO fairlead_scheduler.job_specs (job_id, spec) VALUES ($1, $2)",
            elsewhere,
            b"{}",
        )
        async with state.fold_lock:
            async with locked(other, "job_specs"):
                loading = asyncio.create_task(load_specs(pool, state.view, [here, elsewhere]))
                await somebody_waits(other)
                tidying = asyncio.create_task(trim_caches_safely(state))
                await asyncio.sleep(0)
            await loading
            assert here in state.view.specs
            assert elsewhere in state.view.specs
        await tidying
        assert here not in state.view.specs


async def test_a_job_finds_the_end_of_a_dependency_that_was_just_removed(
    fresh_database: str,
) -> None:
    async with (
        scheduler_database(fresh_database) as (pool, other),
        World.open(fresh_database) as world,
    ):
        state = State(View(), Clusters(), Queues())
        state.view.positions = await world.log.start_positions(topics.JOBS)
        ended = {job_id("first"): JobState.SUCCEEDED}
        ended |= {JobId(f"{n}"): JobState.SUCCEEDED for n in range(follower.RECENT_JOBS_MAX)}
        state.view.recent.update(ended)
        async with locked(other, "ended"):
            following = asyncio.create_task(follower.follow_jobs(world.log, pool, state))
            await world.tell(submitted("second", after=("first",)))
            await somebody_waits(other)
            tidying = asyncio.create_task(trim_caches_safely(state))
            await asyncio.sleep(0)
        await state.wait_until_folded(topics.JOBS, await world.log.end_positions(topics.JOBS))
        await tidying
        following.cancel()
        row = state.view.jobs.rows[job_id("second")]
        assert (
            row not in state.view.jobs.rare_properties
            or not state.view.jobs.rare_properties[row].after
        )
        assert job_id("first") not in state.view.recent
        (second,) = state.view.specs.get_all([job_id("second")]).values()
        assert second.after == (job_id("first"),)


async def test_a_standby_overtaken_by_the_checkpoint_must_restart_from_it(
    fresh_database: str,
) -> None:
    """The leader has folded more, has seen the job end, and keeps its labels no longer."""
    async with (
        scheduler_database(fresh_database) as (pool, _),
        World.open(fresh_database) as world,
    ):
        state = State(View(), Clusters(), Queues())
        state.view.positions = await world.log.start_positions(topics.JOBS)
        following = asyncio.create_task(follower.follow_jobs(world.log, pool, state))
        await world.tell(submitted("a", labels={"team": "x"}))
        await state.wait_until_folded(topics.JOBS, await world.log.end_positions(topics.JOBS))
        state.view.specs.drop([job_id("a")])
        chosen = JobFilter(queue=QUEUE, labels={"team": "x"})
        await world.tell(ev.JobsCancelRequested(filter=chosen))
        with pytest.raises(ViewConflict, match="must restart from that checkpoint"):
            await following
