"""Queued jobs and runs counted by group, and what the nodes have free. Pure."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.records.clusters import Node
from fairlead_scheduler.simulate.model.trace import Trace

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Float = npt.NDArray[np.float64]


class Backlog:
    """The numbers of queued jobs and runs by group: jobs of one queue, shape and class."""

    def __init__(self, trace: Trace) -> None:
        columns = (trace.queue, trace.shape, trace.priority_class)
        keys = np.stack([np.frombuffer(column, np.int32) for column in columns], axis=1)
        groups, group = np.unique(keys, axis=0, return_inverse=True)
        self._group: list[int] = group.reshape(-1).tolist()
        self.queue, self.shape, self.priority_class = np.ascontiguousarray(groups.T)
        self.jobs = np.zeros(len(groups), np.int64)
        self.runs = np.zeros(len(groups), np.int64)

    def add(self, job: int, count: int) -> None:
        """A job is queued (1), or no longer queued (-1)."""
        self.jobs[self._group[job]] += count

    def add_run(self, job: int, count: int) -> None:
        """A job has a run (1), or no longer has one (-1)."""
        self.runs[self._group[job]] += count


class NodeUsage:
    """Free capacity of each node; resources are in the order of the ledger."""

    def __init__(self, resources: Sequence[str]) -> None:
        self._resources = resources
        self._row: dict[str, int] = {}
        self.names: list[str] = []
        """All nodes that ever existed, in order of their first appearance."""
        self.capacity = np.zeros((0, len(resources)), np.int64)
        """[N, R]; 0 for nodes that no longer exist."""
        self.used = np.zeros_like(self.capacity)
        """[N, R]"""
        self.fraction: Float = np.zeros(0)
        """[N] the greatest fraction of any resource of the node that is used."""
        self.version = 0
        """Grows with every change."""
        self.any_cordoned = False

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Set the nodes that exist."""
        added = [node.name for node in nodes if node.name not in self._row]
        self._row |= {name: at for at, name in enumerate(added, len(self.names))}
        self.names += added
        more = np.zeros((len(added), len(self._resources)), np.int64)
        self.used = np.vstack([self.used, more])
        self.capacity = np.zeros_like(self.used)
        for node in nodes:
            amounts = [node.allocatable.get(name, 0) for name in self._resources]
            self.capacity[self._row[node.name]] = amounts
        self.fraction = np.zeros(len(self.names))
        for row in range(len(self.names)):
            self._measure(row)
        self.version += 1
        self.any_cordoned = any(node.unschedulable for node in nodes)

    def take(self, node: str, amounts: Int64) -> int:
        """A run uses these amounts of a node; negative amounts are released. Returns its row."""
        row = self._row[node]
        self.used[row] += amounts
        self._measure(row)
        self.version += 1
        return row

    def _measure(self, row: int) -> None:
        pairs = zip(self.used[row].tolist(), self.capacity[row].tolist(), strict=True)
        self.fraction[row] = max([0.0, *(used / total for used, total in pairs if total > 0)])
