"""The columns of the gangs of a pool, and the nodes that its jobs avoid.

A gang has a row while it has members in the pool; rows of ended gangs are used again. Few jobs have
a gang or avoid nodes, so both are stored by row in dictionaries.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.records.group_terms import Topology, TopologyScope
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.topology import TopologyMode
from fairlead_scheduler.snapshots import resource_scores
from fairlead_scheduler.snapshots.gangs.role_rows import RoleRows
from fairlead_scheduler.snapshots.round_columns import RoundColumns
from fairlead_scheduler.snapshots.tables.node_table import Nodes
from fairlead_scheduler.state import pool_topology
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_table import GangName, GangTerms
from fairlead_scheduler.state.view import View

_REST: Final = {"wait": engine.Rest.WAIT, "fail": engine.Rest.FAIL}
LONG_AGO_MS: Final = -(1 << 60)
USE_MAX: Final = float(1 << 62)
"""The most that the former runs of a group count, so that sums with it do not overflow."""
_NO_NAME: Final = GangName("", "", "")
_NO_TERMS: Final = GangTerms(1, 1, None, "wait")


class Gangs:
    """G rows, with the columns of `Snapshot` that are named after gangs."""

    def __init__(self, levels: tuple[str, ...] = ()) -> None:
        """`levels`: the levels of the pool's topology, widest first."""
        self._levels = levels
        self._members: dict[GangName, set[int]] = {}
        """The rows of jobs that name a gang, by gang, also of a gang that no longer exists."""
        self._gang_of: dict[int, GangName] = {}
        self._row: dict[GangName, int] = {}
        self._free: list[int] = []
        self._changed: set[GangName] = set()
        self.names: list[GangName] = []
        self._terms: list[GangTerms] = []
        self.min_size = np.zeros(0, np.int32)
        self.rest = np.zeros(0, np.uint8)
        self.started = np.zeros(0, np.bool_)
        self.submitted_ms = np.zeros(0, np.int64)
        self.fitted = np.zeros(0, np.bool_)
        """[G] found feasible before (section 6)."""
        self._recalled: set[GangName] = set()
        """Gangs that were found feasible before and have no row yet."""
        self.roles = RoleRows()
        self.scaled_ms = np.zeros(0, np.int64)
        """[G] when the scheduler last started or stopped a surplus member (G7)."""
        self.freeze_ms = np.zeros(0, np.int64)
        self.ran_until_ms = np.zeros(0, np.int64)
        """[G] when the last run of a member ended (G9); 0 for plain gangs."""
        self.former_score = np.zeros(0, np.int64)
        """[G] score of `GroupState.used`, see `score_former_runs`; 0 for plain gangs."""
        self._not_scored: dict[int, tuple[tuple[str, int], ...]] = {}
        """Row -> `GroupState.used` if it changed since it was scored."""
        self._checked_ms = 0
        """When `has_thawed` was last called."""
        self.topology_mode = np.zeros(0, np.uint8)
        self.topology_level = np.zeros(0, np.int32)
        self.topology_whole = np.zeros(0, np.uint8)
        self.label_names: tuple[str, ...] = ()
        """U uniformity labels that gangs name."""
        self.label = np.zeros(0, np.int32)

    @property
    def present(self) -> bool:
        """Whether any gang has members in the pool."""
        return bool(self._row)

    def columns(self, now_ms: int, freeze_s_max: int) -> dict[str, Any]:
        """The columns of gangs and roles, as the engine names them."""
        found = {
            "gang_min": self.min_size,
            "gang_label": self.label,
            "gang_rest": self.rest,
            "gang_started": self.started,
            "gang_submitted_ms": self.submitted_ms,
            "gang_fitted": self.fitted,
        }
        if self.roles.present:
            found |= {
                **self.roles.columns(),
                "gang_frozen": self.find_frozen(now_ms, freeze_s_max),
                "gang_freezes": self.find_freezing(freeze_s_max),
            }
        return found

    def leave(self, job_rows: npt.NDArray[np.int32]) -> None:
        """Remove the jobs of these rows, which leave the pool."""
        if not self._gang_of:
            return
        for job_row in job_rows.tolist():
            name = self._gang_of.pop(job_row, None)
            if name is not None:
                self._members[name].discard(job_row)
                self._changed.add(name)

    def join(self, job_row: int, name: GangName) -> None:
        """Add the job of this row as a member."""
        self._gang_of[job_row] = name
        self._members.setdefault(name, set()).add(job_row)
        self._changed.add(name)

    def update(self, view: View, columns: RoundColumns) -> bool:
        """Update the rows of gangs that changed, and the columns of their members. Returns whether
        any gang changed."""
        if not self._changed:
            return False
        for name in sorted(self._changed):
            members = list(self._members.get(name, ()))
            terms = view.gangs.get(name)
            if not members:
                self._members.pop(name, None)
            if not members or terms is None:
                self._drop(name)
                columns.gang[members] = columns.role[members] = -1
                continue
            row = self._row_of(name)
            columns.gang[members] = row
            self._set_roles(view, name, row, terms, members, columns)
            self.names[row], self._terms[row] = name, terms
            self.min_size[row] = terms.min_size
            self.rest[row] = _REST[terms.rest]
            self.started[row] = name in view.gang_started
            self._set_topology(row, terms.topology)
            missing = len(view.gang_members.get(name, ())) < terms.min_size and not terms.roles
            # N9: a complete gang cannot be late, and a group is submitted with all its members.
            self.submitted_ms[row] = (
                view.jobs.submitted_ms[members].min() if missing else job_table.NEVER_MS
            )
        self._number_labels()
        self._changed.clear()
        return True

    def _set_roles(
        self,
        view: View,
        name: GangName,
        row: int,
        terms: GangTerms,
        members: list[int],
        columns: RoundColumns,
    ) -> None:
        group = view.groups.get(GroupId(name.name)) if terms.roles else None
        if group is None:
            self.roles.drop(name)
            self._forget_group(row)
            columns.role[members] = -1
            return
        self.ran_until_ms[row] = group.ran_until_ms
        self._not_scored[row] = tuple(group.used.items())
        self.scaled_ms[row] = LONG_AGO_MS if group.scaled_ms is None else group.scaled_ms
        self.freeze_ms[row] = 1000 * group.terms.freeze_s
        role_of = self.roles.set(name, row, terms.roles, group.terms.step_max)
        rare = view.jobs.rare_properties
        found = [rare[member].member for member in members]
        columns.role[members] = [-1 if one is None else role_of.get(one.role, -1) for one in found]

    def _set_topology(self, row: int, asked: Topology | None) -> None:
        if asked is None:
            self.topology_mode[row] = TopologyMode.NONE
            return
        found = pool_topology.find_level(self._levels, asked)
        self.topology_mode[row] = (
            TopologyMode.REQUIRED if found.required else TopologyMode.PREFERRED
        )
        self.topology_level[row] = found.level
        self.topology_whole[row] = asked.scope is TopologyScope.GROUP

    @property
    def asks_topology(self) -> bool:
        """Whether any gang requires or prefers nearness."""
        return bool(self.topology_mode.any())

    def remember(self, feasible: npt.NDArray[np.bool_]) -> None:
        """Note that these gangs ([G]) were found feasible."""
        self.fitted |= feasible

    def restore(self, before: "Gangs") -> None:
        """Count the gangs that were found feasible in `before` as feasible once they have a row."""
        rows = before._row.items()
        self._recalled = {name for name, row in rows if before.fitted[row]}

    def find_frozen(self, now_ms: int, freeze_s_max: int) -> npt.NDArray[np.bool_]:
        """[G] groups that are frozen (G7)."""
        return self._find_freeze_ends(freeze_s_max) > now_ms

    def find_freezing(self, freeze_s_max: int) -> npt.NDArray[np.bool_]:
        """[G] groups that are frozen after a surplus member starts or stops (G7)."""
        return np.minimum(self.freeze_ms, 1000 * freeze_s_max) > 0

    def has_thawed(self, now_ms: int, freeze_s_max: int) -> bool:
        """Whether the freeze of a group has ended since the last call."""
        ends = self._find_freeze_ends(freeze_s_max)
        before, self._checked_ms = self._checked_ms, now_ms
        return bool(((ends > before) & (ends <= now_ms)).any())

    def _find_freeze_ends(self, freeze_s_max: int) -> npt.NDArray[np.int64]:
        return self.scaled_ms + np.minimum(self.freeze_ms, 1000 * freeze_s_max)

    def mark_changed(self, names: Iterable[GangName] | None) -> None:
        """Note that these gangs (None: any gang) can have changed."""
        known = self._members
        if known:
            self._changed.update(known if names is None else known.keys() & set(names))

    def _row_of(self, name: GangName) -> int:
        row = self._row.get(name)
        if row is None:
            if not self._free:
                self._grow()
            row = self._row[name] = self._free.pop()
            self.fitted[row] = name in self._recalled
            self._recalled.discard(name)
        return row

    def _grow(self) -> None:
        known = len(self.names)
        more = max(8, known)
        self.names += [_NO_NAME] * more
        self._terms += [_NO_TERMS] * more
        columns = ("min_size", "rest", "started", "submitted_ms", "fitted")
        topology = ("topology_mode", "topology_level", "topology_whole")
        of_groups = ("scaled_ms", "freeze_ms", "ran_until_ms", "former_score")
        for column in (*columns, *topology, *of_groups):
            old = getattr(self, column)
            setattr(self, column, np.concatenate([old, np.zeros(more, old.dtype)]))
        self.min_size[known:] = 1
        self.submitted_ms[known:] = job_table.NEVER_MS
        self._free = list(range(known, known + more))

    def _drop(self, name: GangName) -> None:
        row = self._row.pop(name, None)
        if row is not None:
            self.names[row], self._terms[row] = _NO_NAME, _NO_TERMS
            self.min_size[row], self.rest[row] = 1, 0
            self.started[row] = self.fitted[row] = False
            self.submitted_ms[row] = job_table.NEVER_MS
            self.topology_mode[row] = TopologyMode.NONE
            self._forget_group(row)
            self._free.append(row)
        self.roles.drop(name)

    def _forget_group(self, row: int) -> None:
        """Reset the columns that only groups have."""
        self.scaled_ms[row], self.freeze_ms[row], self.ran_until_ms[row] = LONG_AGO_MS, 0, 0
        self.former_score[row] = 0
        self._not_scored.pop(row, None)

    def score_former_runs(self, weights: Mapping[str, float]) -> npt.NDArray[np.int64]:
        """[G] resource score x seconds of the former runs of groups, in thousandths (G9). `weights`
        must be the same in each call."""
        for row, used in self._not_scored.items():
            self.former_score[row] = min(resource_scores.score_use(used, weights), USE_MAX)
        self._not_scored.clear()
        return self.former_score.copy()

    def _number_labels(self) -> None:
        wanted = [terms.uniformity_label for terms in self._terms]
        self.label_names = tuple(sorted({label for label in wanted if label is not None}))
        row: dict[str | None, int] = {label: at for at, label in enumerate(self.label_names)}
        self.label = np.array([row.get(label, -1) for label in wanted], np.int32)


class AvoidedNodes:
    """The A avoided pairs of the pool: which jobs avoid which nodes (N10)."""

    def __init__(self) -> None:
        self._nodes_of: dict[int, tuple[str, ...]] = {}
        self._key: tuple[int, int] | None = None
        self._version = 0
        self._pairs: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None

    def leave(self, job_rows: npt.NDArray[np.int32]) -> None:
        """Remove the jobs of these rows, which leave the pool."""
        if self._nodes_of:
            before = len(self._nodes_of)
            for job_row in job_rows.tolist():
                self._nodes_of.pop(job_row, None)
            self._version += len(self._nodes_of) != before

    def join(self, job_row: int, names: tuple[str, ...]) -> None:
        """Note that the job of this row avoids these nodes, named `executor/node`."""
        self._nodes_of[job_row] = names
        self._version += 1

    def pairs(
        self, nodes: Nodes
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | tuple[None, None]:
        """Rows of jobs, and the row of the node that each avoids; (None, None) if there are no
        pairs."""
        if self._key != (nodes.version, self._version):
            self._key = (nodes.version, self._version)
            found = [
                (job_row, row)
                for job_row, names in self._nodes_of.items()
                for name in names
                if (row := nodes.row_of.get(_parse_node_name(name))) is not None
            ]
            table = np.array(found, np.int32).reshape(len(found), 2)
            self._pairs = (table[:, 0].copy(), table[:, 1].copy()) if found else None
        return self._pairs or (None, None)


def _parse_node_name(text: str) -> job_table.NodeName:
    executor, _, node = text.partition("/")
    return job_table.NodeName(executor, node)


def mark_rare_properties(view: View) -> npt.NDArray[np.bool_]:
    """Whether each row of the job table has rare properties."""
    rare = view.jobs.rare_properties
    marks = np.zeros(view.jobs.used, np.bool_)
    marks[np.fromiter(rare, np.intp, len(rare))] = True
    return marks


def find_rare_properties(
    view: View,
    rows: npt.NDArray[np.intp],
    has_rare: npt.NDArray[np.bool_] | None,
    *,
    former_runs: bool,
) -> list[tuple[int, job_table.RareProperties]]:
    """(Place in `rows`, rare properties) of jobs that are in a gang or avoid nodes, and with
    `former_runs` also of jobs that ran before.

    `has_rare`: the result of `mark_rare_properties`; for few rows None is faster.
    """
    rare = view.jobs.rare_properties
    if not rare:
        return []
    places = np.arange(rows.size) if has_rare is None else np.flatnonzero(has_rare[rows])
    return [
        (at, found)
        for at, row in zip(places.tolist(), rows[places].tolist(), strict=True)
        if (found := rare.get(row)) is not None
        and (found.gang is not None or found.avoid or (former_runs and found.ran_ms))
    ]
