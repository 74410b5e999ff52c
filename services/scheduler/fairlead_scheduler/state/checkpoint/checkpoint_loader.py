"""Builds a view from the records of a checkpoint. Pure.

Records come as blocks of rows in any order, then rare properties. Columns are filled block by block
and put into the order of submission if many rows are not: rows that lie together are then looked at
together.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import JOB_ID_LENGTH, JobId, partition_of_job
from fairlead_common.domain.records.events import GroupMember
from fairlead_scheduler.state.checkpoint import checkpoint_rows
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedName, decode_name
from fairlead_scheduler.state.jobs import groups, job_table, task_arrays
from fairlead_scheduler.state.jobs.groups import GroupState
from fairlead_scheduler.state.jobs.job_index import hash_keys
from fairlead_scheduler.state.jobs.job_table import RareProperties
from fairlead_scheduler.state.jobs.task_arrays import ArrayState
from fairlead_scheduler.state.view import View

UNORDERED_MAX: Final = 1 / 16
"""Rows are sorted if more of them than this share were submitted before the row above them."""
_decoder: Final = msgspec.json.Decoder(list[RareProperties])
_group_decoder: Final = msgspec.json.Decoder(GroupState)
_array_decoder: Final = msgspec.json.Decoder(ArrayState)


class CheckpointLoader:
    """Fills an empty view: `add` each block, `index_rows`, `add_groups`, `add_arrays`, `add_rare`
    properties, then `finish`."""

    def __init__(self, view: View, saved: Iterable[SavedName]) -> None:
        jobs = view.jobs
        self._view = view
        numberings: dict[str, job_table.Numbering[Any]] = {
            "pool": jobs.pools,
            "job_set": jobs.job_sets,
            "shape": jobs.shapes,
            "node": jobs.nodes,
        }
        numbers: dict[str, dict[int, int]] = {kind: {} for kind in numberings}
        for kind, number, parts in saved:
            numbers[kind][number] = numberings[kind].number(decode_name(kind, parts))
        self._numbers = {kind: _table(known) for kind, known in numbers.items()}
        self._queue_of_set = np.array(
            [jobs.queues.number(job_set.queue) for job_set in jobs.job_sets.values], np.int32
        )
        self._keys: list[checkpoint_rows.Keys] = []

    def add(self, block: npt.NDArray[np.void]) -> None:
        """The jobs of these rows."""
        if not block.size:
            return
        jobs = self._view.jobs
        rows = jobs.allocate(block.size)
        at = slice(int(rows[0]), int(rows[0]) + block.size)
        keys = np.ascontiguousarray(block["id"])
        self._keys.append(keys)
        record = block["record"]
        jobs.partition[at] = _partitions(keys)
        for field in checkpoint_rows.PLAIN:
            getattr(jobs, field)[at] = record[field]
        for kind, numbers in self._numbers.items():
            getattr(jobs, kind)[at] = _renumbered(kind, numbers, record[kind])
        jobs.queue[at] = self._queue_of_set[jobs.job_set[at]]

    def index_rows(self) -> None:
        """Index the rows, after all blocks were added."""
        if not self._keys:
            return
        jobs, blocks = self._view.jobs, self._keys
        self._keys = []
        number = jobs.number[: jobs.used]
        if np.count_nonzero(number[1:] < number[:-1]) > UNORDERED_MAX * jobs.used:
            order = np.argsort(number, kind="stable")
            blocks = np.array_split(np.concatenate(blocks)[order], len(blocks))
            for name in (*checkpoint_rows.FIELDS, "partition", "queue"):
                column = getattr(jobs, name)
                column[: jobs.used] = column[: jobs.used][order]
        end = 0
        for keys in blocks:
            begin, end = end, end + keys.size
            jobs.rows.add(hash_keys(keys), np.arange(begin, end))
        jobs.in_checkpoint[:end] = True
        jobs.journal.extend(np.arange(end))

    def add_groups(self, encoded: Iterable[bytes]) -> None:
        """All groups, each as JSON."""
        for each in encoded:
            state = _group_decoder.decode(each)
            self._view.groups[state.group] = state
            self._view.groups_to_examine.add(state.group)

    def add_arrays(self, encoded: Iterable[bytes]) -> None:
        """All arrays, each as JSON; their released tasks are found by their ids."""
        view, jobs = self._view, self._view.jobs
        for each in encoded:
            state = _array_decoder.decode(each)
            for cancelled in state.cancelled:
                task_arrays.mark_indexes(state.unsuccessful, cancelled)
            state.cancelled = []
            view.add_array(state)
            for other in state.waits_for:
                view.dependents.setdefault(other, set()).add(JobId(state.array))
        if view.arrays:
            rows = view.live_rows()
            jobs.array[rows] = view.array_slots.find_of_rows(jobs, rows)

    def add_rare(self, ids: bytes, encoded: bytes) -> None:
        """The rare properties of these jobs: ids one after another, and a JSON array."""
        view, jobs = self._view, self._view.jobs
        keys = np.frombuffer(ids, f"S{JOB_ID_LENGTH}")
        rows = jobs.rows.find(hash_keys(keys)).tolist()
        for row, rare in zip(rows, _decoder.decode(encoded), strict=True):
            jobs.rare_properties[row] = rare
            if rare.after:
                job_id = jobs.rows.id_at(row)
                for other in rare.after:
                    view.dependents.setdefault(other, set()).add(job_id)
            if rare.member is not None:
                self._add_group_member(row, rare.member)
            elif rare.gang is not None and rare.gang_terms is not None:
                members = view.gang_members.get(rare.gang)
                if members is None:
                    members = view.gang_members[rare.gang] = set()
                    view.gangs[rare.gang] = rare.gang_terms
                members.add(jobs.rows.id_at(row))
                if rare.gang_started:
                    view.gang_started.add(rare.gang)

    def _add_group_member(self, row: int, member: GroupMember) -> None:
        view = self._view
        state = view.groups[member.group]
        view.gang_members.setdefault(state.gang_name, set()).add(view.jobs.rows.id_at(row))
        view.gangs.setdefault(state.gang_name, groups.gang_terms(state))

    def finish(self) -> None:
        """Find the rows to examine, after everything was added."""
        view, jobs = self._view, self._view.jobs
        rows = view.live_rows()
        is_over = (
            job_table.IS_WITH_RUN[jobs.state[rows]] & ~job_table.IS_LIVE_RUN[jobs.run_state[rows]]
        )
        is_marked = (
            jobs.flags[rows]
            & (job_table.CANNOT_START | job_table.STOPPING | job_table.LATE_SUCCESS)
        ) > 0
        view.rows_to_examine.update(rows[is_over | is_marked].tolist())


def _table(numbers: Mapping[int, int]) -> npt.NDArray[np.int32]:
    """Saved number -> number of the columns, and -1 -> -1 (the last element)."""
    table = np.full(max(numbers, default=-1) + 2, -1, np.int32)
    table[list(numbers)] = list(numbers.values())
    return table


def _renumbered(
    kind: str, table: npt.NDArray[np.int32], saved: npt.NDArray[np.signedinteger]
) -> npt.NDArray[np.int32]:
    """The columns' numbers for saved ones. Raises `UnreadableRecords` for one without a name."""
    known = np.minimum(saved, table.size - 1)  # the last element is -1
    found: npt.NDArray[np.int32] = table[known]
    if ((found < 0) & ((saved >= 0) | (kind != "node"))).any():
        raise checkpoint_rows.UnreadableRecords(f"a record refers to a {kind} without a name")
    return found


def _partitions(keys: checkpoint_rows.Keys) -> npt.NDArray[np.intp]:
    """The partitions that these ids name in their first two letters."""
    letters = keys.view(np.uint8).reshape(keys.size, -1)[:, :2].astype(np.intp)
    _, first, which = np.unique(
        letters[:, 0] << 8 | letters[:, 1], return_index=True, return_inverse=True
    )
    return np.array([partition_of_job(key.decode()) for key in keys[first].tolist()])[which]
