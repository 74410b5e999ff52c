"""A simulation that begins with what a running Fairlead has: its nodes, queues and jobs.

The values are those of the public API (`GET /clusters`, `/queues`, `/priority-classes` and the
export of jobs with `include=submission`), read with the caller's token.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead_common.domain import quantities, shapes, timestamps
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.priority_classes import DEFAULT_CLASSES, Preemption, PriorityClass
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node, Taint
from fairlead_common.domain.records.configuration import Queue
from fairlead_scheduler.simulate.input.job_lines import ms
from fairlead_scheduler.simulate.input.settings_file import Given
from fairlead_scheduler.simulate.input.submit_file import add_rare
from fairlead_scheduler.simulate.model.trace import NEVER, Placed, Trace

Values = Mapping[str, Any]
"""JSON of the public API."""
_NO_SPEC: Final = msgspec.Raw(b"{}")


class _Answer(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A part of an answer; unknown fields are ignored."""


class _Node(_Answer, frozen=True, kw_only=True):
    node: str
    pool: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    cordoned: bool = False
    allocatable: dict[str, float] = {}


class _Cluster(_Answer, frozen=True, kw_only=True):
    executor: str
    cordoned: bool = False
    runs: int = 0
    nodes: tuple[_Node, ...] = ()


class _Queue(_Answer, frozen=True, kw_only=True):
    name: str
    weight: float = 1.0
    cordoned: bool = False
    limits: dict[str, dict[str, float | str]] = {}
    retry_policy: ev.RetryPolicy | None = None


class _Class(_Answer, frozen=True, kw_only=True):
    name: str
    value: int
    preemption: Preemption = Preemption.ANY
    limits: dict[str, float] = {}


class _Submission(_Answer, frozen=True, kw_only=True):
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


class _Job(_Answer, frozen=True, kw_only=True):
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


class Cluster(_Answer, frozen=True, kw_only=True):
    """All that a running Fairlead has."""

    queues: tuple[_Queue, ...]
    priority_classes: tuple[_Class, ...]
    clusters: tuple[_Cluster, ...]
    jobs: tuple[_Job, ...]


def decode(values: Values) -> Cluster:
    """Raises `msgspec.ValidationError` for values that are not those of this version."""
    return msgspec.convert(values, Cluster)


def nodes(cluster: Cluster, pool: str) -> list[Node]:
    """The nodes of a pool; what is cordoned takes nothing new."""
    return [
        Node(
            executor=one.executor,
            name=node.node,
            pool=node.pool,
            allocatable={
                name: quantities.parse_quantity(name, amount, round_up=False)
                for name, amount in node.allocatable.items()
            },
            labels=node.labels,
            taints=node.taints,
            unschedulable=node.unschedulable or node.cordoned or one.cordoned,
        )
        for one in cluster.clusters
        for node in one.nodes
        if node.pool == pool
    ]


def settings(cluster: Cluster, given: Given) -> Given:
    """The classes and queues of the cluster where the settings of the simulation name none."""
    classes = given.settings.priority_classes
    if classes == DEFAULT_CLASSES:
        classes = tuple(
            PriorityClass(
                name=one.name, value=one.value, preemption=one.preemption, limits=one.limits
            )
            for one in cluster.priority_classes
        )
    queues = {
        one.name: Queue(
            name=one.name,
            weight=one.weight,
            cordoned=one.cordoned,
            limits=one.limits,
            retry_policy=one.retry_policy,
        )
        for one in cluster.queues
    }
    return replace(
        given,
        settings=replace(given.settings, priority_classes=classes),
        queues={**queues, **given.queues},
    )


def add_jobs(
    trace: Trace, cluster: Cluster, pool: str, run_s: float, now_ms: int, notes: list[str]
) -> None:
    """The jobs of a pool, the oldest first. Each runs for `run_s`, a run that exists for what is
    left of that. `now_ms`: the moment that the simulation begins with.
    """
    live = {job.id for job in cluster.jobs}
    left_out = seen = 0
    for job in cluster.jobs:
        said = job.submission
        runs = job.state != "QUEUED" and job.node is not None
        seen += runs
        if job.pool != pool:
            continue
        after = [other for other in said.after if other in live]
        if not runs and (said.hold or any(other not in trace.number for other in after)):
            left_out += 1
            continue
        starts_ms = 0 if said.start_after is None else timestamps.parse_rfc3339(said.start_after)
        number = trace.add(
            job.id,
            submit_ms=0 if runs else max(0, starts_ms - now_ms),
            run_ms=ms(run_s),
            queue=job.queue,
            shape=trace.shapes.number(bytes(shapes.encode(said.shape))),
            priority_class=job.priority_class,
            priority=job.priority,
            runtime_ms_max=1000 * (said.max_runtime_seconds or 0) or NEVER,
        )
        gang = said.gang
        if gang is not None:
            gang = replace(gang, name=f"{job.job_set}/{gang.name}")
        add_rare(trace, number, _event(job), gang, [] if runs else after)
        if runs and job.node is not None and job.cluster is not None:
            ran_ms = 0 if job.started is None else now_ms - timestamps.parse_rfc3339(job.started)
            trace.placed[number] = Placed(job.cluster, job.node, max(0, ran_ms))
    if left_out:
        notes.append(f"{count(left_out)} left out: held, or waiting for jobs that are left out")
    hidden = sum(one.runs for one in cluster.clusters) - seen
    if hidden > 0:
        runs_of = "the run of 1 job" if hidden == 1 else f"the runs of {hidden:,} jobs"
        notes.append(f"{runs_of} that this token is not permitted to view count as free resources")


def count(jobs: int) -> str:
    """For people."""
    return "1 job" if jobs == 1 else f"{jobs:,} jobs"


def _event(job: _Job) -> ev.JobSubmitted:
    """What `add_rare` reads."""
    said = job.submission
    return ev.JobSubmitted(
        job_id=job.id,
        shape=_NO_SPEC,
        spec=_NO_SPEC,
        digest="",
        checkpoint_s=said.checkpoint_interval_seconds,
        when_infeasible=said.when_infeasible,
        on_preemption=said.on_preemption,
        retry=said.retry,
    )
