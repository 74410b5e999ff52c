"""Starts a simulation with the nodes, queues and jobs of a running Fairlead.

The values are those of the public API (`GET /clusters`, `/queues`, `/priority-classes` and the
export of jobs with `include=submission`), read with the caller's token.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead_common.domain import timestamps
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import FIFO, Queue
from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_common.domain.scheduling.priority_classes import (
    DEFAULT_CLASSES,
    Preemption,
    PriorityClass,
)
from fairlead_common.domain.scheduling.shapes import Taint
from fairlead_scheduler.simulate.input.job_lines import to_ms
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings
from fairlead_scheduler.simulate.input.submit_file import add_optional_fields
from fairlead_scheduler.simulate.model.trace import NEVER, ExistingRun, Trace

Values = Mapping[str, Any]
"""JSON of the public API."""
_NO_SPEC: Final = msgspec.Raw(b"{}")


class _Response(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A part of a response; unknown fields are ignored."""


class _Node(_Response, frozen=True, kw_only=True):
    node: str
    pool: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    cordoned: bool = False
    allocatable: dict[str, float] = {}


class _Cluster(_Response, frozen=True, kw_only=True):
    executor: str
    cordoned: bool = False
    runs: int = 0
    nodes: tuple[_Node, ...] = ()


class _Queue(_Response, frozen=True, kw_only=True):
    name: str
    weight: float = 1.0
    cordoned: bool = False
    limits: dict[str, dict[str, float | str]] = {}
    retry_policy: ev.RetryPolicy | None = None
    order: str = FIFO


class _Class(_Response, frozen=True, kw_only=True):
    name: str
    value: int
    preemption: Preemption = Preemption.ANY
    limits: dict[str, float] = {}


class _Submission(_Response, frozen=True, kw_only=True):
    shape: shapes.Shape
    after: tuple[str, ...] = ()
    hold: bool = False
    start_after: str | None = None
    max_runtime_seconds: int | None = None
    checkpoint_interval_seconds: int | None = None
    when_infeasible: str = "reject"
    on_preemption: str = "requeue"
    gang: ev.Gang | None = None
    retry: ev.RetryPolicy | None = None


class _Job(_Response, frozen=True, kw_only=True):
    id: JobId
    queue: str
    job_set: str
    state: str
    priority: int
    priority_class: str
    pool: str
    started: str | None = None
    cluster: str | None = None
    node: str | None = None
    submission: _Submission


class Cluster(_Response, frozen=True, kw_only=True):
    """The state of a running Fairlead."""

    queues: tuple[_Queue, ...]
    priority_classes: tuple[_Class, ...]
    clusters: tuple[_Cluster, ...]
    jobs: tuple[_Job, ...]


def decode_cluster(values: Values) -> Cluster:
    """Decode the state. Raises `msgspec.ValidationError` for values of another version."""
    return msgspec.convert(values, Cluster)


def list_nodes(cluster: Cluster, pool: str) -> list[Node]:
    """The nodes of a pool; cordoned nodes are unschedulable."""
    return [
        Node(
            executor=executor.executor,
            name=node.node,
            pool=node.pool,
            allocatable={
                name: quantities.parse_quantity(name, amount, round_up=False)
                for name, amount in node.allocatable.items()
            },
            labels=node.labels,
            taints=node.taints,
            unschedulable=node.unschedulable or node.cordoned or executor.cordoned,
        )
        for executor in cluster.clusters
        for node in executor.nodes
        if node.pool == pool
    ]


def merge_settings(cluster: Cluster, settings: SimulationSettings) -> SimulationSettings:
    """The settings of the simulation, completed with the classes and queues of the cluster."""
    classes = settings.scheduler.priority_classes
    if classes == DEFAULT_CLASSES:
        classes = tuple(
            PriorityClass(
                name=item.name, value=item.value, preemption=item.preemption, limits=item.limits
            )
            for item in cluster.priority_classes
        )
    queues = {
        queue.name: Queue(
            name=queue.name,
            weight=queue.weight,
            cordoned=queue.cordoned,
            limits=queue.limits,
            retry_policy=queue.retry_policy,
            order=queue.order,
        )
        for queue in cluster.queues
    }
    return replace(
        settings,
        scheduler=replace(settings.scheduler, priority_classes=classes),
        queues={**queues, **settings.queues},
    )


def add_jobs(
    trace: Trace, cluster: Cluster, pool: str, run_s: float, now_ms: int, notes: list[str]
) -> None:
    """Add the jobs of a pool, the oldest first. Each runs for `run_s` minus the time it has run.

    `now_ms`: the time at which the simulation starts.
    """
    live = {job.id for job in cluster.jobs}
    skipped = visible = 0
    for job in cluster.jobs:
        submission = job.submission
        runs = job.state != "QUEUED" and job.node is not None
        visible += runs
        if job.pool != pool:
            continue
        after = [other for other in submission.after if other in live]
        if not runs and (submission.hold or any(other not in trace.number for other in after)):
            skipped += 1
            continue
        starts_ms = (
            0
            if submission.start_after is None
            else timestamps.parse_rfc3339(submission.start_after)
        )
        number = trace.add(
            job.id,
            submit_ms=0 if runs else max(0, starts_ms - now_ms),
            run_ms=to_ms(run_s),
            queue=job.queue,
            shape=trace.shapes.number(bytes(shapes.encode(submission.shape))),
            priority_class=job.priority_class,
            priority=job.priority,
            runtime_ms_max=1000 * (submission.max_runtime_seconds or 0) or NEVER,
        )
        gang = submission.gang
        if gang is not None:
            gang = replace(gang, name=f"{job.job_set}/{gang.name}")
        add_optional_fields(trace, number, _make_event(job), gang, [] if runs else after)
        if runs and job.node is not None and job.cluster is not None:
            ran_ms = 0 if job.started is None else now_ms - timestamps.parse_rfc3339(job.started)
            trace.existing_runs[number] = ExistingRun(job.cluster, job.node, max(0, ran_ms))
    if skipped:
        notes.append(f"{count_jobs(skipped)} left out: held, or waiting for jobs that are left out")
    hidden = sum(executor.runs for executor in cluster.clusters) - visible
    if hidden > 0:
        runs_of = "the run of 1 job" if hidden == 1 else f"the runs of {hidden:,} jobs"
        notes.append(f"{runs_of} that this token is not permitted to view count as free resources")


def count_jobs(jobs: int) -> str:
    """The number of jobs, for messages."""
    return "1 job" if jobs == 1 else f"{jobs:,} jobs"


def _make_event(job: _Job) -> ev.JobSubmitted:
    """The event that `add_optional_fields` reads."""
    submission = job.submission
    return ev.JobSubmitted(
        job_id=job.id,
        shape=_NO_SPEC,
        spec=_NO_SPEC,
        digest="",
        checkpoint_s=submission.checkpoint_interval_seconds,
        when_infeasible=submission.when_infeasible,
        on_preemption=submission.on_preemption,
        retry=submission.retry,
    )
