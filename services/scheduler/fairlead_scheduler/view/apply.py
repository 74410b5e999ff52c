"""The fold of `fairlead.jobs` into the scheduler's columns: pure, in place, idempotent.

Events of one kind that follow each other are applied together as columns. Which ids of a batch
are already known although they have no row any more is an argument (`known`), looked up in
Postgres by the caller; `wanted` says which to look up. What each kind does: `submitting.py`,
`asking.py`, `running.py` and `ending.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeVar, cast

from fairlead_common import events as ev
from fairlead_scheduler.view import asking, ending, running, submitting
from fairlead_scheduler.view.columns import View
from fairlead_scheduler.view.messages import Known, Message, decode, label_filters, wanted

__all__ = ["Known", "Message", "advance", "apply", "decode", "label_filters", "wanted"]


def apply(view: View, messages: Iterable[Message], known: Known) -> None:
    """Fold the messages into the view. Applying a message again changes nothing."""
    alike: list[Message] = []
    for message in messages:
        if message.position < view.positions.get(message.partition, 0):
            continue
        view.positions[message.partition] = message.position + 1
        view.version += 1
        kinds = set(map(type, message.sequence.events))
        if kinds == _SUCCESSES and not ending.lingers_no_more(view, message):
            alike.append(message)
            continue
        _apply_alike(view, alike, known)
        alike = []
        _apply_one(view, message, kinds, known)
    _apply_alike(view, alike, known)


_SUCCESSES: Final[set[type]] = {ev.JobRunSucceeded}


def _apply_alike(view: View, messages: Sequence[Message], known: Known) -> None:
    """Messages that hold nothing but successes, by whose time no row becomes free."""
    if messages and not running.succeeded(view, messages):
        for message in messages:
            _apply_one(view, message, _SUCCESSES, known)


def _apply_one(view: View, message: Message, kinds: set[type], known: Known) -> None:
    events = message.sequence.events
    if len(kinds) == 1:
        _APPLY[type(events[0])](view, message, events, 0, known)
    else:
        index = 0
        for kind, group in groupby(events, type):
            batch = list(group)
            _APPLY[kind](view, message, batch, index, known)
            index += len(batch)
    ending.release_lingering(view, message)


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
