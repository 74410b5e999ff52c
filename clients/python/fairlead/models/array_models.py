"""Arrays: many tasks that were submitted as one job."""

from collections.abc import Mapping

from fairlead.models.job_models import JobFields
from fairlead.models.model_bases import ResponseModel


class ArrayWaitingReason(ResponseModel, frozen=True, kw_only=True):
    """Why tasks of an array wait that are not released."""

    code: str
    sentence: str


class ArrayView(ResponseModel, frozen=True, kw_only=True):
    """An array. `tasks`: how many it has; `states`: tasks by state; `live`: that have not ended.

    `waiting`: tasks that the scheduler has not released, which are no jobs yet; `why`: the reason.
    `indexes`: of all tasks, below `count`. `after`: the jobs and arrays for which it waits.
    `priority`: of the tasks that are not released.
    """

    id: str
    queue: str
    job_set: str
    client_id: str | None = None
    count: int
    indexes: str
    tasks: int
    waiting: int
    live: int
    states: Mapping[str, int]
    max_running: int | None = None
    after: tuple[str, ...] = ()
    after_corresponding: str | None = None
    priority: int = 0
    priority_class: str
    pool: str
    labels: Mapping[str, str] = {}
    submitted: str
    submitted_by: str
    ended: str | None = None
    cancelled_by: str | None = None
    reason: str | None = None
    why: ArrayWaitingReason | None = None


class ArrayTask(JobFields, frozen=True, kw_only=True):
    """A task of an array as a job. `released`: whether it is one; else it waits, or was cancelled
    before."""

    index: int
    released: bool


class ArrayActionResult(ResponseModel, frozen=True, kw_only=True):
    """What was requested, for `tasks` tasks. `position` None: nothing was written. `id`: of the
    array, or of the new one."""

    id: str
    tasks: int
    position: str | None = None
