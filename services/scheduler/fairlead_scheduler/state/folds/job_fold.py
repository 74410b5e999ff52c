"""The fold of `fairlead.jobs` into the scheduler's columns: pure, in place, idempotent.

Messages of one event type are folded together as columns (`event_batches.py`). `ended_jobs` is
what the caller has looked up in Postgres about ids without a row; `find_ids_to_look_up` lists these
ids. The folds of the event types are in `submission_events.py`, `request_events.py`,
`run_events.py`, `end_events.py`, `group_events.py` and `array_events.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeVar, cast

from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.folds import (
    array_events,
    end_events,
    group_events,
    request_events,
    run_events,
    submission_events,
)
from fairlead_scheduler.state.folds.input.event_batches import SubmissionBatch, SuccessBatch
from fairlead_scheduler.state.folds.input.messages import (
    EndedJobs,
    FoldInput,
    Message,
    decode_batch,
    find_ids_to_look_up,
    find_specs_to_load,
    read_messages,
)
from fairlead_scheduler.state.view import View

__all__ = [
    "EndedJobs",
    "FoldInput",
    "Message",
    "advance_positions",
    "decode_batch",
    "find_ids_to_look_up",
    "find_specs_to_load",
    "fold_messages",
    "read_messages",
]


def fold_messages(view: View, messages: Iterable[FoldInput], ended_jobs: EndedJobs) -> None:
    """Fold the messages into the view. Folding a message again changes nothing."""
    for each in messages:
        if isinstance(each, Message):
            _fold_message(view, each, ended_jobs)
        elif not _fold_batch(view, each, ended_jobs):
            for message in read_messages(each.entries):
                _fold_message(view, message, ended_jobs)


def _fold_batch(view: View, batch: SubmissionBatch | SuccessBatch, ended_jobs: EndedJobs) -> bool:
    """Return False, without any change, if part of it was folded before or is unusual."""
    entries = batch.entries
    if any(entry.position < view.positions.get(entry.partition, 0) for entry in entries):
        return False
    if isinstance(batch, SubmissionBatch):
        applied = submission_events.add_jobs(view, batch, ended_jobs)
    else:
        applied = run_events.fold_successes(view, batch)
    if applied:
        view.positions.update({entry.partition: entry.position + 1 for entry in entries})
        view.version += len(entries)
        newest_ms = {entry.partition: entry.time_ms for entry in entries}
        for partition, time_ms in newest_ms.items():
            end_events.release_expired_rows(view, partition, time_ms)
    return applied


def _fold_message(view: View, message: Message, ended_jobs: EndedJobs) -> None:
    if message.position < view.positions.get(message.partition, 0):
        return
    view.positions[message.partition] = message.position + 1
    view.version += 1
    index = 0
    for kind, group in groupby(message.sequence.events, type):
        batch = list(group)
        _FOLDS[kind](view, message, batch, index, ended_jobs)
        index += len(batch)
    end_events.release_expired_rows(view, message.partition, message.time_ms)


def advance_positions(view: View, positions: Mapping[int, int]) -> None:
    """Note that the reader passed these positions, even if nothing was folded."""
    for partition, position in positions.items():
        if position > view.positions.get(partition, 0):
            view.positions[partition] = position


E = TypeVar("E")
_Fold = Callable[[View, Message, Sequence[E], int, EndedJobs], None]

_FOLDS: Final[Mapping[type, _Fold[ev.AnyEvent]]] = cast(
    "Mapping[type, _Fold[ev.AnyEvent]]",
    {
        ev.JobSubmitted: submission_events.fold_submitted,
        ev.JobReleased: request_events.fold_released,
        ev.JobCancelRequested: request_events.fold_cancel_requested,
        ev.JobPreemptRequested: request_events.fold_preempt_requested,
        ev.JobReprioritized: request_events.fold_reprioritized,
        ev.JobsCancelRequested: request_events.fold_bulk_request,
        ev.JobsPreemptRequested: request_events.fold_bulk_request,
        ev.JobsReprioritized: request_events.fold_bulk_request,
        ev.JobRejected: end_events.fold_decision,
        ev.JobRunLeased: run_events.fold_leased,
        ev.JobRunPreempting: run_events.fold_preempting,
        ev.JobRunLost: run_events.fold_run_end,
        ev.JobRequeued: run_events.fold_requeued,
        ev.JobSucceeded: end_events.fold_decision,
        ev.JobFailed: end_events.fold_decision,
        ev.JobCancelled: end_events.fold_decision,
        ev.JobPreempted: end_events.fold_decision,
        ev.JobRunPending: run_events.fold_run_progress,
        ev.JobRunRunning: run_events.fold_run_progress,
        ev.JobRunSucceeded: run_events.fold_run_end,
        ev.JobRunFailed: run_events.fold_run_end,
        ev.JobRunReturned: run_events.fold_run_end,
        ev.JobRunStopped: run_events.fold_run_end,
        ev.GroupSubmitted: group_events.fold_submitted,
        ev.GroupChanged: group_events.fold_changed,
        ev.GroupCancelRequested: group_events.fold_cancel_requested,
        ev.GroupRestartRequested: group_events.fold_restart_requested,
        ev.GroupRunning: group_events.fold_decision,
        ev.GroupRestarting: group_events.fold_decision,
        ev.GroupSucceeded: group_events.fold_decision,
        ev.GroupFailed: group_events.fold_decision,
        ev.GroupCancelled: group_events.fold_decision,
        ev.ArraySubmitted: array_events.fold_submitted,
        ev.ArrayCancelRequested: array_events.fold_cancel_requested,
        ev.ArrayTasksCancelled: array_events.fold_tasks_cancelled,
        ev.ArrayEnded: array_events.fold_ended,
    },
)
"""Every event of the union; a test compares the two."""
