"""The fold of `fairlead.jobs` into the scheduler's columns: pure, in place, idempotent.

Events of one kind that follow each other are applied together as columns. Which ids of a batch
are already known although they have no row any more is an argument (`known`), looked up in
Postgres by the caller; `wanted` says which to look up.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, TypeVar, assert_never, cast

import msgspec
import numpy as np

from fairlead_common import events as ev
from fairlead_common.ids import JobId, run_id, submission_number
from fairlead_common.lifecycle import JOB_ENDED, JOB_STEPS, RUN_STEPS, JobState, RunState
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view import filters
from fairlead_scheduler.view.columns import View

LINGER_MS: Final = 30_000
"""How long a job that ended while queued keeps its row: a lease may just be on its way to it."""

Known = Mapping[JobId, c.Ended]
_encoder: Final = msgspec.json.Encoder()


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
    """Ids that these messages mention and that only the saved part of the view may know."""
    ids: set[JobId] = set()
    for message in messages:
        for event in message.sequence.events:
            if isinstance(event, ev.JobSubmitted):
                if event.client_id is not None:
                    ids.add(event.job_id)
                ids.update(event.after)
    return {job_id for job_id in ids if view.state_of(job_id) is None}


def label_filters(view: View, messages: Iterable[Message]) -> set[JobId]:
    """Jobs whose specs must be in `view.specs` before these messages can be applied."""
    needed: set[JobId] = set()
    for message in messages:
        for event in message.sequence.events:
            if isinstance(event, _BULK) and event.filter.labels:
                rows = filters.beside_labels(view, message.partition, event.filter)
                needed.update(view.jobs.ids[row] for row in rows)
    return {job_id for job_id in needed if job_id not in view.specs}


_BULK: Final = (ev.JobsCancelRequested, ev.JobsPreemptRequested, ev.JobsReprioritized)


def apply(view: View, messages: Iterable[Message], known: Known) -> None:
    """Fold the messages into the view. Applying a message again changes nothing."""
    for message in messages:
        if message.position < view.positions.get(message.partition, 0):
            continue
        view.positions[message.partition] = message.position + 1
        index = 0
        for kind, group in groupby(message.sequence.events, type):
            batch = list(group)
            _APPLY[kind](view, message, batch, index, known)
            index += len(batch)
        view.version += 1
        _release_lingering(view, message)


def advance(view: View, positions: Mapping[int, int]) -> None:
    """The reader passed these positions, also where there was nothing to fold."""
    for partition, position in positions.items():
        if position > view.positions.get(partition, 0):
            view.positions[partition] = position


def _release_lingering(view: View, message: Message) -> None:
    """By the time of the job's own partition: others may be read far ahead of it."""
    lingering = view.lingering.get(message.partition)
    while lingering and lingering[0][0] + LINGER_MS <= message.time_ms:
        ended_ms, job_id = lingering.popleft()
        row = view.jobs.rows.get(job_id)
        if row is not None and _may_go(view, row):
            _let_go(view, row, ended_ms)


def _may_go(view: View, row: int) -> bool:
    jobs = view.jobs
    return bool(c.IS_ENDED[jobs.state[row]]) and not c.IS_LIVE_RUN[jobs.run_state[row]]


def _let_go(view: View, row: int, ended_ms: int) -> None:
    """Free the row of an ended job; that it ended stays known to the rest of this batch."""
    jobs = view.jobs
    state = c.JOB_STATES[int(jobs.state[row])]
    view.recent.setdefault(jobs.ids[row], c.Ended(state, jobs.digests[row], ended_ms))
    jobs.release(row)


# Submission ---------------------------------------------------------------------------------


def _submitted(
    view: View, message: Message, batch: Sequence[ev.JobSubmitted], index: int, known: Known
) -> None:
    fresh: dict[JobId, tuple[int, ev.JobSubmitted]] = {}
    for place, event in enumerate(batch, index):
        job_id = event.job_id
        if job_id not in fresh and job_id not in known and view.state_of(job_id) is None:
            fresh[job_id] = (place, event)
    if not fresh:
        return
    rows = view.jobs.allocate(len(fresh))
    events = [event for _, event in fresh.values()]
    _fill(view, message, rows, [place for place, _ in fresh.values()], events)
    for row, event in zip(rows, events, strict=True):
        job_id = event.job_id
        view.jobs.rows[job_id] = row
        view.specs[job_id] = _encoder.encode(event)
        view.unsaved_specs.add(job_id)
        view.changed[job_id] = message.position
        if event.after:
            _depend(view, row, event, known)
        if event.retry is not None:
            view.jobs.rare_of(row).retry = event.retry
        if event.gang is not None:
            _join_gang(view, row, message.sequence, event.gang)


def _fill(
    view: View,
    message: Message,
    rows: list[int],
    places: list[int],
    batch: list[ev.JobSubmitted],
) -> None:
    jobs, sequence, at_ms = view.jobs, message.sequence, message.time_ms
    jobs.state[rows] = c.QUEUED
    jobs.run_state[rows] = c.NO_RUN
    jobs.flags[rows] = [_first_flags(event) for event in batch]
    jobs.partition[rows] = message.partition
    jobs.pool[rows] = [jobs.pools.number(event.pool) for event in batch]
    jobs.queue[rows] = jobs.queues.number(sequence.queue)
    jobs.job_set[rows] = jobs.job_sets.number(c.JobSet(sequence.queue, sequence.job_set))
    number = jobs.shapes.number
    jobs.shape[rows] = [
        number(c.ShapeClass(bytes(event.shape), event.priority_class)) for event in batch
    ]
    jobs.node[rows] = -1
    jobs.run[rows] = 0
    jobs.retries[rows] = 0
    jobs.grace_s[rows] = [event.grace_s for event in batch]
    jobs.priority[rows] = [event.priority for event in batch]
    jobs.number[rows] = [
        submission_number(at_ms, message.partition, message.position, place) for place in places
    ]
    jobs.submitted_ms[rows] = at_ms
    jobs.leased_ms[rows] = 0
    jobs.value[rows] = 0
    jobs.start_after_ms[rows] = [event.start_after_ms or 0 for event in batch]
    jobs.queue_until_ms[rows] = [
        c.NEVER_MS if event.queue_s_max is None else at_ms + 1000 * event.queue_s_max
        for event in batch
    ]
    jobs.runtime_ms_max[rows] = [1000 * (event.runtime_s_max or 0) for event in batch]
    jobs.checkpoint_ms[rows] = [1000 * (event.checkpoint_s or 0) for event in batch]
    for row, event in zip(rows, batch, strict=True):
        jobs.ids[row] = event.job_id
        jobs.digests[row] = event.digest


def _first_flags(event: ev.JobSubmitted) -> int:
    return (
        c.HOLD * event.hold
        | c.INFEASIBLE_WAITS * (event.when_infeasible == "wait")
        | c.PREEMPTED_IS_FINAL * (event.on_preemption == "fail")
    )


def _depend(view: View, row: int, event: ev.JobSubmitted, known: Known) -> None:
    rare = view.jobs.rare_of(row)
    for other in event.after:
        ended = known.get(other)
        state = ended.state if ended is not None else view.state_of(other)
        if state is JobState.SUCCEEDED:
            continue
        if state is not None and state in JOB_ENDED:
            _doom(view, row, other, state)
            continue
        rare.after.add(other)
        view.dependents.setdefault(other, set()).add(event.job_id)
    if rare.after:
        view.jobs.flags[row] |= c.DEPENDS


def _doom(view: View, row: int, other: JobId, state: JobState) -> None:
    view.jobs.rare_of(row).doom = f"job {other}, which it waits for, ended {state.value}"
    view.jobs.flags[row] |= c.DOOMED
    view.attention.add(view.jobs.ids[row])


def _join_gang(view: View, row: int, sequence: ev.EventSequence, gang: ev.Gang) -> None:
    name = c.GangName(sequence.queue, sequence.job_set, gang.name)
    terms = c.GangTerms(gang.size, gang.min_size or gang.size, gang.uniformity_label, gang.rest)
    rare = view.jobs.rare_of(row)
    rare.gang, rare.gang_terms = name, view.gangs.setdefault(name, terms)
    view.gang_members.setdefault(name, set()).add(view.jobs.ids[row])
    rare.gang_started = name in view.gang_started


# What was asked of jobs -----------------------------------------------------------------------


def _released(
    view: View, message: Message, batch: Sequence[ev.JobReleased], _i: int, _k: Known
) -> None:
    for event in batch:
        row = view.jobs.rows.get(event.job_id)
        if row is not None and view.jobs.flags[row] & c.HOLD:
            view.jobs.flags[row] &= c.ALL_FLAGS ^ c.HOLD
            view.touch(event.job_id, message.position)


def _cancel_requested(
    view: View, message: Message, batch: Sequence[ev.JobCancelRequested], _i: int, _k: Known
) -> None:
    for event in batch:
        row = view.jobs.rows.get(event.job_id)
        if row is not None:
            _cancel(view, row, message, event.reason)


def _cancel(view: View, row: int, message: Message, reason: str) -> None:
    if view.jobs.state[row] == c.QUEUED:
        _end(view, row, JobState.CANCELLED, message)
    elif c.IS_HELD[view.jobs.state[row]] and not view.jobs.flags[row] & c.STOP_CANCEL:
        _stop(view, row, c.STOP_CANCEL, reason or "cancelled", message)


def _stop(view: View, row: int, flag: int, reason: str, message: Message) -> None:
    view.jobs.flags[row] |= flag
    view.jobs.rare_of(row).stop_reason = reason
    view.attention.add(view.jobs.ids[row])
    view.touch(view.jobs.ids[row], message.position)


def _preempt_requested(
    view: View, message: Message, batch: Sequence[ev.JobPreemptRequested], _i: int, _k: Known
) -> None:
    for event in batch:
        row = view.jobs.rows.get(event.job_id)
        if row is not None:
            _preempt(view, row, message, event.reason or "preempted by request")


def _preempt(view: View, row: int, message: Message, reason: str) -> None:
    if c.IS_HELD[view.jobs.state[row]] and not view.jobs.flags[row] & c.STOPPING:
        _stop(view, row, c.STOP_PREEMPT, reason, message)


def _reprioritized(
    view: View, message: Message, batch: Sequence[ev.JobReprioritized], _i: int, _k: Known
) -> None:
    for event in batch:
        row = view.jobs.rows.get(event.job_id)
        if row is not None:
            view.jobs.priority[row] = event.priority
            view.touch(event.job_id, message.position)


def _bulk(
    view: View,
    message: Message,
    batch: Sequence[ev.JobsCancelRequested | ev.JobsPreemptRequested | ev.JobsReprioritized],
    _i: int,
    _k: Known,
) -> None:
    for event in batch:
        rows = filters.find(view, message.partition, event.filter)
        for row in rows:
            match event:
                case ev.JobsCancelRequested(reason=reason):
                    _cancel(view, row, message, reason)
                case ev.JobsPreemptRequested(reason=reason):
                    _preempt(view, row, message, reason or "preempted by request")
                case ev.JobsReprioritized(priority=priority):
                    view.jobs.priority[row] = priority
                    view.touch(view.jobs.ids[row], message.position)
                case _:
                    assert_never(event)


# What the scheduler decided -------------------------------------------------------------------


def _leased(
    view: View, message: Message, batch: Sequence[ev.JobRunLeased], _i: int, _k: Known
) -> None:
    jobs = view.jobs
    rows: list[int] = []
    taken: list[ev.JobRunLeased] = []
    for event in batch:
        row = jobs.rows.get(event.job_id)
        if row is None:
            view.loose_runs.add(run_id(event.job_id, event.run))
            continue
        if event.run != jobs.run[row] + 1:
            continue
        rows.append(row)
        taken.append(event)
    if not rows:
        return
    ended = c.IS_ENDED[jobs.state[rows]]
    jobs.state[rows] = np.where(ended, jobs.state[rows], c.STATE_CODE[JobState.LEASED])
    jobs.run_state[rows] = c.RUN_CODE[RunState.LEASED]
    jobs.run[rows] = [event.run for event in taken]
    number = jobs.nodes.number
    jobs.node[rows] = [number(c.NodeName(event.executor, event.node)) for event in taken]
    jobs.value[rows] = [event.value for event in taken]
    jobs.leased_ms[rows] = message.time_ms
    for row, event, is_ended in zip(rows, taken, ended, strict=True):
        view.changed[event.job_id] = message.position
        if is_ended:
            _stop(view, row, c.STOP_CANCEL, "the job had ended", message)


def _preempting(
    view: View, message: Message, batch: Sequence[ev.JobRunPreempting], _i: int, _k: Known
) -> None:
    for event in batch:
        row = _current(view, event)
        if row is None or not c.IS_LIVE_RUN[view.jobs.run_state[row]]:
            continue
        _preempt(view, row, message, event.reason)
        if event.for_job is not None:
            view.jobs.flags[row] |= c.ROOM_GIVEN


def _requeued(
    view: View, message: Message, batch: Sequence[ev.JobRequeued], _i: int, _k: Known
) -> None:
    jobs = view.jobs
    for event in batch:
        row = jobs.rows.get(event.job_id)
        if row is None or not c.IS_HELD[jobs.state[row]]:
            continue
        jobs.state[row] = c.QUEUED
        jobs.node[row] = -1
        jobs.flags[row] &= c.ALL_FLAGS ^ (c.STOPPING | c.ROOM_GIVEN)
        jobs.retries[row] += event.counted
        if event.avoid_node is not None:
            rare = jobs.rare_of(row)
            rare.avoid = (*rare.avoid, event.avoid_node)[-AVOID_MAX:]
        if event.shape:
            name = jobs.shapes.values[jobs.shape[row]].priority_class
            jobs.shape[row] = jobs.shapes.number(c.ShapeClass(bytes(event.shape), name))
        view.attention.discard(event.job_id)
        view.touch(event.job_id, message.position)


AVOID_MAX: Final = 64
"""Most nodes that a job remembers to avoid."""


_DecisionEvent = ev.JobSucceeded | ev.JobFailed | ev.JobCancelled | ev.JobPreempted | ev.JobRejected


def _decided(
    view: View, message: Message, batch: Sequence[_DecisionEvent], _i: int, _k: Known
) -> None:
    tag = batch[0].__struct_config__.tag
    for event in batch:
        row = view.jobs.rows.get(event.job_id)
        if row is None:
            continue
        to = JOB_STEPS.get((c.JOB_STATES[view.jobs.state[row]], cast(str, tag)))
        if to is not None:
            _end(view, row, to, message)


def _end(view: View, row: int, state: JobState, message: Message) -> None:
    jobs = view.jobs
    job_id = jobs.ids[row]
    was_queued = jobs.state[row] == c.QUEUED
    jobs.state[row] = c.STATE_CODE[state]
    view.ended[job_id] = c.Ended(state, jobs.digests[row], message.time_ms)
    view.touch(job_id, message.position)
    view.attention.discard(job_id)
    view.specs.pop(job_id, None)
    view.unsaved_specs.discard(job_id)
    _leave_gang(view, row, message)
    _tell_dependents(view, job_id, state, message)
    if was_queued:
        queue = view.lingering.setdefault(message.partition, deque())
        queue.append((message.time_ms, job_id))
    elif not c.IS_LIVE_RUN[jobs.run_state[row]]:
        jobs.release(row)
    else:
        view.attention.add(job_id)


def _leave_gang(view: View, row: int, message: Message) -> None:
    """A member ended. If it had run, those left over are no gang any more that starts together."""
    rare = view.jobs.rare.get(row)
    if rare is None or rare.gang is None:
        return
    members = view.gang_members.get(rare.gang, set())
    members.discard(view.jobs.ids[row])
    if not members:
        view.gang_members.pop(rare.gang, None)
        view.gangs.pop(rare.gang, None)
        view.gang_started.discard(rare.gang)
    elif view.jobs.run[row] > 0 and rare.gang not in view.gang_started:
        view.gang_started.add(rare.gang)
        for job_id in members:
            view.jobs.rare_of(view.jobs.rows[job_id]).gang_started = True
            view.touch(job_id, message.position)


def _tell_dependents(view: View, job_id: JobId, state: JobState, message: Message) -> None:
    for other in view.dependents.pop(job_id, ()):
        row = view.jobs.rows.get(other)
        if row is None or c.IS_ENDED[view.jobs.state[row]]:
            continue
        rare = view.jobs.rare_of(row)
        rare.after.discard(job_id)
        if state is not JobState.SUCCEEDED:
            _doom(view, row, job_id, state)
        elif not rare.after:
            view.jobs.flags[row] &= c.ALL_FLAGS ^ c.DEPENDS
        view.touch(other, message.position)


# What the runs did ----------------------------------------------------------------------------


def _current(view: View, event: ev.RunEvent) -> int | None:
    """The row of the job, if the event is about its newest run."""
    row = view.jobs.rows.get(event.job_id)
    return row if row is not None and view.jobs.run[row] == event.run else None


def _run_moved(
    view: View,
    message: Message,
    batch: Sequence[ev.JobRunPending | ev.JobRunRunning],
    _i: int,
    _k: Known,
) -> None:
    rows = [row for event in batch if (row := _current(view, event)) is not None]
    if not rows:
        return
    tag = cast(str, batch[0].__struct_config__.tag)
    jobs = view.jobs
    jobs.run_state[rows] = _RUN_TABLES[tag][jobs.run_state[rows]]
    jobs.state[rows] = _JOB_TABLES[tag][jobs.state[rows]]
    ids = jobs.ids
    view.changed.update((ids[row], message.position) for row in rows)


_RunEnd = (
    ev.JobRunSucceeded | ev.JobRunFailed | ev.JobRunReturned | ev.JobRunStopped | ev.JobRunLost
)


def _run_ended(view: View, message: Message, batch: Sequence[_RunEnd], _i: int, _k: Known) -> None:
    jobs = view.jobs
    table = _RUN_TABLES[cast(str, batch[0].__struct_config__.tag)]
    for event in batch:
        row = _current(view, event)
        if row is None or not c.IS_LIVE_RUN[jobs.run_state[row]]:
            if event.job_id not in jobs.rows:
                view.loose_runs.add(run_id(event.job_id, event.run))
            continue
        jobs.run_state[row] = table[jobs.run_state[row]]
        if c.IS_ENDED[jobs.state[row]]:
            view.loose_runs.add(run_id(event.job_id, event.run))
            view.attention.discard(event.job_id)
            _let_go(view, row, message.time_ms)
            continue
        view.touch(event.job_id, message.position)
        view.attention.add(event.job_id)
        if isinstance(event, ev.JobRunSucceeded):
            continue
        rare = jobs.rare_of(row)
        rare.failure_reason = event.reason
        if isinstance(event, ev.JobRunFailed):
            rare.failure = event.category
            rare.exit_code = event.exit_code


def _table(
    steps: Mapping[tuple[JobState, str], JobState] | Mapping[tuple[RunState, str], RunState],
    codes: Mapping[JobState, int] | Mapping[RunState, int],
    tag: str,
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """code -> code for one event: the life-cycle table as an array; no row means no change."""
    table = np.arange(256, dtype=np.uint8)
    for (state, event_tag), to in steps.items():
        if event_tag == tag:
            table[codes[state]] = codes[to]  # type: ignore[index]
    return table


_RUN_TAGS: Final = {tag for _, tag in RUN_STEPS}
_RUN_TABLES: Final = {tag: _table(RUN_STEPS, c.RUN_CODE, tag) for tag in _RUN_TAGS}
_JOB_TABLES: Final = {tag: _table(JOB_STEPS, c.STATE_CODE, tag) for tag in _RUN_TAGS}

E = TypeVar("E")
_Step = Callable[[View, Message, Sequence[E], int, Known], None]

_APPLY: Final[Mapping[type, _Step[ev.AnyEvent]]] = cast(
    "Mapping[type, _Step[ev.AnyEvent]]",
    {
        ev.JobSubmitted: _submitted,
        ev.JobReleased: _released,
        ev.JobCancelRequested: _cancel_requested,
        ev.JobPreemptRequested: _preempt_requested,
        ev.JobReprioritized: _reprioritized,
        ev.JobsCancelRequested: _bulk,
        ev.JobsPreemptRequested: _bulk,
        ev.JobsReprioritized: _bulk,
        ev.JobRejected: _decided,
        ev.JobRunLeased: _leased,
        ev.JobRunPreempting: _preempting,
        ev.JobRunLost: _run_ended,
        ev.JobRequeued: _requeued,
        ev.JobSucceeded: _decided,
        ev.JobFailed: _decided,
        ev.JobCancelled: _decided,
        ev.JobPreempted: _decided,
        ev.JobRunPending: _run_moved,
        ev.JobRunRunning: _run_moved,
        ev.JobRunSucceeded: _run_ended,
        ev.JobRunFailed: _run_ended,
        ev.JobRunReturned: _run_ended,
        ev.JobRunStopped: _run_ended,
    },
)
"""Every event of the union; a test compares the two."""
