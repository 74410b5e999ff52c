"""What messages mention: jobs and runs by id, and jobs by filters."""

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_lookout.domain.model import Job, Message, RunKey
from fairlead_lookout.domain.transitions import ENDED, HELD, SUCCEEDED

BULK: Final = (events.JobsCancelRequested, events.JobsPreemptRequested, events.JobsReprioritized)


def matches(job: Job, wanted: events.JobFilter, labels: Mapping[str, str]) -> bool:
    """Whether a filter finds this job as it is now. Ended jobs are found by no filter.

    `labels`: the job's, if the filter asks for any.
    """
    if job.state in ENDED or job.key[0] != wanted.queue:
        return False
    if wanted.job_set is not None and job.key[1] != wanted.job_set:
        return False
    if wanted.states and job.state not in wanted.states:
        return False
    if wanted.classes and job.priority_class not in wanted.classes:
        return False
    if any(labels.get(name) != value for name, value in wanted.labels.items()):
        return False
    if wanted.executor is None and wanted.node is None:
        return True
    run = job.latest
    if run is None or job.state not in HELD:
        return False
    return wanted.executor in (None, run.executor) and wanted.node in (None, run.node)


def mentioned(messages: Sequence[Message]) -> dict[str, None]:
    """The ids of all jobs that these messages name, in their order: jobs that are named one after
    the other were often made so, and are near each other in memory."""
    found: list[str] = [
        event.job_id
        for message in messages
        for event in message.sequence.events
        if isinstance(event, events.JobEvent)
    ]
    found += [
        job_id
        for message in messages
        for event in message.sequence.events
        if isinstance(event, events.JobSubmitted) and (job_id := replaced(event))
    ]
    return dict.fromkeys(found)


def is_replaceable(old: Job, new: Job) -> bool:
    """Whether a job is of the same job set, did not succeed and was not submitted again before."""
    ended_badly = old.state in ENDED and old.state != SUCCEEDED
    return ended_badly and old.key == new.key and old.superseded_by is None


def replaced(event: events.JobSubmitted) -> str | None:
    """The job of the same partition in whose place this one was submitted."""
    if not event.annotations:
        return None
    job_id = event.annotations.get(events.RESUBMITTED_FROM, "")
    if not ids.is_job_id(job_id):
        return None
    same = ids.partition_of_job(job_id) == ids.partition_of_job(event.job_id)
    return job_id if same else None


def mentioned_runs(messages: Sequence[Message]) -> set[RunKey]:
    """(job, run) of all runs that these messages name."""
    return {
        (event.job_id, event.run)
        for message in messages
        for event in message.sequence.events
        if isinstance(event, events.RunEvent)
    }


def bulk(messages: Sequence[Message]) -> list[tuple[Message, events.JobFilter]]:
    """The filters of these messages."""
    return [
        (message, event.filter)
        for message in messages
        for event in message.sequence.events
        if isinstance(event, BULK)
    ]
