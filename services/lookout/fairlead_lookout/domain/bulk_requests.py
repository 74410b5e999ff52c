"""Bulk requests: cancel, preempt or reprioritize all jobs that match a filter."""

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead_common.domain.records import events
from fairlead_lookout.domain.model import Job, Message
from fairlead_lookout.domain.transitions import ENDED, WITH_RUN

_BULK: Final = (events.JobsCancelRequested, events.JobsPreemptRequested, events.JobsReprioritized)
_BULK_TYPES: Final = frozenset(_BULK)


def find_bulk_filters(messages: Sequence[Message]) -> list[tuple[Message, events.JobFilter]]:
    """The filters of the bulk requests in these messages."""
    return [
        (message, event.filter)
        for message in messages
        if not _BULK_TYPES.isdisjoint(map(type, message.sequence.events))
        for event in message.sequence.events
        if isinstance(event, _BULK)
    ]


def is_bulk_request(message: Message) -> bool:
    """Whether the message is one bulk request and nothing else."""
    return len(message.sequence.events) == 1 and bool(find_bulk_filters([message]))


def matches_filter(job: Job, wanted: events.JobFilter, labels: Mapping[str, str]) -> bool:
    """Whether a job matches a filter in its current state. Ended jobs match no filter.

    `labels`: of the job, needed if the filter has labels.
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
    if run is None or job.state not in WITH_RUN:
        return False
    return wanted.executor in (None, run.executor) and wanted.node in (None, run.node)
