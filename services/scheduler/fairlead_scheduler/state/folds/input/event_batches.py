"""Batches of messages that contain one kind of event, as columns.

Decoded events that are freed soon reuse memory in the processor's cache. Ten thousand events that
stay until all are decoded are spread over a large heap. So events are turned into columns whenever
there are `EVENTS_PER_BATCH` of them, not per message: a message often contains only one event, and
each new list has a cost.
"""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Final, Generic, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from fairlead_common.domain import lifecycle
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.state.jobs import job_index, job_table
from fairlead_scheduler.state.jobs.specs import DECODED_MAX, MessagePlace, SubmissionMessage

T = TypeVar("T")

EVENTS_PER_BATCH: Final = 128
"""Events that are turned into columns in one step."""


class MessagePart(NamedTuple):
    """Consecutive submissions of one message, and the index of the first."""

    partition: int
    position: int
    time_ms: int
    job_set: job_table.JobSet
    first: int
    size: int


class RunLengthColumn(Generic[T]):
    """A column in run-length encoding: the jobs of a message are mostly equal, so thousands of
    values need not be converted one by one."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.counts: list[int] = []
        """How often each of `values` occurs in succession."""

    def add(self, values: list[T]) -> None:
        """Append the values of the next jobs, at least one."""
        if values.count(values[0]) == len(values):
            self.values.append(values[0])
            self.counts.append(len(values))
        else:
            self.values += values
            self.counts += [1] * len(values)

    def column(self, number: Callable[[T], int]) -> npt.NDArray[np.int64]:
        """The values as numbers, one per job."""
        return np.repeat(np.array(list(map(number, self.values)), np.int64), self.counts)


class ShapeNumbers(dict[tuple[bytes, str], int]):
    """Canonical shape and priority class -> number, assigned at the first look-up: 0, 1, 2 ..."""

    def __missing__(self, kind: tuple[bytes, str]) -> int:
        """Number a new shape."""
        self[kind] = number = len(self)
        return number


class SubmissionBatch:
    """New jobs as columns. Lists have one element per job, except where a comment says otherwise.

    They are complete after `close`.
    """

    def __init__(self) -> None:
        self._waiting: list[ev.JobSubmitted] = []
        self.entries: list[Entry] = []
        """The messages, which hold nothing else and can be decoded again."""
        self.messages: list[SubmissionMessage] = []
        """The messages to which `specs` refers."""
        self.parts: list[MessagePart] = []
        self.ids: list[JobId] = []
        self.specs: list[ev.JobSubmitted | MessagePlace] = []
        """As in `Specs.unsaved`."""
        self.repeatable: list[JobId] = []
        """Jobs with a client id: only they can have been submitted before."""
        self.rare: list[tuple[int, ev.JobSubmitted]] = []
        """(Index of the job, event) for jobs with properties that have no column."""
        self.digests: list[npt.NDArray[np.bytes_]] = []
        """Arrays, each for several jobs."""
        self.shape: list[int] = []
        """Numbers of `shapes`."""
        self.shapes = ShapeNumbers()
        self.flags: RunLengthColumn[int] = RunLengthColumn()
        self.pool: RunLengthColumn[str] = RunLengthColumn()
        self.grace_s: RunLengthColumn[int] = RunLengthColumn()
        self.priority: RunLengthColumn[int] = RunLengthColumn()
        self.start_after_ms: RunLengthColumn[int | None] = RunLengthColumn()
        self.queue_s_max: RunLengthColumn[int | None] = RunLengthColumn()
        self.runtime_s_max: RunLengthColumn[int | None] = RunLengthColumn()
        self.checkpoint_s: RunLengthColumn[int | None] = RunLengthColumn()

    def add(self, entry: Entry, sequence: ev.EventSequence) -> None:
        """Add the jobs of a message that holds nothing else."""
        assert entry.value is not None, "there is no message without a value"
        self.entries.append(entry)
        events = cast("list[ev.JobSubmitted]", sequence.events)
        job_set = job_table.JobSet(sequence.queue, sequence.job_set)
        place = (entry.partition, entry.position, entry.time_ms)
        part = MessagePart(*place, job_set, 0, len(events))
        decoded = events if len(self.specs) < DECODED_MAX else ()
        message = SubmissionMessage(entry.value, decoded)
        self.messages.append(message)
        self.add_part(part, events, list(zip(repeat(message), range(len(events)))))

    def add_part(
        self,
        part: MessagePart,
        events: Sequence[ev.JobSubmitted],
        specs: Sequence[ev.JobSubmitted | MessagePlace],
    ) -> None:
        """Add the jobs of a part of a message."""
        self.parts.append(part)
        self.specs += specs
        self._waiting += events
        if len(self._waiting) >= EVENTS_PER_BATCH:
            self.close()

    def close(self) -> None:
        """Turn the events that wait into columns."""
        events, self._waiting = self._waiting, []
        if not events:
            return
        self.rare += [
            (number, event)
            for number, event in enumerate(events, len(self.ids))
            if event.after or event.retry is not None or event.gang or event.group or event.array
        ]
        self.ids += [event.job_id for event in events]
        self.repeatable += [event.job_id for event in events if event.client_id is not None]
        self.digests.append(_pack_digests([event.digest for event in events]))
        raws = [bytes(event.shape) for event in events]
        kinds = zip(raws, [event.priority_class for event in events], strict=True)
        self.shape += map(self.shapes.__getitem__, kinds)
        self.flags.add(
            [
                0
                if event.on_preemption == "requeue"
                and event.when_infeasible == "reject"
                and not event.hold
                else find_first_flags(event)
                for event in events
            ]
        )
        self.pool.add([event.pool for event in events])
        self.grace_s.add([event.grace_s for event in events])
        self.priority.add([event.priority for event in events])
        self.start_after_ms.add([event.start_after_ms for event in events])
        self.queue_s_max.add([event.queue_s_max for event in events])
        self.runtime_s_max.add([event.runtime_s_max for event in events])
        self.checkpoint_s.add([event.checkpoint_s for event in events])

    @property
    def others(self) -> set[JobId]:
        """The jobs on which these depend."""
        return set(chain.from_iterable([event.after for _, event in self.rare]))


def _pack_digests(digests: list[str]) -> npt.NDArray[np.bytes_]:
    packed = job_index.pack_equal_lengths(digests, job_table.DIGEST.itemsize)
    if packed is None:
        return np.array([digest.encode() for digest in digests], job_table.DIGEST)
    return packed


def find_first_flags(event: ev.JobSubmitted) -> int:
    """The flags of a new job, without those that depend on other jobs."""
    return (
        int(lifecycle.SUBMIT_HELD.sets) * event.hold
        | job_table.WAITS_IF_INFEASIBLE * (event.when_infeasible == "wait")
        | job_table.PREEMPTED_IS_FINAL * (event.on_preemption == "fail")
    )


class SuccessBatch:
    """Runs that succeeded, complete after `close`. `sizes`: the number of runs per message."""

    def __init__(self) -> None:
        self._waiting: list[ev.JobRunSucceeded] = []
        self.entries: list[Entry] = []
        self.sizes: list[int] = []
        self.ids: list[JobId] = []
        self.runs: list[int] = []

    def add(self, entry: Entry, sequence: ev.EventSequence) -> None:
        """Add the runs of a message that holds nothing else."""
        self.entries.append(entry)
        self.sizes.append(len(sequence.events))
        self._waiting += cast("list[ev.JobRunSucceeded]", sequence.events)
        if len(self._waiting) >= EVENTS_PER_BATCH:
            self.close()

    def close(self) -> None:
        """Turn the events that wait into columns."""
        events, self._waiting = self._waiting, []
        self.ids += [event.job_id for event in events]
        self.runs += [event.run for event in events]
