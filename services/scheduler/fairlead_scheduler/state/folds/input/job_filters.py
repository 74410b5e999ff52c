"""The jobs of one partition that a filter matches and that have not ended. Pure."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.records.events import JobFilter
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View


def find_jobs(view: View, partition: int, chosen: JobFilter) -> list[int]:
    """Rows of the jobs that the filter matches. `view.specs` must have the specs for its labels."""
    rows = find_ignoring_labels(view, partition, chosen)
    if not chosen.labels:
        return rows
    ids = view.jobs.rows.ids_at(rows)
    specs = view.specs.get_all(ids)  # labels are not a column
    return [
        row
        for row, job_id in zip(rows, ids, strict=True)
        if chosen.labels.items() <= specs[job_id].labels.items()
    ]


def find_ignoring_labels(view: View, partition: int, chosen: JobFilter) -> list[int]:
    """As `find_jobs`, without comparing labels."""
    jobs = view.jobs
    queue = jobs.queues.find(chosen.queue)
    if queue is None:
        return []
    if chosen.job_set is None:
        rows = np.flatnonzero(jobs.queue[: jobs.used] == queue)
    else:
        job_set = jobs.job_sets.find(job_table.JobSet(chosen.queue, chosen.job_set))
        if job_set is None:
            return []
        rows = np.flatnonzero(jobs.job_set[: jobs.used] == job_set)
    wanted = ((jobs.flags[rows] & job_table.FREE) == 0) & (jobs.partition[rows] == partition)
    rows = rows[wanted & ~job_table.IS_ENDED[jobs.state[rows]]]
    if chosen.states:
        codes = [job_table.STATE_CODE[state] for state in chosen.states]
        rows = rows[np.isin(jobs.state[rows], codes)]
    if chosen.classes:
        shapes = jobs.shapes.values
        rows = _where(rows, jobs.shape, lambda n: shapes[n].priority_class in chosen.classes)
    if chosen.executor is not None or chosen.node is not None:
        rows = rows[(jobs.node[rows] >= 0) & job_table.IS_WITH_RUN[jobs.state[rows]]]
        nodes = jobs.nodes.values
        rows = _where(rows, jobs.node, lambda n: _is_meant(nodes[n], chosen))
    found: list[int] = rows.tolist()
    return found


def _where(
    rows: job_table.Rows, column: npt.NDArray[np.int32], fits: Callable[[int], bool]
) -> job_table.Rows:
    """The rows whose number in a column passes a test, which is called once per number."""
    numbers, which = np.unique(column[rows], return_inverse=True)
    return rows[np.array([fits(number) for number in numbers.tolist()], np.bool_)[which]]


def _is_meant(name: job_table.NodeName, chosen: JobFilter) -> bool:
    return chosen.executor in (None, name.executor) and chosen.node in (None, name.node)
