"""What the fold is given: decoded messages, and what must be looked up before they are applied."""

from collections.abc import Iterable, Mapping
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


class Message(msgspec.Struct, frozen=True):
    """One decoded message with its place in the log."""

    partition: int
    position: int
    time_ms: int
    sequence: ev.EventSequence


def decode(entries: Iterable[Entry]) -> list[Message]:
    """The messages of a batch, in order. Raises `msgspec.DecodeError` for what is none."""
    return [
        Message(entry.partition, entry.position, entry.time_ms, ev.decode(entry.value))
        for entry in entries
        if entry.value is not None
    ]


def wanted(view: View, messages: Iterable[Message]) -> set[JobId]:
    """Ids that these messages mention and that only the saved part of the view may know.

    Ids of new jobs are not looked for among the live ones: they are hardly ever there.
    """
    ids: set[JobId] = set()
    others: set[JobId] = set()
    for message in messages:
        events = message.sequence.events
        if ev.JobSubmitted not in set(map(type, events)):
            continue
        submitted = [event for event in events if type(event) is ev.JobSubmitted]
        ids.update([event.job_id for event in submitted if event.client_id is not None])
        for event in submitted:
            if event.after:
                others.update(event.after)
    ids |= others.difference(view.jobs.rows)
    return ids.difference(view.ended).difference(view.recent) if ids else ids


def label_filters(view: View, messages: Iterable[Message]) -> set[JobId]:
    """Jobs whose specs must be in `view.specs` before these messages can be applied."""
    needed: set[JobId] = set()
    for message in messages:
        events = message.sequence.events
        if _BULK.isdisjoint(map(type, events)):
            continue
        for event in events:
            if (
                isinstance(
                    event, ev.JobsCancelRequested | ev.JobsPreemptRequested | ev.JobsReprioritized
                )
                and event.filter.labels
            ):
                rows = filters.beside_labels(view, message.partition, event.filter)
                needed.update(view.jobs.ids[row] for row in rows)
    return {job_id for job_id in needed if job_id not in view.specs}
