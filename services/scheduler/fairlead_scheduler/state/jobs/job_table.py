"""The job table: live jobs as rows of columns, which contain only what a cycle reads.

A job has a row from its submission until it has ended and no run of it exists. Strings are numbers
(`Numbering`), and properties that few jobs have are in `RareProperties`. There is no object per
job: a million objects cost less by their size than by a memory access for each.
"""

from collections.abc import Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common.domain import lifecycle
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import (
    JOB_ENDED,
    JOB_WITH_RUN,
    RUN_ENDED,
    JobFlag,
    JobState,
    RunState,
)
from fairlead_common.domain.records.events import FailureCategory, GroupMember, RetryPolicy
from fairlead_common.domain.records.group_terms import Topology
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.state.jobs.change_journal import RowJournal
from fairlead_scheduler.state.jobs.growing_columns import grow_array
from fairlead_scheduler.state.jobs.job_index import JobIndex

JOB_STATES: Final = tuple(JobState)
RUN_STATES: Final = tuple(RunState)
STATE_CODE: Final = {state: code for code, state in enumerate(JOB_STATES)}
RUN_CODE: Final = {state: code for code, state in enumerate(RUN_STATES)}
QUEUED: Final = STATE_CODE[JobState.QUEUED]
RUNNING: Final = STATE_CODE[JobState.RUNNING]
NO_RUN: Final = 255
"""`run_state` of a job that never ran."""

IS_WITH_RUN: Final = np.array([state in JOB_WITH_RUN for state in JOB_STATES])
IS_ENDED: Final = np.array([state in JOB_ENDED for state in JOB_STATES])
IS_LIVE_RUN: Final = np.array(
    [code < len(RUN_STATES) and RUN_STATES[code] not in RUN_ENDED for code in range(256)]
)
ENDED: Final = tuple(IS_ENDED.tolist())
WITH_RUN: Final = tuple(IS_WITH_RUN.tolist())
LIVE_RUN: Final = tuple(IS_LIVE_RUN.tolist())
"""`IS_ENDED`, `IS_WITH_RUN` and `IS_LIVE_RUN` as tuples, which are faster for a single number."""

HOLD: Final = int(JobFlag.HOLD)
DEPENDS: Final = int(JobFlag.DEPENDS)
CANNOT_START: Final = int(JobFlag.CANNOT_START)
"""The job will be cancelled, or fail with its gang (see `RareProperties.gang_cannot_start`)."""
STOP_CANCEL: Final = int(JobFlag.STOP_CANCEL)
STOP_PREEMPT: Final = int(JobFlag.STOP_PREEMPT)
CAPACITY_REASSIGNED: Final = int(JobFlag.CAPACITY_REASSIGNED)
STOP_GANG: Final = int(JobFlag.STOP_GANG)
LATE_SUCCESS: Final = int(JobFlag.LATE_SUCCESS)
STOPPING: Final = int(lifecycle.STOPPING)
"""`HOLD` to `STOPPING` are `JobFlag` as plain numbers, for the column `flags`. The flags below are
not part of the life cycle."""
WAITS_IF_INFEASIBLE: Final = 32
PREEMPTED_IS_FINAL: Final = 64
FREE: Final = 128
"""The row has no job."""
ALL_FLAGS: Final = 0xFFFF

NOT_READY: Final = HOLD | DEPENDS | CANNOT_START
"""A queued job with any of these flags is not ready to start."""

BY_SCHEDULER: Final = "scheduler"
"""`EventSequence.by` of the scheduler's decisions."""

K = TypeVar("K", bound=Hashable)


class Numbering(Generic[K]):
    """Values numbered in the order of their first use.

    Values are dropped only by `renumber`, which renumbers the values that stay.
    """

    def __init__(self) -> None:
        self.values: list[K] = []
        self._numbers: dict[K, int] = {}

    def number(self, value: K) -> int:
        """The number of a value; a new value gets the next number."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    def find(self, value: K) -> int | None:
        """The number of a value; None if it has none."""
        return self._numbers.get(value)

    def renumber(self, needed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        """Drop the values that are not needed and renumber the others in their order.

        `needed`: by number. Returns old number -> new number, -1 for a dropped value. A list of
        `values` read before does not change.
        """
        rest = np.flatnonzero(needed)
        moved = np.full(len(self.values), -1, np.int32)
        moved[rest] = np.arange(rest.size)
        self.values = [self.values[number] for number in rest.tolist()]
        self._numbers = {value: number for number, value in enumerate(self.values)}
        return moved

    def __len__(self) -> int:
        return len(self.values)


class JobSet(NamedTuple):
    """A job set, for the messages that concern it."""

    queue: str
    name: str


class NodeName(NamedTuple):
    """A node of an executor, by names."""

    executor: str
    node: str


class GangName(NamedTuple):
    """The name of a gang, which is unique within its queue and job set."""

    queue: str
    job_set: str
    name: str


class RoleTerms(NamedTuple):
    """A role of a group: how many members it has at most, and how many the group needs."""

    name: str
    min: int
    max: int


class GangTerms(msgspec.Struct, frozen=True):
    """The terms of a gang from its first member; the others must agree (submit checks).

    A group is a gang with roles: `size` and `min_size` are the sums of theirs.
    """

    size: int
    min_size: int
    uniformity_label: str | None
    rest: str
    roles: tuple[RoleTerms, ...] = ()
    """The roles of a group, in its order; () for a plain gang."""
    topology: Topology | None = None


class RareProperties(msgspec.Struct):
    """Properties that few jobs have. `after`: jobs of the set that have not succeeded yet."""

    after: set[JobId] = msgspec.field(default_factory=set)
    cannot_start_reason: str = msgspec.field(default="", name="doom")
    retry: RetryPolicy | None = None
    avoid: tuple[str, ...] = ()
    stop_reason: str = ""
    failure: FailureCategory | None = None
    failure_reason: str = ""
    exit_code: int | None = None
    gang: GangName | None = None
    gang_terms: GangTerms | None = None
    """None for a member of a group: its terms can change (`View.groups`)."""
    member: GroupMember | None = None
    """Which member of its group it is; None for other jobs."""
    address: str = ""
    """Of a member: where its run `address_run` is reached."""
    address_run: int = 0
    gang_started: bool = False
    lost_run: int = 0
    """The newest run that was given up; 0 for none."""
    gang_cannot_start: bool = msgspec.field(default=False, name="gang_doom")
    """Whether `cannot_start_reason` is about its gang: then the job fails, and is not cancelled."""
    ran_ms: int = 0
    """How long its former runs took together, from lease to end (G9); 0 for a member of a group,
    for which `GroupState.used` counts them."""
    ran_until_ms: int = 0
    """When the last of them ended."""


class EndedJob(NamedTuple):
    """What is known of an ended job: its state, for dependents and repeated submissions."""

    state: JobState
    digest: str
    at_ms: int
    position: int = -1
    """The position of the message that ended it; -1 if it is saved."""


DIGEST: Final = np.dtype("S32")

_COLUMNS: Final[dict[str, npt.DTypeLike]] = {
    "state": np.uint8,
    "run_state": np.uint8,
    "flags": np.uint16,
    "partition": np.int16,
    "pool": np.int32,
    "queue": np.int32,
    "job_set": np.int32,
    "shape": np.int32,
    "node": np.int32,
    "run": np.int32,
    "retries": np.int32,
    "grace_s": np.int32,
    "priority": np.int64,
    "number": np.int64,
    "submitted_ms": np.int64,
    "leased_ms": np.int64,
    "running_ms": np.int64,
    "value": np.int64,
    "start_after_ms": np.int64,
    "queue_until_ms": np.int64,
    "runtime_ms_max": np.int64,
    "checkpoint_ms": np.int64,
    "digest": DIGEST,
    "unsaved": np.bool_,
    "in_checkpoint": np.bool_,
    "position": np.int64,
    "array": np.int32,
}

NEVER_MS: Final = np.iinfo(np.int64).max

Rows = npt.NDArray[np.intp]


class ShapeClass(NamedTuple):
    """A shape as canonical JSON, and a priority class. The engine calls the two together a
    shape."""

    raw: bytes
    priority_class: str


class JobTable:
    """The columns of all jobs. A row is valid unless its `flags` have FREE.

    Each change of a row that a round can read is recorded in `journal`.
    """

    state: npt.NDArray[np.uint8]
    run_state: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint16]
    partition: npt.NDArray[np.int16]
    pool: npt.NDArray[np.int32]
    queue: npt.NDArray[np.int32]
    job_set: npt.NDArray[np.int32]
    shape: npt.NDArray[np.int32]
    node: npt.NDArray[np.int32]
    run: npt.NDArray[np.int32]
    retries: npt.NDArray[np.int32]
    grace_s: npt.NDArray[np.int32]
    priority: npt.NDArray[np.int64]
    """As it counts: that of a surplus member of a group is lowered (see surplus_priority.py)."""
    number: npt.NDArray[np.int64]
    submitted_ms: npt.NDArray[np.int64]
    leased_ms: npt.NDArray[np.int64]
    running_ms: npt.NDArray[np.int64]
    """Append time of the report that the newest run is running; 0 until then."""
    value: npt.NDArray[np.int64]
    start_after_ms: npt.NDArray[np.int64]
    queue_until_ms: npt.NDArray[np.int64]
    runtime_ms_max: npt.NDArray[np.int64]
    checkpoint_ms: npt.NDArray[np.int64]
    digest: npt.NDArray[np.bytes_]
    """The digest of the submission: 32 hexadecimal digits."""
    unsaved: npt.NDArray[np.bool_]
    """Whether the row changed since the last checkpoint."""
    in_checkpoint: npt.NDArray[np.bool_]
    """Whether the checkpoint has a record of the job. A standby does not always know."""
    position: npt.NDArray[np.int64]
    """The position of the newest message that changed the row."""
    array: npt.NDArray[np.int32]
    """Number of the array that the job is a task of (`View.array_slots`); 0 for other jobs."""

    def __init__(self, capacity: int = 1024) -> None:
        for name, dtype in _COLUMNS.items():
            setattr(self, name, np.zeros(capacity, dtype))
        self.flags[:] = FREE
        self.used = 0
        """Valid rows are below this number."""
        self._free: list[int] = []
        self.rows = JobIndex(capacity)
        self.rare_properties: dict[int, RareProperties] = {}
        self.queues: Numbering[str] = Numbering()
        self.pools: Numbering[str] = Numbering()
        self.job_sets: Numbering[JobSet] = Numbering()
        self.shapes: Numbering[ShapeClass] = Numbering()
        self.nodes: Numbering[NodeName] = Numbering()
        self._decoded: list[shapes.Shape] = []
        self.numbering = 0
        """Grows when `forget_names` changes numbers that readers retain: they start over."""
        self.names_used: dict[str, int] = {}
        """Column -> the number of distinct names of live jobs when last counted."""
        self.journal = RowJournal()

    def shape_of(self, number: int) -> shapes.Shape:
        """The decoded shape of that number; each is decoded once."""
        while len(self._decoded) <= number:
            self._decoded.append(shapes.decode(self.shapes.values[len(self._decoded)].raw))
        return self._decoded[number]

    def note_renumbering(self) -> None:
        """Note that names were renumbered."""
        self._decoded = []
        self.numbering += 1

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """All columns by name."""
        return {name: getattr(self, name) for name in _COLUMNS}

    def free_rows(self) -> list[int]:
        """Rows below `used` without a job, in the order in which they were released."""
        return list(self._free)

    def allocate(self, count: int) -> Rows:
        """Rows for `count` new jobs, ascending: their columns are then filled page by page."""
        first_reused = max(0, len(self._free) - count)
        reused = np.array(self._free[first_reused:], np.intp)
        del self._free[first_reused:]
        first = self.used
        self._use(first + count - reused.size)
        return np.concatenate([np.sort(reused), np.arange(first, self.used)])

    def allocate_one(self) -> int:
        """`allocate` for one job."""
        if self._free:
            return self._free.pop()
        self._use(self.used + 1)
        return self.used - 1

    def _use(self, rows: int) -> None:
        """Use this many rows, and extend the columns to them."""
        self.used = rows
        if rows > len(self.state):
            for name in _COLUMNS:
                fill = FREE if name == "flags" else 0
                setattr(self, name, grow_array(getattr(self, name), rows, fill))
            self.rows.grow(len(self.state))

    def release(self, row: int) -> None:
        """Release the row of a job."""
        self.rows.remove(row)
        self.rare_properties.pop(row, None)
        self.flags[row] = FREE
        self.unsaved[row] = self.in_checkpoint[row] = False
        self._free.append(row)
        self.journal.add(row)

    def release_all(self, rows: Rows) -> None:
        """Release the rows of these jobs, which are distinct."""
        self.rows.remove_all(rows)
        released: list[int] = rows.tolist()
        if self.rare_properties:
            for row in released:
                self.rare_properties.pop(row, None)
        self.flags[rows] = FREE
        self.unsaved[rows] = self.in_checkpoint[rows] = False
        self._free += released
        self.journal.extend(rows)

    def digest_of(self, row: int) -> str:
        """The digest of what the client sent."""
        found: bytes = self.digest.item(row)
        return found.decode(errors="replace")

    def digests_of(self, rows: Rows) -> list[str]:
        """`digest_of` each row."""
        return [digest.decode(errors="replace") for digest in self.digest[rows].tolist()]

    def rare_properties_of(self, row: int) -> RareProperties:
        """The rare properties of a row; empty ones are added if it has none."""
        found = self.rare_properties.get(row)
        if found is None:
            found = self.rare_properties[row] = RareProperties()
        return found
