"""Every reader of every topic reads on after every kind of undecodable record."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final, cast

import pytest

from fairlead_common.db import Pool
from fairlead_common.domain.ids import parse_run_id
from fairlead_common.domain.records.clusters import Node
from fairlead_common.log import compacted_view, topics
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.topics import CLUSTERS, CONFIG, JOBS, REPORTS
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_executor.backends.simulated import SimulatedCluster, Simulation
from fairlead_executor.domain.executor_state import ExecutorState
from fairlead_executor.service.executor import Executor, fence
from fairlead_lookout.store.topic_caches import ClusterCache as LookoutClusters
from fairlead_lookout.store.topic_caches import ConfigurationCache, ReportCache, TopicCache
from fairlead_scheduler.rules.lease_changes import Leases
from fairlead_scheduler.service import follower
from fairlead_scheduler.service.follower import State
from fairlead_scheduler.service.reporter import Reporter
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View
from fairlead_submit.service.cluster_view import ClusterView
from tests import undecodable_records
from tests.undecodable_records import LEASES, PARTITION, UndecodableRecord

WAIT_S_MAX: Final = 120.0
NAMES: Final = ("before", "after")
Reader = Callable[[ValidatingLog], Awaitable[set[str]]]
"""Reads to the end as a service does; the names of the good records that it found."""


async def a_log() -> ValidatingLog:
    inner = MemoryLog(lambda: 1_000)
    for topic in (topics.jobs(), topics.clusters(), topics.config(), topics.reports()):
        await inner.create(topic)
    await inner.create(topics.leases(undecodable_records.EXECUTOR))
    return ValidatingLog(inner, Quarantine("test"))


def core_of(log: ValidatingLog) -> MemoryLog:
    assert isinstance(log.inner, MemoryLog)
    return log.inner


@asynccontextmanager
async def working(*several: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """These run until the block ends; one that fails before ends the block."""
    async with asyncio.timeout(WAIT_S_MAX), asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in several]
        yield
        for task in tasks:
            task.cancel()


async def follow(log: ValidatingLog, topic: str) -> State:
    """The state of a scheduler that has followed this topic to its end."""
    state = State(View(), Clusters(), Queues())
    state.view.positions = await log.start_positions(JOBS)
    no_pool = cast("Pool", None)  # nothing of these records is looked up
    match topic:
        case topics.JOBS:
            work = follower.follow_jobs(log, no_pool, state)
        case topics.CLUSTERS:
            work = follower.follow_clusters(log, state)
        case _:
            work = follower.follow_config(log, state)
    async with working(work):
        await state.wait_until_folded(topic, await log.end_positions(topic))
    return state


async def scheduler_jobs(log: ValidatingLog) -> set[str]:
    state = await follow(log, JOBS)
    return {name for name in NAMES if undecodable_records.job_id(name) in state.view.jobs.rows}


async def scheduler_clusters(log: ValidatingLog) -> set[str]:
    return {name.node for name in (await follow(log, CLUSTERS)).clusters.nodes}


async def scheduler_config(log: ValidatingLog) -> set[str]:
    return set((await follow(log, CONFIG)).queues.by_name)


async def leader_leases(log: ValidatingLog) -> set[str]:
    held = Leases()
    held.read_back(undecodable_records.EXECUTOR, (await compacted_view.read_newest(log, LEASES))[0])
    return {name for name in NAMES if undecodable_records.a_run(name) in held.by_run}


async def leader_reports(log: ValidatingLog) -> set[str]:
    newest, _ = await compacted_view.read_newest(log, REPORTS)
    Reporter(()).restore(newest)
    return {key.partition("/")[2] for key in newest}


def cache(kind: Callable[..., TopicCache]) -> Reader:
    """Lookout's cache of a topic."""

    async def read(log: ValidatingLog) -> set[str]:
        made = kind(log, away_s=10.0)
        async with working(made.run()):
            while not made.ready:  # noqa: ASYNC110 (each step of the cache may make it so)
                await asyncio.sleep(0)
        if isinstance(made, LookoutClusters):
            return {node.name for _, _, nodes in made.read_all() for node in nodes}
        if isinstance(made, ReportCache):
            return {name for name in NAMES if made.read_queue(name).shares}
        assert isinstance(made, ConfigurationCache)
        return {name for name in NAMES if made.find_queue(name) is not None}

    return read


async def submit_clusters(log: ValidatingLog) -> set[str]:
    return {name for _, name in (await ClusterView(log).read()).nodes}


async def executor_leases(log: ValidatingLog) -> set[str]:
    state = await an_executor(log)
    return {name for name in NAMES if undecodable_records.a_run(name) in state.desired}


async def executor_clusters(log: ValidatingLog) -> set[str]:
    """It reads the nodes that it reported, and reports as gone those that are no more."""
    await an_executor(log)
    entries = core_of(log).core.read(CLUSTERS, {0: 0}).entries
    prefix = f"{undecodable_records.EXECUTOR}/"
    return {each.key.removeprefix(prefix) for each in entries if each.value is None and each.key}


async def an_executor(log: ValidatingLog) -> ExecutorState:
    """An executor that has taken over and reported."""
    node = Node(executor=undecodable_records.EXECUTOR, name="n", allocatable={})
    cluster = SimulatedCluster([node], Simulation(min_s=1e6), lambda: 1_000)
    state = ExecutorState(undecodable_records.EXECUTOR, cluster, instance="i", heartbeat_ms=50)
    producer = await fence(log, undecodable_records.EXECUTOR)
    executor = Executor(state, log, producer, "i", lambda: 1_000, lambda: 0.0)
    async with working(executor.run()):
        while executor.problem is not None:  # noqa: ASYNC110 (as above)
            await asyncio.sleep(0)
    return state


READERS: Final[dict[tuple[str, str], Reader]] = {
    (JOBS, "scheduler"): scheduler_jobs,
    (LEASES, "leader"): leader_leases,
    (LEASES, "executor"): executor_leases,
    (CLUSTERS, "scheduler"): scheduler_clusters,
    (CLUSTERS, "lookout"): cache(LookoutClusters),
    (CLUSTERS, "submit"): submit_clusters,
    (CLUSTERS, "executor"): executor_clusters,
    (CONFIG, "scheduler"): scheduler_config,
    (CONFIG, "lookout"): cache(ConfigurationCache),
    (REPORTS, "leader"): leader_reports,
    (REPORTS, "lookout"): cache(ReportCache),
}
CASES: Final = [
    pytest.param(read, each, id=f"{topic}, {name}: {each.kind}")
    for (topic, name), read in READERS.items()
    for each in undecodable_records.make_records(topic)
]


@pytest.mark.parametrize(("read", "found"), CASES)
async def test_records_after_an_undecodable_one_are_read(
    read: Reader, found: UndecodableRecord
) -> None:
    log = await a_log()
    producer = await log.producer("test")
    await producer.append([undecodable_records.good(found.topic, "before")])
    core_of(log).core.write_foreign(
        found.topic, found.partition, found.key, found.value, time_ms=1_000
    )
    await producer.append([undecodable_records.good(found.topic, "after")])
    assert await read(log) == set(NAMES)
    (noted,) = log.quarantine.records.values()
    assert noted.outcome == "skipped"


async def test_the_follower_stops_at_an_unknown_event_and_no_wait_includes_it() -> None:
    log = await a_log()
    producer = await log.producer("test")
    await producer.append([undecodable_records.good(JOBS, "before")])
    found = undecodable_records.unknown_event("jobPainted")
    at = core_of(log).core.write_foreign(JOBS, PARTITION, found.key, found.value, time_ms=1_000)
    await producer.append([undecodable_records.good(JOBS, "after")])
    state = await follow(log, JOBS)
    assert undecodable_records.job_id("before") in state.view.jobs.rows
    assert undecodable_records.job_id("after") not in state.view.jobs.rows
    assert state.view.stopped == {PARTITION}
    assert state.view.positions[PARTITION] == at
    (job_id, _) = parse_run_id(undecodable_records.a_run("before"))
    row = state.view.jobs.rows[job_id]
    assert state.view.select_decidable(state.view.live_rows()).tolist() == []
    assert row in state.view.live_rows()
