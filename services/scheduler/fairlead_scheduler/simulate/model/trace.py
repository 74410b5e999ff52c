"""The submitted jobs of a simulation as columns, in the order of the input. Pure.

A million jobs take some 300 MB: numbers are in arrays, equal shapes and names are stored once, and
fields that few jobs have (gangs, dependencies, failures) are in mappings by the job's number.
"""

from array import array
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import GroupId, parse_task_id
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.jobs.job_table import Numbering

JOBS_MAX: Final = 5_000_000
NEVER: Final = 0
"""No time limit."""


class Failure(msgspec.Struct, frozen=True):
    """When runs of a job fail: after `after_ms`, or with this probability at a random time."""

    after_ms: int | None = None
    probability: float = 0.0


class ExistingRun(NamedTuple):
    """A run that exists when the simulation starts: its node, and how long it has run."""

    executor: str
    node: str
    ran_ms: int


class Trace:
    """The jobs. Times are in ms of virtual time; jobs are numbered from 0."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.number: dict[str, int] = {}
        self.submit_ms = array("q")
        self.run_ms = array("q")
        self.queue = array("i")
        self.shape = array("i")
        self.priority_class = array("i")
        self.priority = array("q")
        self.runtime_ms_max = array("q")
        self.queues: Numbering[str] = Numbering()
        self.shapes: Numbering[bytes] = Numbering()
        self.classes: Numbering[str] = Numbering()
        self.gangs: dict[int, ev.Gang] = {}
        self.groups: dict[GroupId, ev.Group] = {}
        self.members: dict[int, ev.GroupMember] = {}
        """The jobs that are members of these groups."""
        self.arrays: dict[int, ev.ArraySubmitted] = {}
        """The jobs that are tasks of these arrays; the scheduler releases them."""
        self.after: dict[int, tuple[str, ...]] = {}
        self.failures: dict[int, Failure] = {}
        self.retry: dict[int, ev.RetryPolicy] = {}
        self.checkpoint_ms: dict[int, int] = {}
        self.preempted_is_final: set[int] = set()
        self.infeasible_waits: set[int] = set()
        """Jobs that stay queued if no node is able to run them; others are rejected."""
        self.existing_runs: dict[int, ExistingRun] = {}
        """Jobs that have a run when the simulation starts."""
        self.stop_ms: dict[int, int] = {}
        """Time that a preempted run needs to stop; other runs stop immediately."""

    def __len__(self) -> int:
        return len(self.ids)

    def add(
        self,
        job_id: str,
        *,
        submit_ms: int,
        run_ms: int,
        queue: str,
        shape: int,
        priority_class: str,
        priority: int = 0,
        runtime_ms_max: int = NEVER,
    ) -> int:
        """Add a job; returns its number."""
        number = len(self.ids)
        self.ids.append(job_id)
        self.number[job_id] = number
        self.submit_ms.append(submit_ms)
        self.run_ms.append(run_ms)
        self.queue.append(self.queues.number(queue))
        self.shape.append(shape)
        self.priority_class.append(self.classes.number(priority_class))
        self.priority.append(priority)
        self.runtime_ms_max.append(runtime_ms_max)
        return number

    def name_of(self, job: int) -> str:
        """The name of a job in the results."""
        array = self.arrays.get(job)
        if array is None:
            return self.ids[job]
        index = parse_task_id(self.ids[job])[1]
        return f"{array.template.client_id or array.array}[{index}]"

    def order_by_submission(self) -> npt.NDArray[np.intp]:
        """Numbers of the jobs in order of submission; for equal times in order of input."""
        return np.argsort(np.frombuffer(self.submit_ms, np.int64), kind="stable")
