"""Jobs and runs as the API returns them, from rows of the statements that read them."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import quantities
from fairlead_common.service import clock
from fairlead_lookout.domain import model
from fairlead_lookout.http.responses.response_base import ResponseBody, format_time
from fairlead_lookout.store import table_rows
from fairlead_lookout.store.queries.view_reader import JobRows, find_failed_dependency
from fairlead_lookout.store.topic_caches import ClusterCache

NO_NODES: Final = "no-matching-node"
"""What a job in a pool without nodes waits for: the code of the scheduler."""

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
_decode_texts: Final = msgspec.json.Decoder(dict[str, str]).decode
decode_amounts: Final = msgspec.json.Decoder(dict[str, int]).decode


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

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    requests: dict[str, float] = msgspec.field(default_factory=dict)


class JobsResponse(ResponseBody, frozen=True, kw_only=True):
    """A page of jobs; `count` (requested with `include=count`) is `10000+` beyond that."""

    jobs: list[JobResponse]
    next: str | None = None
    count: str | None = None


class JobCountResponse(ResponseBody, frozen=True, kw_only=True):
    """How many jobs have these values of `groupBy`; null where a job has none (no node, no such
    label). Groups of jobs that are placed together are `GroupSummary` and `GroupDetail`."""

    group: dict[str, str | None]
    jobs: int


class JobCountsResponse(ResponseBody, frozen=True, kw_only=True):
    """Jobs per group, greatest first. `total`: the jobs that were counted, with a plus sign when
    there are more than were examined (`100000+`)."""

    groups: list[JobCountResponse]
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
    user_requests: list[UserRequestResponse] = msgspec.field(default_factory=list)
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


def _name_dependency(reason: str | None, client_ids: Mapping[str, str]) -> str | None:
    """The reason with the client id of what it names in place of its id."""
    other = find_failed_dependency(reason)
    if reason is None or other is None or other not in client_ids:
        return reason
    return reason.replace(other, client_ids[other], 1)


def describe_job(
    row: Any,
    now_ms: int,
    waits_for_others: bool,
    client_ids: Mapping[str, str],
    clusters: ClusterCache,
) -> JobResponse:
    """A job. `client_ids`: of the jobs and arrays in its reason."""
    return JobResponse(
        id=row["id"],
        queue=row["queue"],
        job_set=row["job_set"],
        client_id=row["client_id"],
        state=row["state"],
        waiting_for=find_obstacle(row, now_ms, waits_for_others, clusters),
        stopping=row["stopping"],
        priority=row["priority"],
        priority_class=row["class"],
        pool=row["run_pool"] or row["pool"],
        submitted=timestamps.rfc3339(row["submitted_ms"]),
        changed=timestamps.rfc3339(row["changed_ms"]),
        started=format_time(row["started_ms"]),
        ended=format_time(row["ended_ms"]),
        run=row["run"],
        cluster=row["run_executor"],
        node=row["run_node"],
        exit_code=row["exit_code"],
        category=row["category"],
        message=CATEGORY_MESSAGES.get(row["category"] or ""),
        reason=_name_dependency(row["reason"], client_ids),
        superseded_by=row["superseded_by"],
    )


def describe_jobs(jobs: JobRows, clusters: ClusterCache) -> list[JobResponse]:
    """Jobs of a list."""
    now_ms = clock.now_ms()
    return [
        describe_job(row, now_ms, row["id"] in jobs.waiting_for_others, jobs.client_ids, clusters)
        for row in jobs.rows
    ]


def describe_exported_job(job: JobResponse, row: Any) -> ExportedJob:
    """A job with its row of the statement `labels_and_requests`; None if it was just removed."""
    labels = _decode_texts(row["labels"]) if row is not None and row["labels"] else {}
    amounts = decode_amounts(row["requests"]) if row is not None and row["requests"] else {}
    return ExportedJob(
        **msgspec.structs.asdict(job),
        labels=labels,
        requests={name: quantities.to_number(name, amount) for name, amount in amounts.items()},
    )


def find_obstacle(
    row: Any, now_ms: int, waits_for_others: bool, clusters: ClusterCache
) -> str | None:
    """What a queued job waits for first: hold, dependencies, startAfter, nodes of its pool
    (`NO_NODES`) or scheduling."""
    if row["state"] != "QUEUED":
        return None
    if row["held"]:
        return "hold"
    if waits_for_others:
        return "dependencies"
    if row["start_after_ms"] is not None and row["start_after_ms"] > now_ms:
        return "startAfter"
    if clusters.ready and not clusters.has_nodes(row["pool"]):
        return NO_NODES
    return "scheduling"


def describe_run(row: Any) -> RunResponse:
    """A run of the statement `job`."""
    return RunResponse(
        run=row["number"],
        state=row["state"],
        cluster=row["executor"],
        node=row["node"],
        pool=row["pool"],
        leased=timestamps.rfc3339(row["leased_ms"]),
        pending=format_time(row["pending_ms"]),
        running=format_time(row["running_ms"]),
        ended=format_time(row["ended_ms"]),
        exit_code=row["exit_code"],
        category=row["category"],
        message=CATEGORY_MESSAGES.get(row["category"] or ""),
        reason=row["reason"],
        preemption_cause=row["cause"],
    )


def describe_user_requests(text: str | None) -> list[UserRequestResponse]:
    """What users requested for a job, from its column `user_requests`."""
    return [
        UserRequestResponse(
            time=timestamps.rfc3339(each.time_ms),
            action=each.action,
            by=each.by,
            reason=each.reason,
            priority=each.priority,
        )
        for each in table_rows.decode_requests(text)
    ]
