"""The fold of `fairlead.clusters` and of the operators' cordons: executors and nodes. Pure.

A node has the number from its first report as long as it exists, and some time after that. Silence
is measured with the append times of the log, and only when the leader reads its own heartbeat back:
then it has read everything that executors appended before. The time between two of its heartbeats
counts for `step_s_max` at most, so neither an outage of the log, nor a frozen leader, nor time
without a leader counts as silence; a new leader starts at zero (decision 0026).
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from fairlead_common.domain.records import clusters as records
from fairlead_common.domain.records import configuration
from fairlead_common.log.protocol import Entry
from fairlead_scheduler.state.jobs.job_table import NodeName


class LastHeartbeat(msgspec.Struct, frozen=True):
    """The newest heartbeat of an executor, and its append time (ms)."""

    heartbeat: records.Heartbeat
    time_ms: int


class Clusters:
    """Executors and nodes as they were last reported. `version` grows when nodes change."""

    def __init__(self, numbers: Mapping[tuple[str, str], int] | None = None) -> None:
        self.numbers: dict[NodeName, int] = {
            NodeName(*name): number for name, number in (numbers or {}).items()
        }
        self._next_number = max(self.numbers.values(), default=-1) + 1
        self.unsaved: list[tuple[str, str, int]] = []
        """(Executor, node, number) of numbers that are not in the checkpoint yet."""
        self.nodes: dict[NodeName, records.Node] = {}
        self.heard: dict[str, LastHeartbeat] = {}
        self.cordoned_executors: set[str] = set()
        self.cordoned_nodes: set[NodeName] = set()
        self.silence_s: dict[str, float] = {}
        """Executor -> how long it has not been heard."""
        self.heard_since_step: set[str] = set()
        """Executors that were heard since the last heartbeat of the leader."""
        self.invalid_records: dict[str, str] = {}
        """Key of a record -> what is wrong with it, and how it counts."""
        self.missing_s: dict[NodeName, float] = {}
        """Nodes that are no longer reported, and for how long (s)."""
        self.leader_ms: int | None = None
        """Append time of this leader's newest heartbeat that was read (ms); None in a standby."""
        self._instance: str | None = None
        self._leader_at = -1
        self._step_s_max = 0.0
        self._most: tuple[int, dict[tuple[str, str], int]] = (-1, {})
        self.version = 0

    def fold(self, entries: Iterable[Entry]) -> None:
        """Fold heartbeats and nodes. Repeats change nothing."""
        for entry in entries:
            if entry.value is None:
                self._remove(entry.key)
                continue
            try:
                record = records.decode(entry.value)
            except msgspec.DecodeError as error:
                self.invalid_records[entry.key] = (
                    f"the record cannot be decoded and is ignored: {error}"
                )
                continue
            match record:
                case records.Heartbeat() as heartbeat:
                    known = self.heard.get(heartbeat.executor)
                    self.heard[heartbeat.executor] = LastHeartbeat(heartbeat, entry.time_ms)
                    self.heard_since_step.add(heartbeat.executor)
                    self.silence_s[heartbeat.executor] = 0.0
                    if known is None:
                        self.version += 1
                case records.Node() as node:
                    self._fold_node(node)
                case records.LeaderHeartbeat() as leader:
                    if leader.instance == self._instance and entry.position > self._leader_at:
                        self._leader_at = entry.position
                        self._count_silence(entry.time_ms)

    def start_leading(self, instance: str, *, step_s_max: float) -> None:
        """Measure silence with the heartbeats of this leader from now on, starting at zero."""
        self._instance, self._step_s_max, self.leader_ms = instance, step_s_max, None
        self.heard_since_step.clear()
        self.silence_s = dict.fromkeys(self.silence_s, 0.0)
        self.missing_s = dict.fromkeys(self.missing_s, 0.0)

    def _count_silence(self, time_ms: int) -> None:
        """Add the silence since the last heartbeat of this leader: all earlier records are read."""
        before_ms, self.leader_ms = self.leader_ms, time_ms
        step_s = 0.0 if before_ms is None else max(0, time_ms - before_ms) / 1000
        self.add_silence(min(step_s, self._step_s_max))

    def _fold_node(self, node: records.Node) -> None:
        name = NodeName(node.executor, node.name)
        self.missing_s.pop(name, None)
        key = f"{node.executor}/{node.name}"
        self.invalid_records.pop(key, None)
        if negative := sorted(what for what, much in node.allocatable.items() if much < 0):
            self.invalid_records[key] = (
                f"the node reports less than 0 of {', '.join(negative)}, which counts as 0"
            )
        if name not in self.numbers:
            self._number(name)
        if self.nodes.get(name) != node:
            self.nodes[name] = node
            self.version += 1

    def _remove(self, key: str) -> None:
        executor, slash, node = key.partition("/")
        self.invalid_records.pop(key, None)
        if slash:
            if self.nodes.pop(NodeName(executor, node), None) is not None:
                self.missing_s[NodeName(executor, node)] = 0.0
                self.version += 1
        elif self.heard.pop(executor, None) is not None:
            self.silence_s.pop(executor, None)
            self.version += 1

    def restore_numbers(self, saved: Mapping[tuple[str, str], int]) -> None:
        """Restore the saved numbers; nodes without a saved number get new ones."""
        self.numbers = {NodeName(*name): number for name, number in saved.items()}
        self._next_number = max(self.numbers.values(), default=-1) + 1
        self.unsaved = []
        for name in self.nodes:
            if name not in self.numbers:
                self._number(name)
        self.version += 1

    def _number(self, name: NodeName) -> None:
        self.numbers[name] = self._next_number
        self.unsaved.append((name.executor, name.node, self._next_number))
        self._next_number += 1

    def cordon(self, mark: configuration.Cordon) -> None:
        """Fold the cordon of an executor or node, or its removal."""
        on = mark.cordoned and not mark.deleted
        if mark.node is None:
            _mark(self.cordoned_executors, mark.executor, on)
        else:
            _mark(self.cordoned_nodes, NodeName(mark.executor, mark.node), on)
        self.version += 1

    def add_silence(self, elapsed_s: float) -> None:
        """Add time of the log to the silence of executors that were not heard in it."""
        for executor in self.silence_s:
            if executor not in self.heard_since_step:
                self.silence_s[executor] += elapsed_s
        for node in self.missing_s:
            self.missing_s[node] += elapsed_s
        self.heard_since_step.clear()

    def expect_nodes(self, names: Iterable[NodeName]) -> None:
        """Note that runs are on these nodes; one that is not reported is missing from now on."""
        for name in names:
            if name not in self.nodes:
                self.missing_s.setdefault(name, 0.0)

    def find_missing_nodes(self, for_s: float, stale_s: float) -> list[NodeName]:
        """Nodes that are missing for longer than `for_s`, of executors that are not stale: silent
        for at most `stale_s`."""
        silence_s = self.silence_s
        return [
            name
            for name, missing_s in self.missing_s.items()
            if missing_s > for_s and silence_s.get(name.executor, 0.0) <= stale_s
        ]

    def forget_missing(self, names: Iterable[NodeName]) -> None:
        """Drop missing nodes, whose runs were given up."""
        for name in names:
            self.missing_s.pop(name, None)

    def release_numbers(self) -> list[NodeName]:
        """Release the numbers of nodes that no longer exist; returns these nodes."""
        released = self.numbers.keys() - self.nodes.keys() - self.missing_s.keys()
        for name in released:
            del self.numbers[name]
        return sorted(released)

    def largest_amount(self, pool: str, resource: str) -> int:
        """The most of a resource that any node of the pool has; 0 without such a node."""
        if self._most[0] != self.version:
            self._most = (self.version, {})
        found = self._most[1].get((pool, resource))
        if found is None:
            here = (n.allocatable.get(resource, 0) for n in self.nodes.values() if n.pool == pool)
            found = self._most[1][pool, resource] = max(here, default=0)
        return found

    def find_silent_executors(self, for_s: float) -> frozenset[str]:
        """Executors that have not been heard for longer than `for_s`."""
        return frozenset(name for name, silent_s in self.silence_s.items() if silent_s > for_s)


K = TypeVar("K")


def _mark(marked: set[K], key: K, on: bool) -> None:
    if on:
        marked.add(key)
    else:
        marked.discard(key)
