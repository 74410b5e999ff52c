"""Compiles or loads the engine's kernels before the first round needs them."""

import msgspec

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.engine.tiny_pools import schedule_tiny_pools
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness


def run_warm_up_rounds() -> None:
    """Rounds over tiny pools: with every rule, and as the snapshot builder makes them."""
    schedule_tiny_pools()
    harness = SchedulerHarness()
    harness.report_node(Node(executor="e", name="n", allocatable={"cpu": 3000}))
    shape = shapes.encode(shapes.Shape(requests={"cpu": 1000}))
    for queue in ("a", "b"):
        jobs = [
            ev.JobSubmitted(
                job_id=JobId(f"{queue}{number}"), shape=shape, spec=msgspec.Raw(b"{}"), digest=""
            )
            for number in range(3)
        ]
        harness.fold_events(queue, jobs)
    harness.run_round()
