"""Which jobs of the view a filter finds: those of one partition that have not ended. Pure."""

import numpy as np

from fairlead_common.events import JobFilter
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view.columns import View


def find(view: View, partition: int, chosen: JobFilter) -> list[int]:
    """Rows of the jobs that the filter finds. Specs that its labels need are in `view.specs`."""
    rows = beside_labels(view, partition, chosen)
    if not chosen.labels:
        return rows
    return [row for row in rows if _carries(view, row, chosen.labels)]


def beside_labels(view: View, partition: int, chosen: JobFilter) -> list[int]:
    """As `find`, whatever labels the jobs carry."""
    jobs = view.jobs
    queue = jobs.queues.find(chosen.queue)
    if queue is None:
        return []
    span = slice(0, jobs.used)
    mask = (jobs.flags[span] & c.FREE) == 0
    mask &= (jobs.queue[span] == queue) & (jobs.partition[span] == partition)
    mask &= ~c.IS_ENDED[jobs.state[span]]
    if chosen.job_set is not None:
        job_set = jobs.job_sets.find(c.JobSet(chosen.queue, chosen.job_set))
        mask &= jobs.job_set[span] == (-1 if job_set is None else job_set)
    if chosen.states:
        mask &= np.isin(jobs.state[span], [c.STATE_CODE[state] for state in chosen.states])
    rows = [int(row) for row in np.flatnonzero(mask)]
    if chosen.classes:
        rows = [row for row in rows if _class_of(view, row) in chosen.classes]
    if chosen.executor is not None or chosen.node is not None:
        rows = [row for row in rows if _is_on(view, row, chosen)]
    return rows


def _class_of(view: View, row: int) -> str:
    return view.jobs.shapes.values[int(view.jobs.shape[row])].priority_class


def _is_on(view: View, row: int, chosen: JobFilter) -> bool:
    number = int(view.jobs.node[row])
    if number < 0 or not c.IS_HELD[view.jobs.state[row]]:
        return False
    name = view.jobs.nodes.values[number]
    return chosen.executor in (None, name.executor) and chosen.node in (None, name.node)


def _carries(view: View, row: int, labels: dict[str, str]) -> bool:
    """Labels are no column: they are read from the spec."""
    return labels.items() <= view.specs.get(view.jobs.ids[row]).labels.items()
