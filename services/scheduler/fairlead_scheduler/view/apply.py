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
    for kind, alike in _groups(view, messages):
        if kind is ev.JobSubmitted:
            submitting.all_submitted(view, alike, known)
        elif kind is not ev.JobRunSucceeded or not running.succeeded(view, alike):
            for message in alike:
                _apply_one(view, message, known)
            continue
        for message in alike:
            ending.release_lingering(view, message)


def _groups(view: View, messages: Iterable[Message]) -> list[tuple[type | None, list[Message]]]:
    """The new messages in the order in which to apply them, together where they are of one kind.

    Those of one partition stay in their order, and what happens in one concerns no other.
    """
    groups: list[tuple[type | None, list[Message]]] = []
    newest: dict[type, int] = {}
    last: dict[int, int] = {}
    for message in messages:
        partition = message.partition
        if message.position < view.positions.get(partition, 0):
            continue
        view.positions[partition] = message.position + 1
        view.version += 1
        kind = message.kind
        at = -1 if kind is None else newest.get(kind, -1)
        if at < last.get(partition, 0):
            at = len(groups)
            groups.append((kind, []))
            if kind is not None:
                newest[kind] = at
        groups[at][1].append(message)
        last[partition] = at
    return groups


def _apply_one(view: View, message: Message, known: Known) -> None:
    index = 0
    for kind, group in groupby(message.sequence.events, type):
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
