"""Messages that hold one kind of event, many together, as columns: their events are not kept.

What is decoded and soon let go takes memory that is near the processor; ten thousand events that
are kept until all are decoded fill the holes that others left all over a large heap. So events wait
until they are `TOGETHER`, for a message often holds but one, and each list made costs.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.state import job_index
from fairlead_scheduler.state import job_table as c

T = TypeVar("T")

EVENTS_PER_BATCH: Final = 64
"""So many events become columns at once."""


class MessagePart(NamedTuple):
    """Submissions that follow each other in one message, and the place in it of the first."""

    partition: int
    position: int
    time_ms: int
    job_set: c.JobSet
    first: int
    size: int


class RunLengthColumn(Generic[T]):
    """What each of many jobs says, as runs of equal values: those of a message mostly say the same.

    So thousands of values need not be made an array one by one.
    """

    def __init__(self) -> None:
        self.values: list[T] = []
        self.counts: list[int] = []
        """How often each value follows itself."""

    def add(self, values: list[T]) -> None:
        """The next jobs, at least one, say this."""
        if values.count(values[0]) == len(values):
            self.values.append(values[0])
            self.counts.append(len(values))
        else:
            self.values += values
            self.counts += [1] * len(values)

    def column(self, number: Callable[[T], int]) -> npt.NDArray[np.int64]:
        """What each says, as a number."""
        return np.repeat(np.array(list(map(number, self.values)), np.int64), self.counts)


class ShapeNumbers(dict[tuple[bytes, str], int]):
    """Canonical shape and priority class -> number, given when first asked for: 0, 1, 2 ..."""

    def __missing__(self, kind: tuple[bytes, str]) -> int:
        """One that is new."""
        self[kind] = number = len(self)
        return number


class SubmissionBatch:
    """New jobs. Lists have one element per job, but for `parts` and what says otherwise.

    They are whole after `close`.
    """

    def __init__(self) -> None:
        self._waiting: list[ev.JobSubmitted] = []
        self.entries: list[Entry] = []
        """The messages that hold nothing else: they can be read again."""
        self.parts: list[MessagePart] = []
        self.ids: list[JobId] = []
        self.specs: list[ev.JobSubmitted | bytes] = []
        """As in `Specs.fresh`."""
        self.repeatable: list[JobId] = []
        """Jobs with a client id: only they may have been submitted before."""
        self.rare: list[tuple[int, ev.JobSubmitted]] = []
        """(Number of the job here, event) of those that say more than the columns hold."""
        self.digests: list[npt.NDArray[np.bytes_]] = []
        """Arrays of some of them each."""
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
        """The jobs of a message that holds nothing else."""
        assert entry.value is not None, "there is no message without a value"
        self.entries.append(entry)
        events = cast("list[ev.JobSubmitted]", sequence.events)
        job_set = c.JobSet(sequence.queue, sequence.job_set)
        place = (entry.partition, entry.position, entry.time_ms)
        part = MessagePart(*place, job_set, 0, len(events))
        self.add_part(part, events, [entry.value] * len(events))

    def add_part(
        self,
        part: MessagePart,
        events: Sequence[ev.JobSubmitted],
        specs: Sequence[ev.JobSubmitted | bytes],
    ) -> None:
        """The jobs of a part of a message."""
        self.parts.append(part)
        self.specs += specs
        self._waiting += events
        if len(self._waiting) >= EVENTS_PER_BATCH:
            self.close()

    def close(self) -> None:
        """There is nothing to be added, for now."""
        events, self._waiting = self._waiting, []
        if not events:
            return
        self.rare += [
            (number, event)
            for number, event in enumerate(events, len(self.ids))
            if event.after or event.retry is not None or event.gang is not None
        ]
        self.ids += [event.job_id for event in events]
        self.repeatable += [event.job_id for event in events if event.client_id is not None]
        self.digests.append(_digests([event.digest for event in events]))
        raws = [b"".join((event.shape,)) for event in events]  # a fifth of the time of `bytes`
        kinds = zip(raws, [event.priority_class for event in events], strict=True)
        self.shape += map(self.shapes.__getitem__, kinds)
        self.flags.add(
            [
                0
                if event.on_preemption == "requeue"
                and event.when_infeasible == "reject"
                and not event.hold
                else _first_flags(event)
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
        """Jobs that these wait for."""
        return set(chain.from_iterable([event.after for _, event in self.rare]))


def _digests(those: list[str]) -> npt.NDArray[np.bytes_]:
    usual = job_index.pack_equal_lengths(those, c.DIGEST.itemsize)
    return np.array([one.encode() for one in those], c.DIGEST) if usual is None else usual


def _first_flags(event: ev.JobSubmitted) -> int:
    return (
        c.HOLD * event.hold
        | c.INFEASIBLE_WAITS * (event.when_infeasible == "wait")
        | c.PREEMPTED_IS_FINAL * (event.on_preemption == "fail")
    )


class SuccessBatch:
    """Runs that succeeded, whole after `close`. `sizes`: how many of them each message tells of."""

    def __init__(self) -> None:
        self._waiting: list[ev.JobRunSucceeded] = []
        self.entries: list[Entry] = []
        self.sizes: list[int] = []
        self.ids: list[JobId] = []
        self.runs: list[int] = []

    def add(self, entry: Entry, sequence: ev.EventSequence) -> None:
        """The runs of a message that holds nothing else."""
        self.entries.append(entry)
        self.sizes.append(len(sequence.events))
        self._waiting += cast("list[ev.JobRunSucceeded]", sequence.events)
        if len(self._waiting) >= EVENTS_PER_BATCH:
            self.close()

    def close(self) -> None:
        """There is nothing to be added, for now."""
        events, self._waiting = self._waiting, []
        self.ids += [event.job_id for event in events]
        self.runs += [event.run for event in events]
