"""The changes of flags in the life-cycle table, applied to rows of the job table."""

import numpy as np

from fairlead_common.domain.lifecycle import FlagChange
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_table import JobTable, Rows


def apply(jobs: JobTable, row: int, change: FlagChange) -> bool:
    """Apply a change to the flags of a job; False if it does not apply to the job."""
    flags = jobs.flags.item(row)
    if job_table.JOB_STATES[jobs.state.item(row)] not in change.states or flags & int(
        change.unless
    ):
        return False
    jobs.flags[row] = flags & ~int(change.clears) | int(change.sets)
    return True


def apply_all(jobs: JobTable, rows: Rows, change: FlagChange) -> Rows:
    """`apply` for each of these distinct rows; returns the rows to which the change applies."""
    states = np.array([state in change.states for state in job_table.JOB_STATES])
    chosen: Rows = rows[states[jobs.state[rows]] & ((jobs.flags[rows] & int(change.unless)) == 0)]
    mask = job_table.ALL_FLAGS ^ int(change.clears)
    jobs.flags[chosen] = jobs.flags[chosen] & mask | int(change.sets)
    return chosen
