"""Events of a trace, and the view that the scheduler folds from them."""

import numpy as np

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.model.random_draws import RandomDraws
from fairlead_scheduler.simulate.model.simulated_world import World
from fairlead_scheduler.simulate.model.trace import Trace
from fairlead_scheduler.simulate.output.result_files import NullSink
from fairlead_scheduler.snapshots.builder import SLACK

QUEUES = 1_200
"""More than twice the number of messages that have distinct submission numbers within 4 ms."""


def make_world(trace: Trace) -> World:
    """A world with one node."""
    nodes = [Node(executor="e", name="n", allocatable={"cpu": 4000})]
    ledger = Ledger(trace, nodes, SimulationSettings(), 10_000, NullSink())
    return World(trace, nodes, SimulationSettings(), "default", RandomDraws(0), ledger)


def test_many_submissions_at_one_time_have_distinct_ordered_numbers() -> None:
    trace = Trace()
    shape = trace.shapes.number(bytes(shapes.encode(shapes.Shape(requests={"cpu": 1000}))))
    for number in range(3 * QUEUES):
        trace.add(
            f"j{number}",
            submit_ms=number // QUEUES,
            run_ms=1,
            queue=f"q{number % QUEUES}",
            shape=shape,
            priority_class="default",
        )
    world = make_world(trace)
    for moment_ms in range(3):
        first = moment_ms * QUEUES
        world.submit(moment_ms, range(first, first + QUEUES))
    rows = [world.view.jobs.rows[JobId(job_id)] for job_id in trace.ids]
    numbers = world.view.jobs.number[rows]
    assert len(np.unique(numbers)) == len(trace)
    assert (np.diff(numbers.reshape(3, QUEUES), axis=0) > 0).all()


def test_a_job_whose_run_succeeded_ends_without_a_round() -> None:
    trace = Trace()
    shape = trace.shapes.number(bytes(shapes.encode(shapes.Shape(requests={"cpu": 1000}))))
    trace.add("j", submit_ms=0, run_ms=5, queue="q", shape=shape, priority_class="default")
    world = make_world(trace)
    world.submit(0, [0])
    world.run_round(0, explain=True)
    assert world.next_end_ms == 5
    world.end_due(5)
    assert world.ledger.state_of(0) is JobState.SUCCEEDED
    assert JobId("j") not in world.view.jobs.rows
    world.view.validate()


def test_shapes_without_jobs_are_retained_for_later_jobs() -> None:
    trace = Trace()
    for number in range(3 * SLACK):
        requests = {"cpu": 1000 + number}
        shape = trace.shapes.number(bytes(shapes.encode(shapes.Shape(requests=requests))))
        trace.add(
            f"j{number}",
            submit_ms=2 * number,
            run_ms=1,
            queue="q",
            shape=shape,
            priority_class="default",
        )
    world = make_world(trace)
    for number, at_ms in enumerate(trace.submit_ms):
        world.submit(at_ms, [number])
        decided = world.run_round(at_ms, explain=False)
        assert decided is not None
        assert len(decided.built.shapes) == number + 1
        world.end_due(at_ms + 1)
    assert world.ledger.done == len(trace)
