"""Messages that hold one kind of event, many together, as columns: their events are not kept.

What is decoded and let go at once takes memory that is near the processor; ten thousand events that
are kept until all are decoded fill the holes that others left all over a large heap.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from fairlead_common import events as ev
from fairlead_common.ids import JobId
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.view import columns as c


class Part(NamedTuple):
    """Submissions that follow each other in one message, and the place in it of the first."""

    partition: int
    position: int
    time_ms: int
    job_set: c.JobSet
    first: int
    size: int


class Submissions:
    """New jobs. Lists have one element per job, but for `parts` and what says otherwise."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """The messages that hold nothing else: they can be read again."""
        self.parts: list[Part] = []
        self.ids: list[JobId] = []
        self.specs: dict[JobId, ev.JobSubmitted | bytes] = {}
        """As `Specs.fresh`."""
        self.repeatable: list[JobId] = []
        """Jobs with a client id: only they may have been submitted before."""
        self.rare: list[tuple[int, ev.JobSubmitted]] = []
        """(Number of the job here, event) of those that say more than the columns hold."""
        self.digests: list[npt.NDArray[np.bytes_]] = []
        """One array per part."""
        self.flags: list[int] = []
        self.pool: list[str] = []
        self.shape: list[int] = []
        """Numbers of `shapes`."""
        self.shapes: dict[tuple[bytes, str], int] = {}
        """Canonical shape and priority class -> number, in the order of the numbers."""
        self.grace_s: list[int] = []
        self.priority: list[int] = []
        self.start_after_ms: list[int | None] = []
        self.queue_s_max: list[int | None] = []
        self.runtime_s_max: list[int | None] = []
        self.checkpoint_s: list[int | None] = []

    def add(self, entry: Entry, sequence: ev.EventSequence) -> None:
        """The jobs of a message that holds nothing else."""
        assert entry.value is not None, "there is no message without a value"
        self.entries.append(entry)
        events = cast("list[ev.JobSubmitted]", sequence.events)
        job_set = c.JobSet(sequence.queue, sequence.job_set)
        place = (entry.partition, entry.position, entry.time_ms)
        self.add_part(Part(*place, job_set, 0, len(events)), events)
        self.specs.update(dict.fromkeys([event.job_id for event in events], entry.value))

    def add_part(self, part: Part, events: Sequence[ev.JobSubmitted]) -> None:
        """The jobs of a part of a message. Their specs are left to the caller."""
        self.rare += [
            (number, event)
            for number, event in enumerate(events, len(self.ids))
            if event.after or event.retry is not None or event.gang is not None
        ]
        self.parts.append(part)
        self.ids += [event.job_id for event in events]
        self.repeatable += [event.job_id for event in events if event.client_id is not None]
        self.digests.append(np.array([event.digest.encode() for event in events], c.DIGEST))
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
        kinds = list(zip(raws, [event.priority_class for event in events], strict=True))
        for kind in dict.fromkeys(kinds):
            self.shapes.setdefault(kind, len(self.shapes))
        self.shape += map(self.shapes.__getitem__, kinds)
        self.grace_s += [event.grace_s for event in events]
        self.priority += [event.priority for event in events]
        self.start_after_ms += [event.start_after_ms for event in events]
        self.queue_s_max += [event.queue_s_max for event in events]
        self.runtime_s_max += [event.runtime_s_max for event in events]
        self.checkpoint_s += [event.checkpoint_s for event in events]

    @property
    def others(self) -> set[JobId]:
        """Jobs that these wait for."""
        return set(chain.from_iterable([event.after for _, event in self.rare]))


def _first_flags(event: ev.JobSubmitted) -> int:
    return (
        c.HOLD * event.hold
        | c.INFEASIBLE_WAITS * (event.when_infeasible == "wait")
        | c.PREEMPTED_IS_FINAL * (event.on_preemption == "fail")
    )


class Successes:
    """Runs that succeeded. `sizes`: how many of them each message tells of."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.sizes: list[int] = []
        self.ids: list[JobId] = []
        self.runs: list[int] = []

    def add(self, entry: Entry, sequence: ev.EventSequence) -> None:
        """The runs of a message that holds nothing else."""
        events = cast("list[ev.JobRunSucceeded]", sequence.events)
        self.entries.append(entry)
        self.sizes.append(len(events))
        self.ids += [event.job_id for event in events]
        self.runs += [event.run for event in events]
