"""Why a job waits: what it waits for itself, else what the scheduler said of jobs like it."""

from collections.abc import Mapping

from fairlead_common.domain import timestamps
from fairlead_common.domain.ids import partition_of_job
from fairlead_common.log.quarantine import QuarantinedRecord
from fairlead_lookout.http import responses
from fairlead_lookout.store.queries.view_reader import JobFound
from fairlead_lookout.store.topic_caches import Reports


def explain(
    found: JobFound, reports: Reports, stopped: Mapping[int, QuarantinedRecord], now_ms: int
) -> responses.WhyShown | None:
    """The reason, or None for a job that does not wait. `stopped`: partitions of the log."""
    row = found.row
    if row["state"] == "QUEUED" and (noted := stopped.get(partition_of_job(row["id"]))):
        return responses.WhyShown(
            code="log-stopped",
            sentence=(
                f"The {noted.reader} cannot read the log of this job beyond position"
                f" {noted.position} of partition {noted.partition}: {noted.reason}. Nothing is"
                " decided about the job until a newer version of that service runs."
            ),
        )
    if found.giving_way:
        return _making_room(found)
    match responses.waiting_for(row, now_ms, found.waits_for_others):
        case None:
            return None
        case "hold":
            return responses.WhyShown(code="hold", sentence="The job is held until it is released.")
        case "dependencies":
            waiting = {each: s for each, s in found.dependencies.items() if s != "SUCCEEDED"}
            named = [found.client_ids.get(each, each) for each in list(waiting)[:3]]
            listed = dict(list(waiting.items())[:100])
            return responses.WhyShown(
                code="dependencies",
                sentence=(
                    f"The job waits for {len(waiting)} of {len(found.dependencies)} jobs to"
                    f" succeed: {', '.join(named)}{' ...' if len(waiting) > 3 else ''}."
                ),
                dependencies=listed,
                client_ids={each: name for each, name in found.client_ids.items() if each in listed}
                or None,
            )
        case "startAfter":
            start_after = timestamps.rfc3339(row["start_after_ms"])
            return responses.WhyShown(
                code="startAfter",
                sentence=f"The job starts no earlier than {start_after}.",
            )
        case _:
            return _scheduling(found, reports)


def _making_room(found: JobFound) -> responses.WhyShown:
    row, runs = found.row, found.giving_way
    many = len(runs) > 1
    named = ", ".join(f"{r['job_id']} of queue {r['queue']} ({r['stop_cause']})" for r in runs[:3])
    return responses.WhyShown(
        code="making-room",
        sentence=(
            f"The job starts on node {row['node']} of cluster {row['executor']} when"
            f" {f'{len(runs)} preempted runs' if many else 'one preempted run'} on that node"
            f" {'have' if many else 'has'} ended: {named}{' ...' if len(runs) > 3 else ''}."
        ),
    )


def _scheduling(found: JobFound, reports: Reports) -> responses.WhyShown:
    row = found.row
    gang = found.submitted.gang
    why = reports.waiting(
        row["pool"], row["queue"], row["shape"], row["job_set"], gang.name if gang else ""
    )
    if why is None:
        return responses.WhyShown(
            code="scheduling",
            sentence="The scheduler has not examined the job yet.",
        )
    return responses.WhyShown(
        code=why.code, sentence=why.sentence, nodes=why.nodes or None, jobs=why.jobs or None
    )
