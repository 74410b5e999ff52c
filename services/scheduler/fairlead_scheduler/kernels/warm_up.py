"""Compiles or loads the engine's kernels before the first round needs them."""

import msgspec

from fairlead_common.domain import shapes
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.priority_classes import DEFAULT_CLASSES
from fairlead_common.domain.records import clusters as cluster_records
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.log import Entry
from fairlead_scheduler.engine import schedule
from fairlead_scheduler.engine.warm_up import compile_all
from fairlead_scheduler.snapshots import Builder
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View


def run_warm_up_rounds() -> None:
    """Rounds over tiny pools: with every rule, and as the snapshot builder makes them."""
    compile_all()
    view, clusters = View(), Clusters()
    node = cluster_records.node_record(Node(executor="e", name="n", allocatable={"cpu": 3000}))
    clusters.fold([Entry(0, 0, node.key, node.value, 0)])
    shape = shapes.encode(shapes.Shape(requests={"cpu": 1000}))
    for position, queue in enumerate(("a", "b")):
        jobs: list[ev.AnyEvent] = [
            ev.JobSubmitted(
                job_id=JobId(f"{queue}{number}"), shape=shape, spec=msgspec.Raw(b"{}"), digest=""
            )
            for number in range(3)
        ]
        sequence = ev.EventSequence(queue=queue, job_set="s", by="", events=jobs)
        job_fold.fold_messages(view, [job_fold.Message(0, position, 0, sequence)], {})
    builder = Builder(DEFAULT_CLASSES, Rules())
    built = builder.build(view, clusters, Queues(), "default", now_ms=0)
    schedule(built.snapshot, builder.engine_settings())
