"""The topology of a pool for the engine: the domains of its nodes, and what gangs require or prefer
(rules T)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.records.clusters import Node
from fairlead_scheduler.engine.topology import Topology
from fairlead_scheduler.snapshots.gangs.gang_columns import Gangs
from fairlead_scheduler.snapshots.tables import node_table
from fairlead_scheduler.snapshots.tables.node_table import Nodes
from fairlead_scheduler.state import pool_topology


class Domains(NamedTuple):
    """The names of the domains of each level, and the domain of each node."""

    names: tuple[tuple[str, ...], ...]
    number: npt.NDArray[np.int32]
    """[H, N] the number of the node's domain, -1 = it is in none"""


def number_domains(nodes: Sequence[Node], levels: Sequence[str]) -> Domains:
    """Number the domains of each level by their path, ascending.

    A node has a domain of a level if it has the labels of this and of all wider levels.
    """
    number = np.full((len(levels), len(nodes)), -1, np.int32)
    paths: list[tuple[str, ...] | None] = [()] * len(nodes)
    names = []
    for at, level in enumerate(levels):
        for row, node in enumerate(nodes):
            path, value = paths[row], _find_value(node, level)
            paths[row] = None if path is None or value is None else (*path, value)
        found = sorted({path for path in paths if path is not None})
        place = {path: number_ for number_, path in enumerate(found)}
        number[at] = [-1 if path is None else place[path] for path in paths]
        names.append(tuple("/".join(path) for path in found))
    return Domains(tuple(names), number)


def _find_value(node: Node, level: str) -> str | None:
    """The value of the node's label for a level. For the level of single nodes it is the name of
    the node with its executor, which is unique."""
    if level in pool_topology.HOSTNAMES:
        return f"{node.name} ({node.executor})"
    return node.labels.get(level)


class NodeLabels(NamedTuple):
    """Labels by which nodes are grouped: first uniformity labels, then levels of the topology."""

    names: tuple[str, ...]
    value: npt.NDArray[np.int32] | None
    """[U, N] the number of the value, -1 = the node has none; None without labels"""
    topology: Topology | None


NO_LABELS: Final = NodeLabels((), None, None)
"""The labels of a pool without gangs."""
_Key = tuple[int, tuple[str, ...], bool]


class TopologyColumns:
    """The labels of one pool, computed again when the nodes or the labels that gangs name
    change."""

    def __init__(self, levels: tuple[str, ...]) -> None:
        self._levels = levels
        self._hops = pool_topology.measure_hops(levels)
        self._key: _Key | None = None
        self._domains = Domains((), np.zeros((0, 0), np.int32))
        self._value: npt.NDArray[np.int32] | None = None

    def build(self, nodes: Nodes, gangs: Gangs) -> NodeLabels:
        """The labels that the gangs of the pool need. The same arrays while nothing changed."""
        has_topology = gangs.asks_topology
        key = (nodes.version, gangs.label_names, has_topology)
        if self._key != key:
            self._key = key
            self._domains = number_domains(nodes.nodes, self._levels if has_topology else ())
            self._value = node_table.number_label_values(nodes.nodes, gangs.label_names)
            if has_topology and self._levels:
                own = [] if self._value is None else [self._value]
                self._value = np.concatenate([*own, self._domains.number])
        if not has_topology:
            return NodeLabels(gangs.label_names, self._value, None)
        first = len(gangs.label_names)
        topology = Topology(
            names=self._levels,
            label=np.arange(first, first + len(self._levels), dtype=np.int32),
            domains=self._domains.names,
            hops=self._hops,
            gang_mode=gangs.topology_mode,
            gang_level=gangs.topology_level,
            gang_whole=gangs.topology_whole,
        )
        return NodeLabels(gangs.label_names + self._levels, self._value, topology)
