"""The shapes of a pool as rows: their requests, their class, and the node types eligible for them.

A shape gets a row with its first job. A row without jobs stays until there are too many of them
(`PoolJobs` decides when), so that shapes with few jobs do not cause a renumbering each time.
"""

from collections.abc import Sequence, Set

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.scheduling import quantities
from fairlead_common.domain.scheduling.shapes import Shape, Taint
from fairlead_scheduler.engine.snapshot import Match
from fairlead_scheduler.snapshots.tables import node_matching
from fairlead_scheduler.snapshots.tables.class_table import Classes
from fairlead_scheduler.snapshots.tables.node_table import (
    Nodes,
    find_unchanged,
    no_nodes,
    take_rows,
)
from fairlead_scheduler.snapshots.tables.node_types import Types
from fairlead_scheduler.state.jobs.job_table import JobTable, ShapeClass

Rows = npt.NDArray[np.intp]


class ShapeTable:
    """S rows, with the columns of `Snapshot` that are named after shapes."""

    def __init__(self, classes: Classes, floating: tuple[str, ...]) -> None:
        self._classes = classes
        self.floating_names = floating
        self.numbers: list[int] = []
        """[S] number of the shape in the view."""
        self.row_of = np.zeros(0, np.int32)
        """Number in the view -> row, -1."""
        self._shapes: list[Shape] = []
        self._constraints: list[node_matching.ShapeConstraints] = []
        self.names: tuple[str, ...] = ()
        """The R resources that nodes offer or jobs request of a node."""
        self._of_nodes: frozenset[str] = frozenset()
        self._asked: set[str] = set()
        self.request = np.zeros((0, 0), np.int64)
        self.floating = np.zeros((0, len(floating)), np.int64)
        self.row_class = np.zeros(0, np.int32)
        self.fitted = np.zeros(0, np.bool_)
        """[S] found feasible before (section 6)."""
        self._remembered: tuple[object, object] = (None, None)
        """The columns that the last `remember` read."""
        self._types = Types()
        self._nodes = no_nodes()
        """The nodes that `node_type` belongs to; empty if all must be matched again."""
        self.node_type = np.zeros(0, np.int32)
        self.match = np.zeros((0, 1, 0), np.uint8)
        self._ranks = np.zeros((0, 0), np.uint8)
        self.rank: npt.NDArray[np.uint8] | None = None

    def add(
        self, jobs: JobTable, numbers: npt.NDArray[np.int32], feasible: Set[ShapeClass]
    ) -> bool:
        """Add rows for these shapes. Returns whether the resources changed."""
        if len(self.row_of) < len(jobs.shapes):
            more = np.full(len(jobs.shapes) - len(self.row_of), -1, np.int32)
            self.row_of = np.concatenate([self.row_of, more])
        fresh = np.unique(numbers[self.row_of[numbers] < 0]).tolist()
        if not fresh:
            return False
        self.row_of[fresh] = np.arange(len(self.numbers), len(self.numbers) + len(fresh))
        shapes = [jobs.shape_of(number) for number in fresh]
        class_names = [jobs.shapes.values[number].priority_class for number in fresh]
        rows = [self._classes.row(name) for name in class_names]
        self.numbers += fresh
        self._shapes += shapes
        self._constraints += [
            node_matching.ShapeConstraints(shape, self._list_away_taints(row))
            for shape, row in zip(shapes, rows, strict=True)
        ]
        self.row_class = np.concatenate([self.row_class, np.array(rows, np.int32)])
        fitted = [jobs.shapes.values[number] in feasible for number in fresh]
        self.fitted = np.concatenate([self.fitted, fitted])
        self.floating = np.concatenate(
            [self.floating, _collect_amounts(shapes, self.floating_names)]
        )
        self._asked.update(name for shape in shapes for name in shape.requests)
        if self._update_resources(self._of_nodes):
            return True
        self.request = np.concatenate([self.request, _collect_amounts(shapes, self.names)])
        return False

    def keep(self, rows: Rows) -> bool:
        """Remove all rows but these, which are then in this order. Returns whether the resources
        changed."""
        chosen = rows.tolist()
        self.numbers = [self.numbers[row] for row in chosen]
        self._shapes = [self._shapes[row] for row in chosen]
        self._constraints = [self._constraints[row] for row in chosen]
        self.row_of[:] = -1
        self.row_of[self.numbers] = np.arange(len(chosen))
        self.row_class = self.row_class[rows]
        self.fitted = self.fitted[rows]
        self.floating = self.floating[rows]
        self.request = self.request[rows]
        self._nodes = no_nodes()
        self._asked = {name for shape in self._shapes for name in shape.requests}
        return self._update_resources(self._of_nodes)

    def set_offered_resources(self, of_nodes: frozenset[str]) -> bool:
        """Set the resources that nodes offer. Returns whether the resources changed."""
        return self._update_resources(of_nodes)

    def _update_resources(self, of_nodes: frozenset[str]) -> bool:
        """Update `names`, and `request` if they changed. Returns whether they did."""
        self._of_nodes = of_nodes
        names = of_nodes | self._asked | {quantities.CPU, quantities.MEMORY}
        found = tuple(sorted(names - set(self.floating_names)))
        if found == self.names:
            return False
        self.names = found
        self.request = _collect_amounts(self._shapes, found)
        return True

    def remember(self, feasible: npt.NDArray[np.bool_]) -> list[int]:
        """Note that these shapes ([S]) were found feasible. Returns the numbers in the view of
        those that were not before."""
        before, self._remembered = self._remembered, (feasible, self.fitted)
        if before[0] is feasible and before[1] is self.fitted:
            return []
        fresh = np.flatnonzero(feasible > self.fitted[: len(feasible)])
        if not fresh.size:
            return []
        self.fitted[fresh] = True
        return [self.numbers[row] for row in fresh.tolist()]

    def match_nodes(self, nodes: Nodes) -> None:
        """Update `match`, `rank` and `node_type`, if possible only for new types and shapes."""
        version, known = self._nodes.version, len(self.match)
        if version == nodes.version and known == len(self._constraints):
            return
        asked = node_matching.find_relevant_labels(self._constraints[known:])
        if version < 0 or not asked <= self._types.relevant:
            self._begin_types(nodes, node_matching.find_relevant_labels(self._constraints))
        elif version != nodes.version:
            self._number_types(nodes)
            if np.count_nonzero(np.bincount(self.node_type)) < len(self._types):
                self._begin_types(nodes, self._types.relevant)
        types, constraints, known = self._types, self._constraints, len(self.match)
        met = self.match.shape[2]
        if met < len(types):
            more = node_matching.match_shapes(constraints[:known], types, met)
            self.match = np.concatenate([self.match, more], axis=2)
            # A new type can change the ranks of all others.
            self._ranks = node_matching.rank_types(constraints[:known], types)
        if known < len(constraints):
            self.match = _join_matches(
                self.match, node_matching.match_shapes(constraints[known:], types)
            )
            self._ranks = np.concatenate(
                [self._ranks, node_matching.rank_types(constraints[known:], types)]
            )
        self.rank = self._ranks if self._ranks.any() else None

    def _begin_types(self, nodes: Nodes, relevant: frozenset[str]) -> None:
        self._types, self._nodes = Types(relevant), no_nodes()
        self._number_types(nodes)
        self.match = np.zeros((0, 1, len(self._types)), np.uint8)
        self._ranks = np.zeros((0, len(self._types)), np.uint8)

    def _number_types(self, nodes: Nodes) -> None:
        types = self._types
        rows = find_unchanged(self._nodes, nodes)
        kinds = take_rows(self.node_type, rows)
        changed = np.flatnonzero(rows < 0)
        kinds[changed] = [
            types.number(node_matching.make_node_type(nodes.nodes[row], types.relevant))
            for row in changed.tolist()
        ]
        self._nodes, self.node_type = nodes, kinds

    def _list_away_taints(self, row: int) -> tuple[tuple[Taint, ...], ...]:
        """The taints that are tolerated under each away entry of the class in this row."""
        return tuple(entry.taints for entry in self._classes.rows[row].away_node_types)


def _join_matches(old: npt.NDArray[np.uint8], new: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The rows of both tables; the missing away entries of the narrower one are TAINT."""
    width = max(old.shape[1], new.shape[1])
    result = np.full((len(old) + len(new), width, old.shape[2]), Match.TAINT, np.uint8)
    result[: len(old), : old.shape[1]] = old
    result[len(old) :, : new.shape[1]] = new
    return result


def _collect_amounts(shapes: Sequence[Shape], names: tuple[str, ...]) -> npt.NDArray[np.int64]:
    amounts = [[shape.requests.get(name, 0) for name in names] for shape in shapes]
    return np.array(amounts, np.int64).reshape(len(shapes), len(names))
