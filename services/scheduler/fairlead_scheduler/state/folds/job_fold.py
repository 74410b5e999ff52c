"""The fold of `fairlead.jobs` into the scheduler's columns: pure, in place, idempotent.

Messages that are alike are applied together as columns (`event_batches.py`). Which ids of a batch
are already known although they have no row any more is an argument (`known`), looked up in
Postgres by the caller; `wanted` says which to look up. What each kind does:
`submission_events.py`, `request_events.py`, `run_events.py` and `end_events.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeVar, cast

from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.folds import end_events, request_events, run_events, submission_events
from fairlead_scheduler.state.folds.event_batches import Submissions, Successes
from fairlead_scheduler.state.folds.messages import (
    Folded,
    Known,
    Message,
    decode,
    label_filters,
    read,
    wanted,
)
from fairlead_scheduler.state.view import View

__all__ = [
    "Folded",
    "Known",
    "Message",
    "advance",
    "apply",
    "decode",
    "label_filters",
    "read",
    "wanted",
]


def apply(view: View, messages: Iterable[Folded], known: Known) -> None:
    """Fold the messages into the view. Applying a message again changes nothing."""
    for each in messages:
        if isinstance(each, Message):
            _apply_one(view, each, known)
        elif not _apply_together(view, each, known):
            for message in read(each.entries):
                _apply_one(view, message, known)


def _apply_together(view: View, alike: Submissions | Successes, known: Known) -> bool:
    """False, and nothing is changed, if some of it was applied before or demands a closer look."""
    entries = alike.entries
    if any(entry.position < view.positions.get(entry.partition, 0) for entry in entries):
        return False
    if isinstance(alike, Submissions):
        applied = submission_events.new(view, alike, known)
    else:
        applied = run_events.succeeded(view, alike)
    if applied:
        view.positions.update({entry.partition: entry.position + 1 for entry in entries})
        view.version += len(entries)
        newest_ms = {entry.partition: entry.time_ms for entry in entries}
        for partition, time_ms in newest_ms.items():
            end_events.release_lingering(view, partition, time_ms)
    return applied


def _apply_one(view: View, message: Message, known: Known) -> None:
    if message.position < view.positions.get(message.partition, 0):
        return
    view.positions[message.partition] = message.position + 1
    view.version += 1
    index = 0
    for kind, group in groupby(message.sequence.events, type):
        batch = list(group)
        _APPLY[kind](view, message, batch, index, known)
        index += len(batch)
    end_events.release_lingering(view, message.partition, message.time_ms)


def advance(view: View, positions: Mapping[int, int]) -> None:
    """The reader passed these positions, also where there was nothing to fold."""
    for partition, position in positions.items():
        if position > view.positions.get(partition, 0):
            view.positions[partition] = position


E = TypeVar("E")
_Step = Callable[[View, Message, Sequence[E], int, Known], None]

_APPLY: Final[Mapping[type, _Step[ev.AnyEvent]]] = cast(
    "Mapping[type, _Step[ev.AnyEvent]]",
    {
        ev.JobSubmitted: submission_events.submitted,
        ev.JobReleased: request_events.released,
        ev.JobCancelRequested: request_events.cancel_requested,
        ev.JobPreemptRequested: request_events.preempt_requested,
        ev.JobReprioritized: request_events.reprioritized,
        ev.JobsCancelRequested: request_events.bulk,
        ev.JobsPreemptRequested: request_events.bulk,
        ev.JobsReprioritized: request_events.bulk,
        ev.JobRejected: end_events.decided,
        ev.JobRunLeased: run_events.leased,
        ev.JobRunPreempting: run_events.preempting,
        ev.JobRunLost: run_events.run_ended,
        ev.JobRequeued: run_events.requeued,
        ev.JobSucceeded: end_events.decided,
        ev.JobFailed: end_events.decided,
        ev.JobCancelled: end_events.decided,
        ev.JobPreempted: end_events.decided,
        ev.JobRunPending: run_events.run_moved,
        ev.JobRunRunning: run_events.run_moved,
        ev.JobRunSucceeded: run_events.run_ended,
        ev.JobRunFailed: run_events.run_ended,
        ev.JobRunReturned: run_events.run_ended,
        ev.JobRunStopped: run_events.run_ended,
    },
)
"""Every event of the union; a test compares the two."""
