"""Arrays as the scheduler knows them: a template, and the indexes of tasks that are not released.

A task is a job from its `JobSubmitted` on, which the leader writes when the task can soon start
(`rules/array_tasks.py`). Until then it is an index in `ArrayState.waiting`. The array is in the
view until all its tasks have ended, and all tasks of the arrays that follow it.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from fairlead_common.domain.ids import (
    TASK_CHARACTERS,
    TASK_NUMBER_STEP,
    ArrayId,
    JobId,
    task_id,
    task_ids,
)
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import index_sets
from fairlead_common.domain.records.index_sets import IndexSet
from fairlead_scheduler.state.jobs.job_table import JobSet, JobTable, Rows, ShapeClass


class CancelRequest(msgspec.Struct, frozen=True):
    """A request to cancel tasks. Those in `waiting` were not released, and will not be."""

    indexes: IndexSet
    waiting: IndexSet
    reason: str
    by: str = ""


class ArrayState(msgspec.Struct):
    """An array. Saved as JSON; fields grow with defaults."""

    array: ArrayId
    job_set: JobSet
    template: ev.JobSubmitted
    count: int
    indexes: IndexSet
    """The indexes of all its tasks, in whatever state."""
    waiting: IndexSet
    """The indexes of tasks that have not been released and are not being cancelled."""
    number: int
    """The submission number of its first task."""
    running_max: int | None = None
    after: ArrayId | None = None
    """A task starts when the task of this array with its index has succeeded."""
    cancelled: list[IndexSet] = []
    """As `unsuccessful`, of checkpoints that were saved before it existed."""
    cancel_requests: list[CancelRequest] = []
    """The oldest first. Each ends with its `ArrayTasksCancelled`."""
    unsuccessful: bytearray = msgspec.field(default_factory=bytearray)
    """Bits of tasks that ended without success or were cancelled before their
    release: other arrays can follow them for longer than ended jobs are stored."""
    outdated: set[int] = set()
    """Of released tasks that still have to get the priority of the array, which a request changed
    by the id of the array, or while they were being released."""
    is_ended: bool = False
    """All its tasks have ended. Other arrays follow it."""
    waits_for: set[JobId] = set()
    """Jobs and arrays that must succeed before a task is released. Arrays of checkpoints that were
    saved before it existed have theirs in the template: each task waits by itself."""
    cannot_start_reason: str = ""
    """Why no more tasks can start: one of these did not succeed."""


class TaskKind(NamedTuple):
    """Waiting tasks of one kind are counted together in the demand of their queue."""

    pool: str
    queue: str
    shape: ShapeClass


def find_kind(state: ArrayState) -> TaskKind:
    """The kind of the tasks of an array."""
    template = state.template
    shape = ShapeClass(bytes(template.shape), template.priority_class)
    return TaskKind(template.pool, state.job_set.queue, shape)


def make_task(state: ArrayState, job_id: JobId, index: int) -> ev.JobSubmitted:
    """The submission of a task."""
    number = state.number + TASK_NUMBER_STEP * index
    task = ev.ArrayTask(array=state.array, index=index, count=state.count, number=number)
    after = state.template.after
    if state.after is not None:
        after = (task_id(state.after, index), *after)
    return msgspec.structs.replace(
        state.template, job_id=job_id, client_id=None, after=after, array=task
    )


def make_tasks(state: ArrayState, indexes: IndexSet) -> list[ev.JobSubmitted]:
    """The submissions of these tasks."""
    ids = task_ids(state.array, indexes)
    return [make_task(state, job_id, index) for job_id, index in zip(ids, indexes, strict=True)]


class ArraySlots:
    """Small numbers of arrays, for the column `JobTable.array`; 0 means no array."""

    def __init__(self) -> None:
        self._slots: dict[ArrayId, int] = {}
        self._free: list[int] = []
        self._arrays: list[ArrayId | None] = [None]
        """By number."""

    def add(self, array: ArrayId) -> int:
        """The number of an array, which it keeps until `remove`."""
        found = self._slots.get(array)
        if found is None:
            if not self._free:
                self._free.append(len(self._arrays))
                self._arrays.append(None)
            found = self._slots[array] = self._free.pop()
            self._arrays[found] = array
        return found

    def remove(self, array: ArrayId) -> None:
        """Another array can have the number from now on: no row has it any more."""
        slot = self._slots.pop(array)
        self._arrays[slot] = None
        self._free.append(slot)

    def slot(self, array: ArrayId) -> int:
        """The number of an array; 0 for an unknown one."""
        return self._slots.get(array, 0)

    def array(self, slot: int) -> ArrayId | None:
        """The array with this number."""
        return self._arrays[slot]

    @property
    def end(self) -> int:
        """All numbers are below this one."""
        return len(self._arrays)

    def find_of_rows(
        self, jobs: JobTable, rows: Rows
    ) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        """The numbers of the arrays whose tasks are in these rows, by the ids of the tasks."""
        length = len(next(iter(self._slots), "")) - TASK_CHARACTERS
        if length <= 0 or not rows.size:
            return np.zeros(rows.size, np.int32)
        arrays = sorted(self._slots)
        prefixes = np.array([array[:-TASK_CHARACTERS].encode() for array in arrays])
        slots = np.array([self._slots[array] for array in arrays], np.int32)
        own = jobs.rows.keys(rows).astype(f"S{length}")
        at = np.minimum(np.searchsorted(prefixes, own), prefixes.size - 1)
        return np.where(prefixes[at] == own, slots[at], 0).astype(np.int32)


def find_result(state: ArrayState, index: int) -> JobState | None:
    """The result of a task of the array without a row in the job table: CANCELLED also for a task
    that did not succeed; None if it waits.
    """
    if is_marked(state.unsuccessful, index):
        return JobState.CANCELLED
    if index in state.waiting or any(index in each.waiting for each in state.cancel_requests):
        return None
    return JobState.SUCCEEDED


def find_array_result(state: ArrayState) -> JobState | None:
    """SUCCEEDED if all tasks have, FAILED as soon as one has ended otherwise; None before."""
    if state.unsuccessful:
        return JobState.FAILED
    return JobState.SUCCEEDED if state.is_ended else None


def parse_indexes(text: str) -> IndexSet:
    """The set that an event names."""
    return index_sets.parse(text) if text else index_sets.NONE


def mark_index(bits: bytearray, index: int) -> None:
    """Set the bit of an index."""
    _grow(bits, index)
    bits[index >> 3] |= 128 >> (index & 7)


def mark_indexes(bits: bytearray, indexes: IndexSet) -> None:
    """Set the bits of these indexes."""
    if not indexes:
        return
    _grow(bits, indexes.ranges[-1][1])
    marks = np.unpackbits(np.frombuffer(bits, np.uint8))
    for first, last, step in indexes.ranges:
        marks[first : last + 1 : step] = 1
    bits[:] = np.packbits(marks).tobytes()


def is_marked(bits: bytearray, index: int) -> bool:
    """Whether the bit of an index is set."""
    return index >> 3 < len(bits) and bool(bits[index >> 3] & 128 >> (index & 7))


def _grow(bits: bytearray, index: int) -> None:
    bits.extend(bytes(max(0, (index >> 3) + 1 - len(bits))))
