"""Jobs and runs as the API returns them, from rows of the statements that read them."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_common.domain import quantities, timestamps
from fairlead_common.service import clock
from fairlead_lookout.http.responses import (
    CATEGORY_MESSAGES,
    ExportedJob,
    JobResponse,
    RunResponse,
    UserRequestResponse,
    format_time,
)
from fairlead_lookout.store import table_rows
from fairlead_lookout.store.queries.view_reader import JobRows, find_failed_dependency
from fairlead_lookout.store.topic_caches import ClusterCache

NO_NODES: Final = "no-matching-node"
"""What a job in a pool without nodes waits for: the code of the scheduler."""

_decode_texts: Final = msgspec.json.Decoder(dict[str, str]).decode
decode_amounts: Final = msgspec.json.Decoder(dict[str, int]).decode


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
