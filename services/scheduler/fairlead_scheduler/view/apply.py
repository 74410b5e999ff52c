"""The fold of `fairlead.jobs` into the scheduler's columns: pure, in place, idempotent.

Messages that are alike are applied together as columns (`alike.py`). Which ids of a batch
are already known although they have no row any more is an argument (`known`), looked up in
Postgres by the caller; `wanted` says which to look up. What each kind does: `submitting.py`,
`asking.py`, `running.py` and `ending.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeVar, cast

from fairlead_common import events as ev
from fairlead_scheduler.view import asking, ending, running, submitting
from fairlead_scheduler.view.alike import Submissions, Successes
from fairlead_scheduler.view.columns import View
from fairlead_scheduler.view.messages import (
    Folded,
    Known,
    Message,
    decode,
    label_filters,
    read,
    wanted,
)

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
        applied = submitting.new(view, alike, known)
    else:
        applied = running.succeeded(view, alike)
    if applied:
        view.positions.update({entry.partition: entry.position + 1 for entry in entries})
        view.version += len(entries)
        newest_ms = {entry.partition: entry.time_ms for entry in entries}
        for partition, time_ms in newest_ms.items():
            ending.release_lingering(view, partition, time_ms)
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
    ending.release_lingering(view, message.partition, message.time_ms)


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
        ev.JobSubmitted: submitting.submitted,
        ev.JobReleased: asking.released,
        ev.JobCancelRequested: asking.cancel_requested,
        ev.JobPreemptRequested: asking.preempt_requested,
        ev.JobReprioritized: asking.reprioritized,
        ev.JobsCancelRequested: asking.bulk,
        ev.JobsPreemptRequested: asking.bulk,
        ev.JobsReprioritized: asking.bulk,
        ev.JobRejected: ending.decided,
        ev.JobRunLeased: running.leased,
        ev.JobRunPreempting: running.preempting,
        ev.JobRunLost: running.run_ended,
        ev.JobRequeued: running.requeued,
        ev.JobSucceeded: ending.decided,
        ev.JobFailed: ending.decided,
        ev.JobCancelled: ending.decided,
        ev.JobPreempted: ending.decided,
        ev.JobRunPending: running.run_moved,
        ev.JobRunRunning: running.run_moved,
        ev.JobRunSucceeded: running.run_ended,
        ev.JobRunFailed: running.run_ended,
        ev.JobRunReturned: running.run_ended,
        ev.JobRunStopped: running.run_ended,
    },
)
"""Every event of the union; a test compares the two."""
