"""The nodes of each pool as rows: rebuilt when nodes are added or removed, else updated.

Code that retains values of nodes calls `find_unchanged` to find the nodes whose values are valid.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import is_, is_not
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.lifecycle import RunState
from fairlead_common.domain.records import clusters as cluster_records
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.growing_columns import grow_array
from fairlead_scheduler.state.jobs.job_table import NodeName, Numbering
from fairlead_scheduler.state.view import View

Node = cluster_records.Node
_LEASED: Final = job_table.RUN_CODE[RunState.LEASED]


class Nodes(NamedTuple):
    """The nodes of one pool, in the order of their permanent numbers."""

    version: int
    names: list[NodeName]
    nodes: list[Node]
    row_of: dict[NodeName, int]
    executors: dict[str, npt.NDArray[np.intp]]
    """The rows of each executor's nodes."""
    resources: frozenset[str]
    """The names of all resources that any of the nodes offers."""
    number: npt.NDArray[np.int64]
    unschedulable: npt.NDArray[np.bool_]
    cordoned: npt.NDArray[np.bool_]
    """R1: unschedulable, or cordoned by an operator, alone or with its executor."""
    avoided: npt.NDArray[np.bool_]
    """R1: unschedulable because its executor avoids it."""


def no_nodes(version: int = -1) -> Nodes:
    """The nodes of a pool without any reported node."""
    empty = np.zeros(0, np.int64)
    false = np.zeros(0, np.bool_)
    return Nodes(version, [], [], {}, {}, frozenset(), empty, false, false, false)


def find_unchanged(before: Nodes, now: Nodes) -> npt.NDArray[np.int32]:
    """[N] the row of the node in `before`; -1 if its report is not the same object."""
    if before.row_of is now.row_of:
        same = np.fromiter(map(is_, before.nodes, now.nodes), np.bool_, len(now.nodes))
        return np.where(same, np.arange(same.size, dtype=np.int32), np.int32(-1))
    find, old = before.row_of.get, before.nodes
    found = ((find(name, -1), node) for name, node in zip(now.names, now.nodes, strict=True))
    rows = (row if row >= 0 and old[row] is node else -1 for row, node in found)
    return np.fromiter(rows, np.int32, len(now.nodes))


def take_rows(values: npt.NDArray[Any], rows: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
    """[N, ...] the values of `rows`, as `find_unchanged` returns them; for -1 it is any value."""
    if not len(values):
        return np.zeros((rows.size, *values.shape[1:]), values.dtype)
    return values[rows]


class NodeRows:
    """By number of a node's name in the view: its row in a pool, -1 if it is not in the pool."""

    def __init__(self, nodes: Nodes) -> None:
        self._row_of = nodes.row_of
        self.rows = np.zeros(0, np.int32)

    def update(self, names: Numbering[NodeName]) -> npt.NDArray[np.int32]:
        """The rows, also of names that are new in the view."""
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
        self._numbers: dict[NodeName, int] = {}
        self._reports: list[Node] = []

    def update(self, clusters: Clusters) -> None:
        """Update the nodes if the clusters changed."""
        if self.version == clusters.version:
            return
        self.version = clusters.version
        before, self._reports = self._reports, list(clusters.nodes.values())
        changed = (
            _find_changed_reports(before, self._reports)
            if self._numbers is clusters.numbers
            else None
        )
        if changed is None:
            self._numbers = clusters.numbers
            by_pool: dict[str, list[tuple[int, NodeName]]] = {}
            for name, node in clusters.nodes.items():
                by_pool.setdefault(node.pool, []).append((clusters.numbers[name], name))
            made = {pool: _make_rows(clusters, sorted(chosen)) for pool, chosen in by_pool.items()}
        else:
            at: dict[str, list[Node]] = {pool: [] for pool in self._of_pool}
            for node in changed:
                at[node.pool].append(node)
            made = {pool: _apply_reports(old, at[pool]) for pool, old in self._of_pool.items()}
        self._of_pool = {
            pool: nodes._replace(version=self.version, cordoned=_find_cordoned(nodes, clusters))
            for pool, nodes in made.items()
        }

    def of(self, pool: str) -> Nodes:
        """The nodes of a pool; empty if none was reported."""
        return self._of_pool.get(pool) or no_nodes(self.version)

    def pools(self) -> list[str]:
        """The pools that have nodes."""
        return list(self._of_pool)


def _find_changed_reports(before: Sequence[Node], now: Sequence[Node]) -> list[Node] | None:
    """The reports that changed; None if nodes were added, removed or changed their pool."""
    if len(before) != len(now):
        return None
    differ = np.fromiter(map(is_not, before, now), np.bool_, len(now))
    fresh = [(before[at], now[at]) for at in np.flatnonzero(differ).tolist()]
    if any(
        (old.executor, old.name, old.pool) != (new.executor, new.name, new.pool)
        for old, new in fresh
    ):
        return None
    return [new for _, new in fresh]


def _make_rows(clusters: Clusters, chosen: Sequence[tuple[int, NodeName]]) -> Nodes:
    """The nodes of a pool, in this order, without version and cordons."""
    nodes = [clusters.nodes[name] for _, name in chosen]
    executors: dict[str, list[int]] = {}
    for row, node in enumerate(nodes):
        executors.setdefault(node.executor, []).append(row)
    return no_nodes()._replace(
        names=[name for _, name in chosen],
        nodes=nodes,
        row_of={name: row for row, (_, name) in enumerate(chosen)},
        executors={name: np.array(rows, np.intp) for name, rows in executors.items()},
        resources=_list_offered(nodes),
        number=np.array([number for number, _ in chosen], np.int64),
        unschedulable=np.array([node.unschedulable for node in nodes], np.bool_),
        avoided=np.array(list(map(_is_avoided, nodes)), np.bool_),
    )


def _apply_reports(old: Nodes, reports: Sequence[Node]) -> Nodes:
    """The same nodes with these new reports."""
    if not reports:
        return old
    nodes = list(old.nodes)
    unschedulable, avoided = old.unschedulable.copy(), old.avoided.copy()
    resources_differ = False
    for node in reports:
        row = old.row_of[NodeName(node.executor, node.name)]
        resources_differ |= nodes[row].allocatable.keys() != node.allocatable.keys()
        nodes[row], unschedulable[row] = node, node.unschedulable
        avoided[row] = _is_avoided(node)
    resources = _list_offered(nodes) if resources_differ else old.resources
    return old._replace(
        nodes=nodes, unschedulable=unschedulable, avoided=avoided, resources=resources
    )


def _is_avoided(node: Node) -> bool:
    return node.avoided is not None


def _list_offered(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(resource for node in nodes for resource in node.allocatable)


def _find_cordoned(nodes: Nodes, clusters: Clusters) -> npt.NDArray[np.bool_]:
    result = nodes.unschedulable.copy()
    for executor in clusters.cordoned_executors:
        result[nodes.executors.get(executor, [])] = True
    marked = (nodes.row_of.get(name) for name in clusters.cordoned_nodes)
    result[[row for row in marked if row is not None]] = True
    return result


class Amounts:
    """The allocatable amounts of the nodes of a pool, retained between snapshots."""

    def __init__(self) -> None:
        self._nodes = no_nodes()
        self._names: tuple[str, ...] = ()
        self._amounts = np.zeros((0, 0), np.int64)

    def of(self, nodes: Nodes, names: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """[N, R] the amounts of these resources."""
        if self._names != names:
            self._nodes, self._names = no_nodes(), names
            self._amounts = np.zeros((0, len(names)), np.int64)
        if self._nodes.version != nodes.version:
            rows = find_unchanged(self._nodes, nodes)
            amounts = take_rows(self._amounts, rows)
            for row in np.flatnonzero(rows < 0).tolist():
                offered = nodes.nodes[row].allocatable
                amounts[row] = [max(0, offered.get(name, 0)) for name in names]
            self._nodes, self._amounts = nodes, amounts
        return self._amounts


def number_label_values(
    nodes: Sequence[Node], names: tuple[str, ...]
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


class UnacknowledgedLeases:
    """Rule L9: how many leases each executor has not acknowledged, from the rows that changed."""

    def __init__(self) -> None:
        self._node = np.zeros(0, np.int32)
        """By row of the view: the node of its unacknowledged run, -1 for none."""
        self._of_executor: dict[str, int] = {}

    def update(self, view: View, rows: npt.NDArray[np.intp], valid: npt.NDArray[np.bool_]) -> None:
        """Count these rows as they are now. `valid`: whether a row has a job."""
        jobs = view.jobs
        self._node = grow_array(self._node, jobs.used, -1)
        waits = valid & (jobs.run_state[rows] == _LEASED)
        now = np.where(waits, jobs.node[rows], np.int32(-1))
        before = self._node[rows]
        differ = now != before
        if not differ.any():
            return
        self._node[rows] = now
        self._count(view, before[differ], -1)
        self._count(view, now[differ], 1)

    def update_few(self, view: View, rows: Sequence[int]) -> None:
        """`update`, row by row."""
        jobs = view.jobs
        self._node = grow_array(self._node, jobs.used, -1)
        for row in rows:
            waits = jobs.run_state.item(row) == _LEASED and not (
                jobs.flags.item(row) & job_table.FREE
            )
            now, before = jobs.node.item(row) if waits else -1, self._node.item(row)
            if now != before:
                self._node[row] = now
                self._add(view, before, -1)
                self._add(view, now, 1)

    def _count(self, view: View, nodes: npt.NDArray[np.int32], sign: int) -> None:
        for number, count in Counter(nodes[nodes >= 0].tolist()).items():
            self._add(view, number, sign * count)

    def _add(self, view: View, number: int, count: int) -> None:
        """Add `count` leases on the node with this number; -1 means no node."""
        if number < 0:
            return
        executor = view.jobs.nodes.values[number].executor
        total = self._of_executor.get(executor, 0) + count
        if total:
            self._of_executor[executor] = total
        else:
            del self._of_executor[executor]

    def find_executors_above(self, most: int) -> frozenset[str]:
        """Executors with more than `most` unacknowledged leases."""
        return frozenset(name for name, count in self._of_executor.items() if count > most)
