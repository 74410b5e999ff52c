"""What the fold is given: decoded messages, and what must be looked up before they are applied."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

import msgspec

from fairlead_common import events as ev
from fairlead_common.ids import JobId
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view import filters
from fairlead_scheduler.view.columns import View

Known = Mapping[JobId, c.Ended]
_BULK: Final = frozenset({ev.JobsCancelRequested, ev.JobsPreemptRequested, ev.JobsReprioritized})


class Message(msgspec.Struct, frozen=True, gc=False):
    """One decoded message with its place in the log."""

    partition: int
    position: int
    time_ms: int
    sequence: ev.EventSequence
    kinds: frozenset[type]
    """Of its events: worked out at once, while they are still near the processor."""

    @classmethod
    def of(
        cls, partition: int, position: int, time_ms: int, sequence: ev.EventSequence
    ) -> "Message":
        """The message of these events."""
        return cls(partition, position, time_ms, sequence, frozenset(map(type, sequence.events)))

    @property
    def kind(self) -> type | None:
        """The kind of all its events, None if there are several (or no events)."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else None


def decode(entries: Iterable[Entry]) -> list[Message]:
    """The messages of a batch, in order. Raises `msgspec.DecodeError` for what is none."""
    return [
        Message.of(entry.partition, entry.position, entry.time_ms, ev.decode(entry.value))
        for entry in entries
        if entry.value is not None
    ]


def wanted(view: View, messages: Iterable[Message]) -> set[JobId]:
    """Ids that these messages mention and that only the saved part of the view may know.

    Those of new jobs are all named: what this view knows, it hardly ever knows of them.
    """
    ids: set[JobId] = set()
    others: set[JobId] = set()
    for message in messages:
        if ev.JobSubmitted not in message.kinds:
            continue
        events = message.sequence.events
        submitted = [event for event in events if type(event) is ev.JobSubmitted]
        ids.update([event.job_id for event in submitted if event.client_id is not None])
        others.update(chain.from_iterable([event.after for event in submitted if event.after]))
    return ids | {job_id for job_id in others if view.state_of(job_id) is None}


def label_filters(view: View, messages: Iterable[Message]) -> set[JobId]:
    """Jobs whose specs must be in `view.specs` before these messages can be applied."""
    needed: set[JobId] = set()
    for message in messages:
        for event in () if _BULK.isdisjoint(message.kinds) else message.sequence.events:
            if (
                isinstance(
                    event, ev.JobsCancelRequested | ev.JobsPreemptRequested | ev.JobsReprioritized
                )
                and event.filter.labels
            ):
                rows = filters.beside_labels(view, message.partition, event.filter)
                needed.update(view.jobs.rows.every(rows))
    return {job_id for job_id in needed if job_id not in view.specs}
