"""How a trace becomes the log that the scheduler's view is folded from."""

import numpy as np

from fairlead_common.domain import shapes
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records.clusters import Node
from fairlead_scheduler.simulate.input.settings_file import Given
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.model.random_draws import Chance
from fairlead_scheduler.simulate.model.simulated_world import World
from fairlead_scheduler.simulate.model.trace import Trace
from fairlead_scheduler.simulate.output.result_files import Nowhere

QUEUES = 1_200
"""More messages than submission numbers can tell apart within 4 ms, twice over."""


def world_of(trace: Trace) -> World:
    """A world with one node."""
    nodes = [Node(executor="e", name="n", allocatable={"cpu": 4000})]
    ledger = Ledger(trace, nodes, Given(), 10_000, Nowhere())
    return World(trace, nodes, Given(), "default", Chance(0), ledger)


def test_however_many_come_at_one_moment_they_are_told_apart_and_keep_their_order() -> None:
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
    world = world_of(trace)
    for moment_ms in range(3):
        first = moment_ms * QUEUES
        world.submit(moment_ms, range(first, first + QUEUES))
    rows = [world.view.jobs.rows[JobId(job_id)] for job_id in trace.ids]
    numbers = world.view.jobs.number[rows]
    assert len(np.unique(numbers)) == len(trace)
    assert (np.diff(numbers.reshape(3, QUEUES), axis=0) > 0).all()
