"""The executors and nodes, folded from the log when a request needs them, and cached.

Nothing is read in the background.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_common.domain.errors import LogUnavailable, PositionExpired
from fairlead_common.domain.records import clusters
from fairlead_common.domain.records.clusters import Heartbeat, LeaderHeartbeat, Node
from fairlead_common.log.protocol import EventLog, caught_up
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
        self._positions: dict[int, int] | None = None
        self._executors: set[str] = set()
        self._nodes: dict[tuple[str, str], Node] = {}
        self._snapshot = ClusterSnapshot(frozenset(), {}, 0)
        self._reading = asyncio.Lock()

    async def read(self) -> ClusterSnapshot:
        """The present snapshot. Raises `LogError` if the log is unavailable."""
        async with self._reading:
            if clock.monotonic_s() - self._read_s >= CACHE_S:
                now_s = clock.monotonic_s()
                try:
                    await self._read_on()
                except PositionExpired:
                    self._positions = None
                    await self._read_on()
                self._read_s = now_s
        return self._snapshot

    async def _read_on(self) -> None:
        if self._positions is None:
            self._positions = await self._log.start_positions(CLUSTERS)
            self._executors.clear()
            self._nodes.clear()
        end = await self._log.end_positions(CLUSTERS)
        if caught_up(self._positions, end):
            return
        changed = False
        reader = await self._log.reader(CLUSTERS, self._positions)
        try:
            async with asyncio.timeout(self._read_s_max):
                while not caught_up(self._positions, end):
                    batch = await reader.read()
                    for entry in batch.entries:
                        changed |= self._fold(entry.key, entry.value)
                    self._positions = dict(batch.positions)
        except TimeoutError as error:
            raise LogUnavailable(f"{CLUSTERS} was not read in {self._read_s_max:g} s") from error
        finally:
            if changed:
                version = self._snapshot.version + 1
                self._snapshot = ClusterSnapshot(
                    frozenset(self._executors), dict(self._nodes), version
                )
            await reader.close()

    def _fold(self, key: str, value: bytes | None) -> bool:
        """Whether an executor or node was added, removed or changed."""
        if key == clusters.LEADER_KEY:
            return False
        executor, slash, name = key.partition("/")
        if value is None:
            if not slash:
                self._executors.discard(executor)
            return self._nodes.pop((executor, name), None) is not None or not slash
        match clusters.decode(value):
            case Heartbeat():
                is_new = executor not in self._executors
                self._executors.add(executor)
                return is_new
            case Node() as node:
                if self._nodes.get((executor, name)) == node or len(self._nodes) >= KEYS_MAX:
                    return False
                self._nodes[executor, name] = node
                return True
            case LeaderHeartbeat():
                return False
