"""What a cycle remembers of pools that fail."""

import asyncio
from typing import Any, cast

from fairlead_common.domain.records import clusters
from fairlead_common.log import Entry
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.log.topics import reports
from fairlead_scheduler.cases.case_file import Case, Nodes
from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.rules.pool_failures import RETRY_S_MIN
from fairlead_scheduler.service.cycle import Cycle
from fairlead_scheduler.service.follower import State
from fairlead_scheduler.service.reporter import Reporter
from fairlead_scheduler.service.settings import SchedulerSettings


async def nothing_to_fold() -> None:
    """The configuration does not change in these tests."""


class _FailingReporter(Reporter):
    """Raises whenever it reports a round."""

    def report_round(self, *_: Any, **__: Any) -> Any:  # whatever a reporter takes
        raise ArithmeticError("shares of imaginary size")


async def failing(reporter: Reporter | None = None) -> tuple[State, Cycle]:
    """A pool with one node, of which no report can be made, after its first round."""
    world = World(Case(name="c", nodes=[Nodes(name="n", resources={"cpu": 1})], rounds=[]))
    state = State(world.view, world.clusters, world.queues)
    decider = world.make_decider(SchedulerSettings())
    log = MemoryLog(lambda: 0)
    await log.create(reports())
    producer = await log.producer("scheduler")
    cycle = Cycle(
        decider,
        state,
        producer,
        cast(Any, None),
        reporter or _FailingReporter(),
        fold_configuration=nothing_to_fold,
    )
    await cycle.run_once()
    return state, cycle


async def test_a_new_leader_reports_only_once_it_knows_what_was_reported() -> None:
    reporter = _FailingReporter(is_ready=False)
    state, cycle = await failing(reporter)
    assert state.pool_failures.describe() is None
    reporter.restore({})
    await cycle.run_once()
    assert state.pool_failures.describe() is not None


async def test_a_pool_whose_report_keeps_failing_counts_every_failure() -> None:
    state, cycle = await failing()
    await asyncio.sleep(RETRY_S_MIN + 0.05)
    await cycle.run_once()
    assert state.pool_failures.by_pool["default"].times == 2


async def test_the_failure_of_a_pool_is_forgotten_with_the_pool() -> None:
    state, cycle = await failing()
    assert state.pool_failures.describe() is not None
    gone = clusters.removed_node_record("e0", "n0")
    state.clusters.fold([Entry(0, 0, gone.key, None, 0)])
    await cycle.run_once()
    assert state.pool_failures.describe() is None
