"""What the API answers with: JSON in camelCase, times as RFC 3339, absent means nothing to say."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fairlead_common.domain import ids, position_tokens, quantities, timestamps
from fairlead_common.domain.records import clusters, events, scheduling_reports
from fairlead_lookout.domain import resource_usage
from fairlead_lookout.domain.fairness_fold import Sums
from fairlead_lookout.domain.model import JobSet

SENTENCES: Final = {
    "exit-code": "The command ended with an exit code other than 0.",
    "oom": "It used more memory than it asked for.",
    "evicted": "Its node needed the room for something else.",
    "deadline": "It ran longer than its maximum run time.",
    "start": "There is no such command, or it could not be started.",
    "image-pull": "Its image could not be fetched.",
    "node-lost": "Its node, or the whole cluster, stopped answering.",
    "pod-deleted": "Somebody deleted its pod.",
    "admission": "The cluster refused it.",
    "internal": "Something in Fairlead or the cluster went wrong.",
    "infeasible": "No node that is known could ever run it.",
}
"""A sentence for people for each failure category, and for some reasons of rejection."""


NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class Shown(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What all answers are."""


class JobSetShown(Shown, frozen=True, kw_only=True):
    """A job set. `states` has the number of jobs by state, `live` those that have not ended.

    `failures`: failed and rejected jobs by category. `resourceHours`: what its runs held so far,
    in cores, bytes and units times hours. `eta`: when it will be done if it goes on as it did
    until its last activity. `superseded`: jobs that did not succeed and were submitted again in
    this job set (`resubmit` with `failed`).
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


class JobSetsShown(Shown, frozen=True, kw_only=True):
    """A page of job sets; `next` is the cursor of the next page.

    `count` (asked for with `include=count`) says `10000+` beyond that.
    """

    job_sets: list[JobSetShown]
    next: str | None = None
    count: str | None = None


class RunShown(Shown, frozen=True, kw_only=True):
    """One attempt. `message` is a sentence for people about `category`."""

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
    preempted_for: str | None = None


class JobShown(Shown, frozen=True, kw_only=True):
    """A job as lists show it; `run` is the number of its newest run, if it has one.

    `waitingFor` of a queued one: hold, dependencies, startAfter or scheduling.
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


class JobExported(JobShown, frozen=True, kw_only=True):
    """A line of an export. `requests`: what a run is given, in cores, bytes and units."""

    labels: dict[str, str] = {}
    requests: dict[str, float] = {}


class JobsShown(Shown, frozen=True, kw_only=True):
    """A page of jobs; `count` (asked for with `include=count`) says `10000+` beyond that."""

    jobs: list[JobShown]
    next: str | None = None
    count: str | None = None


class GroupShown(Shown, frozen=True, kw_only=True):
    """How many jobs share these values; null for what a job has not (no node, no such label)."""

    group: dict[str, str | None]
    jobs: int


class GroupsShown(Shown, frozen=True, kw_only=True):
    """Counts per group, greatest first. `total`: the jobs that were counted, with a plus sign when
    there are more than could be looked at (`100000+`)."""

    groups: list[GroupShown]
    total: str


class WhyShown(Shown, frozen=True, kw_only=True):
    """Why a queued job waits: a code of the scheduler (or what it waits for) and a sentence. One
    that has its node and waits until runs there have made room says `making-room`.

    `nodes`: nodes of the pool by the first thing that rules them out. `dependencies`: states by job
    id of those it waits for; `client_ids` of them, where they have one.
    """

    code: str
    sentence: str
    nodes: dict[str, int] | None = None
    jobs: int | None = None
    dependencies: dict[str, str] | None = None
    client_ids: dict[str, str] | None = None


class JobDetailShown(JobShown, frozen=True, kw_only=True):
    """Everything about a job; newest run first. `spec` only when asked for.

    `positionInQueue` of a queued one, from 1: `37`, or `37+` where only so many could be looked at.
    """

    why: WhyShown | None = None
    position_in_queue: str | None = None
    runs: list[RunShown]
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    after: tuple[str, ...]
    hold: bool = False
    start_after: str | None = None
    max_queue_seconds: int | None = None
    max_runtime_seconds: int | None = None
    gang: events.Gang | None = None
    retry: events.RetryPolicy | None = None
    on_preemption: str
    spec: msgspec.Raw | None = None


class ClusterShown(Shown, frozen=True, kw_only=True):
    """One executor's cluster: amounts in cores, bytes and units. `used` is what its runs asked for.

    `cordonedNodes`: nodes that take nothing new, by an operator's mark or their cluster's.
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


class NodeShown(Shown, frozen=True, kw_only=True):
    """One node. `jobs`: some of those that hold room there; `unschedulable`: its cluster says so;
    `cordoned`: an operator does, for this `reason`."""

    node: str
    pool: str
    labels: dict[str, str]
    taints: list[clusters.Taint]
    unschedulable: bool = False
    cordoned: bool = False
    reason: str | None = None
    allocatable: dict[str, float | int]
    used: dict[str, float | int]
    runs: int
    jobs: list[str]


class NodesShown(Shown, frozen=True, kw_only=True):
    """The nodes of a cluster, by name."""

    executor: str
    nodes: list[NodeShown]


class ClustersShown(Shown, frozen=True, kw_only=True):
    """All clusters that are known."""

    clusters: list[ClusterShown]


class QueueReportShown(Shown, frozen=True, kw_only=True):
    """A queue's standing in each pool, its limits, and why its jobs wait (jobs by reason code)."""

    queue: str
    weight: float | None = None
    cordoned: bool = False
    reason: str | None = None
    limits: dict[str, dict[str, float | str]]
    shares: list[scheduling_reports.QueueShare]
    waiting: list[scheduling_reports.Waiting]
    reasons: dict[str, int]


class RoundShown(Shown, frozen=True, kw_only=True):
    """One round of a pool. `outcome`: finished, stopped (by what) or failed (why); steps in ms."""

    time: str
    outcome: str
    stopped_by: str | None = None
    error: str | None = None
    scheduled: int
    preempted: int
    waiting: int
    nodes: int
    steps_ms: dict[str, float]


class PoolReportShown(Shown, frozen=True, kw_only=True):
    """A pool's last round, its queues' shares, and reasons by the number of jobs."""

    pool: str
    round: RoundShown | None = None
    shares: list[scheduling_reports.QueueShare]
    waiting: list[scheduling_reports.Waiting]
    reasons: dict[str, int]


class StandingShown(Shown, frozen=True, kw_only=True):
    """Means of a queue in a pool over one step from `time` on: shares of 1.0, jobs."""

    time: str
    pool: str
    share: float
    fair_share: float
    demand_share: float
    queued: float
    running: float


class UsageShown(Shown, frozen=True, kw_only=True):
    """Resource-hours that a queue's runs held in the hour from `time` on, in cores, bytes and units
    times hours; `lost`: those of runs that were preempted, in the hour in which they ended."""

    time: str
    pool: str
    used: dict[str, float]
    lost: dict[str, float]


class FairnessShown(Shown, frozen=True, kw_only=True):
    """A queue over time: a point per step and pool, usage per hour and pool, and its totals."""

    queue: str
    from_: str = msgspec.field(name="from")
    to: str
    step_seconds: int
    points: list[StandingShown]
    usage: list[UsageShown]
    used: dict[str, float]
    lost: dict[str, float]


class RoundsShown(Shown, frozen=True, kw_only=True):
    """The last rounds of a pool, newest first."""

    pool: str
    rounds: list[RoundShown]


def round_of(done: scheduling_reports.Round) -> RoundShown:
    """A round as it is told."""
    return RoundShown(
        time=timestamps.rfc3339(done.at_ms),
        outcome=done.outcome,
        stopped_by=done.stopped_by or None,
        error=done.error or None,
        scheduled=done.scheduled,
        preempted=done.preempted,
        waiting=done.waiting,
        nodes=done.nodes,
        steps_ms=done.steps_ms,
    )


def time(time_ms: int | None) -> str | None:
    """A time, if there is one."""
    return None if time_ms is None else timestamps.rfc3339(time_ms)


def job_set(known: JobSet, states: dict[str, int], now_ms: int) -> JobSetShown:
    """A job set with its counts by state."""
    return JobSetShown(
        queue=known.key[0],
        job_set=known.key[1],
        jobs=known.jobs,
        live=known.live,
        states=states,
        first_activity=timestamps.rfc3339(known.first_ms),
        last_activity=timestamps.rfc3339(known.last_ms),
        position=position_tokens.encode({known.partition: known.position + 1}),
        failures=known.failures,
        resource_hours=resource_hours(resource_usage.used(known, now_ms)),
        eta=time(resource_usage.eta_ms(known, now_ms)),
        superseded=known.superseded,
    )


def standing(start_ms: int, pool: str, sums: Sums) -> StandingShown:
    """Means from sums weighted with ms."""
    return StandingShown(
        time=timestamps.rfc3339(start_ms),
        pool=pool,
        share=round(sums.actual_share / sums.ms, 6),
        fair_share=round(sums.fair_share / sums.ms, 6),
        demand_share=round(sums.demand_share / sums.ms, 6),
        queued=round(sums.queued / sums.ms, 3),
        running=round(sums.running / sums.ms, 3),
    )


def resource_hours(used: Mapping[str, float]) -> dict[str, float]:
    """Amounts x ms as cores, bytes and units times hours."""
    return {
        name: round(quantities.to_number(name, 1) * amount / resource_usage.HOUR_MS, 6)
        for name, amount in sorted(used.items())
        if amount
    }


_texts: Final = msgspec.json.Decoder(dict[str, str]).decode
decode_amounts: Final = msgspec.json.Decoder(dict[str, int]).decode
_AWAITED: Final = re.compile(rf"^job ([{ids.ALPHABET}]{{{ids.JOB_ID_LENGTH}}}), which it waits for")
"""How the reason of a job begins that was cancelled because of another one."""


def awaited(reason: str | None) -> str | None:
    """The id of the job because of which one was cancelled that waited for it."""
    found = _AWAITED.match(reason or "")
    return None if found is None else found[1]


def _named(reason: str | None, client_ids: Mapping[str, str]) -> str | None:
    """The reason with the client id of the job that it names."""
    other = awaited(reason)
    if reason is None or other is None or other not in client_ids:
        return reason
    return reason.replace(other, client_ids[other], 1)


def job(
    row: Any, now_ms: int, waits_for_others: bool, client_ids: Mapping[str, str] = NO_NAMES
) -> JobShown:
    """A job from a row of the statements that read jobs. `client_ids`: of jobs in its reason."""
    return JobShown(
        id=row["id"],
        queue=row["queue"],
        job_set=row["job_set"],
        client_id=row["client_id"],
        state=row["state"],
        waiting_for=waiting_for(row, now_ms, waits_for_others),
        stopping=row["stopping"],
        priority=row["priority"],
        priority_class=row["class"],
        pool=row["run_pool"] or row["pool"],
        submitted=timestamps.rfc3339(row["submitted_ms"]),
        changed=timestamps.rfc3339(row["changed_ms"]),
        started=time(row["started_ms"]),
        ended=time(row["ended_ms"]),
        run=row["run"],
        cluster=row["executor"],
        node=row["node"],
        exit_code=row["exit_code"],
        category=row["category"],
        message=SENTENCES.get(row["category"] or ""),
        reason=_named(row["reason"], client_ids),
        superseded_by=row["superseded_by"],
    )


def exported(job: JobShown, row: Any) -> JobExported:
    """A job with a row of the statement `labels_and_requests`, or none if it was just forgotten."""
    labels = _texts(row["labels"]) if row is not None and row["labels"] else {}
    asked = decode_amounts(row["requests"]) if row is not None and row["requests"] else {}
    return JobExported(
        **msgspec.structs.asdict(job),
        labels=labels,
        requests={name: quantities.to_number(name, amount) for name, amount in asked.items()},
    )


def waiting_for(row: Any, now_ms: int, waits_for_others: bool) -> str | None:
    """What a queued job waits for first."""
    if row["state"] != "QUEUED":
        return None
    if row["held"]:
        return "hold"
    if waits_for_others:
        return "dependencies"
    if row["start_after_ms"] is not None and row["start_after_ms"] > now_ms:
        return "startAfter"
    return "scheduling"


def run(row: Any) -> RunShown:
    """A run of those that the statement `job` gives."""
    return RunShown(
        run=row["number"],
        state=row["state"],
        cluster=row["executor"],
        node=row["node"],
        pool=row["pool"],
        leased=timestamps.rfc3339(row["leased_ms"]),
        pending=time(row["pending_ms"]),
        running=time(row["running_ms"]),
        ended=time(row["ended_ms"]),
        exit_code=row["exit_code"],
        category=row["category"],
        message=SENTENCES.get(row["category"] or ""),
        reason=row["reason"],
        preempted_for=row["cause"],
    )
