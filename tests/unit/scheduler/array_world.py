"""An array of tasks in a small cluster, and what the scheduler decides about it."""

from collections import Counter

import msgspec

from fairlead_common.domain.ids import (
    ArrayId,
    JobId,
    array_id,
    client_job_id,
    parse_task_id,
    task_id,
)
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import index_sets
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.rules.array_tasks import TaskCounts, decide_arrays
from fairlead_scheduler.rules.decider import Decider
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.jobs.task_arrays import ArrayState

ID = array_id(client_job_id(0, "q", "s", "array"))
SHAPE = shapes.encode(shapes.Shape(requests={"cpu": 1000}))


def template(array: ArrayId = ID, **fields: object) -> ev.JobSubmitted:
    """A task of one core; `fields` are those of the event."""
    job = ev.JobSubmitted(
        job_id=JobId(array), shape=SHAPE, spec=msgspec.Raw(b"{}"), digest="d", client_id="array"
    )
    return msgspec.structs.replace(job, **fields)


def array(
    indexes: str,
    running_max: int | None = None,
    made: ArrayId = ID,
    after: ArrayId | None = None,
    **fields: object,
) -> ev.ArraySubmitted:
    """An array with these indexes."""
    count = index_sets.parse(indexes).ranges[-1][1] + 1
    return ev.ArraySubmitted(
        array=made,
        template=template(made, **fields),
        count=count,
        indexes=indexes,
        running_max=running_max,
        after=after,
    )


def node(name: str, cpus: int) -> Node:
    """A node of executor `e0`."""
    amounts = {"cpu": 1000 * cpus, "memory": 1 << 30}
    return Node(executor="e0", name=name, pool="default", allocatable=amounts)


class World:
    """Jobs, arrays and nodes; cycles decide, and what they decide comes back through the log."""

    def __init__(self, *nodes: Node) -> None:
        self.harness = SchedulerHarness()
        self.view = self.harness.view
        for each in nodes:
            self.harness.report_node(each)
        self.counts = TaskCounts()
        self._decider: Decider | None = None

    def fold(self, *events: ev.AnyEvent, queue: str = "q", by: str = "anna") -> None:
        """These events are read from the log, as one message."""
        time_ms = 1000 * (1 + self.harness.position)
        self.harness.fold_events(queue, events, time_ms=time_ms, by=by)
        self.view.validate()

    def release(self) -> list[ev.AnyEvent]:
        """What is decided about arrays; it is folded."""
        batches = decide_arrays(self.view, self.counts)
        facts = [fact for batch in batches for _, fact in batch.facts]
        if facts:
            self.fold(*facts)
        return facts

    def cycle(self) -> list[str]:
        """A whole cycle: what it leases, as indexes and names, in the order of the plan."""
        if self._decider is None:
            self._decider = self.harness.make_decider(SchedulerSettings())
        decider = self._decider
        now_ms = 1000 * (1 + self.harness.position)
        decided = decider.decide_housekeeping(now_ms)
        facts = [fact for batch in decided.batches() for _, fact in batch.facts]
        for pool in decider.pools():
            made = decider.decide_round(pool, decided, now_ms, lambda: 0.0)
            if made is not None:
                for batch in decider.make_batches(made):
                    decider.leases.apply(batch.leases)
                    facts += [fact for _, fact in batch.facts]
        if facts:
            self.fold(*facts)
        leased = [fact for fact in facts if isinstance(fact, ev.JobRunLeased)]
        return [f"{self.name(fact.job_id)}@{fact.node}" for fact in leased]

    def name(self, job_id: JobId) -> str:
        """The index of a task, or what other jobs are called."""
        made, index = parse_task_id(job_id)
        return str(index) if made == ID else f"job-{job_id[-4:]}"

    def succeed(self, *indexes: int) -> None:
        """These tasks run and succeed."""
        for index in indexes:
            job_id = self.task(index)
            run = self.view.jobs.run.item(self.view.jobs.rows[job_id])
            self.fold(ev.JobRunRunning(job_id=job_id, run=run))
            self.fold(ev.JobRunSucceeded(job_id=job_id, run=run))

    def task(self, index: int) -> JobId:
        """The id of a task."""
        return task_id(ID, index)

    @property
    def state(self) -> ArrayState:
        """The array."""
        return self.view.arrays[ID]


def tags(facts: list[ev.AnyEvent]) -> dict[str, int]:
    """How many events of each type."""
    return dict(Counter(str(fact.__struct_config__.tag) for fact in facts))


def lease(world: World, *indexes: int) -> None:
    """A round starts these tasks."""
    for index in indexes:
        world.fold(ev.JobRunLeased(job_id=world.task(index), run=1, executor="e0", node="n0"))


def second() -> ArrayId:
    """The id of another array."""
    return array_id(client_job_id(0, "q", "s", "second"))
