"""Forgetting the names of shapes, queues, pools and nodes that no live job uses any more.

A name cannot be forgotten alone, because others keep things by its number. So when more than half
of the names of a kind are unused, those in use get new numbers, in the order of the old ones, and
`Columns.numbering` grows. `Builder` and `Watch` keep numbers from cycle to cycle and begin anew
when it differs from theirs. Whatever else holds a number holds it for one cycle at most: this is
called where a cycle begins, and by a standby, which has no cycle. Job sets are simpler
(`Columns.forget_job_sets`): nobody but a job's row keeps their numbers.
"""

from typing import Any, Final

import numpy as np

from fairlead_scheduler.state.job_table import Columns, Interned, View

SPARE: Final = 10_000
"""As many unused names of each kind are kept, beside as many as are used: looking which are used
reads a column of all jobs."""


def forget_names(view: View, spare: int = SPARE) -> None:
    """Forget unused names of each kind that has more than `spare` of them, and more than used."""
    jobs = view.jobs
    for kind, names in _tables(jobs).items():
        if len(names) > spare + 2 * jobs.names_used.get(kind, 0):
            _forget(view, kind, names, spare)


def _tables(jobs: Columns) -> dict[str, Interned[Any]]:
    """The names of each kind, by the column that holds their numbers."""
    return {"pool": jobs.pools, "queue": jobs.queues, "shape": jobs.shapes, "node": jobs.nodes}


def _forget(view: View, kind: str, names: Interned[Any], spare: int) -> None:
    jobs = view.jobs
    column, rows = getattr(jobs, kind), view.live_rows()
    numbers = column[rows]
    has_name = numbers >= 0
    used = np.bincount(numbers[has_name], minlength=len(names)) > 0
    count = jobs.names_used[kind] = int(np.count_nonzero(used))
    if len(names) <= spare + 2 * count:
        return
    moved = names.renumber(used)
    column[: jobs.used] = 0  # of rows without a job, as it is of new ones
    column[rows] = -1
    column[rows[has_name]] = moved[numbers[has_name]]
    jobs.renumbered()
