"""The JSON that the API returns: names in camelCase, times in RFC 3339, empty values left out."""

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_common.domain import position_tokens, quantities, timestamps
from fairlead_common.domain.records import clusters, configuration, events, scheduling_reports
from fairlead_common.service import clock
from fairlead_lookout.domain import model, resource_usage
from fairlead_lookout.domain.fairness_fold import ShareTotals
from fairlead_lookout.store.queries.view_reader import (
    CountedJobSet,
    JobSetPage,
)

CATEGORY_MESSAGES: Final = {
    "exit-code": "The command ended with an exit code other than 0.",
    "oom": "The job used more memory than it requested.",
    "evicted": "The node evicted the job because it ran short of resources.",
    "deadline": "The job ran longer than its maximum run time.",
    "start": "The command does not exist or could not be started.",
    "image-pull": "The image could not be pulled.",
    "node-lost": "The node or the whole cluster stopped responding.",
    "pod-deleted": "The pod was deleted in the cluster.",
    "admission": "The cluster refused the job.",
    "internal": "An internal error of Fairlead or of the cluster.",
    "infeasible": "No known node could ever run the job.",
}
"""Explains each failure category, and some codes of rejection."""


class ResponseBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of all response types."""


class JobSetResponse(ResponseBody, frozen=True, kw_only=True):
    """A job set. `states`: jobs by state; `live`: jobs that have not ended.

    `failures`: failed and rejected jobs by category. `resourceHours`: what its runs have used, in
    cores, bytes and units times hours. `eta`: when it will end at the rate of the time until
    its last activity. `superseded`: jobs that were submitted again (`resubmit` with `failed`).
    """

    queue: str
    job_set: str
    jobs: int
    live: int
    states: dict[str, int]
    first_activity: str
    last_activity: str
    position: str
    failures: dict[str, int]
    resource_hours: dict[str, float]
    eta: str | None = None
    superseded: int = 0


class JobSetsResponse(ResponseBody, frozen=True, kw_only=True):
    """A page of job sets; `next` is the cursor of the next page.

    `count` (requested with `include=count`) is `10000+` beyond that.
    """

    job_sets: list[JobSetResponse]
    next: str | None = None
    count: str | None = None


class RunResponse(ResponseBody, frozen=True, kw_only=True):
    """One run. `message`: a sentence that explains `category`."""

    run: int
    state: str
    cluster: str
    node: str
    pool: str
    leased: str
    pending: str | None = None
    running: str | None = None
    ended: str | None = None
    exit_code: int | None = None
    category: str | None = None
    message: str | None = None
    reason: str | None = None
    preemption_cause: str | None = None


class JobResponse(ResponseBody, frozen=True, kw_only=True):
    """A job in a list; `run`: the number of its newest run, if it has one.

    `waitingFor` of a queued job: hold, dependencies, startAfter, no-matching-node (its pool has no
    nodes) or scheduling.
    """

    id: str
    queue: str
    job_set: str
    client_id: str | None = None
    state: str
    waiting_for: str | None = None
    stopping: str | None = None
    priority: int
    priority_class: str
    pool: str
    submitted: str
    changed: str
    started: str | None = None
    ended: str | None = None
    run: int = 0
    cluster: str | None = None
    node: str | None = None
    exit_code: int | None = None
    category: str | None = None
    message: str | None = None
    reason: str | None = None
    superseded_by: str | None = None


class ExportedJob(JobResponse, frozen=True, kw_only=True):
    """A line of an export. `requests`: what a run requests, in cores, bytes and units."""

    labels: dict[str, str] = {}
    requests: dict[str, float] = {}


class JobsResponse(ResponseBody, frozen=True, kw_only=True):
    """A page of jobs; `count` (requested with `include=count`) is `10000+` beyond that."""

    jobs: list[JobResponse]
    next: str | None = None
    count: str | None = None


class GroupResponse(ResponseBody, frozen=True, kw_only=True):
    """How many jobs have these values; null where a job has none (no node, no such label)."""

    group: dict[str, str | None]
    jobs: int


class GroupsResponse(ResponseBody, frozen=True, kw_only=True):
    """Jobs per group, greatest first. `total`: the jobs that were counted, with a plus sign when
    there are more than were examined (`100000+`)."""

    groups: list[GroupResponse]
    total: str


class WaitingReasonResponse(ResponseBody, frozen=True, kw_only=True):
    """Why a queued job waits: a code (of the scheduler, or what the job waits for) and a sentence.
    A leased job that waits until preempted runs on its node have ended has
    `waiting-for-preempted-runs`.

    `nodes`: nodes of the pool by the first condition that excludes them. `dependencies`: states of
    the jobs and arrays that it waits for, by id; `clientIds`: theirs, where they have one.
    """

    code: str
    sentence: str
    nodes: dict[str, int] | None = None
    jobs: int | None = None
    dependencies: dict[str, str] | None = None
    client_ids: dict[str, str] | None = None


class UserRequestResponse(ResponseBody, frozen=True, kw_only=True):
    """What a user requested for a job: `cancel`, `preempt` or `reprioritize`. `priority`: the one
    that was requested."""

    time: str
    action: model.Action
    by: str
    reason: str | None = None
    priority: int | None = None


class JobDetailResponse(JobResponse, frozen=True, kw_only=True):
    """Everything about a job; newest run first. `spec` only if requested. `positionInQueue` from 1:
    `37`, or `37+` where only that many were examined; none with `order: fair`. `submittedBy`: the
    user; of a task, who submitted its array. `userRequests`: the newest 10, oldest first."""

    why: WaitingReasonResponse | None = None
    position_in_queue: str | None = None
    submitted_by: str | None = None
    user_requests: list[UserRequestResponse] = []
    runs: list[RunResponse]
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    after: tuple[str, ...]
    hold: bool = False
    start_after: str | None = None
    max_queue_seconds: int | None = None
    max_runtime_seconds: int | None = None
    gang: events.Gang | None = None
    array: events.ArrayTask | None = None
    retry: events.RetryPolicy | None = None
    on_preemption: str
    spec: msgspec.Raw | None = None


class ClusterResponse(ResponseBody, frozen=True, kw_only=True):
    """The cluster of one executor. Amounts in cores, bytes, units; `used`: what its runs request.

    `cordonedNodes`: nodes that take no new runs, cordoned by an operator or by their cluster.
    """

    executor: str
    backend: str
    version: str
    last_heartbeat: str | None = None
    nodes: int
    pools: dict[str, int]
    allocatable: dict[str, float | int]
    used: dict[str, float | int]
    runs: int
    cordoned: bool = False
    reason: str | None = None
    cordoned_nodes: int = 0


class AvoidanceResponse(ResponseBody, frozen=True, kw_only=True):
    """Why an executor avoids a node: this many runs in a row failed to start there. `reason`: that
    of the last one. It ends at the time `until`, or as soon as a run starts there."""

    failures: int
    reason: str
    until: str


class NodeResponse(ResponseBody, frozen=True, kw_only=True):
    """One node. `jobs`: some of the jobs that run there; `unschedulable`: cordoned in its cluster,
    or `avoided` by its executor; `cordoned`: by an operator of Fairlead, for this `reason`."""

    node: str
    pool: str
    labels: dict[str, str]
    taints: list[clusters.Taint]
    unschedulable: bool = False
    avoided: AvoidanceResponse | None = None
    cordoned: bool = False
    reason: str | None = None
    allocatable: dict[str, float | int]
    used: dict[str, float | int]
    runs: int
    jobs: list[str]


class NodesResponse(ResponseBody, frozen=True, kw_only=True):
    """The nodes of a cluster, by name."""

    executor: str
    nodes: list[NodeResponse]


class ClustersResponse(ResponseBody, frozen=True, kw_only=True):
    """All clusters that are known."""

    clusters: list[ClusterResponse]


class QueueReportResponse(ResponseBody, frozen=True, kw_only=True):
    """The shares of a queue in each pool, its limits, order, why jobs wait. `reasons`: by code."""

    queue: str
    weight: float | None = None
    order: str = configuration.FIFO
    cordoned: bool = False
    reason: str | None = None
    limits: dict[str, dict[str, float | str]]
    shares: list[scheduling_reports.QueueShare]
    waiting: list[scheduling_reports.WaitingReport]
    reasons: dict[str, int]


class RoundResponse(ResponseBody, frozen=True, kw_only=True):
    """One round of a pool. `outcome`: finished, stopped (`stoppedBy`) or failed (`error`).

    `topology`: the levels of the pool, widest first.
    """

    time: str
    outcome: str
    stopped_by: str | None = None
    error: str | None = None
    scheduled: int
    preempted: int
    waiting: int
    nodes: int
    steps_ms: dict[str, float]
    topology: tuple[str, ...] = ()


class PoolReportResponse(ResponseBody, frozen=True, kw_only=True):
    """The last round of a pool, the shares of its queues, why jobs wait. `reasons`: by code."""

    pool: str
    round: RoundResponse | None = None
    shares: list[scheduling_reports.QueueShare]
    waiting: list[scheduling_reports.WaitingReport]
    reasons: dict[str, int]


class ShareResponse(ResponseBody, frozen=True, kw_only=True):
    """Means of a queue in a pool over one step that begins at `time`: shares of 1.0, and jobs."""

    time: str
    pool: str
    share: float
    fair_share: float
    demand_share: float
    queued: float
    running: float


class UsageResponse(ResponseBody, frozen=True, kw_only=True):
    """What the runs of a queue used in the hour that begins at `time`, in cores, bytes and units
    times hours; `lost`: what preempted runs had used, in the hour in which they ended."""

    time: str
    pool: str
    used: dict[str, float]
    lost: dict[str, float]


class UserUsageResponse(ResponseBody, frozen=True, kw_only=True):
    """What the jobs that a user submitted used and lost, in cores, bytes and units times hours. The
    user `""` is all that are not recorded by name: beyond 100 users an hour, or from before users
    were recorded."""

    user: str
    used: dict[str, float]
    lost: dict[str, float]


class FairnessResponse(ResponseBody, frozen=True, kw_only=True):
    """A queue over time: a point per step and pool, usage per hour and pool, usage per user (those
    who used most processor time, at most 100), and the totals."""

    queue: str
    from_: str = msgspec.field(name="from")
    to: str
    step_seconds: int
    points: list[ShareResponse]
    usage: list[UsageResponse]
    users: list[UserUsageResponse]
    used: dict[str, float]
    lost: dict[str, float]


class RoundsResponse(ResponseBody, frozen=True, kw_only=True):
    """The last rounds of a pool, newest first."""

    pool: str
    rounds: list[RoundResponse]


def describe_round(report: scheduling_reports.RoundReport) -> RoundResponse:
    """A round of the scheduler."""
    return RoundResponse(
        time=timestamps.rfc3339(report.at_ms),
        outcome=report.outcome,
        stopped_by=report.stopped_by or None,
        error=report.error or None,
        scheduled=report.scheduled,
        preempted=report.preempted,
        waiting=report.waiting,
        nodes=report.nodes,
        steps_ms=report.steps_ms,
        topology=report.topology,
    )


def format_time(time_ms: int | None) -> str | None:
    """A time, if there is one."""
    return None if time_ms is None else timestamps.rfc3339(time_ms)


def describe_job_set(counted: CountedJobSet, now_ms: int) -> JobSetResponse:
    """A job set with its jobs by state."""
    job_set = counted.job_set
    return JobSetResponse(
        queue=job_set.key[0],
        job_set=job_set.key[1],
        jobs=job_set.jobs,
        live=job_set.live,
        states=counted.states,
        first_activity=timestamps.rfc3339(job_set.first_ms),
        last_activity=timestamps.rfc3339(job_set.last_ms),
        position=position_tokens.encode({job_set.partition: job_set.position + 1}),
        failures=job_set.failures,
        resource_hours=to_resource_hours(resource_usage.total_usage(job_set, now_ms)),
        eta=format_time(resource_usage.estimate_end_ms(job_set, now_ms)),
        superseded=job_set.superseded,
    )


def describe_job_sets(page: JobSetPage, count: str | None = None) -> JobSetsResponse:
    """A page of job sets."""
    now_ms = clock.now_ms()
    return JobSetsResponse(
        job_sets=[describe_job_set(counted, now_ms) for counted in page.job_sets],
        next=page.next,
        count=count,
    )


def describe_shares(start_ms: int, pool: str, totals: ShareTotals) -> ShareResponse:
    """The means of a bucket that is not empty, as the API returns them."""
    means = totals.means()
    return ShareResponse(
        time=timestamps.rfc3339(start_ms),
        pool=pool,
        share=round(means.share, 6),
        fair_share=round(means.fair_share, 6),
        demand_share=round(means.demand_share, 6),
        queued=round(means.queued, 3),
        running=round(means.running, 3),
    )


def to_resource_hours(used: Mapping[str, float]) -> dict[str, float]:
    """Amounts x ms as cores, bytes and units times hours."""
    return {
        name: round(quantities.to_number(name, 1) * amount / resource_usage.HOUR_MS, 6)
        for name, amount in sorted(used.items())
        if amount
    }
