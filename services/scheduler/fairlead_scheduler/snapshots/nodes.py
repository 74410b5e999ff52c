"""The nodes of each pool as rows: made anew when the clusters changed, and only then."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_common import clusters as cluster_records
from fairlead_scheduler.clusters import Clusters
from fairlead_scheduler.view.columns import Interned, NodeName


class Nodes(NamedTuple):
    """The nodes of one pool, by their numbers."""

    version: int
    names: list[NodeName]
    nodes: list[cluster_records.Node]
    row_of: dict[NodeName, int]
    resources: frozenset[str]
    """What any of them offers."""
    number: npt.NDArray[np.int64]
    cordoned: npt.NDArray[np.bool_]


class NodeRows:
    """Number of a node's name in the view -> its row in a pool, -1 where it is not there."""

    def __init__(self, nodes: Nodes) -> None:
        self._row_of = nodes.row_of
        self.rows = np.zeros(0, np.int32)

    def keep_up(self, names: Interned[NodeName]) -> npt.NDArray[np.int32]:
        """The rows, with those of names that are new in the view."""
        known = len(self.rows)
        if known < len(names):
            find = self._row_of.get
            fresh = [find(name, -1) for name in names.values[known:]]
            self.rows = np.concatenate([self.rows, np.array(fresh, np.int32)])
        return self.rows


class AllNodes:
    """The nodes of all pools at one version of the clusters."""

    def __init__(self) -> None:
        self.version = -1
        self._of_pool: dict[str, Nodes] = {}

    def keep_up(self, clusters: Clusters) -> None:
        """Take over what changed."""
        if self.version == clusters.version:
            return
        self.version = clusters.version
        by_pool: dict[str, list[tuple[int, NodeName]]] = {}
        for name, node in clusters.nodes.items():
            by_pool.setdefault(node.pool, []).append((clusters.numbers[name], name))
        self._of_pool = {
            pool: self._nodes(clusters, sorted(chosen)) for pool, chosen in by_pool.items()
        }

    def _nodes(self, clusters: Clusters, chosen: Sequence[tuple[int, NodeName]]) -> Nodes:
        nodes = [clusters.nodes[name] for _, name in chosen]
        return Nodes(
            version=self.version,
            names=[name for _, name in chosen],
            nodes=nodes,
            row_of={name: row for row, (_, name) in enumerate(chosen)},
            resources=frozenset(resource for node in nodes for resource in node.allocatable),
            number=np.array([number for number, _ in chosen], np.int64),
            cordoned=np.array([clusters.is_cordoned(node) for node in nodes], np.bool_),
        )

    def of(self, pool: str) -> Nodes:
        """The nodes of a pool; none if nobody reported any."""
        empty = np.zeros(0, np.int64)
        return self._of_pool.get(pool) or Nodes(
            self.version, [], [], {}, frozenset(), empty, empty.astype(np.bool_)
        )

    def pools(self) -> list[str]:
        """The pools that have nodes."""
        return list(self._of_pool)


def allocatable(
    nodes: Sequence[cluster_records.Node], names: tuple[str, ...]
) -> npt.NDArray[np.int64]:
    """[N, R] what the nodes have for jobs."""
    amounts = [[max(0, node.allocatable.get(name, 0)) for name in names] for node in nodes]
    return np.array(amounts, np.int64).reshape(len(nodes), len(names))


def labels(
    nodes: Sequence[cluster_records.Node], names: tuple[str, ...]
) -> npt.NDArray[np.int32] | None:
    """[U, N] the nodes' values of these labels, numbered by value ascending."""
    if not names:
        return None
    result = np.full((len(names), len(nodes)), -1, np.int32)
    for at, label in enumerate(names):
        values = sorted({node.labels[label] for node in nodes if label in node.labels})
        number = {value: place for place, value in enumerate(values)}
        for row, node in enumerate(nodes):
            if label in node.labels:
                result[at, row] = number[node.labels[label]]
    return result
