"""The fold of submissions: new jobs get rows, many at once."""

from collections.abc import Sequence
from itertools import chain, compress
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from fairlead_common import events as ev
from fairlead_common.ids import JobId, submission_number
from fairlead_common.lifecycle import JOB_ENDED, JobState
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view import ending, gangs
from fairlead_scheduler.view.columns import View
from fairlead_scheduler.view.messages import Known, Message

Rows = npt.NDArray[np.intp]


class Part(NamedTuple):
    """Submissions that follow each other in one message, and the place in it of the first."""

    message: Message
    first: int
    events: Sequence[ev.JobSubmitted]


def submitted(
    view: View, message: Message, batch: Sequence[ev.JobSubmitted], index: int, known: Known
) -> None:
    """Jobs are new, unless their id is known."""
    _submitted(view, [Part(message, index, batch)], known)


def all_submitted(view: View, messages: Sequence[Message], known: Known) -> None:
    """As `submitted`, for messages that hold nothing else."""
    parts = [
        Part(message, 0, cast("list[ev.JobSubmitted]", message.sequence.events))
        for message in messages
    ]
    _submitted(view, parts, known)


def _submitted(view: View, parts: Sequence[Part], known: Known) -> None:
    jobs = view.jobs
    said = _Said(parts)
    if not _are_new(view, said.ids, known):
        fresh = _fresh(view, parts, known)
        if fresh:
            _submitted(view, fresh, known)
        return
    at = jobs.allocate(len(said.ids))
    jobs.rows.add(said.ids, at)
    sizes = [len(part.events) for part in parts]
    _fill(view, at, parts, sizes)
    _describe(view, at, said)
    events = list(chain.from_iterable([part.events for part in parts]))
    view.specs.fresh.update(zip(said.ids, events, strict=True))
    view.touch_all(at, _spread([part.message.position for part in parts], sizes))
    for place in compress(range(len(events)), said.rare):
        row, event = at.item(place), events[place]
        if event.after:
            _depend(view, row, event, known)
        if event.retry is not None:
            jobs.rare_of(row).retry = event.retry
        if event.gang is not None:
            gangs.join(view, row, event.gang)


def _are_new(view: View, ids: list[JobId], known: Known) -> bool:
    """Whether nobody has seen any of these ids, nor are two of them the same."""
    if any(not those.keys().isdisjoint(ids) for those in (known, view.ended, view.recent) if those):
        return False
    return len(set(ids)) == len(ids) and not (view.jobs.rows.find(ids) >= 0).any()


def _fresh(view: View, parts: Sequence[Part], known: Known) -> list[Part]:
    """The submissions whose ids nobody has seen: the first of each."""
    fresh: dict[JobId, Part] = {}
    for message, first, events in parts:
        for place, event in enumerate(events, first):
            job_id = event.job_id
            if job_id not in known and view.state_of(job_id) is None:
                fresh.setdefault(job_id, Part(message, place, (event,)))
    return list(fresh.values())


def _fill(view: View, at: Rows, parts: Sequence[Part], sizes: Sequence[int]) -> None:
    """What the job is by its message and its place in it, and what all jobs are at first."""
    jobs = view.jobs
    messages = [part.message for part in parts]
    numbers = [submission_number(m.time_ms, m.partition, m.position, 0) for m in messages]
    places = [np.arange(part.first, part.first + len(part.events)) for part in parts]
    sets = [c.JobSet(m.sequence.queue, m.sequence.job_set) for m in messages]
    jobs.partition[at] = _spread([m.partition for m in messages], sizes)
    jobs.queue[at] = _spread([jobs.queues.number(name.queue) for name in sets], sizes)
    jobs.job_set[at] = _spread([jobs.job_sets.number(name) for name in sets], sizes)
    jobs.number[at] = _spread(numbers, sizes) + (np.concatenate(places) & 1023) * 32
    jobs.submitted_ms[at] = _spread([m.time_ms for m in messages], sizes)
    jobs.state[at] = c.QUEUED
    jobs.run_state[at] = c.NO_RUN
    jobs.node[at] = -1
    for name in ("run", "retries", "leased_ms", "running_ms", "value"):
        getattr(jobs, name)[at] = 0


def _spread(values: list[int], sizes: Sequence[int]) -> int | npt.NDArray[np.int64]:
    """What is said of each message, for each of its events."""
    return values[0] if len(values) == 1 else np.repeat(np.array(values, np.int64), sizes)


class _Said:
    """What events say, as columns: message by message, for its events are near the processor."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.ids: list[JobId] = []
        self.digest: list[bytes] = []
        self.flags: list[int] = []
        self.pool: list[str] = []
        self.shape: list[tuple[bytes, str]] = []
        self.grace_s: list[int] = []
        self.priority: list[int] = []
        self.start_after_ms: list[int | None] = []
        self.queue_s_max: list[int | None] = []
        self.runtime_s_max: list[int | None] = []
        self.checkpoint_s: list[int | None] = []
        self.rare: list[bool] = []
        for part in parts:
            self._add(part.events)

    def _add(self, events: Sequence[ev.JobSubmitted]) -> None:
        self.ids += [event.job_id for event in events]
        self.digest += [event.digest.encode() for event in events]
        self.flags += [
            0
            if event.on_preemption == "requeue"
            and event.when_infeasible == "reject"
            and not event.hold
            else _first_flags(event)
            for event in events
        ]
        self.pool += [event.pool for event in events]
        raws = [b"".join((event.shape,)) for event in events]  # a fifth of the time of `bytes`
        self.shape += zip(raws, [event.priority_class for event in events], strict=True)
        self.grace_s += [event.grace_s for event in events]
        self.priority += [event.priority for event in events]
        self.start_after_ms += [event.start_after_ms for event in events]
        self.queue_s_max += [event.queue_s_max for event in events]
        self.runtime_s_max += [event.runtime_s_max for event in events]
        self.checkpoint_s += [event.checkpoint_s for event in events]
        self.rare += [
            bool(event.after) or event.retry is not None or event.gang is not None
            for event in events
        ]


def _describe(view: View, at: Rows, said: _Said) -> None:
    """What the events say."""
    jobs = view.jobs
    jobs.digest[at] = said.digest
    jobs.flags[at] = said.flags
    number_of_pool = {pool: jobs.pools.number(pool) for pool in dict.fromkeys(said.pool)}
    jobs.pool[at] = list(map(number_of_pool.__getitem__, said.pool))
    number_of = {
        kind: jobs.shapes.number(c.ShapeClass(*kind)) for kind in dict.fromkeys(said.shape)
    }
    jobs.shape[at] = list(map(number_of.__getitem__, said.shape))
    jobs.grace_s[at] = said.grace_s
    jobs.priority[at] = said.priority
    starts, waits = said.start_after_ms, said.queue_s_max
    jobs.start_after_ms[at] = [ms or 0 for ms in starts] if any(starts) else 0
    jobs.queue_until_ms[at] = c.NEVER_MS
    if waits.count(None) < len(waits):
        jobs.queue_until_ms[at] = [
            c.NEVER_MS if seconds is None else at_ms + 1000 * seconds
            for seconds, at_ms in zip(waits, jobs.submitted_ms[at].tolist(), strict=True)
        ]
    jobs.runtime_ms_max[at] = _milliseconds(said.runtime_s_max)
    jobs.checkpoint_ms[at] = _milliseconds(said.checkpoint_s)


def _milliseconds(seconds: list[int | None]) -> list[int] | int:
    return [1000 * (s or 0) for s in seconds] if any(seconds) else 0


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
            ending.doom(view, row, other, state)
            continue
        rare.after.add(other)
        view.dependents.setdefault(other, set()).add(event.job_id)
    if rare.after:
        view.jobs.flags[row] |= c.DEPENDS
