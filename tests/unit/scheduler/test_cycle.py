"""What a cycle appends while events go on giving rows of the view to other jobs."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import configuration, scheduling_reports
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.scheduling_reports import QueueShare
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.log.protocol import Appended, Producer, Record
from fairlead_common.log.topics import CONFIG, JOBS, REPORTS, config
from fairlead_common.service.disk import Bounds, Disk
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.rules.decider import Decider
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.service import follower
from fairlead_scheduler.service.cycle import Cycle
from fairlead_scheduler.service.follower import State
from fairlead_scheduler.service.full_disk import FullDisk
from fairlead_scheduler.service.reporter import Reporter
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.array_world import array
from tests.unit.scheduler.facts import fold, message, submitted

ROUND_S_MAX: Final = 30.0
WAITS, STARTS, LATER = JobId("waits"), JobId("starts"), JobId("later")


class _Busy:
    """A producer during whose first append a job ends, and its row is given to another job."""

    name = "scheduler"

    def __init__(self, state: State) -> None:
        self._state = state
        self.appended: list[Record] = []

    async def append(self, records: Sequence[Record]) -> Appended:
        """Fold what others appended at the same time."""
        if not self.appended:
            async with self._state.fold_lock:
                view = self._state.view
                cancelled = ev.JobCancelRequested(job_id=WAITS)
                job_fold.fold_messages(view, [message(1, cancelled, time_ms=1_000)], {})
                job_fold.fold_messages(view, [message(2, queue="other", time_ms=100_000)], {})
                job_fold.fold_messages(view, [message(3, submitted(LATER), queue="other")], {})
        self.appended += records
        return {}

    async def close(self) -> None:
        """Nothing to give up."""


def with_one_core(view: View) -> tuple[SchedulerHarness, State]:
    """A scheduler with these jobs, and one executor with one node."""
    harness = SchedulerHarness(view=view)
    harness.report_node(Node(executor="e0", name="n0", allocatable={"cpu": 1000}))
    return harness, State(view, harness.clusters, harness.queues)


async def nothing_to_fold() -> None:
    """The configuration does not change."""


def make_cycle(
    decider: Decider,
    state: State,
    producer: Producer,
    fold_configuration: Callable[[], Awaitable[None]] = nothing_to_fold,
    full_disk: FullDisk | None = None,
) -> Cycle:
    """A cycle without a database: all specs are in memory."""
    return Cycle(
        decider,
        state,
        producer,
        cast(Any, None),
        Reporter(),
        fold_configuration=fold_configuration,
        full_disk=full_disk,
    )


async def test_a_report_names_the_job_that_waited_when_the_round_was_decided() -> None:
    view = fold([submitted(STARTS), submitted(WAITS)])
    row = view.jobs.rows[WAITS]
    harness, state = with_one_core(view)
    decider = harness.make_decider(SchedulerSettings())
    producer = _Busy(state)
    cycle = make_cycle(decider, state, producer)
    await cycle.run_once()
    assert view.jobs.rows[LATER] == row
    said = [
        scheduling_reports.decode(record.value)
        for record in producer.appended
        if record.topic == REPORTS and record.value is not None
    ]
    (share,) = [report for report in said if isinstance(report, QueueShare)]
    assert share.first_waiting == WAITS


async def test_the_event_loop_goes_on_during_a_round() -> None:
    harness, state = with_one_core(fold([submitted(WAITS)]))
    began, released = threading.Event(), threading.Event()

    def engine(snapshot: Snapshot, settings: EngineSettings, **rest: Any) -> Plan:
        began.set()
        assert released.wait(ROUND_S_MAX), "the loop stood still while this round was running"
        return schedule(snapshot, settings, **rest)

    decider = harness.make_decider(SchedulerSettings(), engine=engine)
    cycle = make_cycle(decider, state, _Busy(state))
    turn = asyncio.create_task(cycle.run_once())
    assert await asyncio.to_thread(began.wait, ROUND_S_MAX)
    assert state.fold_lock.locked(), "nothing may change what the round reads"
    released.set()
    await turn
    assert state.pool_failures.describe() is None


class _Recorder:
    """A producer that keeps what is appended."""

    name = "scheduler"

    def __init__(self) -> None:
        self.events: list[ev.AnyEvent] = []

    async def append(self, records: Sequence[Record]) -> Appended:
        """Keep the events."""
        for record in records:
            if record.topic == JOBS and record.value is not None:
                self.events += ev.decode(record.value).events
        return {}

    async def close(self) -> None:
        """Nothing to give up."""


async def test_no_task_of_an_array_becomes_a_job_while_the_disk_is_nearly_full() -> None:
    view = View()
    submission = message(0, array("0-9", running_max=3), time_ms=1_790_000_000_000)
    job_fold.fold_messages(view, [submission], {})
    harness, state = with_one_core(view)
    decider = harness.make_decider(SchedulerSettings())
    for free, released in ((Bounds().low - 1, 0), (Bounds().low_ends, 3)):
        disk = Disk("/", free=lambda _, free=free: free)  # type: ignore[misc]
        producer = _Recorder()
        cycle = make_cycle(decider, state, producer, full_disk=FullDisk(disk))
        await cycle.run_once()
        tasks = [event for event in producer.events if isinstance(event, ev.JobSubmitted)]
        assert len(tasks) == released


async def test_a_cordon_that_precedes_a_job_in_the_log_is_in_effect_although_it_is_read_later() -> (
    None
):
    log = MemoryLog(lambda: 0)
    await log.create(config())
    harness, state = with_one_core(fold([submitted(WAITS)]))
    cordon = configuration.Cordon(executor="e0", version=1, cordoned=True)
    await (await log.producer("submit")).append([configuration.record(cordon)])

    recorder = _Recorder()
    waits = asyncio.Event()

    async def fold_configuration() -> None:
        assert state.lookup_lock.locked(), "a job that is folded now could precede a newer cordon"
        assert not state.fold_lock.locked(), "the configuration could not be folded"
        waits.set()
        await state.wait_until_folded(CONFIG, await log.end_positions(CONFIG))

    decider = harness.make_decider(SchedulerSettings())
    cycle = make_cycle(decider, state, recorder, fold_configuration)
    async with asyncio.TaskGroup() as tasks:
        turn = tasks.create_task(cycle.decide_and_append())
        await waits.wait()
        reading = tasks.create_task(follower.follow_config(log, state))
        await turn
        reading.cancel()
    assert recorder.events == []
    await log.close()
