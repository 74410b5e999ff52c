"""Decides which tasks of arrays are released, cancelled, and when an array has ended. Pure.

All waiting tasks of an array are equal, so only as many need to be jobs as can soon start: up to
`WINDOW_TASKS` queued ones of each array. The others are counted in the demand of their queue. None
is released, or counted, while the array waits for other jobs or arrays.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import (
    ArrayId,
    JobId,
    parse_task_id,
    partition_of_job,
    task_id,
    task_ids,
)
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.index_sets import RANGES_MAX, IndexSet
from fairlead_scheduler.rules.append_batches import AppendBatch, explain_too_large
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.task_arrays import (
    ArrayState,
    CancelRequest,
    TaskKind,
    find_kind,
    make_task,
    make_tasks,
)
from fairlead_scheduler.state.view import View, changed_rows

WINDOW_TASKS: Final = 2_000
"""Queued tasks of an array that are jobs, at most: more than the rounds of a second start."""
RELEASED_BYTES_MAX: Final = 8 * 1_048_576
"""Released tasks of an array in one cycle take at most this in the log, and at least one is."""
RELEASED_BYTES_ALL_MAX: Final = 8 * RELEASED_BYTES_MAX
"""No more tasks are released in a cycle whose released tasks take this much."""
RELEASED_TASKS_MAX: Final = 10_000
"""Tasks of all arrays that are released in one cycle; the oldest arrays are first."""
TASKS_PER_BATCH: Final = 100

Counts = npt.NDArray[np.int64]
_encode: Final = msgspec.json.Encoder().encode


class TaskCounts:
    """What a leader counts of arrays: released tasks that have not ended, and waiting ones.

    It is updated from the journals, so a cycle costs nothing for arrays that did not change.
    """

    def __init__(self) -> None:
        self.waiting_version = 0
        """Grows with every change of `waiting`."""
        self._clear()

    def _clear(self) -> None:
        self.queued: Counts = np.zeros(1, np.int64)
        """By the number of the array (`View.array_slots`)."""
        self.live: Counts = np.zeros(1, np.int64)
        self.due: set[ArrayId] = set()
        """Arrays that changed, or with something left to do: `decide_arrays` examines them."""
        self.waiting: dict[TaskKind, int] = {}
        """Tasks that may start and have not been released: demand beside the jobs."""
        self.waiting_version += 1
        self._waiting_of: dict[ArrayId, tuple[TaskKind, int]] = {}
        self._place = -1
        self._array_place = -1
        self._counted = np.zeros(0, np.int32)
        """By row: twice the number of the array as which it is counted, and one if queued."""

    def update(self, view: View) -> None:
        """Count what changed since the last call; without arrays nothing is counted."""
        if not view.arrays:
            if self._place >= 0:
                self._clear()
            return
        changed = view.array_journal.since(self._array_place)
        if self._place < 0 or changed is None:
            changed = [*view.arrays, *self._waiting_of]
        self._array_place = view.array_journal.end
        self.due.update(changed)
        slots = self._count_rows(view)
        self.due.update([array for slot in slots if (array := view.array_slots.array(slot))])
        for array in self.due:
            self._count_waiting(view, array)

    def _count_rows(self, view: View) -> list[int]:
        """Count the changed rows of the job table; the numbers of arrays that have other counts."""
        jobs, end = view.jobs, view.array_slots.end
        rows = np.arange(jobs.used) if self._place < 0 else changed_rows(view, self._place)
        self._place = jobs.journal.end
        if self._counted.size < jobs.used:
            grown = np.zeros(jobs.flags.size, np.int32)
            grown[: self._counted.size] = self._counted
            self._counted = grown
        if self.live.size < end:
            self.queued = np.pad(self.queued, (0, end - self.queued.size))
            self.live = np.pad(self.live, (0, end - self.live.size))
        before = self._counted[rows]
        is_live = ((jobs.flags[rows] & job_table.FREE) == 0) & ~job_table.IS_ENDED[jobs.state[rows]]
        now = np.where(is_live, 2 * jobs.array[rows], 0)
        now += (now > 0) & (jobs.state[rows] == job_table.QUEUED)
        changed = np.flatnonzero(before != now)
        for counted, sign in ((before[changed], -1), (now[changed], 1)):
            np.add.at(self.live, counted >> 1, sign)
            np.add.at(self.queued, counted[counted & 1 == 1] >> 1, sign)
        self._counted[rows] = now
        slots: list[int] = np.unique(np.concatenate([before[changed], now[changed]]) >> 1).tolist()
        return slots

    def _count_waiting(self, view: View, array: ArrayId) -> None:
        """Count the tasks of an array that may start and have not been released."""
        state = view.arrays.get(array)
        before = self._waiting_of.pop(array, None)
        now = None
        if state is not None:
            waiting = _count_releasable(state, self.live.item(view.array_slots.slot(array)))
            if waiting > 0:
                now = self._waiting_of[array] = (find_kind(state), waiting)
        if before == now:
            return
        self.waiting_version += 1
        for counted, sign in ((before, -1), (now, 1)):
            if counted is not None:
                kind, tasks = counted
                self.waiting[kind] = self.waiting.get(kind, 0) + sign * tasks
        if before is not None and not self.waiting[before[0]]:
            del self.waiting[before[0]]


def decide_arrays(view: View, counts: TaskCounts, *, release: bool = True) -> list[AppendBatch]:
    """What is due: tasks to release, requests to carry out, arrays that have ended.

    Without `release` no task becomes a job.
    """
    counts.update(view)
    batches: list[AppendBatch] = []
    left, bytes_left = RELEASED_TASKS_MAX if release else 0, RELEASED_BYTES_ALL_MAX
    due = [view.arrays[array] for array in counts.due if array in view.arrays]
    open_tasks = _find_open_tasks(view, counts, due)
    counts.due = set()
    for state in sorted(due, key=lambda each: each.number):
        array = state.array
        if state.is_ended or (view.stopped and partition_of_job(array) in view.stopped):
            continue
        slot = view.array_slots.slot(array)
        live = counts.live.item(slot)
        decided: list[AppendBatch] = []
        for request in state.cancel_requests:
            decided += _cancel(state, open_tasks.get(slot, ()), request)
        if state.outdated:
            decided += _reprioritize(state)
        if state.waiting and state.cannot_start_reason:
            decided.append(_cancel_all(state, state.cannot_start_reason))
        if not state.waiting and not live and not state.cancel_requests:
            decided.append(AppendBatch(((state.job_set, ev.ArrayEnded(array=array)),)))
        missing = min(_count_releasable(state, live), WINDOW_TASKS - counts.queued.item(slot))
        if missing > 0 and left > 0:
            released = list(_release(state, min(left, missing)))
            bytes_left -= sum(batch.size for batch in released)
            left = left - sum(len(batch.facts) for batch in released) if bytes_left > 0 else 0
            decided += released
        if decided or missing > 0:
            counts.due.add(array)
        batches += decided
    return batches


def _count_releasable(state: ArrayState, live: int) -> int:
    """How many waiting tasks may be released beside the `live` ones; 0 or less: none."""
    if state.waits_for or state.cannot_start_reason:
        return 0
    waiting = len(state.waiting)
    return waiting if state.running_max is None else min(waiting, state.running_max - live)


def _cancel_all(state: ArrayState, reason: str) -> AppendBatch:
    request = ev.ArrayCancelRequested(array=state.array, reason=reason)
    return AppendBatch(((state.job_set, request),))


def _release(state: ArrayState, count: int) -> Iterator[AppendBatch]:
    """Submissions of waiting tasks; the cancellation of them all, if the log would refuse one."""
    largest = state.waiting.ranges[-1][1]  # its index and number have the most digits
    task = make_task(state, task_id(state.array, largest), largest)
    size = len(_encode(task))
    why = explain_too_large(AppendBatch(((state.job_set, task),), facts_size=2 * size))
    if why is not None:
        reason = f"the submission of a task is too large: {why}"
        yield _cancel_all(state, reason)
        return
    released, _ = state.waiting.split(min(count, max(1, RELEASED_BYTES_MAX // size)))
    tasks = make_tasks(state, released)
    for at in range(0, len(tasks), TASKS_PER_BATCH):
        some = tasks[at : at + TASKS_PER_BATCH]
        facts = tuple([(state.job_set, task) for task in some])
        yield AppendBatch(facts, facts_size=size * len(some))


OpenTasks = Sequence[tuple[JobId, int]]
"""Ids and indexes of the released tasks of an array whose end nobody has requested."""


def _find_open_tasks(
    view: View, counts: TaskCounts, due: Iterable[ArrayState]
) -> dict[int, OpenTasks]:
    """The released tasks that could be cancelled, by number of the array, of arrays with a request
    to cancel tasks.
    """
    jobs = view.jobs
    slots = [view.array_slots.slot(state.array) for state in due if state.cancel_requests]
    slots = [slot for slot in slots if counts.live.item(slot)]
    if not slots:
        return {}
    rows = np.flatnonzero(np.isin(jobs.array[: jobs.used], slots))
    is_open = ~job_table.IS_ENDED[jobs.state[rows]]
    is_open &= (jobs.flags[rows] & (job_table.FREE | job_table.STOP_CANCEL)) == 0
    rows = rows[is_open]
    found: dict[int, list[tuple[JobId, int]]] = {slot: [] for slot in slots}
    for slot, job_id in zip(jobs.array[rows].tolist(), jobs.rows.ids_at(rows), strict=True):
        found[slot].append((job_id, parse_task_id(job_id)[1]))
    return dict(found)


def _cancel(
    state: ArrayState, open_tasks: OpenTasks, request: CancelRequest
) -> Iterator[AppendBatch]:
    """Requests for the released tasks, one by one, then the events that end this request."""
    wanted = [job_id for job_id, index in open_tasks if index in request.indexes]
    for at in range(0, len(wanted), TASKS_PER_BATCH):
        facts = [
            (
                state.job_set,
                ev.JobCancelRequested(job_id=job_id, reason=request.reason, by=request.by),
            )
            for job_id in wanted[at : at + TASKS_PER_BATCH]
        ]
        yield AppendBatch(tuple(facts))
    ranges = request.waiting.ranges
    for at in range(0, max(len(ranges), 1), RANGES_MAX):
        part = IndexSet(ranges[at : at + RANGES_MAX])
        done = ev.ArrayTasksCancelled(
            array=state.array,
            indexes=str(part),
            tasks=len(part),
            priority_class=state.template.priority_class,
            reason=request.reason,
            by=request.by,
        )
        yield AppendBatch(((state.job_set, done),), facts_size=len(done.indexes))


def _reprioritize(state: ArrayState) -> Iterator[AppendBatch]:
    """Give tasks that were released meanwhile the priority that a request gave to their array."""
    outdated = sorted(state.outdated)
    for at in range(0, len(outdated), TASKS_PER_BATCH):
        priority, reason = state.template.priority, "the priority of its array was changed"
        facts = [
            (state.job_set, ev.JobReprioritized(job_id=job_id, priority=priority, reason=reason))
            for job_id in task_ids(state.array, outdated[at : at + TASKS_PER_BATCH])
        ]
        yield AppendBatch(tuple(facts))
