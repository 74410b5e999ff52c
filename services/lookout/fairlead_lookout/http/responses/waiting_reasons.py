"""Why a queued job or group waits: its own conditions, or what the scheduler reported about it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairlead_common.domain import timestamps
from fairlead_common.domain.ids import is_array_id, partition_of_job
from fairlead_common.domain.records.scheduling_reports import WaitingReport
from fairlead_common.log.quarantine import QuarantinedRecord
from fairlead_lookout.http.responses.job_responses import (
    NO_NODES,
    WaitingReasonResponse,
    find_obstacle,
)
from fairlead_lookout.store.queries.group_lists import decode_roles
from fairlead_lookout.store.queries.view_reader import Dependencies, JobRecord
from fairlead_lookout.store.topic_caches import ClusterCache, ReportCache

NAMED_MAX = 3
"""Jobs that a sentence names."""
DEPENDENCIES_MAX = 100


class Circumstances(NamedTuple):
    """What the reason depends on beside the job or group. `stopped`: the partitions of the log at
    which a reader has stopped, and at which record."""

    reports: ReportCache
    clusters: ClusterCache
    stopped: Mapping[int, QuarantinedRecord]
    now_ms: int

    def find_obstacle(self, row: Any, *, waits_for_others: bool = False) -> str | None:
        """What the queued job of a row waits for first."""
        return find_obstacle(row, self.now_ms, waits_for_others, self.clusters)


def explain_waiting(job: JobRecord, circumstances: Circumstances) -> WaitingReasonResponse | None:
    """The reason, or None for a job that does not wait."""
    row = job.row
    if row["state"] == "QUEUED" and (
        record := circumstances.stopped.get(partition_of_job(row["id"]))
    ):
        return _explain_stopped_log("job", record)
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
    match obstacle := circumstances.find_obstacle(row, waits_for_others=job.dependencies.are_open):
        case None:
            return None
        case "dependencies":
            return explain_dependencies("The job waits", job.dependencies)
        case _:
            return _explain_condition("The job", row, obstacle) or _explain_scheduling(
                job, circumstances.reports, has_nodes=obstacle != NO_NODES
            )


def explain_waiting_group(
    group: Any, members: Sequence[Any], circumstances: Circumstances
) -> WaitingReasonResponse | None:
    """Why queued members of a group wait; None if none do. `group`, `members`: rows of the
    statements `groups_by_id` and `members`.

    A needed member that is held or starts later prevents the start of the group, so it comes first,
    then what the scheduler reported.
    """
    waiting = _order_waiting(group, members)
    if group["ended_ms"] is not None or not waiting:
        return None
    if record := circumstances.stopped.get(partition_of_job(group["id"])):
        return _explain_stopped_log("group", record)
    needed = [member for member, is_needed in waiting if is_needed]
    if reason := _find_condition(needed, circumstances):
        return reason
    first, _ = waiting[0]
    place = (first["pool"], group["queue"])
    if report := circumstances.reports.find_gang_reason(*place, group["job_set"], group["id"]):
        return _describe_report(report)
    if reason := _find_condition([member for member, _ in waiting], circumstances):
        return reason
    # A group whose needed members have all ended starts member by member, as other jobs do.
    if report := circumstances.reports.find_waiting_reason(*place, first["shape"], "", ""):
        return _describe_report(report, f"{_name_member(first)}: ")
    has_nodes = circumstances.find_obstacle(first) != NO_NODES
    return _explain_without_report("group", first["pool"], has_nodes=has_nodes)


def _order_waiting(group: Any, members: Sequence[Any]) -> list[tuple[Any, bool]]:
    """The queued members and whether the group needs each: needed ones first, in the order of the
    roles."""
    roles = {role.name: (place, role.min) for place, role in enumerate(decode_roles(group))}
    found = [
        (member["number"] >= roles[member["role"]][1], roles[member["role"]][0], member)
        for member in members
        if member["state"] == "QUEUED" and member["role"] in roles
    ]
    found.sort(key=lambda each: (each[0], each[1], each[2]["number"]))
    return [(member, not is_surplus) for is_surplus, _, member in found]


def _find_condition(
    members: Sequence[Any], circumstances: Circumstances
) -> WaitingReasonResponse | None:
    """Why the first of these members waits that is held or starts later."""
    for member in members:
        obstacle = circumstances.find_obstacle(member)
        if reason := _explain_condition(_name_member(member), member, obstacle):
            return reason
    return None


def _name_member(member: Any) -> str:
    return f"Member {member['role']}-{member['number']}"


def _explain_stopped_log(noun: str, record: QuarantinedRecord) -> WaitingReasonResponse:
    return WaitingReasonResponse(
        code="log-stopped",
        sentence=(
            f"The {record.reader} cannot read the log of this {noun} beyond position"
            f" {record.position} of partition {record.partition}: {record.reason}. The {noun} is"
            " not scheduled until a newer version of that service runs."
        ),
    )


def _explain_condition(
    subject: str, row: Any, obstacle: str | None
) -> WaitingReasonResponse | None:
    """The reason if the job of this row is held or starts later. `subject`: the job."""
    match obstacle:
        case "hold":
            return WaitingReasonResponse(
                code="hold", sentence=f"{subject} is held until it is released."
            )
        case "startAfter":
            start_after = timestamps.rfc3339(row["start_after_ms"])
            return WaitingReasonResponse(
                code="startAfter", sentence=f"{subject} starts no earlier than {start_after}."
            )
        case _:
            return None


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
            f"The job starts on node {row['run_node']} of cluster {row['run_executor']} when"
            f" {count} on that node {has} ended: {named}{' ...' if len(runs) > NAMED_MAX else ''}."
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
    if reason is None:
        return _explain_without_report("job", row["pool"], has_nodes=has_nodes)
    return _describe_report(reason)


def _explain_without_report(noun: str, pool: str, *, has_nodes: bool) -> WaitingReasonResponse:
    if not has_nodes:
        # Of pools that only jobs name, the scheduler examines some.
        return WaitingReasonResponse(
            code=NO_NODES,
            sentence=(
                f"Pool {pool} has no nodes. Start an executor that reports nodes in this pool."
            ),
        )
    return WaitingReasonResponse(
        code="scheduling", sentence=f"The scheduler has not examined the {noun} yet."
    )


def _describe_report(report: WaitingReport, before: str = "") -> WaitingReasonResponse:
    """`before`: the beginning of the sentence."""
    return WaitingReasonResponse(
        code=report.code,
        sentence=before + report.sentence,
        nodes=report.nodes or None,
        jobs=report.jobs or None,
    )
