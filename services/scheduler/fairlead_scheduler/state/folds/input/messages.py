"""The input of the fold: decoded messages, and the ids and specs to look up before folding them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, get_args

import msgspec

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import decoders
from fairlead_common.domain.records import events as ev
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.state.folds.input import job_filters
from fairlead_scheduler.state.folds.input.event_batches import SubmissionBatch, SuccessBatch
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View

EndedJobs = Mapping[JobId, job_table.EndedJob]
_Bulk = ev.JobsCancelRequested | ev.JobsPreemptRequested | ev.JobsReprioritized
_BULK: Final = frozenset(get_args(_Bulk))
"""Testing the type of every event against a set is much faster than against a union."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One decoded message with its place in the log."""

    partition: int
    position: int
    time_ms: int
    sequence: ev.EventSequence


FoldInput = Message | SubmissionBatch | SuccessBatch
"""What is folded in one step."""


def read_messages(entries: Iterable[Entry]) -> Iterator[Message]:
    """Messages, one by one. Raises `decoders.Undecodable`."""
    for entry in entries:
        sequence = decoders.decode_jobs(entry)
        yield Message(entry.partition, entry.position, entry.time_ms, sequence)


def decode_batch(entries: Sequence[Entry]) -> list[FoldInput]:
    """The messages of a batch in the order to fold them; messages of one event type are batched.

    Messages of one partition stay in order; events of one partition do not affect another.
    Raises `decoders.Undecodable`.
    """
    groups: list[list[Message] | SubmissionBatch | SuccessBatch] = []
    newest: dict[type, int] = {}
    last: dict[int, int] = {}
    for entry, sequence in zip(entries, decoders.decode_job_batch(entries), strict=True):
        kinds = set(map(type, sequence.events))
        kind = kinds.pop() if len(kinds) == 1 else None
        at = -1 if kind is None else newest.get(kind, -1)
        if at < last.get(entry.partition, 0):
            at = len(groups)
            groups.append(_BATCHES.get(kind, list)())
            if kind is not None:
                newest[kind] = at
        last[entry.partition] = at
        group = groups[at]
        if isinstance(group, list):
            group.append(Message(entry.partition, entry.position, entry.time_ms, sequence))
        else:
            group.add(entry, sequence)
    folded: list[FoldInput] = []
    for group in groups:
        if isinstance(group, list):
            folded += group
        else:
            group.close()
            folded.append(group)
    return folded


_BATCHES: Final[Mapping[type | None, type[SubmissionBatch | SuccessBatch]]] = {
    ev.JobSubmitted: SubmissionBatch,
    ev.JobRunSucceeded: SuccessBatch,
}


def find_ids_to_look_up(view: View, messages: Iterable[FoldInput]) -> list[JobId]:
    """Ids in these messages that the checkpoint can have as ended jobs, sorted: of new jobs, groups
    and arrays with a client id, and of unknown dependencies."""
    ids: set[JobId] = set()
    others: set[JobId] = set()
    for each in messages:
        if isinstance(each, SubmissionBatch):
            ids.update(each.repeatable)
            others.update(each.others)
        elif isinstance(each, Message):
            for event in each.sequence.events:
                if type(event) is ev.JobSubmitted:
                    others.update(event.after)
                    if event.client_id is not None:
                        ids.add(event.job_id)
                elif type(event) is ev.GroupSubmitted and event.client_id is not None:
                    ids.add(JobId(event.group))
                elif type(event) is ev.ArraySubmitted:
                    others.update(event.template.after)
                    if event.template.client_id is not None:
                        ids.add(JobId(event.array))
    ids.update(job_id for job_id in others if view.state_of(job_id) is None)
    return view.saved_ends.select_possible(ids)


def find_specs_to_load(view: View, messages: Iterable[FoldInput]) -> set[JobId]:
    """Jobs whose specs must be in `view.specs` before these messages are folded."""
    needed: set[JobId] = set()
    for message in messages:
        if not isinstance(message, Message):
            continue
        for event in message.sequence.events:
            if type(event) not in _BULK:
                continue
            assert isinstance(event, _Bulk)
            if event.filter.labels:
                rows = job_filters.find_ignoring_labels(view, message.partition, event.filter)
                needed.update(view.jobs.rows.ids_at(rows))
    return set(view.specs.find_missing(needed))
