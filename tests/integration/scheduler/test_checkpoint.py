"""What a checkpoint holds, and what it does not keep for ever."""

import asyncio
import gc
import sys
from collections.abc import Sequence
from importlib import resources

import asyncpg
import msgspec
import numpy as np
import pytest

from fairlead_common.db import Pool, migrate, open_pool
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.domain.ids import GroupId, JobId, partition_of_job
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_scheduler.state.checkpoint import checkpoint_rows
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedNames
from fairlead_scheduler.state.checkpoint.checkpoint_parts import ROWS_MAX, CheckpointParts
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.ended_filter import EndedFilter
from fairlead_scheduler.state.jobs.job_table import EndedJob, NodeName
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.view import View
from fairlead_scheduler.store import checkpoint
from tests.integration.scheduler.test_following import locked, scheduler_database, somebody_waits
from tests.integration.scheduler.world import JOB_SET, QUEUE, job_id, submitted
from tests.unit.scheduler.saved import (
    add_jobs,
    change_jobs,
    content_of,
    contents,
    end_jobs,
    random_view,
)

WEEK_MS = 7 * 86_400_000
END_BLOCKED = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE cardinality(pg_blocking_pids(pid)) > 0"
)


async def save(
    pool: Pool,
    view: View,
    nodes: Sequence[tuple[str, str, int]] = (),
    rows_max: int = ROWS_MAX,
) -> None:
    """What changed in the view, on top of what is saved: as a leader that has just begun."""
    before = await checkpoint.read_positions(pool, "log", JOB_PARTITIONS)
    if before is None:
        await checkpoint.create_checkpoint(pool, "log", {}, JOB_PARTITIONS)
        before = [0] * JOB_PARTITIONS
    names = SavedNames(await checkpoint.read_names(pool), unused_max=0)
    left = CheckpointParts(view, names, before, rows_max)
    while not left.is_done:
        await checkpoint.save_changes(pool, left.take_next(), nodes)
        view.specs.end_save()


async def load(pool: Pool) -> View:
    """The view as it was saved."""
    loaded = await checkpoint.load_view(pool, "log", JOB_PARTITIONS, Rules())
    assert loaded is not None
    return loaded


def fold(view: View, position: int, *events: ev.AnyEvent) -> None:
    """One message of the one job set."""
    sequence = ev.EventSequence(queue=QUEUE, job_set=JOB_SET, by="test", events=list(events))
    job_fold.fold_messages(view, [job_fold.Message(0, position, WEEK_MS, sequence)], {})


async def test_a_checkpoint_of_jobs_that_ended_over_many_weeks_is_saved(
    fresh_database: str,
) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        view = View()
        ids = [JobId(f"{week:028d}") for week in (9, 3, 12, 5)]
        for number, name in enumerate(ids):
            at_ms = int(name) * WEEK_MS
            view.ended[name] = EndedJob(JobState.CANCELLED, "d", at_ms, number)
        await save(pool, view)
        assert (await checkpoint.find_ended(pool, ids)).keys() == set(ids)


async def test_what_the_checkpoint_has_of_ended_jobs_is_looked_up(fresh_database: str) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        view = View()
        ids = [JobId(f"{number * number * 7_919:028d}") for number in range(1, 20_001)]
        for number, name in enumerate(ids):
            at_ms = number % 3 * WEEK_MS
            view.ended[name] = EndedJob(JobState.SUCCEEDED, "d", at_ms, number)
        await save(pool, view)
        found = EndedFilter()
        await checkpoint.load_ended_filter(pool, found)
        assert found.select_possible(ids) == sorted(ids)
        others = [JobId(f"{number * number * 7_919 + 1:028d}") for number in range(1, 20_001)]
        assert len(found.select_possible(others)) < 100


async def test_saved_rows_are_freed_without_garbage_collection(fresh_database: str) -> None:
    """A long-lived scheduler collects cycles rarely; some hundred kB per save would add up."""
    async with scheduler_database(fresh_database) as (pool, _):
        view = View()
        await save(pool, view)
        before = await checkpoint.read_positions(pool, "log", JOB_PARTITIONS)
        assert before is not None
        fold(view, 0, submitted("a"), submitted("b"))
        names = SavedNames(await checkpoint.read_names(pool))
        changes = CheckpointParts(view, names, before).take_next()
        assert changes.new_jobs is not None
        gc.disable()
        try:
            references = (
                sys.getrefcount(changes.new_jobs),
                sys.getrefcount(changes.new_jobs.records),
            )
            await checkpoint.save_changes(pool, changes)
            afterwards = (
                sys.getrefcount(changes.new_jobs),
                sys.getrefcount(changes.new_jobs.records),
            )
        finally:
            gc.enable()
        assert afterwards == references


async def test_unused_names_are_deleted_from_the_checkpoint(fresh_database: str) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        view = View()
        fold(view, 0, submitted("a"), submitted("b", cpu=2000))
        await save(pool, view)
        fold(view, 1, ev.JobCancelRequested(job_id=job_id("a")))
        await save(pool, view)
        kinds = [kind for kind, *_ in await checkpoint.read_names(pool)]
        assert sorted(kinds) == ["job_set", "pool", "shape"]
        assert job_id("b") in (await load(pool)).jobs.rows


async def test_a_leader_that_does_not_know_what_was_saved_saves_it_again(
    fresh_database: str,
) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        view, chance = random_view(1, 200), np.random.default_rng(1)
        await save(pool, view)
        ids = [JobId(name) for name in content_of(view)]
        unknown = [view.jobs.rows[name] for name in ids[:60]]
        view.jobs.in_checkpoint[unknown] = False
        change_jobs(view, chance, ids[30:90])
        await save(pool, view)
        assert content_of(await load(pool)) == content_of(view)


@pytest.mark.parametrize("seed", range(3))
async def test_a_view_saved_in_steps_is_loaded_unchanged(fresh_database: str, seed: int) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        view, chance = random_view(seed, 200), np.random.default_rng(seed)
        await save(pool, view)
        for _ in range(3):
            ids = [JobId(name) for name in content_of(view)]
            chance.shuffle(ids)
            end_jobs(view, ids[:20])
            change_jobs(view, chance, ids[20:60])
            add_jobs(view, chance, 30)
            view.positions[3] += 1
            await save(pool, view)
        loaded = await load(pool)
        assert content_of(loaded) == content_of(view)
        assert loaded.positions == view.positions


async def test_a_save_while_a_view_is_loaded_changes_nothing_of_it(fresh_database: str) -> None:
    """Records and rare properties are read on two connections."""
    async with scheduler_database(fresh_database) as (pool, other):
        view = random_view(2, 200)
        await save(pool, view)
        async with locked(other, "names"):
            loading = asyncio.create_task(load(pool))
            await somebody_waits(other)
            await other.execute("UPDATE fairlead_scheduler.jobs SET rare = NULL")
        assert content_of(await loading) == content_of(view)


async def test_an_interrupted_save_leaves_a_valid_checkpoint(
    fresh_database: str,
) -> None:
    async with scheduler_database(fresh_database) as (pool, other):
        view, chance = random_view(1, 200), np.random.default_rng(1)
        await save(pool, view)
        old = content_of(view), dict(view.positions)
        change_jobs(view, chance, [JobId(name) for name in old[0]])
        add_jobs(view, chance, 100)
        view.positions = {partition: at + 1 for partition, at in old[1].items()}
        before = await checkpoint.read_positions(pool, "log", JOB_PARTITIONS)
        assert before is not None
        parts = CheckpointParts(
            view, SavedNames(await checkpoint.read_names(pool)), before, rows_max=50
        )
        await checkpoint.save_changes(pool, parts.take_next())
        late = parts.take_next()
        async with locked(other, "jobs"):
            saving = asyncio.create_task(checkpoint.save_changes(pool, late))
            await somebody_waits(other)
            await other.execute(END_BLOCKED)  # as after `kill -9`
            with pytest.raises((asyncpg.InterfaceError, asyncpg.AdminShutdownError)):
                await saving
        loaded = await load(pool)
        new = content_of(view), view.positions
        saved = contents(loaded)
        for partition, position in loaded.positions.items():
            content, positions = new if position == new[1][partition] else old
            assert position == positions[partition]
            expected = {n: each for n, each in content.items() if partition_of_job(n) == partition}
            assert saved[partition] == expected
        assert old[1] != loaded.positions != new[1]


async def test_submissions_saved_early_are_found_and_deleted_with_their_jobs(
    fresh_database: str,
) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        view, names = View(), SavedNames()
        await checkpoint.create_checkpoint(pool, "log", {}, JOB_PARTITIONS)
        saved = [0] * JOB_PARTITIONS
        for position, name in enumerate("abc"):
            fold(view, position, submitted(name))
        early = view.specs.begin_save(2)
        assert early is not None
        await checkpoint.save_specs(pool, saved, early)
        view.specs.end_save()
        ids = [job_id("a"), job_id("b")]
        assert (await checkpoint.read_specs(pool, ids)).keys() == set(ids)
        assert content_of(await load(pool)) == {}
        # the next leader folds them again, and something else than was saved of b, and a has ended
        view = View()
        for position, name in enumerate("abc"):
            labels = {"again": "yes"} if name == "b" else {}
            fold(view, position, submitted(name, labels=labels))
        fold(view, 3, ev.JobCancelRequested(job_id=job_id("a")))
        parts = CheckpointParts(view, names, saved)
        await checkpoint.save_changes(pool, parts.take_next())
        found = await checkpoint.read_specs(pool, [*ids, job_id("c")])
        assert found.keys() == {job_id("b"), job_id("c")}
        assert b"again" in found[job_id("b")]
        again = view.specs
        again.end_save()
        again.unsaved = {job_id("d"): submitted("d")}
        late = again.begin_save()
        assert late is not None
        with pytest.raises(ViewConflict):
            await checkpoint.save_specs(pool, saved, late)


async def test_groups_are_saved_and_forgotten_with_their_last_member(fresh_database: str) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        view, group = View(), GroupId("0" * 28)
        terms = ev.Group(roles=(ev.GroupRole("worker", 1, 1),))
        member = msgspec.structs.replace(submitted("a"), group=ev.GroupMember(group, "worker", 0))
        fold(view, 0, ev.GroupSubmitted(group=group, terms=terms, digest="d"), member)
        await save(pool, view)
        loaded = await load(pool)
        assert loaded.groups == view.groups
        assert loaded.gangs == view.gangs
        loaded.validate()
        cancelled = ev.JobCancelRequested(job_id=job_id("a"))
        fold(view, 1, cancelled, ev.GroupCancelled(group=group, reason=""))
        await save(pool, view)
        assert not (await load(pool)).groups
        assert JobId(group) in await checkpoint.find_ended(pool, [JobId(group)])


async def test_a_checkpoint_of_an_empty_view_is_loaded(fresh_database: str) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        await save(pool, View())
        assert content_of(await load(pool)) == {}


async def test_a_checkpoint_of_the_old_tables_is_converted(fresh_database: str) -> None:
    pool = await open_pool(fresh_database, name="old")
    try:
        await make_old_tables(pool)
        view = random_view(7, 300)
        await save_in_old_tables(pool, view)
        await migrate(pool, "fairlead_scheduler", "fairlead_scheduler.store")
        assert content_of(await load(pool)) == content_of(view)
        add_jobs(view, np.random.default_rng(8), 30)
        await save(pool, view)
        assert content_of(await load(pool)) == content_of(view)
    finally:
        await pool.close()


async def make_old_tables(pool: Pool) -> None:
    """The schema as it was before records."""
    await pool.execute("CREATE SCHEMA fairlead_scheduler")
    await pool.execute(
        "CREATE TABLE fairlead_scheduler.migrations"
        " (name text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
    )
    folder = resources.files("fairlead_scheduler.store").joinpath("migrations")
    for name in ("0001_view.sql", "0002_running_and_buckets.sql", "0003_room.sql"):
        await pool.execute(folder.joinpath(name).read_text())
        await pool.execute("INSERT INTO fairlead_scheduler.migrations (name) VALUES ($1)", name)


async def save_in_old_tables(pool: Pool, view: View) -> None:
    """Every job in columns of its own, with its names."""
    jobs = view.jobs
    positions = [view.positions[partition] for partition in range(JOB_PARTITIONS)]
    await pool.execute(
        "INSERT INTO fairlead_scheduler.view (log_id, positions) VALUES ('log', $1)", positions
    )
    plain = [name for name in checkpoint_rows.PLAIN if name != "digest"]
    for row in view.live_rows().tolist():
        shape = jobs.shapes.values[jobs.shape[row]]
        key = shapes.key(*shape)
        await pool.execute(
            "INSERT INTO fairlead_scheduler.shapes VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            key,
            *shape,
        )
        node = jobs.nodes.values[jobs.node[row]] if jobs.node[row] >= 0 else (None, None)
        job_set = jobs.job_sets.values[jobs.job_set[row]]
        rare = jobs.rare_properties.get(row)
        values = {
            "job_id": jobs.rows.id_at(row),
            "digest": jobs.digest_of(row),
            "pool": jobs.pools.values[jobs.pool[row]],
            "queue": job_set.queue,
            "job_set": job_set.name,
            "shape": key,
            "executor": node[0],
            "node": node[1],
            "rare": None if rare is None else msgspec.json.encode(rare),
            **{name: getattr(jobs, name)[row].item() for name in plain},
        }
        marks = ", ".join(f"${place}" for place in range(1, len(values) + 1))
        await pool.execute(
            f"INSERT INTO fairlead_scheduler.jobs ({', '.join(values)}) VALUES ({marks})",
            *values.values(),
        )


async def test_a_checkpoint_of_a_newer_version_is_refused(fresh_database: str) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        await save(pool, View())
        await pool.execute("UPDATE fairlead_scheduler.view SET format = format + 1")
        with pytest.raises(checkpoint.NewerFormat, match="newer version"):
            await load(pool)


async def test_numbers_of_removed_nodes_are_released(fresh_database: str) -> None:
    async with scheduler_database(fresh_database) as (pool, _):
        await save(pool, View(), [("e", "n0", 0), ("e", "n1", 1)])
        clusters = Clusters(await checkpoint.read_nodes(pool))
        clusters.expect_nodes([NodeName("e", "n1")])
        await checkpoint.prune_nodes(pool, clusters.release_numbers())
        assert await checkpoint.read_nodes(pool) == {("e", "n1"): 1} == clusters.numbers
        clusters.forget_missing([NodeName("e", "n1")])
        await checkpoint.prune_nodes(pool, clusters.release_numbers())
        await checkpoint.prune_nodes(pool, clusters.release_numbers())
        assert await checkpoint.read_nodes(pool) == {}
