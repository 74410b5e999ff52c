"""What ran on each node and how full the nodes were, for the picture of nodes. Pure."""

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from fairlead_common.domain.records.clusters import Node
from fairlead_scheduler.simulate.model.backlog import NodeUsage
from fairlead_scheduler.simulate.model.series import Float, Series

RUNS_MAX: Final = 1_500
"""More runs than this are not distinguishable in one picture."""
GROUPS_MAX: Final = 40


class NodeRun(NamedTuple):
    """A run that ended."""

    job: int
    node: str
    start_ms: int
    end_ms: int


class NodeRuns:
    """The first `RUNS_MAX` runs, and the fraction of the nodes in use by group of nodes."""

    def __init__(self, nodes: Sequence[Node], from_ms: int) -> None:
        self.nodes = list(dict.fromkeys(node.name for node in nodes))
        groups = min(GROUPS_MAX, len(self.nodes))
        self._first = np.arange(groups) * len(self.nodes) // max(1, groups)
        self._sizes = np.diff(np.append(self._first, len(self.nodes)))
        self._used: Float = np.zeros(len(self.nodes))
        self._of_groups: Float = np.zeros(groups)
        self._version = -1
        """The version of the usage that `_of_groups` is of."""
        self.runs: list[NodeRun] = []
        self.count = 0
        """The number of all runs."""
        self.usage = Series(groups, from_ms)

    @property
    def sizes(self) -> list[int]:
        """The number of nodes in each group."""
        sizes: list[int] = self._sizes.tolist()
        return sizes

    @property
    def groups(self) -> list[str]:
        """The names of the groups: a node, and how many others there are with it."""
        bounds = [*self._first.tolist(), len(self.nodes)]
        return [
            self.nodes[start] + (f" +{end - start - 1}" if end - start > 1 else "")
            for start, end in itertools.pairwise(bounds)
        ]

    def add_run(self, job: int, node: str, start_ms: int, end_ms: int) -> None:
        """A run ended."""
        self.count += 1
        if self.count <= RUNS_MAX and end_ms > start_ms:
            self.runs.append(NodeRun(job, node, start_ms, end_ms))

    def add_usage(self, usage: NodeUsage, since_ms: int) -> None:
        """The nodes are used like this since that time."""
        if self._version != usage.version:
            self.usage.add(self._of_groups, since_ms)
            self._version = usage.version
            used = usage.fraction
            if used.size < self._used.size:  # some nodes have not been added yet
                self._used[: used.size] = used
                used = self._used
            self._of_groups = np.add.reduceat(used, self._first) / self._sizes

    def finish(self, until_ms: int) -> None:
        """The nodes were used as before until that time."""
        self.usage.add(self._of_groups, until_ms)
