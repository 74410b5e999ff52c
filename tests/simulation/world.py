"""One log, one clock, one source of chance: what all actors of a simulation share.

Nothing here knows threads or event loops. A seed gives the same history every time.
"""

import random
from collections.abc import Sequence

from fairlead_common.domain.errors import AppendRefused, AppendUnknown
from fairlead_common.log import topics
from fairlead_common.log.compacted_view import CompactedView
from fairlead_common.log.memory_log import AppendFailure, MemoryCore
from fairlead_common.log.protocol import Appended, Batch, Entry, Record

START_MS = 1_800_000_000_000
EXECUTORS = ("e0", "e1")


class World:
    """The log, virtual time, and faults. `calm` ends all faults so that things can settle."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ms = START_MS
        self.log = MemoryCore(f"simulation-{seed}")
        self.calm = False
        self.outages: list[tuple[int, int]] = []
        """From when to when (ms) nobody reaches the log."""
        for topic in (topics.jobs(), topics.clusters(), topics.config(), topics.reports()):
            self.log.create(topic)
        for executor in EXECUTORS:
            self.log.create(topics.leases(executor))

    def pass_time(self, ms: int) -> None:
        """Let virtual time go by."""
        self.now_ms += ms

    @property
    def has_outage(self) -> bool:
        """Whether nobody reaches the log now."""
        return bool(self.outages) and self.now_ms < self.outages[-1][1]

    def maybe(self, probability: float) -> bool:
        """Whether something that happens this often happens now; never when it is calm."""
        return not self.calm and self.chance.random() < probability


class Writer:
    """A producer that sometimes fails: refused, or nobody knows."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._epoch = world.log.begin(name)

    def append(self, records: Sequence[Record]) -> Appended:
        """Append, or raise as the protocol says."""
        world = self._world
        if world.has_outage:
            raise AppendRefused("the log is unavailable")
        if world.maybe(0.03):
            world.log.fail_next(world.chance.choice(list(AppendFailure)), self._name)
        try:
            return world.log.append(self._name, self._epoch, records, world.now_ms)
        except AppendUnknown:
            self._epoch = -1
            raise

    def append_surely(self, records: Sequence[Record]) -> None:
        """Repeat until it is in the log: for what may be there twice."""
        while True:
            try:
                self.append(records)
            except AppendRefused:
                continue
            except AppendUnknown:
                self._epoch = self._world.log.begin(self._name)
                continue
            return


class Tail:
    """A reader that is sometimes slow and sometimes reads again what it has read."""

    def __init__(self, world: World, topic: str, positions: dict[int, int] | None = None) -> None:
        self._world = world
        self._topic = topic
        self.positions = dict(positions or world.log.start_positions(topic))

    def read(self, *, again: bool = False) -> Batch:
        """The next few records; with `again` from some earlier place, as a restart would."""
        world = self._world
        if world.has_outage:
            return Batch([], dict(self.positions))
        start = dict(self.positions)
        if again and world.maybe(0.1):
            first = world.log.start_positions(self._topic)
            start = {p: world.chance.randint(first[p], at) for p, at in start.items()}
        most = 10_000 if world.calm else world.chance.randint(1, 8)
        batch = world.log.read(self._topic, start, records_max=most)
        self.positions.update({p: max(at, self.positions[p]) for p, at in batch.positions.items()})
        return batch

    def read_all(self) -> list[Batch]:
        """Everything until the end."""
        batches = []
        while self.positions != self._world.log.end_positions(self._topic):
            batch = self._world.log.read(self._topic, self.positions)
            self.positions = dict(batch.positions)
            batches.append(batch)
        return batches

    def read_newest(self) -> dict[str, Entry]:
        """The newest entry of every key of a compacted topic, read until the end."""
        newest = CompactedView(lambda entry: entry)
        for batch in self.read_all():
            newest.fold(batch.entries)
        return newest.values


def values_of(newest: dict[str, Entry]) -> dict[str, bytes]:
    """The values of these entries."""
    return {key: entry.value for key, entry in newest.items() if entry.value is not None}
