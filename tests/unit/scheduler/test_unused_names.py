"""Names that no job uses are forgotten, and nothing else changes for who keeps their numbers."""

import msgspec
import numpy as np

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import clusters as cluster_records
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import Entry
from fairlead_scheduler.engine import schedule
from fairlead_scheduler.snapshots import Builder, BuiltSnapshot
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.deadlines import Deadlines
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.job_table import NodeName
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View, forget_names

SPARE = 10


def fold(view: View, *events: ev.AnyEvent, queue: str = "q") -> None:
    position = view.positions.get(0, 0)
    sequence = ev.EventSequence(queue=queue, job_set="s", by="test", events=list(events))
    job_fold.fold_messages(view, [job_fold.Message(0, position, 1_000 * position, sequence)], {})


def submitted(name: str, cpu: int = 1000, pool: str = "default") -> ev.JobSubmitted:
    return ev.JobSubmitted(
        job_id=JobId(name),
        shape=shapes.encode(shapes.Shape(requests={"cpu": cpu})),
        spec=msgspec.Raw(b"{}"),
        digest="",
        pool=pool,
    )


def live_and_die(view: View, number: int) -> None:
    """A job with a queue, a shape, a pool and a node of its own, from its start to its end."""
    job_id = JobId(f"j{number}")
    queue = f"q{number}"
    fold(view, submitted(job_id, 1000 + number, f"p{number}"), queue=queue)
    fold(view, ev.JobRunLeased(job_id=job_id, run=1, executor="e", node=f"n{number}"), queue=queue)
    fold(view, ev.JobRunSucceeded(job_id=job_id, run=1), queue=queue)
    fold(view, ev.JobSucceeded(job_id=job_id), queue=queue)


def sizes(view: View) -> list[int]:
    jobs = view.jobs
    return [len(names) for names in (jobs.queues, jobs.shapes, jobs.pools, jobs.nodes)]


def test_the_number_of_names_is_bounded() -> None:
    view = View()
    fold(view, submitted("stays"))
    for number in range(200):
        live_and_die(view, number)
        forget_names(view, SPARE)
        assert max(sizes(view)) <= SPARE + 3
    row = view.jobs.rows[JobId("stays")]
    assert view.jobs.queues.values[view.jobs.queue[row]] == "q"
    assert view.jobs.shape_of(int(view.jobs.shape[row])).requests == {"cpu": 1000}


def test_used_names_are_retained_without_a_scan_each_time() -> None:
    view = View()
    for number in range(4 * SPARE):
        fold(view, submitted(f"j{number}", 1000 + number))
    forget_names(view, SPARE)
    assert view.jobs.numbering == 0
    assert view.jobs.names_used["shape"] == 4 * SPARE


def report_node(clusters: Clusters, cpu: int) -> None:
    record = cluster_records.node_record(
        Node(executor="e", name="n", allocatable={"cpu": cpu, "memory": 1})
    )
    clusters.fold([Entry(0, 0, record.key, record.value, 0)])


def build(builder: Builder) -> BuiltSnapshot:
    builder.update(now_ms=0)
    return builder.build("default", now_ms=0)


def test_a_feasible_shape_is_not_rejected_later() -> None:
    view, clusters, queues = View(), Clusters(), Queues()
    builder = Builder((), Rules(), view, clusters, queues)
    report_node(clusters, 4000)
    fold(view, submitted("first"), submitted("second"))
    built = build(builder)
    builder.remember_feasible(built, schedule(built.snapshot, builder.engine_settings()))
    version = builder.version("default")
    for number in range(2 * SPARE):
        live_and_die(view, number)
    report_node(clusters, 500)
    forget_names(view, SPARE)
    assert view.jobs.numbering > 0
    again = build(builder)
    plan = schedule(again.snapshot, builder.engine_settings())
    assert not len(plan.placed_job)
    assert not len(plan.rejected_job)
    anew = build(Builder((), Rules(), view, clusters, queues))
    assert len(schedule(anew.snapshot, builder.engine_settings()).rejected_job) == 2
    assert builder.version("default") > version, "or a round would be left out as settled"


def test_runs_are_counted_on_their_nodes_under_the_new_numbers() -> None:
    view, watch = View(), Deadlines()
    for number in range(2 * SPARE):
        live_and_die(view, number)
    watch.update(view)
    fold(view, submitted("a"))
    fold(view, ev.JobRunLeased(job_id=JobId("a"), run=1, executor="e", node="new"))
    forget_names(view, SPARE)
    watch.update(view)
    (name,) = watch.find_nodes_with_runs(view)
    assert name.node == "new"
    assert watch.find_rows_on_nodes(view, [name]) == [view.jobs.rows[JobId("a")]]


def test_nodes_without_jobs_are_not_in_use() -> None:
    view, watch = View(), Deadlines()
    view.jobs.nodes.number(NodeName("e", "n"))  # as a checkpoint that still holds the name does
    watch.update(view)
    assert watch.find_nodes_with_runs(view) == []
    assert watch.find_rows_on_nodes(view, [NodeName("e", "n")]) == []


def test_rows_without_a_job_have_valid_numbers() -> None:
    view = View()
    for number in range(2 * SPARE):
        live_and_die(view, number)
    forget_names(view, SPARE)
    used = slice(0, view.jobs.used)
    assert np.all(view.jobs.shape[used] == 0)
    assert sizes(view) == [0, 0, 0, 0]
