"""Counts the waiting tasks of arrays: they are not jobs yet, but part of the demand of a pool."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.snapshots.pool_rows.pool_jobs import PoolJobs
from fairlead_scheduler.state.jobs.task_arrays import TaskKind
from fairlead_scheduler.state.view import View

WaitingTasks: TypeAlias = Mapping[TaskKind, int]
"""How many tasks of arrays wait that may start and are no jobs yet."""


def count_waiting_tasks(
    view: View, pool_jobs: PoolJobs, waiting_tasks: WaitingTasks | None
) -> npt.NDArray[np.int64] | None:
    """[Q, S] waiting tasks of arrays whose queue and shape the pool has; None without any."""
    counted = None
    for kind, count in (waiting_tasks or {}).items():
        if kind.pool != pool_jobs.name:
            continue
        queue, shape = view.jobs.queues.find(kind.queue), view.jobs.shapes.find(kind.shape)
        if queue is None or shape is None:
            continue
        rows = pool_jobs.queues.row_of[queue:][:1], pool_jobs.shapes.row_of[shape:][:1]
        if not rows[0].size or not rows[1].size or rows[0][0] < 0 or rows[1][0] < 0:
            continue
        if counted is None:
            size = len(pool_jobs.queues.names), len(pool_jobs.shapes.numbers)
            counted = np.zeros(size, np.int64)
        counted[rows] += count
    return counted
