"""The executor and a log that fails: what is told is told, and nothing is done before it is."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records import clusters, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.leases import Lease
from fairlead_common.log import topics
from fairlead_common.log.memory_log import AppendFailure, MemoryLog
from fairlead_executor.backends.simulated import SimulatedCluster, Simulation
from fairlead_executor.domain.executor_state import ExecutorState
from fairlead_executor.domain.pods import Phase
from fairlead_executor.service.executor import (
    Executor,
    Superseded,
    fence,
    pause_after_s,
    producer_name,
)
from tests.unit.executor.build import lease, run

WAIT_S_MAX: Final = 120.0
NAME: Final = producer_name("e")


class Bed:
    """A log in memory, a scheduler's pen, and executors over one simulated cluster."""

    def __init__(self) -> None:
        self._time = itertools.count(1_000)
        self.log = MemoryLog(self.clock)
        node = Node(executor="e", name="n0", allocatable={})
        self.cluster = SimulatedCluster([node], Simulation(min_s=1e6), self.clock)

    def clock(self) -> int:
        """Time passes as it is looked at."""
        return next(self._time)

    async def executor(self, instance: str) -> Executor:
        producer = await fence(self.log, "e")
        state = ExecutorState("e", self.cluster, instance=instance, heartbeat_ms=50)
        return Executor(state, self.log, producer, instance, self.clock, lambda: 0.0)

    @asynccontextmanager
    async def running(self, executor: Executor) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(executor.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def write(self, *several: Lease) -> None:
        pen = await self.log.producer("scheduler")
        await pen.append([leases.record("e", each) for each in several])

    def told(self) -> list[tuple[str, RunId]]:
        """All reports in order."""
        found = []
        positions = self.log.core.start_positions(topics.JOBS)
        for entry in self.log.core.read(topics.JOBS, positions).entries:
            assert entry.value is not None
            for event in ev.decode(entry.value).events:
                assert isinstance(event, ev.RunEvent)
                name = RunId(f"{event.job_id}-{event.run}")
                found.append((type(event).__name__.removeprefix("JobRun"), name))
        return found

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S_MAX):
            while not is_so():  # noqa: ASYNC110 (each step of the others may make it so)
                await asyncio.sleep(0)

    def is_created(self, name: str) -> bool:
        return run(name) in self.cluster.pods


async def ready(bed: Bed, executor: Executor) -> None:
    await bed.until(lambda: executor.problem is None)


@pytest.mark.parametrize("failure", list(AppendFailure))
async def test_a_report_is_repeated_until_it_is_appended(failure: AppendFailure) -> None:
    bed = Bed()
    executor = await bed.executor("i1")
    async with bed.running(executor) as task:
        await ready(bed, executor)
        bed.log.core.fail_next(failure, NAME)
        bed.log.core.fail_next(failure, NAME)
        await bed.write(lease("a"))
        await bed.until(lambda: bed.is_created("a"))
        assert ("Pending", run("a")) in bed.told()
        assert not task.done()


async def test_no_run_is_created_while_the_log_is_unavailable() -> None:
    bed = Bed()
    executor = await bed.executor("i1")
    async with bed.running(executor):
        await ready(bed, executor)
        for _ in range(3):
            bed.log.core.fail_next(AppendFailure.REFUSED, NAME)
        await bed.write(lease("a"))
        await bed.until(lambda: executor.problem is not None)
        assert not bed.is_created("a")
        await bed.until(lambda: bed.is_created("a"))
        assert executor.problem is None


async def test_a_fenced_executor_ends_without_further_actions() -> None:
    bed = Bed()
    first = await bed.executor("i1")
    async with bed.running(first) as task:
        await ready(bed, first)
        second = await bed.executor("i2")
        await bed.write(lease("a"))
        assert await _ends_superseded(task)
        assert not bed.is_created("a")
        async with bed.running(second):
            await bed.until(lambda: bed.is_created("a"))


async def test_after_an_unknown_outcome_an_executor_ends_if_another_has_started() -> None:
    bed = Bed()
    first = await bed.executor("i1")
    async with bed.running(first) as task:
        await ready(bed, first)
        # As if another had taken over, appended, and died, while our answer was on its way.
        pen = await bed.log.producer("another log's end of the world")
        beat = clusters.Heartbeat(executor="e", instance="i2")
        await pen.append([clusters.heartbeat_record(beat)])
        bed.log.core.fail_next(AppendFailure.UNKNOWN_NOT_WRITTEN, NAME)
        await bed.write(lease("a"))
        assert await _ends_superseded(task)
        assert not bed.is_created("a")


async def _ends_superseded(task: Awaitable[None]) -> bool:
    async with asyncio.timeout(WAIT_S_MAX):
        try:
            await task
        except BaseExceptionGroup as group:
            return group.subgroup(Superseded) is not None
    return False


async def test_shutting_down_stops_live_runs_and_reports_it() -> None:
    bed = Bed()
    executor = await bed.executor("i1")
    async with bed.running(executor):
        await ready(bed, executor)
        await bed.write(lease("a"))
        await bed.until(lambda: ("Running", run("a")) in bed.told())
    await executor.shut_down(5)
    assert bed.told()[-1] == ("Stopped", run("a"))
    assert bed.cluster.pods[run("a")].phase is Phase.ENDED


async def test_a_successor_reports_ends_again() -> None:
    bed = Bed()
    first = await bed.executor("i1")
    async with bed.running(first):
        await ready(bed, first)
        await bed.write(lease("a", node="gone"))
        await bed.until(lambda: ("Returned", run("a")) in bed.told())
    second = await bed.executor("i2")
    async with bed.running(second):
        await bed.until(lambda: bed.told().count(("Returned", run("a"))) == 2)


@pytest.mark.parametrize(
    ("did", "took_s", "want_s"),
    [(0, 0.0, 0.02), (999, 0.05, 0.15), (999, 1.0, 0.25), (1_000, 0.05, 0.0), (9_999, 1.0, 0.0)],
)
def test_a_full_turn_is_followed_by_the_next_without_delay(
    did: int, took_s: float, want_s: float
) -> None:
    assert pause_after_s(did, took_s) == pytest.approx(want_s)
