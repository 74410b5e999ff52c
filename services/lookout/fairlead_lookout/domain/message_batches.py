"""Divides messages of the log into batches, each folded in one transaction."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, cast, get_args

import msgspec

from fairlead_common.domain.records import events
from fairlead_lookout.domain.bulk_requests import find_bulk_filters, is_bulk_request
from fairlead_lookout.domain.model import BulkProgress, JobSetKey, Message, RunKey
from fairlead_lookout.domain.transitions import find_replaced_job

_JOB_EVENTS: Final = frozenset(
    each for each in get_args(events.AnyEvent) if issubclass(each, events.JobEvent)
)
_ARRAY_TYPES: Final = frozenset({events.ArraySubmitted, events.JobSubmitted})


class Batch(msgspec.Struct, frozen=True):
    """Some messages, and the positions of each partition before and after them. Only its fold
    removes messages.

    A part of a bulk request is a batch with only its message: `candidates` are the jobs of the
    part, `progress_before` is how much of the request was folded before it, `progress_after` how
    much with it, None for the last part.
    """

    messages: deque[Message]
    before: dict[int, int]
    after: dict[int, int]
    candidates: list[str] | None = None
    progress_before: BulkProgress | None = None
    progress_after: BulkProgress | None = None

    @property
    def is_bulk_request(self) -> bool:
        """Whether this is one bulk request and nothing else."""
        return len(self.messages) == 1 and is_bulk_request(self.messages[0])


def cut_batches(
    messages: deque[Message], before: dict[int, int], after: dict[int, int], events_max: int
) -> Iterator[Batch]:
    """Batches of about `events_max` events. A message that is one bulk request is a batch of its
    own; any other message with a bulk request ends its batch.

    Messages are removed from `messages` when they are in a batch, so that a batch that was folded
    is freed while the next one is."""
    part: deque[Message] = deque()
    count = 0
    start = before
    while messages:
        message = messages.popleft()
        if part and (
            count >= events_max or is_bulk_request(message) or find_bulk_filters((part[-1],))
        ):
            reached = {**start, **{each.partition: each.position + 1 for each in part}}
            yield Batch(part, start, reached)
            part, count, start = deque(), 0, reached
        part.append(message)
        count += len(message.sequence.events)
    if part or start != after:
        yield Batch(part, start, after)


def take_messages(messages: deque[Message]) -> Iterator[Message]:
    """The messages, each removed before it is returned, so that it is freed when it is folded."""
    while messages:
        yield messages.popleft()


def find_job_ids(messages: Sequence[Message]) -> dict[str, None]:
    """The ids of all jobs that these messages name, in their order: jobs that are named one after
    the other were often created so, and are near each other in memory. Then the ids of jobs that
    were submitted again."""
    named: list[str] = []
    replaced: list[str] = []
    for message in messages:
        found = message.sequence.events
        types = set(map(type, found))
        if types <= _JOB_EVENTS:
            named += [event.job_id for event in cast("list[events.JobEvent]", found)]
        else:
            named += [event.job_id for event in found if isinstance(event, events.JobEvent)]
        if events.JobSubmitted in types:
            replaced += [
                job_id
                for event in found
                if type(event) is events.JobSubmitted and event.annotations
                if (job_id := find_replaced_job(event)) is not None
            ]
    return dict.fromkeys(named + replaced)


def find_new_jobs(messages: Sequence[Message]) -> dict[str, JobSetKey]:
    """The jobs that these messages submit, and their job sets."""
    return {
        event.job_id: (message.sequence.queue, message.sequence.job_set)
        for message in messages
        for event in message.sequence.events
        if type(event) is events.JobSubmitted
    }


def find_arrays(messages: Sequence[Message]) -> set[str]:
    """The arrays that these messages submit or release tasks of."""
    return {
        event.array if isinstance(event, events.ArraySubmitted) else event.array.array
        for message in messages
        if not _ARRAY_TYPES.isdisjoint(map(type, message.sequence.events))
        for event in message.sequence.events
        if isinstance(event, events.ArraySubmitted | events.JobSubmitted)
        if event.array is not None
    }


def find_run_keys(messages: Sequence[Message]) -> set[RunKey]:
    """(job, run) of all runs that these messages name."""
    return {
        (event.job_id, event.run)
        for message in messages
        for event in message.sequence.events
        if isinstance(event, events.RunEvent)
    }
