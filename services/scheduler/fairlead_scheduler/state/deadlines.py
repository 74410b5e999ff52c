"""Deadlines of jobs and the live runs of each node, updated from the rows that changed.

A deadline that has passed stays due until the row of the job changes. So a decision depends only on
the current view, not on which leader decided before.
"""

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.timers import Timers
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.growing_columns import grow_array
from fairlead_scheduler.state.jobs.job_index import FEW
from fairlead_scheduler.state.jobs.job_table import NodeName
from fairlead_scheduler.state.view import View, changed_rows

Rows = npt.NDArray[np.intp]


class Deadlines:
    """Deadlines of queued jobs and of runs, and the number of live runs per node."""

    def __init__(self, deadline_ms: int = 0, few: int = FEW) -> None:
        """`few`: up to this many changed rows are updated one by one."""
        self._deadline_ms = deadline_ms
        """How long a run can exceed its maximum run time and its grace period."""
        self._few = few
        self._reset(0)

    def _reset(self, numbering: int) -> None:
        """Start empty for a view with this numbering of names."""
        self._numbering = numbering
        self._place = -1
        self._queued = RowTimers()
        self._running = RowTimers()
        self._node: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        """Row -> node (as numbered in the view) of its live run, -1 for none."""
        self._runs_on: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """Node -> live runs."""
        self._handled: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Row -> whether nothing remains to be done for it until it changes."""
        self._nodes_of: dict[str, list[int]] = {}
        """Executor -> its nodes, as far as they are below `_named`."""
        self._named = 0

    def update(self, view: View) -> None:
        """Update from the rows that changed."""
        if view.jobs.numbering != self._numbering:
            self._reset(view.jobs.numbering)
        # A view that was loaded can have nodes to which no row refers.
        self._runs_on = grow_array(self._runs_on, len(view.jobs.nodes))
        rows = changed_rows(view, self._place)
        self._place = view.jobs.journal.end
        if len(rows) > self._few:
            self._update_rows(view, rows)
        elif len(rows):
            self._update_few(view, rows.tolist())

    def _update_few(self, view: View, rows: list[int]) -> None:
        """`_update_rows`, row by row."""
        jobs = view.jobs
        self._handled = grow_array(self._handled, jobs.used)
        self._node = grow_array(self._node, jobs.used, -1)
        for row in rows:
            self._handled[row] = False
            flags = jobs.flags.item(row)
            valid = not flags & job_table.FREE
            queued = valid and jobs.state.item(row) == job_table.QUEUED
            live = valid and job_table.LIVE_RUN[jobs.run_state.item(row)]
            node, before = jobs.node.item(row) if live else -1, self._node.item(row)
            if node != before:
                self._node[row] = node
                for number, count in ((before, -1), (node, 1)):
                    if number >= 0:
                        self._runs_on[number] += count
            until_ms = jobs.queue_until_ms.item(row) if queued else job_table.NEVER_MS
            ends_ms = job_table.NEVER_MS
            if live and not flags & job_table.STOPPING:
                ends_ms = self._end_ms(view, row)
            self._queued.set_one(row, until_ms)
            self._running.set_one(row, ends_ms)

    def _end_ms(self, view: View, row: int) -> int:
        """`_ends_ms` of one run."""
        jobs = view.jobs
        most_ms: int = jobs.runtime_ms_max.item(row)
        since_ms: int = jobs.running_ms.item(row)
        if most_ms <= 0 or since_ms <= 0:
            return job_table.NEVER_MS
        return since_ms + most_ms + 1000 * jobs.grace_s.item(row) + self._deadline_ms

    def _update_rows(self, view: View, rows: Rows) -> None:
        jobs = view.jobs
        self._handled = grow_array(self._handled, jobs.used)
        self._handled[rows] = False
        flags = jobs.flags[rows]
        valid = (flags & job_table.FREE) == 0
        queued = valid & (jobs.state[rows] == job_table.QUEUED)
        self._queued.set(rows, np.where(queued, jobs.queue_until_ms[rows], job_table.NEVER_MS))
        live = valid & job_table.IS_LIVE_RUN[jobs.run_state[rows]]
        self._count(view, rows, live)
        timed = live & ((flags & job_table.STOPPING) == 0)
        timed &= jobs.runtime_ms_max[rows] > 0
        at_ms = np.full(rows.size, job_table.NEVER_MS, np.int64)
        if timed.any():
            at_ms[timed] = self._ends_ms(view, rows[timed])
        self._running.set(rows, at_ms)

    def _ends_ms(self, view: View, rows: Rows) -> npt.NDArray[np.int64]:
        """The deadlines of these runs; `NEVER_MS` for runs without a maximum run time."""
        jobs = view.jobs
        most_ms, since_ms = jobs.runtime_ms_max[rows], jobs.running_ms[rows]
        grace_ms = 1000 * jobs.grace_s[rows].astype(np.int64)
        ends_ms = since_ms + most_ms + grace_ms + self._deadline_ms
        return np.where((most_ms > 0) & (since_ms > 0), ends_ms, job_table.NEVER_MS)

    def _count(self, view: View, rows: Rows, live: npt.NDArray[np.bool_]) -> None:
        jobs = view.jobs
        self._node = grow_array(self._node, jobs.used, -1)
        now = np.where(live, jobs.node[rows], np.int32(-1))
        before = self._node[rows]
        differ = now != before
        if not differ.any():
            return
        self._node[rows] = now
        before, now = before[differ].astype(np.intp), now[differ].astype(np.intp)
        np.subtract.at(self._runs_on, before[before >= 0], 1)
        np.add.at(self._runs_on, now[now >= 0], 1)

    def list_violations(self, view: View) -> list[str]:
        """Nodes whose number of live runs is wrong, as of the last `update`."""
        jobs = view.jobs
        if self._place != jobs.journal.end or self._numbering != jobs.numbering:
            return []  # what changed since is applied by the next update
        live = view.live_rows()
        live = live[job_table.IS_LIVE_RUN[jobs.run_state[live]]]
        want = np.bincount(jobs.node[live], minlength=len(jobs.nodes))
        wrong = np.flatnonzero(self._runs_on[: want.size] != want)
        names = jobs.nodes.values
        return [f"the number of runs on {names[number]} is wrong" for number in wrong.tolist()]

    def mark_handled(self, rows: Rows) -> None:
        """Note that nothing remains to be done for these rows until they change."""
        self._handled[rows] = True

    def find_unhandled(self, rows: Rows) -> Rows:
        """The rows that are not marked as handled, or changed since."""
        return rows[~self._handled[rows]]

    def find_queued_too_long(self, now_ms: int) -> list[int]:
        """Rows of queued jobs that exceeded their maximum queue time, ascending."""
        return self._queued.find_due(now_ms)

    def find_running_too_long(self, now_ms: int) -> list[int]:
        """Rows of live runs that exceeded their maximum run time, ascending."""
        return self._running.find_due(now_ms)

    def find_nodes_with_runs(
        self, view: View, executors: Collection[str] | None = None
    ) -> list[NodeName]:
        """The nodes with live runs, of these executors or of all."""
        names = view.jobs.nodes.values
        for number in range(self._named, len(names)):
            self._nodes_of.setdefault(names[number].executor, []).append(number)
        self._named = len(names)
        numbers = [
            number
            for executor in (self._nodes_of if executors is None else executors)
            for number in self._nodes_of.get(executor, ())
        ]
        return [names[number] for number in numbers if self._runs_on[number] > 0]

    def find_rows_on_nodes(self, view: View, nodes: Iterable[NodeName]) -> list[int]:
        """Rows with a live run on one of these nodes, ascending."""
        known = [number for name in nodes if (number := view.jobs.nodes.find(name)) is not None]
        numbers = [number for number in known if self._runs_on[number] > 0]
        found: list[int] = np.flatnonzero(np.isin(self._node, numbers)).tolist() if numbers else []
        return found


class RowTimers:
    """A deadline per row, and the rows that are due."""

    def __init__(self) -> None:
        self._timers: Timers[int] = Timers()
        self._over: set[int] = set()
        """Rows whose deadline has passed."""

    def set(self, rows: Rows, at_ms: npt.NDArray[np.int64]) -> None:
        """Set the deadlines of these rows; `NEVER_MS` removes a deadline."""
        chosen = at_ms < job_table.NEVER_MS
        if self._over:
            self._over.difference_update(rows.tolist())
        if len(self._timers):
            self._timers.unset(rows[~chosen].tolist())
        if chosen.any():
            self._timers.set(zip(at_ms[chosen].tolist(), rows[chosen].tolist(), strict=True))

    def set_one(self, row: int, at_ms: int) -> None:
        """`set` of one row."""
        if self._over:
            self._over.discard(row)
        if at_ms < job_table.NEVER_MS:
            self._timers.set(((at_ms, row),))
        elif len(self._timers):
            self._timers.unset((row,))

    def find_due(self, now_ms: int) -> list[int]:
        """The rows that are due, ascending."""
        self._over.update(self._timers.due(now_ms))
        return sorted(self._over)
