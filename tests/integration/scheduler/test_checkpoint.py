"""What a checkpoint holds of jobs that ended, and what it does not keep for ever."""

from collections.abc import Sequence

from fairlead_common import events as ev
from fairlead_common.db import Pool
from fairlead_common.ids import JobId
from fairlead_common.lifecycle import JobState
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_scheduler.clusters import Clusters
from fairlead_scheduler.settings import Rules
from fairlead_scheduler.view import apply, checkpoint
from fairlead_scheduler.view.columns import Ended, NodeName, View
from tests.integration.scheduler.test_following import scheduler_database
from tests.integration.scheduler.world import JOB_SET, QUEUE, job_id, submitted

WEEK_MS = 7 * 86_400_000


async def save(pool: Pool, view: View, nodes: Sequence[tuple[str, str, int]] = ()) -> None:
    """What changed in the view, on top of what is saved."""
    before = await checkpoint.read_positions(pool, "log", JOB_PARTITIONS)
    if before is None:
        await checkpoint.begin(pool, "log", {}, JOB_PARTITIONS)
        before = [0] * JOB_PARTITIONS
    await checkpoint.save(pool, before, checkpoint.take(view, JOB_PARTITIONS), nodes)


def fold(view: View, position: int, *events: ev.AnyEvent) -> None:
    """One message of the one job set."""
    sequence = ev.EventSequence(queue=QUEUE, job_set=JOB_SET, by="test", events=list(events))
    apply.apply(view, [apply.Message(0, position, WEEK_MS, sequence)], {})


async def test_a_log_read_from_far_back_is_saved_although_its_jobs_ended_over_many_weeks(
    fresh_database: str,
) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        view = View()
        ids = [JobId(f"{week:028d}") for week in (9, 3, 12, 5)]
        for number, name in enumerate(ids):
            at_ms = int(name) * WEEK_MS
            view.ended[name] = Ended(JobState.CANCELLED, "d", at_ms, number)
        await save(pool, view)
        assert (await checkpoint.find_ended(pool, ids)).keys() == set(ids)


async def test_shapes_that_no_job_has_any_more_are_dropped(fresh_database: str) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        view = View()
        fold(view, 0, submitted("a"), submitted("b", cpu=2000))
        await save(pool, view)
        fold(view, 1, ev.JobCancelRequested(job_id=job_id("a")))
        await save(pool, view)
        await checkpoint.prune_shapes(pool)
        assert await pool.fetchval("SELECT count(*) FROM fairlead_scheduler.shapes") == 1
        loaded = await checkpoint.load_view(pool, "log", JOB_PARTITIONS, Rules())
        assert loaded is not None
        assert job_id("b") in loaded.jobs.rows


async def test_nodes_that_are_gone_for_good_give_their_numbers_up(fresh_database: str) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        await save(pool, View(), [("e", "n0", 0), ("e", "n1", 1)])
        clusters = Clusters(await checkpoint.read_nodes(pool))
        clusters.expect([NodeName("e", "n1")])
        await checkpoint.prune_nodes(pool, clusters.forget_numbers())
        assert await checkpoint.read_nodes(pool) == {("e", "n1"): 1} == clusters.numbers
        clusters.forget([NodeName("e", "n1")])
        await checkpoint.prune_nodes(pool, clusters.forget_numbers())
        await checkpoint.prune_nodes(pool, clusters.forget_numbers())
        assert await checkpoint.read_nodes(pool) == {}
