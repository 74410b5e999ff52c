"""The executors and nodes, folded from the log when a request needs them, and cached.

Nothing is read in the background.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead_common.domain.errors import LogUnavailable
from fairlead_common.domain.records import clusters
from fairlead_common.domain.records.clusters import Node
from fairlead_common.log.compacted_view import CompactedReader, CompactedView
from fairlead_common.log.protocol import Entry, EventLog, Positions, caught_up
from fairlead_common.log.topics import CLUSTERS
from fairlead_common.service import clock

CACHE_S: Final = 2.0
READ_S_MAX: Final = 20.0
KEYS_MAX: Final = 500_000


class ClusterSnapshot(msgspec.Struct, frozen=True):
    """The executors by name, the nodes by (executor, name). `version` identifies the snapshot."""

    executors: frozenset[str]
    nodes: Mapping[tuple[str, str], Node]
    version: int


class ClusterView:
    """A fold of `fairlead.clusters`, at most `CACHE_S` old when it is read."""

    def __init__(self, log: EventLog, read_s_max: float = READ_S_MAX) -> None:
        self._log = log
        self._read_s_max = read_s_max
        self._read_s = -CACHE_S
        self._positions: Positions | None = None
        self._view = CompactedView(_decode, KEYS_MAX)
        self._snapshot = ClusterSnapshot(frozenset(), {}, 0)
        self._reading = asyncio.Lock()

    async def read(self) -> ClusterSnapshot:
        """The present snapshot. Raises `LogError` if the log is unavailable."""
        async with self._reading:
            if clock.monotonic_s() - self._read_s >= CACHE_S:
                now_s = clock.monotonic_s()
                await self._read_on()
                self._read_s = now_s
        return self._snapshot

    async def _read_on(self) -> None:
        if self._positions is None:
            self._positions = await self._log.start_positions(CLUSTERS)
        end = await self._log.end_positions(CLUSTERS)
        if caught_up(self._positions, end):
            return
        changed = False
        reader = await CompactedReader.open(self._log, CLUSTERS, self._positions, self._view.values)
        try:
            async with asyncio.timeout(self._read_s_max):
                while not caught_up(self._positions, end):
                    batch = await reader.read()
                    changed |= bool(self._view.fold(batch.entries))
                    self._positions = batch.positions
        except TimeoutError as error:
            raise LogUnavailable(f"{CLUSTERS} was not read in {self._read_s_max:g} s") from error
        finally:
            if changed:
                self._snapshot = _make_snapshot(
                    self._view.values.values(), self._snapshot.version + 1
                )
            await reader.close()


def _decode(entry: Entry) -> Node | str:
    """A node; of a heartbeat, the name of its sender, which changes with no further heartbeat."""
    assert entry.value is not None
    record = clusters.decode(entry.value)
    return record if isinstance(record, Node) else entry.key


def _make_snapshot(records: Iterable[Node | str], version: int) -> ClusterSnapshot:
    executors, nodes = set(), {}
    for record in records:
        if isinstance(record, Node):
            nodes[record.executor, record.name] = record
        elif record != clusters.LEADER_KEY:
            executors.add(record)
    return ClusterSnapshot(frozenset(executors), nodes, version)
