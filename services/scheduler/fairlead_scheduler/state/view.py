"""The state of the scheduler's jobs: the job table and everything that is folded with it.

`forget_names` is the one place that forgets the names of shapes, queues, pools, nodes and job sets
that no live job uses any more. Other tables refer to a name by its number. So when more than half
of the names of a kind are unused, all names in use are renumbered, in their old order, and
`JobTable.numbering` grows. `Builder` and `Deadlines` retain numbers between cycles and start over
when it differs from theirs; only rows hold numbers of job sets, so for these it stays. Whatever
else holds a number holds it for one cycle at most: names are forgotten where a cycle begins, and
by a standby, which has no cycle.
"""

from collections import Counter, deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import ArrayId, GroupId, JobId, RunId
from fairlead_common.domain.lifecycle import JobState, is_impossible
from fairlead_scheduler.state.jobs.change_journal import Journal
from fairlead_scheduler.state.jobs.ended_filter import EndedFilter
from fairlead_scheduler.state.jobs.groups import GroupState
from fairlead_scheduler.state.jobs.job_index import FEW
from fairlead_scheduler.state.jobs.job_table import (
    FREE,
    JOB_STATES,
    EndedJob,
    GangName,
    GangTerms,
    JobTable,
    Numbering,
    Rows,
)
from fairlead_scheduler.state.jobs.specs import Specs
from fairlead_scheduler.state.jobs.task_arrays import ArraySlots, ArrayState
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.token_buckets import PoolBuckets
from fairlead_scheduler.state.view_validation import list_view_violations


class View:
    """The job table, ended jobs, gangs, groups, dependencies, positions, and what is not saved yet.

    `buckets` holds the tokens that starts and preemptions take, under the rates of the settings.
    """

    def __init__(self, buckets: PoolBuckets | None = None) -> None:
        self.jobs = JobTable()
        self.buckets = buckets or PoolBuckets(Rules())
        self.positions: dict[int, int] = {}
        self.specs = Specs()
        self.ended: dict[JobId, EndedJob] = {}
        self.recent: dict[JobId, JobState] = {}
        """A bounded cache of jobs that ended and are saved."""
        self.saved_ends = EndedFilter()
        """Of the jobs that ended, those that only Postgres knows."""
        self.dependents: dict[JobId, set[JobId]] = {}
        """What waits for each job or array: jobs, and arrays by their ids."""
        self.lingering: dict[int, deque[tuple[int, JobId]]] = {}
        """Per partition: (time, job) of jobs that ended while queued and still have a row."""
        self.gangs: dict[GangName, GangTerms] = {}
        self.gang_members: dict[GangName, set[JobId]] = {}
        self.gang_journal: Journal[GangName] = Journal()
        """Gangs that gained or lost members, or started."""
        self.gang_started: set[GangName] = set()
        """Gangs with a member that ran and has ended (N9). Groups are never among them."""
        self.groups: dict[GroupId, GroupState] = {}
        """Groups that have not ended, or have members that have not."""
        self.unsaved_groups: dict[GroupId, int] = {}
        """Groups that changed, or were forgotten, since the last checkpoint -> the position of the
        newest message that changed them."""
        self.groups_to_examine: set[GroupId] = set()
        """Groups that changed, or whose members did: housekeeping examines them."""
        self.short_groups: dict[GroupId, bool] = {}
        """Running groups with less than their minimum, and whether a round has offered what they
        lack since they were found. Of a leader only."""
        self.group_records_due: set[GroupId] = set()
        """Groups whose live members changed: their executors get a new record."""
        self.arrays: dict[ArrayId, ArrayState] = {}
        """Arrays with tasks that have not ended, and those that others follow. Only `add_array` and
        `remove_array` change which these are."""
        self.array_slots = ArraySlots()
        """The numbers of these arrays in `JobTable.array`."""
        self.array_followers: Counter[ArrayId] = Counter()
        """How many of these arrays follow each array."""
        self.unsaved_arrays: dict[ArrayId, int] = {}
        """The same for arrays."""
        self.array_journal: Journal[ArrayId] = Journal()
        """Arrays that were added, changed or removed."""
        self.rows_to_examine: set[int] = set()
        """Rows that housekeeping examines: jobs whose run has ended or must be stopped, and jobs
        that cannot start."""
        self.orphaned_runs: set[RunId] = set()
        """Runs without a live job: housekeeping ends their leases."""
        self.stopped: frozenset[int] = frozenset()
        """Partitions of the log that cannot be read further: their jobs are left as they are."""
        self.impossible: Counter[tuple[JobState, str]] = Counter()
        """(State of a job, tag of the event): events that were ignored, and show a defect."""
        self.version = 0
        """Grows with every change that can affect a round."""

    def note_ignored(self, state: int, tag: str) -> None:
        """Note that an event was ignored in this state of a job; it is counted if only a defect can
        lead to it."""
        if is_impossible(JOB_STATES[state], tag):
            self.impossible[JOB_STATES[state], tag] += 1

    def stop_partitions(self, partitions: Iterable[int]) -> None:
        """Stop these partitions: nothing is decided about their jobs from now on."""
        new = frozenset(partitions) - self.stopped
        if not new:
            return
        self.stopped |= new
        rows = self.live_rows()
        self.jobs.journal.extend(rows[np.isin(self.jobs.partition[rows], list(new))])
        self.version += 1

    def select_decidable(self, rows: Rows) -> Rows:
        """The rows of jobs that are not in a stopped partition."""
        if not self.stopped:
            return rows
        return rows[~np.isin(self.jobs.partition[rows], list(self.stopped))]

    def mark_group_changed(self, group: GroupId, position: int) -> None:
        """Note in the journal and for the checkpoint that a group changed."""
        self.unsaved_groups[group] = position
        self.groups_to_examine.add(group)
        self.group_records_due.add(group)
        state = self.groups.get(group)
        if state is not None:
            self.gang_journal.add(state.gang_name)

    def examine_groups_of(self, rows: Iterable[int]) -> None:
        """Let housekeeping examine the groups that have these jobs as members."""
        if not self.groups:
            return
        rare_properties = self.jobs.rare_properties
        for row in rows:
            rare = rare_properties.get(row)
            if rare is not None and rare.member is not None:
                self.groups_to_examine.add(rare.member.group)

    def note_group_runs(self, rows: Iterable[int]) -> None:
        """Note that the runs of these jobs changed: executors get new records of their groups."""
        if not self.groups:
            return
        rare_properties = self.jobs.rare_properties
        for row in rows:
            rare = rare_properties.get(row)
            if rare is not None and rare.member is not None:
                self.group_records_due.add(rare.member.group)

    def add_array(self, state: ArrayState) -> None:
        """Add an array that the view does not have."""
        self.arrays[state.array] = state
        self.array_slots.add(state.array)
        self.array_journal.add(state.array)
        if state.after is not None:
            self.array_followers[state.after] += 1

    def remove_array(self, state: ArrayState) -> None:
        """Remove an array that no other one follows and that has no tasks in the table."""
        del self.arrays[state.array]
        self.array_slots.remove(state.array)
        self.array_journal.add(state.array)
        if state.after is not None:
            self.array_followers[state.after] -= 1
            if not self.array_followers[state.after]:
                del self.array_followers[state.after]

    def mark_array_changed(self, array: ArrayId, position: int) -> None:
        """Note in the journal and for the checkpoint that an array changed."""
        self.unsaved_arrays[array] = position
        self.array_journal.add(array)

    def mark_changed(self, row: int, position: int) -> None:
        """Note in the journal and for the checkpoint that a row changed."""
        jobs = self.jobs
        jobs.unsaved[row] = True
        jobs.position[row] = position
        jobs.journal.add(row)

    def mark_all_changed(
        self, rows: list[int] | Rows, positions: int | npt.NDArray[np.int64]
    ) -> None:
        """`mark_changed` of each row, at one position or at one position per row."""
        if len(rows) <= FEW and isinstance(positions, int):
            for row in rows:
                self.mark_changed(int(row), positions)
            return
        jobs = self.jobs
        jobs.unsaved[rows] = True
        jobs.position[rows] = positions
        jobs.journal.extend(rows)

    def state_of(self, job_id: JobId) -> JobState | None:
        """The state of a job; None if this view does not know the job."""
        row = self.jobs.rows.get(job_id)
        if row is not None:
            return JOB_STATES[int(self.jobs.state[row])]
        ended = self.ended.get(job_id)
        return self.recent.get(job_id) if ended is None else ended.state

    def live_rows(self) -> npt.NDArray[np.intp]:
        """The rows of all jobs in any state."""
        return np.flatnonzero((self.jobs.flags[: self.jobs.used] & FREE) == 0)

    def validate(self) -> None:
        """Raise `AssertionError` naming every violated invariant (`view_validation.py`)."""
        found = list_view_violations(self)
        assert not found, "; ".join(found)

    def trim_recent(self, bound: int) -> None:
        """Drop the oldest saved ended jobs beyond `bound`."""
        dropped = _first(self.recent, len(self.recent) - bound)
        self.saved_ends.add(dropped)
        for job_id in dropped:
            del self.recent[job_id]


def changed_rows(view: View, place: int) -> npt.NDArray[np.intp]:
    """The rows that changed since a place of the journal, ascending; all rows if the journal no
    longer has that place."""
    rows = view.jobs.journal.distinct(place)
    return np.arange(view.jobs.used) if rows is None else rows


def _first(items: Iterable[JobId], count: int) -> list[JobId]:
    return list(islice(items, max(0, count)))


NAMES_SPARE: Final = 10_000
"""The most unused names of each kind that are retained, beside as many as are used. Finding out
which names are used reads a column of all jobs."""


def forget_names(view: View, spare: int = NAMES_SPARE) -> None:
    """Forget unused names of each kind that has more than `spare` of them, and more than used."""
    jobs = view.jobs
    for kind, names in _list_numberings(jobs).items():
        if len(names) > spare + 2 * jobs.names_used.get(kind, 0):
            _forget_unused(view, kind, names, spare)


def _list_numberings(jobs: JobTable) -> dict[str, Numbering[Any]]:
    """The names of each kind, by the column that holds their numbers."""
    return {
        "pool": jobs.pools,
        "queue": jobs.queues,
        "shape": jobs.shapes,
        "node": jobs.nodes,
        "job_set": jobs.job_sets,
    }


def _forget_unused(view: View, kind: str, names: Numbering[Any], spare: int) -> None:
    jobs = view.jobs
    column, rows = getattr(jobs, kind), view.live_rows()
    numbers = column[rows]
    has_name = numbers >= 0
    used = np.bincount(numbers[has_name], minlength=len(names)) > 0
    count = jobs.names_used[kind] = int(np.count_nonzero(used))
    if len(names) <= spare + 2 * count:
        return
    moved = names.renumber(used)
    column[: jobs.used] = 0  # of rows without a job, as it is of new ones
    column[rows] = -1
    column[rows[has_name]] = moved[numbers[has_name]]
    if kind != "job_set":
        jobs.note_renumbering()
