"""The fold of arrays: their rows, the counts of their tasks by state, and their public events.

The waiting tasks of an array have no rows of jobs. They are counted in the counters of the job set
from the submission of the array on.
"""

from collections.abc import Mapping
from typing import Final, assert_never

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.records import events, index_sets
from fairlead_common.domain.records.index_marks import CHUNK_TASKS
from fairlead_common.domain.records.index_sets import IndexSet
from fairlead_lookout.domain.array_records import (
    ArrayChange,
    ArrayChanges,
    ArrayPriority,
    ArrayRow,
)
from fairlead_lookout.domain.event_unions import ArrayEvent, BulkRequest, Request
from fairlead_lookout.domain.model import EditedJobSets, Job, JobSet, JobSetKey, Message
from fairlead_lookout.domain.public_events import EventType, EventWriter
from fairlead_lookout.domain.transitions import QUEUED

CANCELLED: Final = "CANCELLED"
_TYPES: Final[dict[type, EventType]] = {
    events.ArraySubmitted: "arraySubmitted",
    events.ArrayCancelRequested: "arrayCancelling",
    events.ArrayTasksCancelled: "arrayTasksCancelled",
    events.ArrayEnded: "arrayEnded",
}
_NOTHING: Final = msgspec.Raw(b"{}")
_encode: Final = msgspec.json.Encoder().encode


def is_task(event: events.JobSubmitted) -> bool:
    """Whether the job is a task that its array counts: not if it was submitted again."""
    task = event.array
    return task is not None and ids.parse_task_id(event.job_id) == (task.array, task.index)


class ArrayFold:
    """Collects what a batch changes of arrays, and writes their public events.

    `known`: arrays that exist already, of those that the batch submits or releases tasks of, and
    who submitted them.
    """

    def __init__(
        self,
        writer: EventWriter,
        job_sets: EditedJobSets,
        known: Mapping[str, str],
    ) -> None:
        self.changes: Final = ArrayChanges([], {}, {}, {}, [])
        self._writer = writer
        self._job_sets = job_sets
        self._known = known
        self._submitted: dict[str, str] = {}

    def find_submitter(self, task: events.ArrayTask) -> str:
        """The user who submitted the array of a task; nobody if the array is not known."""
        return self._submitted.get(task.array) or self._known.get(task.array, "")

    def release(self, job_id: str) -> None:
        """Count a task that became a job."""
        self._edit(ids.array_id(job_id)).released += 1

    def move(self, job: Job, before: str, after: str) -> None:
        """Count a released task in its next state."""
        array = ids.array_id(job.id)
        self._count(array, before, -1)
        self._count(array, after, 1)

    def request(self, event: Request) -> None:
        """Apply a request that names an array by its id; cancellations are decided later."""
        if isinstance(event, events.JobReprioritized) and ids.parse_task_id(event.job_id)[1] < 0:
            change = self._edit(event.job_id)
            if change.ended_ms is None:
                change.priority = event.priority

    def request_all(self, partition: int, event: BulkRequest) -> None:
        """Apply a bulk request to the arrays whose waiting tasks its filter matches."""
        wanted = event.filter
        if not isinstance(event, events.JobsReprioritized) or wanted.executor or wanted.node:
            return
        if wanted.states and QUEUED not in wanted.states:
            return
        labels = _encode(wanted.labels).decode() if wanted.labels else None
        chosen = ArrayPriority(
            partition, wanted.queue, wanted.job_set, list(wanted.classes), labels, event.priority
        )
        self.changes.priorities.append(chosen)

    def fold(self, message: Message, event: ArrayEvent) -> JobSet | None:
        """Fold an event and write its public event; the job set if it changed its counters."""
        key, by = (message.sequence.queue, message.sequence.job_set), message.sequence.by
        job_set, reason, tasks = self._job_sets.edit(key), None, None
        match event:
            case events.ArraySubmitted():
                if event.array in self._known or event.array in self._submitted:
                    return None  # a repeated request
                self._submitted[event.array] = by
                row = _make_row(key, message.time_ms, by, event)
                self.changes.new.append(row)
                tasks = row.tasks
                self._count(event.array, QUEUED, tasks)
                job_set.jobs += tasks
                job_set.live += tasks
                count = (row.priority_class, QUEUED)
                job_set.counts[count] = job_set.counts.get(count, 0) + tasks
            case events.ArrayCancelRequested():
                reason = event.reason or None
                change = self._edit(event.array)
                change.requested_ms, change.reason, change.by = message.time_ms, reason, by
            case events.ArrayTasksCancelled():
                reason, tasks, by = event.reason or None, event.tasks, event.by or by
                self._cancel(job_set, event)
                if event.by and tasks:
                    # Also of a request with a filter, which names no arrays.
                    change = self._edit(event.array)
                    change.requested_ms, change.reason, change.by = message.time_ms, reason, by
            case events.ArrayEnded():
                self._edit(event.array).ended_ms = message.time_ms
            case _:
                assert_never(event)
        kind = _TYPES[type(event)]
        self._writer.write(
            job_set, kind, None, array=event.array, tasks=tasks, reason=reason, by=by
        )
        return job_set

    def _cancel(self, job_set: JobSet, event: events.ArrayTasksCancelled) -> None:
        change, tasks = self._edit(event.array), event.tasks
        if not tasks:
            return
        change.cancelled += tasks
        indexes = index_sets.parse(event.indexes)
        change.cancelled_ranges += len(indexes.ranges)
        self._mark_cancelled(event.array, indexes)
        self._count(event.array, QUEUED, -tasks)
        self._count(event.array, CANCELLED, tasks)
        counts, class_ = job_set.counts, event.priority_class
        counts[class_, QUEUED] = counts.get((class_, QUEUED), 0) - tasks
        counts[class_, CANCELLED] = counts.get((class_, CANCELLED), 0) + tasks
        job_set.live -= tasks

    def _mark_cancelled(self, array: str, indexes: IndexSet) -> None:
        marks = self.changes.cancelled_tasks
        for each in indexes.as_ranges():
            for chunk in range(each[0] // CHUNK_TASKS, each[-1] // CHUNK_TASKS + 1):
                bits = marks.setdefault((array, chunk), bytearray(b"0" * CHUNK_TASKS))
                start = chunk * CHUNK_TASKS
                skipped = max(0, -((each[0] - start) // each.step))
                first = each[skipped] - start
                marked = len(bits[first : each[-1] - start + 1 : each.step])
                bits[first : each[-1] - start + 1 : each.step] = b"1" * marked

    def _count(self, array: str, state: str, tasks: int) -> None:
        counts = self.changes.counts
        counts[array, state] = counts.get((array, state), 0) + tasks

    def _edit(self, array: str) -> ArrayChange:
        return self.changes.changes.setdefault(array, ArrayChange(array))


def _make_row(key: JobSetKey, time_ms: int, by: str, event: events.ArraySubmitted) -> ArrayRow:
    template = event.template
    return ArrayRow(
        array_id=event.array,
        queue=key[0],
        job_set=key[1],
        priority_class=template.priority_class,
        client_id=template.client_id,
        digest=template.digest,
        tasks=len(index_sets.parse(event.indexes)),
        submitted=_encode(event).decode(),
        submitted_ms=time_ms,
        submitted_by=by,
        listed=_encode(_shorten(event)).decode(),
        priority=template.priority,
    )


def _shorten(event: events.ArraySubmitted) -> events.ArraySubmitted:
    """The event with what lists show of its template."""
    whole = event.template
    template = events.JobSubmitted(
        job_id=whole.job_id,
        shape=_NOTHING,
        spec=_NOTHING,
        digest=whole.digest,
        priority_class=whole.priority_class,
        pool=whole.pool,
        after=whole.after,
        labels=whole.labels,
    )
    return msgspec.structs.replace(event, template=template)
