"""Why a queued job waits: its own conditions, or what the scheduler reported about jobs like it."""

from collections.abc import Mapping

from fairlead_common.domain import timestamps
from fairlead_common.domain.ids import is_array_id, partition_of_job
from fairlead_common.log.quarantine import QuarantinedRecord
from fairlead_lookout.http.job_responses import NO_NODES, find_obstacle
from fairlead_lookout.http.responses import WaitingReasonResponse
from fairlead_lookout.store.queries.view_reader import Dependencies, JobRecord
from fairlead_lookout.store.topic_caches import ClusterCache, ReportCache

NAMED_MAX = 3
"""Jobs that a sentence names."""
DEPENDENCIES_MAX = 100


def explain_waiting(
    job: JobRecord,
    reports: ReportCache,
    clusters: ClusterCache,
    stopped: Mapping[int, QuarantinedRecord],
    now_ms: int,
) -> WaitingReasonResponse | None:
    """The reason, or None for a job that does not wait. `stopped`: partitions of the log at which
    a reader has stopped, and at which record."""
    row = job.row
    if row["state"] == "QUEUED" and (record := stopped.get(partition_of_job(row["id"]))):
        return WaitingReasonResponse(
            code="log-stopped",
            sentence=(
                f"The {record.reader} cannot read the log of this job beyond position"
                f" {record.position} of partition {record.partition}: {record.reason}. The job is"
                " not scheduled until a newer version of that service runs."
            ),
        )
    if job.preempted_runs:
        return _explain_preemption(job)
    if job.waits_in_array:
        return WaitingReasonResponse(
            code="array",
            sentence=(
                "The task waits in its array, whose page says why: the scheduler releases tasks in"
                " the order of their indexes."
            ),
        )
    match obstacle := find_obstacle(row, now_ms, job.dependencies.are_open, clusters):
        case None:
            return None
        case "hold":
            return WaitingReasonResponse(
                code="hold", sentence="The job is held until it is released."
            )
        case "dependencies":
            return explain_dependencies("The job waits", job.dependencies)
        case "startAfter":
            start_after = timestamps.rfc3339(row["start_after_ms"])
            return WaitingReasonResponse(
                code="startAfter",
                sentence=f"The job starts no earlier than {start_after}.",
            )
        case _:
            return _explain_scheduling(job, reports, has_nodes=obstacle != NO_NODES)


def explain_dependencies(subject: str, others: Dependencies) -> WaitingReasonResponse:
    """The reason of what waits for jobs and arrays. `subject`: the beginning of the sentence."""
    waiting = {each: state for each, state in others.states.items() if state != "SUCCEEDED"}
    names = [_name_dependency(each, others.client_ids) for each in list(waiting)[:NAMED_MAX]]
    kinds = "jobs and arrays" if any(map(is_array_id, others.states)) else "jobs"
    listed = dict(list(waiting.items())[:DEPENDENCIES_MAX])
    client_ids = {each: name for each, name in others.client_ids.items() if each in listed}
    return WaitingReasonResponse(
        code="dependencies",
        sentence=(
            f"{subject} for {len(waiting)} of {len(others.states)} {kinds} to succeed:"
            f" {', '.join(names)}{' ...' if len(waiting) > NAMED_MAX else ''}."
        ),
        dependencies=listed,
        client_ids=client_ids or None,
    )


def _name_dependency(other: str, client_ids: Mapping[str, str]) -> str:
    name = client_ids.get(other, other)
    return f"array {name}" if is_array_id(other) else name


def _explain_preemption(job: JobRecord) -> WaitingReasonResponse:
    row, runs = job.row, job.preempted_runs
    named = ", ".join(
        f"{run['job_id']} of queue {run['queue']} ({run['stop_cause']})" for run in runs[:NAMED_MAX]
    )
    count = "one preempted run" if len(runs) == 1 else f"{len(runs)} preempted runs"
    has = "has" if len(runs) == 1 else "have"
    return WaitingReasonResponse(
        code="waiting-for-preempted-runs",
        sentence=(
            f"The job starts on node {row['node']} of cluster {row['executor']} when {count} on"
            f" that node {has} ended: {named}{' ...' if len(runs) > NAMED_MAX else ''}."
        ),
    )


def _explain_scheduling(
    job: JobRecord, reports: ReportCache, *, has_nodes: bool
) -> WaitingReasonResponse:
    row = job.row
    gang, member = job.submitted.gang, job.submitted.group
    name = gang.name if gang else member.group if member else ""
    reason = reports.find_waiting_reason(
        row["pool"], row["queue"], row["shape"], row["job_set"], name
    )
    if reason is None and not has_nodes:
        # Of pools that only jobs name, the scheduler examines some.
        return WaitingReasonResponse(
            code=NO_NODES,
            sentence=(
                f"Pool {row['pool']} has no nodes. Start an executor that reports nodes in this"
                " pool."
            ),
        )
    if reason is None:
        return WaitingReasonResponse(
            code="scheduling",
            sentence="The scheduler has not examined the job yet.",
        )
    return WaitingReasonResponse(
        code=reason.code,
        sentence=reason.sentence,
        nodes=reason.nodes or None,
        jobs=reason.jobs or None,
    )
